/* mark.c: see mark.h.

   1. Two rings hide two cache misses a pointer.  A word that points into a pool goes into the ring `found` while its mark word is fetched;
      when it comes out its bit is tested.  A block that was white goes on the stack; from there into the ring `grey` while its first
      lines are fetched; when it comes out it is scanned.
   2. A stack entry is the block's offset in the window << 8 | its class.
   3. A stack that cannot grow flags the block's pool; when the stack is empty all marked blocks of flagged pools are
      scanned (again), until none is flagged.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/marker.h"
#include "heap/arenas_mark.h"
#include "heap/os.h"

#include <sys/mman.h>

static size_t stack_limit;

void mark_limit_stack(size_t entries) { stack_limit = entries; }

static size_t pools_of(const struct white_area *a, bool medium)
{
    return (a->granules << a->shift) >> (medium ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT);
}

struct marker *mark_start(struct white *white, uintptr_t guard, struct present *present)
{
    struct marker *m = os_map(round_up(sizeof *m, OS_PAGE));
    if (!m) return NULL;
    m->white = white;
    m->guard = guard;
    m->may_look = present != NULL;
    if (present) m->present = *present;
    m->room = stack_limit && stack_limit < STACK_FIRST ? stack_limit : STACK_FIRST;
    m->stack = os_map(STACK_FIRST * sizeof *m->stack);
    bool ok = m->stack != NULL;
    for (unsigned medium = 0; medium < 2; medium++) {
        m->flagged_bytes[medium] = round_up(pools_of(&white->area[medium], medium) / 8 + 8, OS_PAGE);
        m->flagged[medium] = os_map(m->flagged_bytes[medium]);
        ok = ok && m->flagged[medium];
    }
    if (ok) return m;
    mark_end(m);
    return NULL;
}

static size_t stack_bytes(const struct marker *m)
{
    return (m->room < STACK_FIRST ? STACK_FIRST : m->room) * sizeof *m->stack;
}

void mark_end(struct marker *m)
{
    if (m->stack) os_unmap(m->stack, stack_bytes(m));
    for (unsigned medium = 0; medium < 2; medium++)
        if (m->flagged[medium]) os_unmap(m->flagged[medium], m->flagged_bytes[medium]);
    os_unmap(m, round_up(sizeof *m, OS_PAGE));
}

static NOINLINE bool grow(struct marker *m)
{
    if (stack_limit) return false;
    long at = os_move(m->stack, stack_bytes(m), 2 * stack_bytes(m), MREMAP_MAYMOVE, NULL);
    if (at < 0 && at > -4096) return false;
    m->stack = (uint64_t *)at;
    m->room *= 2;
    return true;
}

static NOINLINE void flag(struct marker *m, uintptr_t offset)
{
    m->any_flagged = true;
    unsigned area = (unsigned)(offset >> AREA_SHIFT);
    if (area >= AREA_LARGE) {
        m->large_flagged = true;
        return;
    }
    size_t pool = (offset & (((uintptr_t)1 << AREA_SHIFT) - 1)) >> (area ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT);
    m->flagged[area][pool / 64] |= (uint64_t)1 << pool % 64;
}

static ALWAYS_INLINE void push(struct marker *m, uint64_t entry)
{
    if (unlikely(m->depth == m->room) && !grow(m)) {
        if ((entry & 0xff) == MARK_PIECE) m->incomplete = true;
        else flag(m, (uintptr_t)(entry >> 8));
        return;
    }
    m->stack[m->depth++] = entry;
}

void marker_push(struct marker *m, uint64_t entry) { push(m, entry); }

/* Clears a white bit that was seen set; false if another member of the team was faster. */
static ALWAYS_INLINE bool take(const struct marker *m, uint64_t *word, uint64_t bit)
{
    if (likely(!m->team)) {
        *word &= ~bit;
        return true;
    }
    return __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED) & bit;
}

/* A pointer to the end of a large block counts where no other block starts there.  (Where collection was on from the start
   blocks end behind what was asked for.) */
static NOINLINE void look_large(struct marker *m, uintptr_t offset)
{
    uint32_t page;
    size_t bytes;
    struct white_area *a = &m->white->area[AREA_LARGE];
    if (!large_table_find((const void *)(window_base + offset), &page, &bytes) &&
        (offset % OS_PAGE != 0 || !large_table_find((const void *)(window_base + offset - 1), &page, &bytes)))
        return;
    if (page >= a->granules) return;
    uint64_t bit = (uint64_t)1 << page % 64;
    if (!(a->bits[page / 64] & bit) || !take(m, &a->bits[page / 64], bit)) return;
    m->stats.blocks++;
    m->stats.bytes += bytes;
    push(m, (uint64_t)(WINDOW_LARGE_OFFSET + (uintptr_t)page * OS_PAGE) << 8 | HEAP_CLASS_LARGE);
}

/* The mark word is at hand by now. */
static inline void look(struct marker *m, uintptr_t offset)
{
    unsigned medium = (unsigned)(offset >> AREA_SHIFT);
    uintptr_t in = offset & (((uintptr_t)1 << AREA_SHIFT) - 1), start = in;
    struct white_area *a = &m->white->area[medium];
    unsigned shift = medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT;
    unsigned pool_shift = medium ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    size_t granule = in >> shift;
    unsigned class = a->class_of[in >> pool_shift];
    bool exact = (in & (((uintptr_t)1 << shift) - 1)) == 0;
    uint64_t bit = (uint64_t)1 << granule % 64;
    if (!exact || !(a->bits[granule / 64] & bit)) {
        if (class == 0) return;
        uintptr_t pool = in >> pool_shift << pool_shift;
        start = pool + (uintptr_t)slot_of_offset(class, in - pool) * class_size[class];
        granule = start >> shift;
        bit = (uint64_t)1 << granule % 64;
        if (granule >= a->granules || !(a->bits[granule / 64] & bit)) return;
    }
    if (!take(m, &a->bits[granule / 64], bit)) return;
    m->stats.blocks++;
    m->stats.bytes += class_size[class];
    push(m, (uint64_t)(start + ((uintptr_t)medium << AREA_SHIFT)) << 8 | class);
}

static inline void candidate(struct marker *m, uintptr_t offset)
{
    unsigned area = (unsigned)(offset >> AREA_SHIFT);
    if (unlikely(area >= AREA_LARGE)) {
        look_large(m, offset);
        return;
    }
    struct white_area *a = &m->white->area[area];
    size_t granule = (offset & (((uintptr_t)1 << AREA_SHIFT) - 1)) >> (area ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT);
    if (granule >= a->granules) return;
    __builtin_prefetch(&a->bits[granule / 64], 1);
    uintptr_t before = m->found[m->found_at % FOUND];
    m->found[m->found_at++ % FOUND] = offset + 1;
    if (before) look(m, before - 1);
}

static inline void word(struct marker *m, uintptr_t w)
{
    uintptr_t plain = mark_plain(w) - window_base, other = mark_demangled(w, m->guard) - window_base;
    if (unlikely(plain < WINDOW_TABLES_OFFSET)) candidate(m, plain);
    if (unlikely(other < WINDOW_TABLES_OFFSET) && m->guard) candidate(m, other);
}

static void look_for_piece(struct marker *m, uintptr_t address)
{
    uintptr_t start;
    if (pieces_may_hold(m->white->pieces, address) && pieces_take(m->white->pieces, address, &start))
        push(m, (uint64_t)start << 8 | MARK_PIECE);
}

static NOINLINE void words_and_pieces(struct marker *m, const uintptr_t *from, const uintptr_t *to)
{
    for (; from < to; from++) {
        word(m, *from);
        look_for_piece(m, mark_plain(*from));
        if (m->guard) look_for_piece(m, mark_demangled(*from, m->guard));
    }
}

void mark_words(struct marker *m, const uintptr_t *from, const uintptr_t *to)
{
    m->stats.words += (uint64_t)(to - from);
    if (unlikely(m->white->pieces != NULL)) {
        words_and_pieces(m, from, to);
        return;
    }
    for (; from < to; from++) word(m, *from);
}

static void seen_part(uintptr_t from, uintptr_t to, void *user)
{
    mark_words(user, (const uintptr_t *)from, (const uintptr_t *)to);
}

static void present_part(uintptr_t from, uintptr_t to, void *user)
{
    struct marker *m = user;
    if (m->present.swapped) m->incomplete = true; /* it may be a guard (present.h) */
    else mark_words(m, (const uintptr_t *)from, (const uintptr_t *)to);
}

static void part_of_large(uintptr_t from, uintptr_t to, void *user)
{
    struct marker *m = user;
    if (to - from < LARGE_LOOK || !m->may_look) seen_part(from, to, m);
    else if (!present_each(&m->present, from, to, false, present_part, m)) m->incomplete = true;
}

/* What lies in blind parts is among the roots. */
static NOINLINE void mark_blind(struct marker *m, uintptr_t start, size_t bytes)
{
    ranges_each_gap(m->white->blind, start, start + bytes, part_of_large, m);
}

/* Of a block in which an arena lies, what is no block of the arena. */
static void gap(uintptr_t from, uintptr_t to, void *user)
{
    struct marker *m = user;
    if (white_is_blind(m->white, from, to - from)) {
        mark_blind(m, from, to - from);
        return;
    }
    /* What is asked for by pages comes in whole pages. */
    uintptr_t page = m->may_look ? m->present.page : OS_PAGE, head = round_up(from, page), tail = to & ~(page - 1);
    if (head >= tail) {
        seen_part(from, to, m);
        return;
    }
    seen_part(from, head, m);
    part_of_large(head, tail, m);
    seen_part(tail, to, m);
}

static void gap_of_mapping(uintptr_t from, uintptr_t to, void *user)
{
    const struct marker *m = user;
    pieces_each_present(m->white->pieces, from, to, seen_part, user);
}

static NOINLINE void scan_piece(struct marker *m, uintptr_t start)
{
    uintptr_t end = start + pieces_bytes(m->white->pieces, start);
    if (window_holds((const void *)start)) gap(start, end, m);
    else gap_of_mapping(start, end, m);
}

void mark_pieces(struct marker *m)
{
    if (m->white->pieces) pieces_each_root(m->white->pieces, false, gap_of_mapping, m);
}

void mark_block(struct marker *m, uintptr_t start, size_t bytes)
{
    if (unlikely(m->white->pieces != NULL) && pieces_each_gap(m->white->pieces, start, start + bytes, gap, m)) return;
    if (white_is_blind(m->white, start, bytes)) mark_blind(m, start, bytes);
    else part_of_large(start, start + bytes, m);
}

bool mark_complete(const struct marker *m) { return !m->incomplete; }

static inline void scan(struct marker *m, uint64_t entry)
{
    uintptr_t start = window_base + (uintptr_t)(entry >> 8);
    unsigned class = entry & 0xff;
    if (unlikely(class == MARK_PIECE)) {
        scan_piece(m, (uintptr_t)(entry >> 8));
        return;
    }
    if (unlikely(m->white->pieces != NULL) && class != HEAP_CLASS_LARGE) {
        mark_block(m, start, class_size[class]);
        return;
    }
    if (unlikely(class == HEAP_CLASS_LARGE)) {
        mark_block(m, start, atomic_load(&large_record_of(large_page_of((void *)start))->bytes));
        return;
    }
    if (white_is_blind(m->white, start, class_size[class])) mark_blind(m, start, class_size[class]);
    else mark_words(m, (const uintptr_t *)start, (const uintptr_t *)(start + class_size[class]));
}

static bool flush_found(struct marker *m)
{
    size_t before = m->depth;
    bool any = m->any_flagged;
    for (unsigned i = 0; i < FOUND; i++) {
        uintptr_t offset = m->found[i];
        m->found[i] = 0;
        if (offset) look(m, offset - 1);
    }
    return m->depth != before || m->any_flagged != any;
}

void marker_drain(struct marker *m)
{
    do
        for (;;) {
            while (m->grey_count < GREY && m->depth > 0) {
                uint64_t e = m->stack[--m->depth];
                const char *at = (const char *)(window_base + (uintptr_t)(e >> 8));
                __builtin_prefetch(at);
                __builtin_prefetch(at + 64);
                m->grey[(m->grey_first + m->grey_count++) % GREY] = e;
            }
            if (m->grey_count == 0) break;
            uint64_t e = m->grey[m->grey_first];
            m->grey_first = (m->grey_first + 1) % GREY;
            m->grey_count--;
            scan(m, e);
            if (unlikely(m->team && m->depth > TEAM_SHARE_DEPTH)) mark_team_share(m);
        }
    while (flush_found(m));
}

static void scan_pool_again(struct marker *m, bool medium, size_t index)
{
    struct pool *p = pool_of_id((uint32_t)index + (medium ? SMALL_POOLS : 0));
    for (unsigned slot = 0; slot < p->slots; slot++) {
        struct white_block b;
        if (!white_find(m->white, (uintptr_t)slot_address(p, slot), &b) || white_is(m->white, &b) || !white_is_live(&b))
            continue;
        mark_block(m, b.start, b.bytes);
        marker_drain(m);
    }
}

static bool scan_large_again(uint32_t page, size_t bytes, void *user)
{
    struct marker *m = user;
    if (page < m->white->area[AREA_LARGE].granules &&
        !(m->white->area[AREA_LARGE].bits[page / 64] >> page % 64 & 1)) {
        mark_block(m, (uintptr_t)large_address(page), bytes);
        marker_drain(m);
    }
    return true;
}

void mark_drain(struct marker *m)
{
    marker_drain(m);
    while (m->any_flagged) {
        m->any_flagged = false;
        m->stats.rescans++;
        for (unsigned medium = 0; medium < 2; medium++)
            for (size_t i = 0; i < (pools_of(&m->white->area[medium], medium) + 63) / 64; i++)
                while (m->flagged[medium][i]) {
                    unsigned bit = (unsigned)__builtin_ctzll(m->flagged[medium][i]);
                    m->flagged[medium][i] &= m->flagged[medium][i] - 1;
                    scan_pool_again(m, medium, i * 64 + bit);
                }
        if (m->large_flagged) {
            m->large_flagged = false;
            large_table_each(scan_large_again, m);
        }
    }
}

void mark_stats(const struct marker *m, struct mark_stats *to) { *to = m->stats; }
