/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large_spans.h"

#define LOOKS 16u /* spans of a list that a search looks at */

static const struct span none;

/* ---- records ---- */

static uint64_t get(_Atomic uint64_t *word) { return atomic_load_explicit(word, memory_order_relaxed); }
static void set(_Atomic uint64_t *word, uint64_t to) { atomic_store_explicit(word, to, memory_order_relaxed); }

/* Two page numbers + 1 in one word; of an age the newer one comes first. */
static _Atomic uint64_t *links_of(uint32_t page) { return &large_record_of(page + 1)->bytes; }
static _Atomic uint64_t *ages_of(uint32_t page) { return &large_record_of(page + 2)->bytes; }

static uint32_t low(uint64_t pair) { return (uint32_t)pair; }
static uint32_t high(uint64_t pair) { return (uint32_t)(pair >> 32); }
static uint64_t pair(uint32_t first, uint32_t second) { return first | (uint64_t)second << 32; }
static void set_low(_Atomic uint64_t *word, uint32_t to) { set(word, pair(to, high(get(word)))); }
static void set_high(_Atomic uint64_t *word, uint32_t to) { set(word, pair(low(get(word)), to)); }

static uint32_t state_of_page(uint32_t page)
{
    return atomic_load_explicit(&large_record_of(page)->state, memory_order_acquire);
}

static void set_state(uint32_t page, uint32_t state)
{
    atomic_store_explicit(&large_record_of(page)->state, state, memory_order_release);
}

static bool is(const struct large_spans *s, uint32_t state, enum large_state what)
{
    return (state & LARGE_STATE_MASK) == what && state >> LARGE_ARENA_SHIFT == s->arena;
}

static bool known(uint32_t page)
{
    return page < LARGE_CHUNKS * LARGE_CHUNK_PAGES &&
           atomic_load_explicit(&large_chunk_known[page / LARGE_CHUNK_PAGES], memory_order_acquire);
}

struct span spans_starting(struct large_spans *s, uint32_t page)
{
    if (!known(page)) return none;
    uint32_t state = state_of_page(page);
    if (!is(s, state, LARGE_SPAN)) return none;
    return (struct span){page, (uint32_t)(get(&large_record_of(page)->bytes) / OS_PAGE),
                         state & LARGE_CLEAN ? SPAN_CLEAN : SPAN_DIRTY};
}

struct span spans_ending(struct large_spans *s, uint32_t page)
{
    if (page == 0 || !known(page - 1) || !is(s, state_of_page(page - 1), LARGE_SPAN_END)) return none;
    return spans_starting(s, (uint32_t)get(&large_record_of(page - 1)->bytes));
}

/* ---- lists ---- */

static unsigned bin_of(uint32_t pages)
{
    uint32_t n = pages / SPAN_PAGES;
    if (n < 4) return n;
    unsigned lg = 31 - (unsigned)__builtin_clz(n);
    return lg * 4 + (n >> (lg - 2) & 3) - 4;
}

static void enlist(struct large_spans *s, struct span p)
{
    unsigned b = bin_of(p.pages);
    uint32_t first = s->bin[p.kind][b];
    set(links_of(p.page), pair(0, first));
    if (first) set_low(links_of(first - 1), p.page + 1);
    s->bin[p.kind][b] = p.page + 1;
    s->filled[p.kind][b / 64] |= (uint64_t)1 << b % 64;
}

static void delist(struct large_spans *s, struct span p)
{
    unsigned b = bin_of(p.pages);
    uint64_t links = get(links_of(p.page));
    if (high(links)) set_low(links_of(high(links) - 1), low(links));
    if (low(links)) set_high(links_of(low(links) - 1), high(links));
    else s->bin[p.kind][b] = high(links);
    if (s->bin[p.kind][b] == 0) s->filled[p.kind][b / 64] &= ~((uint64_t)1 << b % 64);
}

static void age_add(struct large_spans *s, uint32_t page, bool old)
{
    uint32_t newer = old ? s->oldest : 0, older = old ? 0 : s->newest;
    set(ages_of(page), pair(newer, older));
    if (newer) set_high(ages_of(newer - 1), page + 1);
    else s->newest = page + 1;
    if (older) set_low(ages_of(older - 1), page + 1);
    else s->oldest = page + 1;
}

static void age_remove(struct large_spans *s, uint32_t page)
{
    uint64_t ages = get(ages_of(page));
    if (low(ages)) set_high(ages_of(low(ages) - 1), high(ages));
    else s->newest = high(ages);
    if (high(ages)) set_low(ages_of(high(ages) - 1), low(ages));
    else s->oldest = low(ages);
}

/* ---- spans ---- */

void spans_remove(struct large_spans *s, struct span p)
{
    delist(s, p);
    if (p.kind == SPAN_DIRTY) age_remove(s, p.page);
    s->bytes[p.kind] -= (size_t)p.pages * OS_PAGE;
    set_state(p.page, LARGE_NONE);
    set_state(p.page + p.pages - 1, LARGE_NONE);
}

void spans_add(struct large_spans *s, uint32_t page, uint32_t pages, enum span_kind kind, bool old)
{
    struct span p = {page, pages, kind}, before = spans_ending(s, page), after = spans_starting(s, page + pages);
    if (before.pages && before.kind == kind) {
        spans_remove(s, before);
        p.page = before.page;
        p.pages += before.pages;
    }
    if (after.pages && after.kind == kind) {
        spans_remove(s, after);
        p.pages += after.pages;
    }
    uint32_t arena = s->arena << LARGE_ARENA_SHIFT, end = p.page + p.pages - 1;
    set(&large_record_of(p.page)->bytes, (size_t)p.pages * OS_PAGE);
    set(&large_record_of(end)->bytes, p.page);
    set_state(p.page, LARGE_SPAN | (kind == SPAN_CLEAN ? LARGE_CLEAN : 0) | arena);
    set_state(end, LARGE_SPAN_END | arena);
    s->bytes[kind] += (size_t)p.pages * OS_PAGE;
    enlist(s, p);
    if (kind == SPAN_DIRTY) age_add(s, p.page, old);
}

/* The shortest span of at least `pages` among the first of a list. */
static struct span best_of(struct large_spans *s, uint32_t first, uint32_t pages)
{
    struct span best = none;
    for (unsigned i = 0; first != 0 && i < LOOKS; i++) {
        struct span p = spans_starting(s, first - 1);
        if (p.pages >= pages && (best.pages == 0 || p.pages < best.pages)) best = p;
        first = high(get(links_of(p.page)));
    }
    return best;
}

struct span spans_fit(struct large_spans *s, uint32_t pages, enum span_kind kind)
{
    unsigned b = bin_of(pages);
    struct span best = best_of(s, s->bin[kind][b], pages);
    for (unsigned w = ++b / 64; !best.pages && w < 2; w++) {
        uint64_t bits = s->filled[kind][w];
        if (w == b / 64) bits &= ~(uint64_t)0 << b % 64;
        if (bits) best = best_of(s, s->bin[kind][w * 64 + (unsigned)__builtin_ctzll(bits)], pages);
    }
    return best;
}

struct span spans_oldest(struct large_spans *s) { return s->oldest ? spans_starting(s, s->oldest - 1) : none; }

struct span spans_with_next(struct large_spans *s, uint32_t pages)
{
    struct span best = none;
    uint32_t at = s->newest;
    for (unsigned i = 0; at != 0 && i < LOOKS; i++) {
        struct span p = spans_starting(s, at - 1), next = spans_starting(s, p.page + p.pages);
        if (next.pages && p.pages + next.pages >= pages && p.pages > best.pages) best = p;
        at = high(get(ages_of(p.page)));
    }
    return best;
}

/* ---- verify ---- */

void spans_verify(struct large_spans *s, void (*wrong)(const char *what, uint32_t page, void *user), void *user)
{
    size_t bytes[SPAN_KINDS] = {0}, dirty = 0, aged = 0;
    for (unsigned kind = 0; kind < SPAN_KINDS; kind++)
        for (unsigned b = 0; b < SPAN_BINS; b++) {
            uint32_t before = 0, at = s->bin[kind][b];
            if ((at != 0) != (s->filled[kind][b / 64] >> b % 64 & 1)) wrong("a list's bit is wrong", b, user);
            while (at != 0) {
                struct span p = spans_starting(s, at - 1), next = spans_starting(s, p.page + p.pages);
                if (p.pages == 0) {
                    wrong("a list of free spans holds something else", at - 1, user);
                    break;
                }
                if (p.kind != kind || bin_of(p.pages) != b) wrong("a free span is in a wrong list", p.page, user);
                if (p.page % SPAN_PAGES || p.pages % SPAN_PAGES) wrong("a free span is not aligned", p.page, user);
                if (spans_ending(s, p.page + p.pages).page != p.page) wrong("a free span's end is wrong", p.page, user);
                if (next.pages && next.kind == p.kind) wrong("two free spans touch", p.page, user);
                if (low(get(links_of(p.page))) != before) wrong("a list of free spans is torn", p.page, user);
                bytes[kind] += (size_t)p.pages * OS_PAGE;
                dirty += kind == SPAN_DIRTY;
                before = at;
                at = high(get(links_of(p.page)));
            }
        }
    for (unsigned kind = 0; kind < SPAN_KINDS; kind++)
        if (bytes[kind] != s->bytes[kind]) wrong("the sum of free spans is wrong", (uint32_t)kind, user);
    for (uint32_t at = s->newest; at != 0 && aged <= dirty; aged++) {
        if (spans_starting(s, at - 1).kind != SPAN_DIRTY) wrong("a span among the dirty ones is clean", at - 1, user);
        uint32_t older = high(get(ages_of(at - 1)));
        if (older ? low(get(ages_of(older - 1))) != at : s->oldest != at) wrong("the order of age is torn", at - 1, user);
        at = older;
    }
    if (aged != dirty) wrong("dirty spans are missing in the order of age", (uint32_t)aged, user);
}
