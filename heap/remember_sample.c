/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/remember_sample.h"
#include "heap/meta.h"

#define ROOM (2 * SAMPLE_WANTED)

/* In the window's tables, where no scan of roots looks: page addresses and hashes would be taken for pointers. */
struct samples {
    unsigned n;
    struct {
        const uint64_t *page;
        uint64_t hash;
    } of[ROOM];
};

uint64_t sample_mask = UINT64_MAX;
static struct samples *before, *after;
static unsigned at, found, changed; /* `at`: the next of `before` that the sweep may come to */

void sample_begin(uint64_t pages)
{
    if (!before) {
        struct samples *both = meta_alloc(2 * sizeof *both);
        if (!both) return;
        before = both;
        after = both + 1;
    }
    unsigned bits = 0;
    while (pages >> bits > SAMPLE_WANTED) bits++;
    /* The product's high bits depend on all of the address. */
    sample_mask = bits == 0 ? 0 : ~(uint64_t)0 << (64 - bits);
    after->n = at = found = changed = 0;
}

static uint64_t hash_of(const uint64_t *page)
{
    uint64_t h[4] = {1, 2, 3, 4};
    for (unsigned i = 0; i < OS_PAGE / 8; i += 4)
        for (unsigned k = 0; k < 4; k++) {
            h[k] = (h[k] ^ page[i + k]) * 0xbf58476d1ce4e5b9u;
            h[k] ^= h[k] >> 29;
        }
    return h[0] ^ h[1] << 16 ^ h[2] << 32 ^ h[3] << 48 ^ (h[1] + h[2] + h[3]);
}

void sample_take(const uint64_t *page)
{
    uint64_t hash = hash_of(page);
    while (at < before->n && before->of[at].page < page) at++;
    if (at < before->n && before->of[at].page == page) {
        found++;
        changed += before->of[at].hash != hash;
    }
    if (after->n == ROOM) return;
    after->of[after->n].page = page;
    after->of[after->n++].hash = hash;
}

void sample_end(void)
{
    sample_mask = UINT64_MAX;
    if (!before) return;
    struct samples *last = after;
    after = before;
    before = last;
}

void sample_result(unsigned *f, unsigned *c)
{
    *f = found;
    *c = changed;
}

void sample_forget(void)
{
    if (before) before->n = 0;
    found = changed = 0;
}
