/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/vet_memory.h"
#include "heap/arenas_mark.h"
#include "heap/contents.h"
#include "heap/os.h"
#include "heap/reclaimed.h"
#include "heap/stacks.h"
#include "heap/syscall.h"

#include <errno.h>
#include <fcntl.h>

#define COPY_BYTES (64 * KIB)

struct memory {
    void (*look)(const uint8_t *at, size_t bytes, bool goes_on, void *user);
    void *user;
    const struct white *white;
    const struct maps *maps;
    struct present present;
    bool complete;
    int mem; /* /proc/self/mem, -1: not open */
    uint8_t *copy;
    uintptr_t from, to;      /* of the latest piece of a root */
    struct cut_range bounds; /* of what is asked for; pages may stick out */
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
    if (from < to)
        m->look((const uint8_t *)from, (size_t)((const uint8_t *)to - (const uint8_t *)from),
                goes_on, m->user);
}

/* ---- our blocks ---- */

static void part(uintptr_t from, uintptr_t to, void *user)
{
    struct memory *m = user;
    m->look((const uint8_t *)from, to - from, false, m->user);
}

static void run_part(uintptr_t from, uintptr_t to, void *user)
{
    struct memory *m = user;
    if (white_is_blind(m->white, from, to - from))
        ranges_each_gap(m->white->blind, from, to, part, m);
    else
        part(from, to, m);
}

/* Memory in the window; blind parts are roots, and blocks of arenas may be lost. */
static void run(struct memory *m, uintptr_t from, uintptr_t to)
{
    if (unlikely(m->white->pieces != NULL) && pieces_each_kept(m->white->pieces, from, to, run_part, m)) return;
    run_part(from, to, m);
}

static void run_of_mapping(uintptr_t from, uintptr_t to, void *user)
{
    struct memory *m = user;
    pieces_each_present(m->white->pieces, from, to, part, user);
}

/* Pages that may be guards, to load from which faults (present.h); to read such a page by the kernel does not, and it holds nothing. */
static void run_by_kernel(struct memory *m, uintptr_t from, uintptr_t to)
{
    if (m->mem < 0)
        m->mem = (int)raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
    if (!m->copy) m->copy = os_map(COPY_BYTES);
    if (m->mem < 0 || !m->copy) {
        m->complete = false;
        return;
    }
    for (bool goes_on = false; from < to;) {
        size_t bytes = to - from < COPY_BYTES ? to - from : COPY_BYTES;
        long n = raw_syscall(SYS_pread64, m->mem, m->copy, bytes, from);
        if (n == -EINTR) continue;
        if (n > 0) m->look(m->copy, (size_t)n, goes_on, m->user);
        goes_on = n > 0;
        from += n > 0 ? (size_t)n : m->present.page;
    }
}

static void present_run(uintptr_t from, uintptr_t to, void *user)
{
    struct memory *m = user;
    if (from < m->bounds.from) from = m->bounds.from;
    if (to > m->bounds.to) to = m->bounds.to;
    if (m->present.swapped)
        run_by_kernel(m, from, to);
    else
        run(m, from, to);
}

static void present_runs(struct memory *m, uintptr_t from, uintptr_t to)
{
    m->bounds = (struct cut_range){from, to};
    if (!present_each(&m->present, from, to, PRESENT_ALL, present_run, m)) m->complete = false;
}

/* The slots of a pool that are wanted and not lost; neighbours at once. */
static void pool(struct memory *m, unsigned area, size_t index, enum vet_memory which)
{
    const struct white_area *a = &m->white->area[area];
    unsigned pool_shift = area == AREA_MEDIUM ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    uintptr_t base = a->base + (index << pool_shift), end = base + ((uintptr_t)1 << pool_shift),
              from = base;
    size_t slot = class_size[a->class_of[index]], first = (index << pool_shift) >> a->shift;
    const int8_t *state = state_of((const void *)base, area == AREA_MEDIUM);
    struct pool *p = pool_of((const void *)base, area == AREA_MEDIUM);
    bool reclaimed = atomic_load(&p->reclaimed);
    bool in_run = false;
    for (uintptr_t at = 0; at + slot <= end - base; at += slot) {
        size_t granule = at >> a->shift;
        bool live = state_is_live(state[granule]);
        bool wanted = (which == VET_MEMORY_BOTH || live == (which == VET_MEMORY_USED)) &&
                      !is_white(m->white, area, first + granule) &&
                      (live || !reclaimed || !tag_is_reclaimed(pool_tag(p, (unsigned)(at / slot))));
        if (wanted == in_run) continue;
        if (in_run)
            run(m, from, base + at);
        else
            from = base + at;
        in_run = wanted;
    }
    if (in_run) run(m, from, base + (end - base) / slot * slot);
}

static void pools(struct memory *m, unsigned area, enum vet_memory which)
{
    const struct white_area *a = &m->white->area[area];
    size_t count =
        (a->granules << a->shift) >> (area == AREA_MEDIUM ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT);
    for (size_t i = 0; i < count; i++)
        if (a->class_of[i] != 0) pool(m, area, i, which);
}

static bool large(uint32_t page, size_t bytes, void *user)
{
    struct memory *m = user;
    uintptr_t start = (uintptr_t)large_address(page);
    if (is_white(m->white, AREA_LARGE, page)) return true;
    if (bytes < CONTENTS_LARGE)
        run(m, start, start + bytes);
    else
        present_runs(m, start, start + bytes);
    return true;
}

/* ---- freed memory ---- */

/* What is mapped of a range, and present. */
static void mapped_runs(struct memory *m, uintptr_t from, uintptr_t to)
{
    const struct maps *maps = m->maps;
    for (size_t i = maps_from(maps, from); i < maps->count && maps->map[i].from < to; i++) {
        const struct map *map = &maps->map[i];
        if (!map->readable || map->kind == MAP_KIND_DEVICE || map->cut_short) continue;
        present_runs(m, map->from > from ? map->from : from, map->to < to ? map->to : to);
    }
}

/* Pools without a class; the free slots of others were looked at with their live ones. */
static void free_pools(struct memory *m, unsigned area)
{
    const struct white_area *a = &m->white->area[area];
    unsigned pool_shift = area == AREA_MEDIUM ? MEDIUM_POOL_SHIFT : SMALL_POOL_SHIFT;
    size_t count = (a->granules << a->shift) >> pool_shift;
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && !a->class_of[next] == !a->class_of[i];) next++;
        if (a->class_of[i] == 0)
            mapped_runs(m, a->base + (i << pool_shift), a->base + (next << pool_shift));
    }
}

/* Pages of blocks that were freed and are no part of a live one; not what else lies in the area, jemalloc's tables
   of its extents.  A record that was freed says how far the block reached. */
static void free_large(struct memory *m)
{
    uint32_t end = large_table_pages(), freed_to = 0, from = 0, page = 0, next;
    for (; page < end; page = next) {
        next = (page / LARGE_CHUNK_PAGES + 1) * LARGE_CHUNK_PAGES;
        if (atomic_load(&large_chunk_known[page / LARGE_CHUNK_PAGES])) {
            struct large_record *r = large_record_of(page);
            uint32_t state = atomic_load(&r->state) & LARGE_STATE_MASK,
                     pages = (uint32_t)(atomic_load(&r->bytes) / OS_PAGE);
            bool live = state == LARGE_LIVE || state == LARGE_BUSY;
            next = page + (live && pages ? pages : 1);
            if ((state == LARGE_CACHED || state == LARGE_FREED) && page + pages > freed_to)
                freed_to = page + pages;
            if (!live && page < freed_to) continue;
        }
        if (from < page)
            mapped_runs(m, (uintptr_t)large_address(from), (uintptr_t)large_address(page));
        from = next;
    }
    if (from < page) mapped_runs(m, (uintptr_t)large_address(from), (uintptr_t)large_address(page));
}

/* What of the threads' stacks is no root. */
static void dead_stacks(struct memory *m, const struct cut *cut)
{
    struct ranges used = {0}, unused = {0};
    stacks_find(cut, m->maps, &used, &unused);
    if (unused.incomplete) m->complete = false;
    for (size_t i = 0; i < unused.count; i++)
        mapped_runs(m, unused.range[i].from, unused.range[i].to);
    ranges_free(&used);
    ranges_free(&unused);
}

bool vet_memory_each(const struct white *white, struct roots *roots, const struct cut *cut,
                     enum vet_memory which,
                     void (*look)(const uint8_t *at, size_t bytes, bool goes_on, void *user),
                     void *user)
{
    struct memory m = {
        .look = look,
        .user = user,
        .white = white,
        .maps = &roots->maps,
        .complete = true,
        .mem = -1,
    };
    present_start(&m.present, PRESENT_SCAN);
    if (which != VET_MEMORY_FREED) {
        if (white->pieces) pieces_each_root(white->pieces, true, run_of_mapping, &m);
        roots_each_words(roots, root, &m);
    }
    pools(&m, AREA_SMALL, which);
    pools(&m, AREA_MEDIUM, which);
    if (which != VET_MEMORY_FREED) large_table_each(large, &m);
    if (which != VET_MEMORY_USED) {
        free_pools(&m, AREA_SMALL);
        free_pools(&m, AREA_MEDIUM);
        free_large(&m);
        dead_stacks(&m, cut);
    }
    present_end(&m.present);
    if (m.mem >= 0) raw_syscall(SYS_close, m.mem);
    if (m.copy) os_unmap(m.copy, COPY_BYTES);
    return m.complete && roots->complete;
}
