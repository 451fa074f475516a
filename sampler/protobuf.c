/* protobuf.c: the encoder.  A nested message's length comes before its body and is not known when
   the body begins: one byte is left for it, and the body moves up where that is too little.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/protobuf.h"
#include "heap/os.h"

#include <string.h>

#define FIRST_ROOM (64 * KIB)

enum { VARINT = 0, BYTES = 2 };

static bool reserve(struct protobuf *b, size_t bytes)
{
    if (likely(bytes <= b->room - b->used)) return !b->failed;
    size_t room = b->room ? b->room : FIRST_ROOM;
    while (room - b->used < bytes) {
        if (room > SIZE_MAX / 4) goto fail;
        room *= 2;
    }
    uint8_t *larger = b->failed ? NULL : os_map(room);
    if (!larger) goto fail;
    if (b->used) memcpy(larger, b->data, b->used);
    if (b->data) os_unmap(b->data, b->room);
    b->data = larger;
    b->room = room;
    return true;
fail:
    b->failed = true;
    return false;
}

static unsigned encode(uint8_t *to, uint64_t v)
{
    unsigned n = 0;
    for (; v >= 0x80; v >>= 7) to[n++] = (uint8_t)(v | 0x80);
    to[n++] = (uint8_t)v;
    return n;
}

void protobuf_varint(struct protobuf *b, uint64_t value)
{
    if (reserve(b, 10)) b->used += encode(b->data + b->used, value);
}

void protobuf_uint(struct protobuf *b, unsigned field, uint64_t value)
{
    if (value == 0) return;
    protobuf_varint(b, (uint64_t)field << 3 | VARINT);
    protobuf_varint(b, value);
}

void protobuf_raw(struct protobuf *b, const void *bytes, size_t length)
{
    if (length == 0 || !reserve(b, length)) return;
    memcpy(b->data + b->used, bytes, length);
    b->used += length;
}

void protobuf_bytes(struct protobuf *b, unsigned field, const void *bytes, size_t length)
{
    protobuf_varint(b, (uint64_t)field << 3 | BYTES);
    protobuf_varint(b, length);
    protobuf_raw(b, bytes, length);
}

size_t protobuf_begin(struct protobuf *b, unsigned field)
{
    protobuf_varint(b, (uint64_t)field << 3 | BYTES);
    protobuf_varint(b, 0);
    return b->used;
}

void protobuf_end(struct protobuf *b, size_t begun)
{
    uint8_t length[10];
    if (b->failed) return;
    size_t body = b->used - begun;
    unsigned n = encode(length, body);
    if (n > 1) {
        if (!reserve(b, n - 1)) return;
        memmove(b->data + begun + n - 1, b->data + begun, body);
        b->used += n - 1;
    }
    memcpy(b->data + begun - 1, length, n);
}

void protobuf_reset(struct protobuf *b)
{
    b->used = 0;
}

void protobuf_free(struct protobuf *b)
{
    if (b->data) os_unmap(b->data, b->room);
    *b = (struct protobuf){0};
}
