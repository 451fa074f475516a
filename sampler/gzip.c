/* gzip.c: see gzip.h.  zlib is linked from its static archive, in whose objects every name but
   three is made local (zlib_hidden.sh), so that a program's own zlib is neither used nor disturbed.
   It runs in a snapshot child without libc: its memory is cut from one mapping.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/gzip.h"
#include "heap/os.h"

#include <errno.h>

/* A hidden reference makes the linker hide the archive's definition too. */
#pragma GCC visibility push(hidden)
#include <zlib.h>
#pragma GCC visibility pop

#define OUT_BYTES (64 * KIB)

/* zlib.h: deflate takes (1 << (windowBits+2)) + (1 << (memLevel+9)) bytes, 256 KiB, plus a few KiB.
 */
#define MEMORY_BYTES (512 * KIB)
#define LEVEL 4
#define GZIP_WINDOW (15 + 16)
#define MEMORY_LEVEL 8

/* What zlib's own allocator would call (zlib_hidden.sh); it is never used. */
void *gleaner_zlib_no_malloc(size_t bytes);
void gleaner_zlib_no_free(void *p);

void *gleaner_zlib_no_malloc(size_t bytes)
{
    (void)bytes;
    return NULL;
}

void gleaner_zlib_no_free(void *p)
{
    (void)p;
}

struct gzip {
    gzip_sink *sink;
    void *user;
    int error;
    z_stream stream;
    size_t used; /* of `memory` */
    uint8_t out[OUT_BYTES];
    _Alignas(64) uint8_t memory[MEMORY_BYTES];
};

static void *cut(void *user, unsigned items, unsigned size)
{
    struct gzip *g = user;
    size_t bytes = round_up((size_t)items * size, 64);
    if (bytes > MEMORY_BYTES - g->used) return NULL;
    void *p = g->memory + g->used;
    g->used += bytes;
    return p;
}

static void keep(void *user, void *p)
{
    (void)user;
    (void)p;
}

struct gzip *gzip_start(gzip_sink *sink, void *user)
{
    struct gzip *g = os_map(round_up(sizeof *g, OS_PAGE));
    if (!g) return NULL;
    g->sink = sink;
    g->user = user;
    g->stream.zalloc = cut;
    g->stream.zfree = keep;
    g->stream.opaque = g;
    if (deflateInit2(&g->stream, LEVEL, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) == Z_OK)
        return g;
    os_unmap(g, round_up(sizeof *g, OS_PAGE));
    return NULL;
}

static int run(struct gzip *g, int flush)
{
    int result = Z_OK;
    do {
        g->stream.next_out = g->out;
        g->stream.avail_out = OUT_BYTES;
        result = deflate(&g->stream, flush);
        size_t got = OUT_BYTES - g->stream.avail_out;
        if (got && !g->error) g->error = g->sink(g->user, g->out, got);
        if (result == Z_STREAM_ERROR && !g->error) g->error = EIO;
    } while (!g->error && (flush == Z_FINISH ? result != Z_STREAM_END : g->stream.avail_out == 0));
    return g->error;
}

int gzip_write(struct gzip *g, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    while (length > 0 && !g->error) {
        unsigned now = length < GIB ? (unsigned)length : (unsigned)GIB;
        g->stream.next_in = (uint8_t *)(uintptr_t)at;
        g->stream.avail_in = now;
        run(g, Z_NO_FLUSH);
        at += now;
        length -= now;
    }
    return g->error;
}

int gzip_end(struct gzip *g)
{
    if (!g->error) {
        g->stream.next_in = NULL;
        g->stream.avail_in = 0;
        run(g, Z_FINISH);
    }
    int error = g->error;
    deflateEnd(&g->stream);
    os_unmap(g, round_up(sizeof *g, OS_PAGE));
    return error;
}
