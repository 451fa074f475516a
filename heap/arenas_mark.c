/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/arenas_mark.h"
#include "heap/os.h"
#include "heap/sort.h"
#include "heap/syscall.h"
#include "heap/window.h"

#include <sys/mman.h>

struct view {
    uintptr_t base, end; /* 0, 0: not in use */
    uint32_t number;     /* of the arena */
    bool mapped;         /* outside of the window */
    bool as_root;        /* its memory is a root as a whole */
    size_t pages, room;
    uint64_t *white;     /* a bit for each unit */
    uint64_t *present;   /* a bit for each page of the system's that it has a part in, from that of `base` on; mapped ones only */
    uint32_t *before;    /* of each arena page: 1 + the latest at or before it in which a block starts; 0: none */
};

struct pieces {
    struct pieces_span span; /* of all; first, see pieces_may_hold */
    size_t count;
    struct view view[];
};

/* ---- room ---- */

struct room {
    size_t arenas, bytes;
};

static size_t present_words(size_t pages) { return (pages + 2 + 63) / 64; }

static struct room room_wanted(void)
{
    struct room r = {0};
    struct arena *a;
    for (uint32_t n = 0; (a = arena_by_number(n)); n++) {
        size_t pages = (size_t)1 << a->order;
        if (atomic_load(&a->bytes) == 0) continue;
        r.arenas++;
        r.bytes += pages * (ARENA_WORDS * 8 + 4) + present_words(pages) * 8 + 8;
    }
    return r;
}

struct pieces *pieces_map(size_t *bytes)
{
    struct room r = room_wanted();
    if (r.arenas == 0) return NULL;
    *bytes = round_up(sizeof(struct pieces) + r.arenas * sizeof(struct view) + r.bytes, OS_PAGE);
    long at = raw_syscall(SYS_mmap, NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if ((unsigned long)at >= -4095UL) return NULL;
    struct pieces *p = (struct pieces *)at;
    char *to = (char *)(p->view + r.arenas), *end = (char *)at + *bytes;
    struct arena *a;
    for (uint32_t n = 0; (a = arena_by_number(n)) && p->count < r.arenas; n++) {
        size_t room = (size_t)1 << a->order;
        if (atomic_load(&a->bytes) == 0) continue;
        struct view *v = &p->view[p->count];
        size_t need = room * (ARENA_WORDS * 8 + 4) + present_words(room) * 8 + 8;
        if (need > (size_t)(end - to)) break; /* begun since */
        *v = (struct view){.number = n, .room = room, .white = (uint64_t *)to};
        v->present = v->white + room * ARENA_WORDS;
        v->before = (uint32_t *)(v->present + present_words(room));
        to += round_up(need, 8);
        p->count++;
    }
    return p;
}

/* ---- filling ---- */

static void fill(struct view *v)
{
    const struct arena *a = arena_by_number(v->number);
    size_t bytes = atomic_load(&a->bytes);
    v->base = bytes ? a->base : 0;
    v->end = v->base + bytes;
    v->pages = arena_pages(a);
    v->mapped = !window_holds((const void *)v->base);
    for (size_t i = 0; i < v->pages; i++) {
        uint64_t any = 0;
        for (unsigned w = 0; w < ARENA_WORDS; w++) {
            uint64_t starts = atomic_load_explicit(&a->pages[i].start[w], memory_order_relaxed);
            if (starts) any = v->white[i * ARENA_WORDS + w] = starts; /* else it is zero, in a page that need not be there */
        }
        v->before[i] = any ? (uint32_t)i + 1 : i > 0 ? v->before[i - 1] : 0;
    }
}

static bool lower(const void *a, const void *b) { return ((const struct view *)a)->base < ((const struct view *)b)->base; }

static void reached(struct view *v) { __builtin_memset(v->white, 0, v->pages * ARENA_WORDS * 8); }

void pieces_fill(struct pieces *p)
{
    uintptr_t end = 0;
    for (size_t i = 0; i < p->count; i++) fill(&p->view[i]);
    sort_in_place(p->view, p->count, sizeof p->view[0], lower);
    p->span = (struct pieces_span){0, 0};
    for (size_t i = 0; i < p->count; i++) {
        struct view *v = &p->view[i];
        if (v->base != 0 && v->base < end) { /* an arena in an arena: the outer one's blocks count */
            reached(v);
            v->base = v->end = end;
        }
        if (v->base == v->end) continue;
        if (p->span.low == 0) p->span.low = v->base;
        end = v->end;
        p->span.bytes = end + 1 - p->span.low; /* a pointer to the end counts */
    }
}
_Static_assert(sizeof(struct view) <= SORT_MOST, "sorted by value");

static bool is_plain(const struct maps *maps, const struct view *v)
{
    uintptr_t at = v->base;
    for (size_t i = maps_from(maps, at); i < maps->count && at < v->end; i++) {
        const struct map *m = &maps->map[i];
        if (m->from > at || m->kind != MAP_KIND_ANONYMOUS || m->shared || m->cut_short || !m->readable) return false;
        at = m->to;
    }
    return at >= v->end;
}

void pieces_leave_out(struct pieces *p, const struct maps *maps, const struct ranges *unfrozen, struct ranges *leave_out)
{
    for (size_t i = 0; i < p->count; i++) {
        struct view *v = &p->view[i];
        if (!v->mapped || v->base == v->end) continue;
        v->as_root = !is_plain(maps, v) || ranges_meet(unfrozen, v->base, v->end);
        if (v->as_root) reached(v);
        else ranges_add(leave_out, v->base, v->end);
    }
}

struct look {
    struct present *present;
    struct view *view;
    bool swapped;
};

static void there(uintptr_t from, uintptr_t to, void *user)
{
    struct look *l = user;
    if (l->present->swapped) l->swapped = true; /* it may be a guard (present.h) */
    uintptr_t first = l->view->base / OS_PAGE, end = (l->view->end + OS_PAGE - 1) / OS_PAGE;
    if (from / OS_PAGE < first) from = first * OS_PAGE; /* pages may stick out */
    for (uintptr_t page = from / OS_PAGE; page < (to + OS_PAGE - 1) / OS_PAGE && page < end; page++)
        l->view->present[(page - first) / 64] |= (uint64_t)1 << (page - first) % 64;
}

bool pieces_look(struct pieces *p, struct present *present)
{
    bool all = true;
    for (size_t i = 0; i < p->count; i++) {
        struct look l = {present, &p->view[i], false};
        if (!l.view->mapped || l.view->as_root || l.view->base == l.view->end) continue;
        all &= present_each(present, l.view->base, l.view->end, PRESENT_ALL, there, &l) && !l.swapped;
    }
    return all;
}

/* ---- looking up ---- */

/* The first view that ends after the address; `count` if none. */
static size_t view_from(const struct pieces *p, uintptr_t address)
{
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (p->view[mid].end > address) high = mid;
        else low = mid + 1;
    }
    return low;
}

/* The latest start at or before a unit; SIZE_MAX: none. */
static size_t start_before(const struct view *v, const struct arena *a, size_t unit)
{
    size_t page = unit / ARENA_PAGE_UNITS;
    unsigned w = unit % ARENA_PAGE_UNITS / 64;
    uint64_t bits = atomic_load_explicit(&a->pages[page].start[w], memory_order_relaxed) << (63 - unit % 64) >> (63 - unit % 64);
    for (;;) {
        if (bits) return page * ARENA_PAGE_UNITS + w * 64 + 63 - (unsigned)__builtin_clzll(bits);
        if (w > 0) w--;
        else {
            uint32_t before = page > 0 ? v->before[page - 1] : 0;
            if (before == 0) return SIZE_MAX;
            page = before - 1;
            w = ARENA_WORDS - 1;
        }
        bits = atomic_load_explicit(&a->pages[page].start[w], memory_order_relaxed);
    }
}

/* A block's end counts to it where no other starts. */
bool pieces_take(struct pieces *p, uintptr_t address, uintptr_t *start)
{
    size_t i = view_from(p, address);
    if (i == p->count || address < p->view[i].base) i = view_from(p, address - 1);
    if (i == p->count || address < p->view[i].base) return false;
    struct view *v = &p->view[i];
    const struct arena *a = arena_by_number(v->number);
    size_t unit = ((address < v->end ? address : v->end - 1) - v->base) / ARENA_UNIT, s = start_before(v, a, unit);
    if (s == SIZE_MAX || !(v->white[s / 64] >> s % 64 & 1)) return false;
    size_t last = arena_last(a, s);
    if (address > v->base + (last + 1) * ARENA_UNIT) return false;
    uint64_t bit = (uint64_t)1 << s % 64;
    if (!(__atomic_fetch_and(&v->white[s / 64], ~bit, __ATOMIC_RELAXED) & bit)) return false; /* another marker was faster */
    *start = v->base + s * ARENA_UNIT;
    return true;
}

size_t pieces_bytes(const struct pieces *p, uintptr_t start)
{
    const struct view *v = &p->view[view_from(p, start)];
    size_t unit = (start - v->base) / ARENA_UNIT, last = arena_last(arena_by_number(v->number), unit);
    size_t bytes = (last + 1 - unit) * ARENA_UNIT;
    return bytes < v->end - start ? bytes : v->end - start;
}

/* ---- gaps ---- */

typedef void each_part(uintptr_t from, uintptr_t to, void *user);

/* `lost`: blocks that were reached are no gaps' ends. */
static void gaps_of(const struct view *v, uintptr_t from, uintptr_t to, bool lost, each_part *each, void *user)
{
    const struct arena *a = arena_by_number(v->number);
    uintptr_t at = from; /* up to here all is known */
    for (size_t page = 0; page < v->pages; page++)
        for (unsigned w = 0; w < ARENA_WORDS; w++)
            for (uint64_t bits = atomic_load_explicit(&a->pages[page].start[w], memory_order_relaxed); bits; bits &= bits - 1) {
                size_t unit = page * ARENA_PAGE_UNITS + w * 64 + (unsigned)__builtin_ctzll(bits);
                if (lost && !(v->white[unit / 64] >> unit % 64 & 1)) continue;
                uintptr_t begins = v->base + unit * ARENA_UNIT, ends = v->base + (arena_last(a, unit) + 1) * ARENA_UNIT;
                if (begins >= to) break;
                if (begins > at) each(at, begins, user);
                if (ends > at) at = ends;
            }
    if (at < to) each(at, to, user);
}

static bool parts_of(const struct pieces *p, uintptr_t from, uintptr_t to, bool lost, each_part *each, void *user)
{
    size_t i = view_from(p, from);
    while (i < p->count && p->view[i].base == p->view[i].end) i++;
    if (i == p->count || p->view[i].base >= to) return false;
    for (; i < p->count && p->view[i].base < to; i++) {
        const struct view *v = &p->view[i];
        if (v->base == v->end) continue;
        if (v->base > from) each(from, v->base, user);
        uintptr_t begins = v->base > from ? v->base : from, ends = v->end < to ? v->end : to;
        gaps_of(v, begins, ends, lost, each, user);
        from = ends & ~(uintptr_t)(ARENA_UNIT - 1); /* an arena may end anywhere */
    }
    if (from < to) each(from, to, user);
    return true;
}

bool pieces_each_gap(const struct pieces *p, uintptr_t from, uintptr_t to, each_part *each, void *user)
{
    return parts_of(p, from, to, false, each, user);
}

bool pieces_each_kept(const struct pieces *p, uintptr_t from, uintptr_t to, each_part *each, void *user)
{
    return parts_of(p, from, to, true, each, user);
}

void pieces_each_root(const struct pieces *p, bool lost, each_part *each, void *user)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct view *v = &p->view[i];
        if (!v->mapped || v->as_root || v->base == v->end) continue;
        gaps_of(v, v->base, v->end & ~(uintptr_t)(ARENA_UNIT - 1), lost, each, user);
    }
}

void pieces_each_present(const struct pieces *p, uintptr_t from, uintptr_t to, each_part *each, void *user)
{
    size_t i = view_from(p, from);
    const struct view *v = i < p->count && p->view[i].base <= from ? &p->view[i] : NULL;
    if (!v || !v->mapped || v->as_root) {
        each(from, to, user);
        return;
    }
    uintptr_t first = v->base / OS_PAGE;
    for (uintptr_t at = from, next; at < to; at = next) {
        next = (at / OS_PAGE + 1) * OS_PAGE;
        if (next > to) next = to;
        uintptr_t page = at / OS_PAGE - first;
        if (v->present[page / 64] >> page % 64 & 1) each(at, next, user);
    }
}

/* ---- the verdict ---- */

/* Who frees a block takes its old bit away first, so a lost bit that came too late is seen here by that. */
static void enter_lost(struct arena_page *page, unsigned k, uint64_t white)
{
    uint64_t was = atomic_load_explicit(&page->lost[k], memory_order_relaxed);
    uint64_t lost = white & atomic_load(&page->start[k]) & atomic_load(&page->old[k]);
    if (was & ~lost) atomic_fetch_and(&page->lost[k], lost);
    if ((lost & ~was) == 0) return;
    atomic_fetch_or(&page->lost[k], lost);
    uint64_t late = lost & ~atomic_load(&page->old[k]);
    if (late) atomic_fetch_and(&page->lost[k], ~late);
}

void pieces_apply(const struct pieces *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct view *v = &p->view[i];
        struct arena *a = arena_by_number(v->number);
        if (v->base == v->end || atomic_load(&a->bytes) == 0 || a->base != v->base) continue;
        for (size_t w = 0; w < v->pages * ARENA_WORDS; w++) {
            /* What is not old was announced since the cut. */
            enter_lost(&a->pages[w / ARENA_WORDS], w % ARENA_WORDS, v->white[w]);
        }
    }
}
