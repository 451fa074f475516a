/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/islands.h"
#include "heap/contents.h"
#include "heap/edges.h"
#include "heap/os.h"

static uint32_t find(uint32_t *of, uint32_t i)
{
    while (of[i] != i) i = of[i] = of[of[i]];
    return i;
}

/* The lowest index stands for all, so that it does not matter in which order edges are found. */
static void unite(uint32_t *of, uint32_t a, uint32_t b)
{
    a = find(of, a);
    b = find(of, b);
    if (a < b) of[b] = a;
    else of[a] = b;
}

static void look(struct islands *s, uint32_t number, const struct white_block *b, const struct contents *contents,
                 const struct rank *rank, uintptr_t guard)
{
    uintptr_t at = b->start, to;
    for (; (to = contents_next(contents, b, &at)) != 0; at = to)
        for (const uintptr_t *p = (const uintptr_t *)at; p < (const uintptr_t *)to; p++)
            for (unsigned forms = edge_forms(*p, guard); forms != 0; forms &= forms - 1) {
                struct white_block next;
                uint32_t target;
                if (edge_target(rank, *p, guard, (unsigned)__builtin_ctz(forms), &next, &target))
                    unite(s->of, number, target);
            }
}

bool islands_find(struct islands *s, const struct groups *groups, const struct white *white, uintptr_t guard)
{
    struct rank rank;
    struct contents contents;
    *s = (struct islands){.bytes_mapped = round_up(groups->count * sizeof *s->of, OS_PAGE)};
    if (!rank_make(&rank, white)) return false;
    bool ok = rank.count == groups->count && contents_make(&contents, white);
    if (!ok) {
        rank_free(&rank);
        return false;
    }
    s->of = os_map(s->bytes_mapped);
    s->blocks = os_map(s->bytes_mapped);
    if (s->of && s->blocks) {
        for (uint32_t i = 0; i < groups->count; i++) s->of[i] = i;
        for (uint32_t i = 0; i < groups->count; i++) look(s, i, &groups->block[i].block, &contents, &rank, guard);
        for (uint32_t i = 0; i < groups->count; i++) s->blocks[s->of[i] = find(s->of, i)]++;
    } else {
        islands_free(s);
        ok = false;
    }
    contents_free(&contents);
    rank_free(&rank);
    return ok;
}

void islands_free(struct islands *s)
{
    if (s->of) os_unmap(s->of, s->bytes_mapped);
    if (s->blocks) os_unmap(s->blocks, s->bytes_mapped);
    *s = (struct islands){0};
}
