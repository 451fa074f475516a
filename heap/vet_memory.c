/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/vet_memory.h"
#include "heap/contents.h"
#include "heap/os.h"
#include "heap/syscall.h"

#include <fcntl.h>

#define COPY_BYTES (64 * KIB)

struct memory {
    void (*look)(const uint8_t *at, size_t bytes, bool goes_on, void *user);
    void *user;
    const struct white *white;
    const struct maps *maps;
    struct holes holes;
    struct present present;
    bool complete;
    int mem;       /* /proc/self/mem, -1: not open */
    uint8_t *copy; /* of what cannot be loaded */
    uintptr_t from, to; /* of the latest piece of a root */
};

static bool is_white(const struct white *w, unsigned area, size_t granule)
{
    const struct white_area *a = &w->area[area];
    return granule < a->granules && (a->bits[granule / 64] >> granule % 64 & 1);
}

/* ---- roots ---- */

/* Pieces that were copied come in the same buffer one after the other. */
static void root(const uintptr_t *from, const uintptr_t *to, enum root_kind kind, void *user)
{
    struct memory *m = user;
    bool goes_on = (uintptr_t)from == m->to || (uintptr_t)from == m->from;
    m->from = (uintptr_t)from;
    m->to = (uintptr_t)to;
    if (from < to) m->look((const uint8_t *)from, (size_t)((const uint8_t *)to - (const uint8_t *)from), goes_on, m->user);
}

/* ---- our blocks ---- */

/* What is unreadable for us is not for the kernel. */
static void look_by_kernel(struct memory *m, uintptr_t from, uintptr_t to)
{
    if (m->mem < 0) m->mem = (int)raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
    if (!m->copy) m->copy = os_map(COPY_BYTES);
    if (m->mem < 0 || !m->copy) {
        m->complete = false;
        return;
    }
    for (bool goes_on = true; from < to; goes_on = true) {
        size_t bytes = to - from < COPY_BYTES ? to - from : COPY_BYTES;
        if (raw_syscall(SYS_pread64, m->mem, m->copy, bytes, from) != (long)bytes) {
            m->complete = false;
            return;
        }
        m->look(m->copy, bytes, goes_on, m->user);
        from += bytes;
    }
}

static void run(uintptr_t from, uintptr_t to, void *user)
{
    struct memory *m = user;
    for (bool goes_on = false; from < to; goes_on = true) {
        uintptr_t end = to;
        if (holes_cut(&m->holes, from, &end)) m->look((const uint8_t *)from, end - from, goes_on, m->user);
        else look_by_kernel(m, from, end);
        from = end;
    }
}

static void present_run(struct memory *m, uintptr_t from, uintptr_t to)
{
    if (!present_each(&m->present, from, to, false, run, m)) m->complete = false;
}

/* The slots of a pool that are live and not lost, or with `freed_too` all that are not lost; neighbours at once. */
static void pool(struct memory *m, unsigned area, size_t index, bool freed_too)
{
    const struct white_area *a = &m->white->area[area];
    unsigned pool_shift = area == AREA_MEDIUM ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    uintptr_t base = a->base + (index << pool_shift), end = base + ((uintptr_t)1 << pool_shift), from = base;
    size_t slot = class_size[a->class_of[index]], first = (index << pool_shift) >> a->shift;
    const int8_t *state = state_of((const void *)base, area == AREA_MEDIUM);
    bool in_run = false;
    for (uintptr_t at = 0; at + slot <= end - base; at += slot) {
        size_t granule = at >> a->shift;
        bool wanted = (freed_too || state_is_live(state[granule])) && !is_white(m->white, area, first + granule);
        if (wanted == in_run) continue;
        if (in_run) run(from, base + at, m);
        else from = base + at;
        in_run = wanted;
    }
    if (in_run) run(from, base + (end - base) / slot * slot, m);
}

static void pools(struct memory *m, unsigned area, bool freed_too)
{
    const struct white_area *a = &m->white->area[area];
    size_t count = (a->granules << a->shift) >> (area == AREA_MEDIUM ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT);
    for (size_t i = 0; i < count; i++)
        if (a->class_of[i] != 0) pool(m, area, i, freed_too);
}

static bool large(uint32_t page, size_t bytes, void *user)
{
    struct memory *m = user;
    uintptr_t start = (uintptr_t)large_address(page);
    if (is_white(m->white, AREA_LARGE, page)) return true;
    if (bytes < CONTENTS_LARGE) run(start, start + bytes, m);
    else present_run(m, start, start + bytes);
    return true;
}

/* ---- freed memory ---- */

/* Free pools; those with a class were looked at with their live slots. */
static void free_pools(struct memory *m, unsigned area, uintptr_t from, uintptr_t to)
{
    const struct white_area *a = &m->white->area[area];
    unsigned pool_shift = area == AREA_MEDIUM ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    uintptr_t size = (uintptr_t)1 << pool_shift, end = a->base + (a->granules << a->shift);
    if (from < a->base) from = a->base;
    if (to > end) to = end;
    for (uintptr_t at = from, next; at < to; at = next) {
        bool is_free = a->class_of[(at - a->base) >> pool_shift] == 0;
        for (next = at; next < to && (a->class_of[(next - a->base) >> pool_shift] == 0) == is_free;)
            next = (next & ~(size - 1)) + size;
        if (is_free) present_run(m, at, next < to ? next : to);
    }
}

static void free_large_run(uintptr_t from, uintptr_t to, void *user)
{
    struct memory *m = user;
    for (uintptr_t at = from; at < to;) {
        uint32_t page;
        size_t bytes;
        uintptr_t next = at;
        while (next < to && !large_table_find((const void *)next, &page, &bytes)) next += OS_PAGE;
        if (next > at) run(at, next, m);
        at = next < to ? (uintptr_t)large_address(page) + bytes : to;
    }
}

static void freed(struct memory *m)
{
    uintptr_t large_from = window_base + WINDOW_LARGE_OFFSET, large_to = large_from + WINDOW_LARGE_BYTES;
    for (size_t i = 0; i < m->maps->count; i++) {
        uintptr_t from = m->maps->map[i].from, to = m->maps->map[i].to;
        if (to <= window_base || from >= large_to) continue;
        free_pools(m, AREA_SMALL, from, to);
        free_pools(m, AREA_MEDIUM, from, to);
        if (from < large_from) from = large_from;
        if (to > large_to) to = large_to;
        if (from < to && !present_each(&m->present, from, to, false, free_large_run, m)) m->complete = false;
    }
}

/* All of a thread's own stack: what is in use of it is a root, and so looked at twice. */
static void stacks(struct memory *m, const struct cut *cut)
{
    for (size_t i = 0; i < cut->threads; i++) {
        uintptr_t from = cut->thread[i].stack_low, to = cut->thread[i].stack_high;
        while (from < to) {
            const struct map *map = maps_find(m->maps, from);
            if (!map) break;
            uintptr_t end = map->to < to ? map->to : to;
            if (map->readable && map->kind != MAP_KIND_DEVICE) present_run(m, from, end);
            from = end;
        }
    }
}

bool vet_memory_each(const struct white *white, struct roots *roots, const struct cut *cut, bool freed_too,
                     void (*look)(const uint8_t *at, size_t bytes, bool goes_on, void *user), void *user)
{
    struct memory m = {
        .look = look, .user = user, .white = white, .maps = &roots->maps, .complete = true, .mem = -1,
    };
    if (!holes_find(&m.holes, m.maps)) return false;
    present_start(&m.present, PRESENT_SCAN);
    roots_each_words(roots, root, &m);
    root(cut->word, cut->word + cut->words, ROOT_KERNEL, &m);
    pools(&m, AREA_SMALL, freed_too);
    pools(&m, AREA_MEDIUM, freed_too);
    large_table_each(large, &m);
    if (freed_too) {
        freed(&m);
        stacks(&m, cut);
    }
    present_end(&m.present);
    holes_free(&m.holes);
    if (m.mem >= 0) raw_syscall(SYS_close, m.mem);
    if (m.copy) os_unmap(m.copy, COPY_BYTES);
    return m.complete;
}
