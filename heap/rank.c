/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/rank.h"
#include "heap/os.h"

bool rank_make(struct rank *r, const struct white *white)
{
    *r = (struct rank){.white = white};
    uint64_t count = 0;
    for (unsigned area = 0; area < AREAS; area++) {
        const struct white_area *a = &white->area[area];
        size_t words = (a->granules + 63) / 64;
        if (words == 0) continue;
        r->bytes[area] = round_up(words * sizeof *r->before[area], OS_PAGE);
        r->before[area] = os_map(r->bytes[area]);
        if (!r->before[area]) goto none;
        if (r->bytes[area] >= 2 * MIB) os_prefer_huge(r->before[area], r->bytes[area]);
        for (size_t i = 0; i < words; i++) {
            if (a->bits[i] == 0) continue; /* nobody asks */
            r->before[area][i] = (uint32_t)count;
            count += rank_ones(a->bits[i]);
        }
        if (count > RANK_MOST) goto none;
    }
    r->count = (uint32_t)count;
    return true;
none:
    rank_free(r);
    return false;
}

void rank_free(struct rank *r)
{
    for (unsigned area = 0; area < AREAS; area++)
        if (r->before[area]) os_unmap(r->before[area], r->bytes[area]);
    *r = (struct rank){0};
}
