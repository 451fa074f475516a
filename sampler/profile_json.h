/* profile_json.h: the exact figures that travel in a profile's comment, as one JSON object.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PROFILE_JSON_H
#define GLEANER_PROFILE_JSON_H

#include "sampler/profile.h"
#include "sampler/protobuf.h"

/* Appends the object's text as bare bytes.  `lost_large_bytes`: of lost large blocks.  No libc beyond memcpy, no lock. */
void profile_json(struct protobuf *, const struct profile_about *, uint64_t now, uint64_t lost_large_bytes);

/* Appends text, 511 characters at most, as print_to has it. */
void profile_put(struct protobuf *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A string of JSON, in quotes; what is not UTF-8 or would end it is replaced. */
void profile_json_string(struct protobuf *, const char *);

#endif
