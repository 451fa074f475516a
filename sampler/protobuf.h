/* protobuf.h: writes Protocol Buffers messages into a buffer of its own mapping that grows.  No
   malloc, no lock.  Format: the "Encoding" page of the Protocol Buffers documentation.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PROTOBUF_H
#define GLEANER_PROTOBUF_H

#include "heap/base.h"

/* All zero is an empty buffer. */
struct protobuf {
    uint8_t *data;
    size_t used, room;
    bool failed; /* out of memory: what is in the buffer is not whole */
};

/* A varint field; 0 is left out, as proto3 does. */
void protobuf_uint(struct protobuf *, unsigned field, uint64_t value);

/* A packed element, or any bare varint. */
void protobuf_varint(struct protobuf *, uint64_t value);

/* A field of bytes: a string, or a message that was encoded elsewhere. Written also when empty. */
void protobuf_bytes(struct protobuf *, unsigned field, const void *bytes, size_t length);

/* A nested message, packed field or piecewise string: everything that is written between begin and
   end. They nest.  `end` gets what `begin` returned. */
size_t protobuf_begin(struct protobuf *, unsigned field);
void protobuf_end(struct protobuf *, size_t begun);

/* Bare bytes, for a string between begin and end. */
void protobuf_raw(struct protobuf *, const void *bytes, size_t length);

/* Forgets the contents, keeps the memory; and gives it back. */
void protobuf_reset(struct protobuf *);
void protobuf_free(struct protobuf *);

#endif
