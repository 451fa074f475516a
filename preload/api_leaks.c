/* api_leaks.c: the functions of gleaner.h that concern collections and leaks.  errno stays as it was.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define GLEANER_API __attribute__((visibility("default")))
#include "gleaner.h"
#include "heap/collect.h"
#include "heap/heap.h"
#include "preload/collection.h"
#include "preload/dead_stack.h"

#include <errno.h>

static int collect(enum collection_kind kind)
{
    int before = errno, error = collection_run(kind, TRIGGER_API, true, true);
    errno = before;
    return error;
}

int gleaner_collect(enum gleaner_collection kind)
{
    switch (kind) {
    case GLEANER_MINOR:
        return collect(COLLECTION_MINOR);
    case GLEANER_MAJOR:
        return collect(COLLECTION_MAJOR);
    }
    return EINVAL;
}

/* A mark is the number of a complete major collection: what is lost by then has a smaller or the same number in its record. */
unsigned long gleaner_mark(void)
{
    struct collections c;
    if (collect(COLLECTION_MAJOR) != 0) return 0;
    collections(&c);
    return c.latest.number;
}

struct since {
    unsigned long mark;
    struct gleaner_leaks *leaks;
};

static void add(struct gleaner_count *to, const struct lost_view *v)
{
    to->blocks++;
    to->bytes += v->given;
}

static void count(const struct lost_view *v, void *user)
{
    struct since *s = user;
    if (v->first_number <= s->mark) return;
    switch (v->kind) {
    case LOST_DIRECT:
        add(&s->leaks->lost, v);
        add(&s->leaks->direct, v);
        break;
    case LOST_INDIRECT:
        add(&s->leaks->lost, v);
        add(&s->leaks->indirect, v);
        break;
    case LOST_POSSIBLE:
        add(&s->leaks->possible, v);
        break;
    }
}

static NOINLINE void sum_up(unsigned long mark, struct gleaner_leaks *leaks)
{
    struct lost_totals totals;
    lost_each(count, &(struct since){mark, leaks});
    lost_totals(&totals);
    leaks->unrecorded = (struct gleaner_count){totals.unrecorded, totals.unrecorded_bytes};
    leaks->false_lost.blocks += lost_used(&totals);
    leaks->false_lost.bytes += lost_used_bytes(&totals);
}

int gleaner_leak_check(unsigned long mark, struct gleaner_leaks *leaks)
{
    int error = collect(COLLECTION_MAJOR);
    if (!leaks) return error;
    *leaks = (struct gleaner_leaks){0};
    if (error) return error;
    sum_up(mark, leaks);
    dead_stack_clear();
    return 0;
}

enum gleaner_state gleaner_state(const void *block)
{
    struct lost_view lost;
    if (!heap_owns(block)) return GLEANER_NO_BLOCK;
    if (heap_is_ignored(block)) return GLEANER_IGNORED;
    if (lost_find(block, &lost))
        return lost.kind == LOST_POSSIBLE ? GLEANER_POSSIBLY_LOST : GLEANER_LOST;
    return heap_is_old(block) ? GLEANER_OLD : GLEANER_YOUNG;
}

int gleaner_add_root(const void *from, size_t bytes)
{
    uintptr_t end;
    if (bytes == 0 || __builtin_add_overflow((uintptr_t)from, bytes, &end)) return EINVAL;
    int before = errno, error = collection_add_root((uintptr_t)from, end);
    errno = before;
    return error;
}

int gleaner_remove_root(const void *from, size_t bytes)
{
    uintptr_t end;
    if (bytes == 0 || __builtin_add_overflow((uintptr_t)from, bytes, &end)) return EINVAL;
    int before = errno, error = collection_remove_root((uintptr_t)from, end);
    errno = before;
    return error;
}

int gleaner_ignore(const void *block)
{
    return heap_ignore(block) ? 0 : EINVAL;
}

void gleaner_statistics(struct gleaner_statistics *to)
{
    struct collections c;
    struct heap_stats heap;
    collections(&c);
    heap_stats(&heap);
    *to = (struct gleaner_statistics){
        .minor = c.minor,
        .major = c.major,
        .incomplete = c.incomplete,
        .live = heap.live,
        .live_bytes = heap.live_bytes,
        .young = c.latest.young,
        .young_bytes = c.latest.young_bytes,
        .pause_ms_max = c.pause.max,
        .pause_ms_median = c.pause.p50,
    };
}
