/* memprof_arena.c: the blocks of arenas (heap/arenas.h) in the program's profile: sampled when they are announced, ended when
   they are given back or their arena ends.  Beside the bits of a page of an arena lie, once a block in it was sampled, the
   numbers of entries by unit.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/arenas.h"
#include "heap/heap.h"
#include "heap/meta.h"
#include "sampler/memprof_profile.h"

#include <errno.h>

static struct arena *of(struct gleaner_arena *a) { return (struct arena *)a; }

struct gleaner_arena *memprof_arena_begin(void *memory, size_t bytes, int flags)
{
    memprof_install(false);
    return (struct gleaner_arena *)arena_begin(memory, bytes, flags);
}

static _Atomic uint32_t *entries_of(struct arena_page *p, bool make)
{
    void *there = atomic_load(&p->of_user), *made;
    if (there || !make) return there;
    if (!(made = meta_alloc(ARENA_PAGE_UNITS * sizeof(uint32_t)))) return NULL;
    return atomic_compare_exchange_strong(&p->of_user, &there, made) ? made : there;
}

/* ---- sampling ---- */

/* `stack`: the one that was taken for an earlier block of the same call, or 0.  As with blocks of malloc, a sample for which there is no
   memory is counted as dropped, and the block is there all the same. */
static void sample(struct arena *a, struct heap_thread_hook *hook, size_t unit, const struct gleaner_piece *piece,
                   enum gleaner_source source, uint32_t *stack)
{
    struct memprof_profile *p;
    struct memprof_thread *t = hook ? hook->memprof : NULL;
    size_t words = (piece->bytes + ARENA_UNIT - 1) / ARENA_UNIT;
    unsigned n = memprof_points(t, words, &p);
    if (n == 0 || heap_sampling_is_suspended()) return;
    _Atomic uint32_t *entries = entries_of(arena_page(a, unit), true);
    if (!entries) {
        memprof_add(p, MEMPROF_N_DROPPED, n);
        return;
    }
    if (*stack == 0) *stack = memprof_stack(t);
    const struct memprof_new new = {.block = piece->block, .asked = piece->bytes, .given = words * ARENA_UNIT, .n_samples = n,
                                    .stack = *stack, .source = source, .kind = MEMPROF_PIECE, .old = a->flags & GLEANER_ARENA_OLD};
    uint32_t number = memprof_make(t, p, &new);
    if (number == 0) return;
    atomic_store(&entries[unit % ARENA_PAGE_UNITS], number);
    memprof_publish(hook, number);
}

/* All of them, or none. */
static int announce(struct arena *a, const struct gleaner_piece *pieces, size_t count, enum gleaner_source source)
{
    struct heap_thread_hook *hook = heap_own_hook();
    uint32_t stack = 0;
    size_t unit, n = 0;
    while (n < count && arena_unit(a, pieces[n].block, &unit) && arena_announce(a, unit, pieces[n].bytes)) n++;
    if (n < count) {
        while (n-- > 0)
            if (arena_unit(a, pieces[n].block, &unit)) arena_forget(a, unit);
        return EINVAL;
    }
    for (size_t i = 0; i < count; i++)
        if (arena_unit(a, pieces[i].block, &unit)) sample(a, hook, unit, &pieces[i], source, &stack);
    if (hook && hook->pending) memprof_callbacks(hook);
    return 0;
}

int memprof_arena_alloc(struct gleaner_arena *a, void *block, size_t bytes)
{
    return announce(of(a), &(struct gleaner_piece){block, bytes}, 1, GLEANER_ARENA);
}

int memprof_arena_bulk(struct gleaner_arena *a, const struct gleaner_piece *pieces, size_t count)
{
    return announce(of(a), pieces, count, GLEANER_BULK);
}

/* ---- ends ---- */

static void end_entry(struct heap_thread_hook *hook, struct arena_page *p, size_t unit, bool old)
{
    _Atomic uint32_t *entries = entries_of(p, false);
    uint32_t number = entries ? atomic_exchange(&entries[unit % ARENA_PAGE_UNITS], 0) : 0;
    if (number) memprof_died(hook, number, MEMPROF_FREED | (old ? MEMPROF_FREED_OLD : 0));
}

int memprof_arena_free(struct gleaner_arena *arena, void *block)
{
    struct arena *a = of(arena);
    size_t unit;
    if (!arena_unit(a, block, &unit)) return EINVAL;
    bool old = arena_bit(arena_page(a, unit)->old, unit);
    if (!arena_forget(a, unit)) return EINVAL;
    struct heap_thread_hook *hook = heap_own_hook();
    end_entry(hook, arena_page(a, unit), unit, old);
    if (hook && hook->pending) memprof_callbacks(hook);
    return 0;
}

static void end_all(struct arena *a, bool arena_too)
{
    struct heap_thread_hook *hook = heap_own_hook();
    for (size_t i = 0, pages = arena_pages(a); i < pages; i++)
        for (unsigned w = 0; w < ARENA_WORDS; w++)
            for (uint64_t starts = atomic_load(&a->pages[i].start[w]); starts; starts &= starts - 1) {
                size_t unit = i * ARENA_PAGE_UNITS + w * 64 + (unsigned)__builtin_ctzll(starts);
                bool old = arena_bit(a->pages[i].old, unit);
                arena_forget(a, unit);
                end_entry(hook, &a->pages[i], unit, old);
            }
    if (arena_too) arena_end(a);
    if (hook && hook->pending) memprof_callbacks(hook);
}

void memprof_arena_reset(struct gleaner_arena *a) { end_all(of(a), false); }
void memprof_arena_end(struct gleaner_arena *a) { end_all(of(a), true); }

/* ---- what is known ---- */

int memprof_arena_state(struct gleaner_arena *arena, const void *block)
{
    struct arena *a = of(arena);
    size_t unit;
    if (!arena_unit(a, block, &unit) || !arena_bit(arena_page(a, unit)->start, unit)) return GLEANER_NO_BLOCK;
    if (arena_bit(arena_page(a, unit)->lost, unit)) return GLEANER_LOST;
    return arena_bit(arena_page(a, unit)->old, unit) || (a->flags & GLEANER_ARENA_OLD) ? GLEANER_OLD : GLEANER_YOUNG;
}

void memprof_arena_lost(struct gleaner_arena *arena, struct gleaner_count *to)
{
    struct arena *a = of(arena);
    *to = (struct gleaner_count){0};
    for (size_t i = 0, pages = arena_pages(a); i < pages; i++)
        for (unsigned w = 0; w < ARENA_WORDS; w++)
            for (uint64_t lost = atomic_load(&a->pages[i].lost[w]); lost; lost &= lost - 1) {
                size_t unit = i * ARENA_PAGE_UNITS + w * 64 + (unsigned)__builtin_ctzll(lost);
                to->blocks++;
                to->bytes += (arena_last(a, unit) - unit + 1) * ARENA_UNIT;
            }
}

void memprof_each_piece(void (*each)(uint32_t number, bool old, bool lost))
{
    struct arena *a;
    for (uint32_t n = 0; (a = arena_by_number(n)); n++)
        for (size_t i = 0, pages = arena_pages(a); i < pages; i++) {
            struct arena_page *p = &a->pages[i];
            _Atomic uint32_t *entries = entries_of(p, false);
            for (unsigned unit = 0; entries && unit < ARENA_PAGE_UNITS; unit++) {
                uint32_t number = atomic_load_explicit(&entries[unit], memory_order_relaxed);
                if (number) each(number, arena_bit(p->old, unit), arena_bit(p->lost, unit));
            }
        }
}
