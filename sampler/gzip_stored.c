/* gzip_stored.c: gzip.h without a compressor, for builds that have no static zlib: stored blocks,
   RFC 1951 section 3.2.4. SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/os.h"
#include "sampler/gzip.h"

#include <string.h>

#define BLOCK_MAX 65535

struct gzip {
    gzip_sink *sink;
    void *user;
    int error;
    uint32_t crc, length;
    uint32_t table[256];
};

static void fill_table(uint32_t *table)
{
    for (uint32_t i = 0; i < 256; i++) { /* RFC 1952 section 8 */
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
}

static void emit(struct gzip *g, const void *bytes, size_t length)
{
    if (!g->error && length) g->error = g->sink(g->user, bytes, length);
}

struct gzip *gzip_start(gzip_sink *sink, void *user)
{
    static const uint8_t header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    struct gzip *g = os_map(round_up(sizeof *g, OS_PAGE));
    if (!g) return NULL;
    g->sink = sink;
    g->user = user;
    fill_table(g->table);
    emit(g, header, sizeof header);
    return g;
}

static void block(struct gzip *g, const uint8_t *bytes, unsigned length, bool last)
{
    uint8_t header[5] = {last, (uint8_t)length, (uint8_t)(length >> 8), (uint8_t)~length,
                         (uint8_t)(~length >> 8)};
    emit(g, header, sizeof header);
    emit(g, bytes, length);
}

int gzip_write(struct gzip *g, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    uint32_t crc = ~g->crc;
    for (size_t i = 0; i < length; i++) crc = g->table[(crc ^ at[i]) & 0xff] ^ crc >> 8;
    g->crc = ~crc;
    g->length += (uint32_t)length;
    while (length > 0 && !g->error) {
        unsigned now = length < BLOCK_MAX ? (unsigned)length : BLOCK_MAX;
        block(g, at, now, false);
        at += now;
        length -= now;
    }
    return g->error;
}

int gzip_end(struct gzip *g)
{
    uint8_t tail[8];
    memcpy(tail, &g->crc, 4);
    memcpy(tail + 4, &g->length, 4);
    block(g, NULL, 0, true);
    emit(g, tail, sizeof tail);
    int error = g->error;
    os_unmap(g, round_up(sizeof *g, OS_PAGE));
    return error;
}
