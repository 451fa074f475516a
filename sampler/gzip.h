/* gzip.h: compresses a stream to gzip's format (RFC 1952) by zlib's deflate, hidden in our object
   and with memory of its own mapping; without zlib at build time, as stored blocks.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_GZIP_H
#define GLEANER_GZIP_H

#include "heap/base.h"

struct gzip;

/* Takes the compressed bytes: 0, or a positive errno, which ends the stream. */
typedef int gzip_sink(void *user, const void *bytes, size_t length);

/* NULL when there is no memory. */
struct gzip *gzip_start(gzip_sink *sink, void *user);

/* 0, or the sink's error; further calls return it again. */
int gzip_write(struct gzip *, const void *bytes, size_t length);

/* Writes the rest and frees everything, in case of an error too. */
int gzip_end(struct gzip *);

#endif
