/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/remember_sample.h"
#include "heap/meta.h"

/* In the window's tables, where no scan of roots looks: page addresses and hashes would be taken for pointers. */
struct samples {
    unsigned n;
    struct {
        const uint64_t *page;
        uint64_t hash;
    } of[SAMPLE_MOST];
};

uint64_t sample_mask = UINT64_MAX;
static unsigned bits; /* the mask has so many, the highest: those depend on all of the address */
static struct samples *before, *after;
static unsigned at, found, changed; /* `at`: the next of `before` that the sweep may come to */

static uint64_t mask_of(unsigned n)
{
    return n == 0 ? 0 : ~(uint64_t)0 << (64 - n);
}

void sample_begin(void)
{
    if (!before) {
        struct samples *both = meta_alloc(2 * sizeof *both);
        if (!both) return;
        before = both;
        after = both + 1;
    }
    if (bits > 0 && before->n < SAMPLE_MOST / 4) bits--;
    sample_mask = mask_of(bits);
    after->n = at = found = changed = 0;
}

static void drop_half(void)
{
    sample_mask = mask_of(++bits);
    unsigned n = 0;
    for (unsigned i = 0; i < after->n; i++)
        if (sample_is(after->of[i].page)) after->of[n++] = after->of[i];
    after->n = n;
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
    while (after->n == SAMPLE_MOST) drop_half();
    if (!sample_is(page)) return;
    uint64_t hash = hash_of(page);
    while (at < before->n && before->of[at].page < page) at++;
    if (at < before->n && before->of[at].page == page) {
        found++;
        changed += before->of[at].hash != hash;
    }
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
