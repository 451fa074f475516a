/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/vet.h"
#include "heap/contents.h"
#include "heap/edges.h"
#include "heap/os.h"
#include "heap/vet_filter.h"
#include "heap/vet_memory.h"
#include "heap/vet_narrow.h"
#include "heap/vet_near.h"

/* 1. The sweep runs over all memory that may hold a pointer (vet_memory.h), in stretches that fit in the first-level cache.
      Each passes a filter (vet_filter.h), what that lets through a table of lines near lost blocks (vet_near.h),
      and only what is left is looked at exactly (explain_address).
   2. A value explains only the allocated block that it points into, whether that is lost or not.  Where it points into none,
      it explains a lost block that ends there, and those that start within the next 256 bytes: in a
      pool every pointer to a neighbour is one to a block's end, and lies near some block's start.  For the same reason the start
      of a free slot explains nothing: programs keep many pointers to what they have freed, and such a pointer is
      one.  (An array of 20,000 of them explained 94 % of 1200 leaks among the freed blocks.  A block's end is not missed, since
      blocks end behind what was asked for where collection was on from the start.)
   3. Aligned words that the marker has followed are looked at again: they are pointers to reached blocks, or to none.
   4. An aligned word that points to mapped memory is a pointer, and a value that is cut out of it and its neighbour (the end of one address,
      the beginning of the next) is none.  Tables of pointers explained a large block in one of 150 processes that had lost a GiB.
      Words below 1 TiB, and cuts that take only the upper two bytes of the first word, prove nothing: pointers in packed structures make such.
   5. Then what the explained blocks reach is explained, from the strongest reason down, so that no block is scanned twice. */

#define STRETCH 4096u /* windows that are filtered at once */
#define CARRY (VET_WINDOW - 1)
#define BATCH 64u

static enum vet_filter_way filter_at_best = VET_FILTER_AVX2;

void vet_limit_filter(unsigned way)
{
    filter_at_best = (enum vet_filter_way)way;
}

#define LEAST_POINTER ((uintptr_t)1 << 40)

struct sweep {
    struct vet_result *to;
    const struct maps *maps;
    uint8_t *why; /* of `to`: `why`, or `freed` */
    const struct white *white;
    uintptr_t guard;
    struct rank rank;
    struct vet_near near;
    struct vet_filter filter;
    struct vet_narrow narrow;
    uint8_t
        carry[2 * CARRY]; /* the end of the run before, and the start of the one that follows it */
    uint32_t passed[2 * (STRETCH + CARRY)];
};

static void explain(struct sweep *s, uint32_t block, enum vet_why why)
{
    if (s->why[block] < why) s->why[block] = (uint8_t)why;
}

/* White blocks that start in (address, address + VET_BEFORE_MOST]. */
static void explain_behind(struct sweep *s, uintptr_t address)
{
    for (unsigned area = 0; area < AREAS; area++) {
        const struct white_area *a = &s->white->area[area];
        uintptr_t last = address + VET_BEFORE_MOST;
        if (last < a->base) continue;
        size_t granule = address < a->base ? 0 : ((address - a->base) >> a->shift) + 1;
        for (; granule <= (last - a->base) >> a->shift && granule < a->granules; granule++)
            if (a->bits[granule / 64] >> granule % 64 & 1)
                explain(s, rank_of(&s->rank, area, granule), VET_BEFORE);
    }
}

static NOINLINE void explain_address(struct sweep *s, uintptr_t address)
{
    struct white_block b;
    if (white_find(s->white, address, &b)) {
        if (white_is(s->white, &b))
            explain(s, rank_of(&s->rank, b.area, b.granule), VET_MISALIGNED);
        if (white_is(s->white, &b) || address == b.start || white_is_live(&b)) return;
    }
    if (white_find(s->white, address - 1, &b) && white_is(s->white, &b)) /* it ends here */
        explain(s, rank_of(&s->rank, b.area, b.granule), VET_PAST_END);
    explain_behind(s, address);
}

static bool is_pointer(const struct sweep *s, const uint8_t *at)
{
    uintptr_t word;
    __builtin_memcpy(&word, at, sizeof word);
    return word >= LEAST_POINTER && maps_find(s->maps, word) != NULL;
}

/* Is the plain value at `offset` a cut through a pointer, see 4?  `bytes` at `at` are there; 0: `at` is not aligned. */
static NOINLINE bool is_cut(const struct sweep *s, const uint8_t *at, size_t offset, size_t bytes)
{
    size_t in_word = offset % 8, first = offset - in_word;
    if (bytes == 0 || in_word == 0) return false;
    if (in_word <= 5 && is_pointer(s, at + first)) return true;
    return in_word >= 3 && first + 16 <= bytes && is_pointer(s, at + first + 8);
}

/* In two passes, so that their misses of the cache overlap. */
static void look_at_batch(struct sweep *s, const uint8_t *at, size_t bytes, const uint32_t *passed, size_t n)
{
    struct {
        uintptr_t address;
        const struct vet_quarter *quarter;
        uint32_t passed;
    } near[BATCH];
    size_t some = 0;
    for (size_t i = 0; i < n; i++) {
        uintptr_t word;
        __builtin_memcpy(&word, at + (passed[i] >> 1), sizeof word);
        near[some].address =
            passed[i] & VET_MANGLED ? mark_demangled(word, s->guard) : mark_plain(word);
        near[some].quarter = vet_near_coarse(&s->near, near[some].address);
        near[some].passed = passed[i];
        some += near[some].quarter != NULL;
    }
    for (size_t i = 0; i < some; i++)
        if (unlikely(vet_near_fine(&s->near, near[i].quarter, near[i].address)) &&
            (near[i].passed & VET_MANGLED || !is_cut(s, at, near[i].passed >> 1, bytes)))
            explain_address(s, near[i].address);
}

static void look_at_windows(struct sweep *s, const uint8_t *at, size_t bytes, bool aligned)
{
    for (; bytes >= VET_WINDOW;) {
        size_t some = bytes < STRETCH + CARRY ? bytes : STRETCH + CARRY;
        size_t n = vet_filter(&s->filter, at, some, s->passed);
        for (size_t i = 0; i < n; i += BATCH)
            look_at_batch(s, at, aligned ? bytes : 0, &s->passed[i], n - i < BATCH ? n - i : BATCH);
        at += some - CARRY;
        bytes -= some - CARRY;
    }
}

static void look(const uint8_t *at, size_t bytes, bool goes_on, void *user)
{
    struct sweep *s = user;
    if (goes_on) {
        __builtin_memcpy(s->carry + CARRY, at, CARRY);
        look_at_windows(s, s->carry, 2 * CARRY, false);
    }
    look_at_windows(s, at, bytes, true);
    if (s->why == s->to->why) vet_narrow_look(&s->narrow, at, bytes);
    s->to->looked_at += bytes;
    __builtin_memcpy(s->carry, at + bytes - CARRY, CARRY);
}

static void explain_narrow(uint32_t block, void *user)
{
    explain(user, block, VET_NARROW);
}

/* ---- what hangs on explained blocks ---- */

struct spread {
    uint8_t *explained;
    const struct groups *groups;
    const struct rank *rank;
    const struct contents *contents;
    uintptr_t guard;
    uint32_t *stack;
    size_t depth;
};

static void spread_from(struct spread *s, uint32_t block, uint8_t why)
{
    const struct white_block *b = &s->groups->block[block].block;
    uintptr_t at = b->start, to;
    for (; (to = contents_next(s->contents, b, &at)) != 0; at = to)
        for (const uintptr_t *p = (const uintptr_t *)at; p < (const uintptr_t *)to; p++)
            for (unsigned forms = edge_forms(*p, s->guard); forms != 0; forms &= forms - 1) {
                struct white_block next;
                uint32_t t;
                if (!edge_target(s->rank, *p, s->guard, (unsigned)__builtin_ctz(forms), &next, &t))
                    continue;
                if (s->explained[t] >= why) continue;
                s->explained[t] = why;
                s->stack[s->depth++] = t; /* once a reason, and stronger ones are done */
            }
}

/* Whatever is on the stack was set to `why` just now; so a block is on it once. */
static bool spread(struct sweep *sweep, const struct groups *groups,
                   const struct contents *contents)
{
    size_t n = groups->count, bytes = round_up(n * sizeof(uint32_t), OS_PAGE);
    struct spread s = {sweep->why, groups, &sweep->rank, contents, sweep->guard, os_map(bytes), 0};
    if (!s.stack) return false;
    for (uint8_t why = VET_WHYS - 1; why > VET_NONE; why--) {
        for (size_t i = 0; i < n; i++)
            if (sweep->why[i] == why) s.stack[s.depth++] = (uint32_t)i;
        while (s.depth > 0) spread_from(&s, s.stack[--s.depth], why);
    }
    os_unmap(s.stack, bytes);
    return true;
}

static bool any_explained(const struct sweep *s)
{
    for (size_t i = 0; i < s->to->count; i++)
        if (s->why[i] != VET_NONE) return true;
    return false;
}

/* ---- the whole ---- */

static bool add_large(uint32_t page, size_t bytes, void *user)
{
    *(uint64_t *)user += bytes;
    return true;
}

/* How much will be looked at, at least: pages of large blocks need not be there. */
static uint64_t least_bytes(const struct white *white, const struct groups *groups,
                            const struct roots *roots)
{
    uint64_t not_ours = 0;
    large_table_each(add_large, &not_ours);
    for (size_t i = 0; i < groups->count; i++)
        if (groups->block[i].block.area != AREA_LARGE) not_ours += groups->block[i].block.bytes;
    return roots->bytes + (white->bytes > not_ours ? white->bytes - not_ours : 0);
}

static bool sweep(struct sweep *s, const struct groups *groups, struct roots *roots,
                  const struct cut *cut, enum vet_memory which)
{
    struct contents contents;
    struct vet_filter_range range[VET_FILTER_RANGES] = {0};
    for (unsigned i = 0; i < VET_QUARTERS; i++) {
        range[i].from = s->near.base + s->near.quarter[i].from;
        range[i].to = range[i].from + s->near.quarter[i].span;
    }
    vet_filter_start(&s->filter, range, s->guard, filter_at_best);
    if (!vet_memory_each(s->white, roots, cut, which, look, s)) return false;
    if (s->why == s->to->why) s->to->chance = vet_narrow_found(&s->narrow, groups, explain_narrow, s);
    if (!any_explained(s)) return true;
    if (!contents_make(&contents, s->white)) return false;
    bool ok = spread(s, groups, &contents);
    contents_free(&contents);
    return ok;
}

bool vet(struct vet_result *to, const struct white *white, const struct groups *groups,
         struct roots *roots, const struct cut *cut, enum vet_freed freed)
{
    *to = (struct vet_result){0};
    size_t bytes = round_up(sizeof(struct sweep), OS_PAGE);
    struct sweep *s = os_map(bytes);
    if (!s) return false;
    to->count = groups->count;
    s->to = to;
    s->maps = &roots->maps;
    s->white = white;
    s->guard = cut->pointer_guard;
    bool ok = rank_make(&s->rank, white) && s->rank.count == groups->count;
    if (ok && groups->count > 0) {
        to->bytes_mapped = round_up(groups->count, OS_PAGE);
        s->why = to->why = os_map(to->bytes_mapped);
        ok = to->why && vet_near_make(&s->near, white) &&
             vet_narrow_start(&s->narrow, groups, least_bytes(white, groups, roots)) &&
             sweep(s, groups, roots, cut, freed == VET_FREED_TOO ? VET_MEMORY_BOTH : VET_MEMORY_USED);
        if (ok && freed == VET_FREED_APART) {
            s->why = to->freed = os_map(to->bytes_mapped);
            ok = to->freed && sweep(s, groups, roots, cut, VET_MEMORY_FREED);
        }
    }
    vet_narrow_end(&s->narrow);
    vet_near_free(&s->near);
    rank_free(&s->rank);
    os_unmap(s, bytes);
    if (ok) return true;
    vet_free(to);
    return false;
}

void vet_free(struct vet_result *r)
{
    if (r->why) os_unmap(r->why, r->bytes_mapped);
    if (r->freed) os_unmap(r->freed, r->bytes_mapped);
    *r = (struct vet_result){0};
}
