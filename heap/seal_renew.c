/* seal_renew.c: seals are made and dissolved: see seal.h.

   Each step lies in a pause of its own, and ends after some MiB.  Dissolving goes from the table's end, sealing by ascending address, so that the
   table is sorted at all times.  What is not as it was left (the program has mapped something else there, or changed the protection) is let alone:
   the mappings are read anew at each step.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/lost_records.h"
#include "heap/maps.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/remember_track.h"
#include "heap/seal_table.h"
#include "heap/sort.h"
#include "heap/syscall.h"
#include "heap/syscall_filter.h"
#include "heap/window.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define STEP_PAGES 1024u /* 4 MiB, */
#define STEP_CALLS 128u  /* or so many mappings */
#define COPIED 64u       /* pages at once */
#define MAPS_MOST 16384u /* mappings of the process, a quarter of what it may have, beyond which nothing is sealed (HAZARDS H57) */

/* Pages that one quarantined block fills, or several beside each other do. */
struct wish {
    uintptr_t from, to;
    uint32_t record; /* of a large block; 0: slots */
    bool holes;      /* pages that it has are not sealed */
};

static struct wish *wish;
static size_t wishes, next_wish, wish_bytes;
static bool dissolved; /* the old seals: the new ones come */
static bool refused;   /* for good: it cannot be done here */
static char *copy;     /* COPIED pages */

struct step {
    struct present *present;
    struct maps maps;
    uint32_t pages, calls; /* left */
    int file;              /* -1: none yet */
    uint64_t at;           /* in the file */
    bool stuck, checked;
};

/* ---- the plan ---- */

static bool lower(const void *a, const void *b) { return ((const struct wish *)a)->from < ((const struct wish *)b)->from; }

static bool is_quarantined(uint32_t n)
{
    uint64_t block = atomic_load(&lost_record_at(n)->block);
    return block != 0 && !(block & LOST_MARKS) && lost_trial_at(n) && lost_trial_at(n)->stage == LOST_QUARANTINED;
}

/* Joins neighbours, and keeps whole pages. */
static void settle(void)
{
    size_t kept = 0;
    sort_in_place(wish, wishes, sizeof *wish, lower);
    for (size_t i = 0, end; i < wishes; i = end) {
        struct wish w = wish[i];
        for (end = i + 1; end < wishes && !w.record && !wish[end].record && wish[end].from == w.to; end++) w.to = wish[end].to;
        w.from = round_up(w.from, OS_PAGE);
        w.to &= ~(OS_PAGE - 1);
        if (w.from < w.to) wish[kept++] = w;
    }
    wishes = kept;
}

bool seal_plan(bool make)
{
    size_t most = 0;
    if (!seal_table) return false;
    seal_plan_end(); /* a child that was forked between two pauses has its parent's */
    dissolved = false;
    if (!copy) copy = meta_alloc(COPIED * OS_PAGE);
    if (!copy) refused = true;
    for (uint32_t n = 1; n < lost_records_end(); n++) most += is_quarantined(n);
    if (!make || refused || most == 0) return seal_any();
    wish_bytes = round_up(most * sizeof *wish, OS_PAGE);
    wish = os_map(wish_bytes);
    if (!wish) return seal_any();
    for (uint32_t n = 1; n < lost_records_end() && wishes < most; n++) {
        if (!is_quarantined(n)) continue;
        const struct lost_record *r = lost_record_at(n);
        uintptr_t block = atomic_load(&r->block);
        lost_trial_at(n)->sealed = true;
        wish[wishes++] = (struct wish){block, block + r->given, r->class == HEAP_CLASS_LARGE ? n : 0, false};
    }
    settle();
    return wishes > 0 || seal_any();
}

void seal_plan_end(void)
{
    if (wish) os_unmap(wish, wish_bytes);
    wish = NULL;
    wishes = next_wish = 0;
}

/* ---- dissolving ---- */

static bool is_ours(const struct map *m) { return m && m->kind == MAP_KIND_ANONYMOUS && m->cut_short && !m->shared; }

static void note_there(uintptr_t from, uintptr_t to, void *user)
{
    uint64_t *there = user; /* the first address, bits */
    for (; from < to; from += OS_PAGE) there[1] |= (uint64_t)1 << (from - there[0]) / OS_PAGE;
}

static bool make_plain(uintptr_t from, uintptr_t to)
{
    bool done = seal_make_plain(from, to);
    if (done) track_join(from, to);
    return done;
}

/* Up to COPIED pages of one of our mappings.  `empty`: nobody wants what they hold. */
static bool restore(struct step *s, const struct map *m, uintptr_t from, uintptr_t to, bool empty)
{
    s->calls -= s->calls > 0;
    if (empty) return make_plain(from, to);
    if (!(m->readable && m->writable) && raw_syscall(SYS_mprotect, from, to - from, PROT_READ | PROT_WRITE) != 0) return false;
    __builtin_memcpy(copy, (const void *)from, to - from);
    bool done = make_plain(from, to);
    if (done) __builtin_memcpy((void *)from, copy, to - from);
    int protection = (m->readable ? PROT_READ : 0) | (m->writable ? PROT_WRITE : 0) | (m->executable ? PROT_EXEC : 0);
    if (protection != (PROT_READ | PROT_WRITE)) raw_syscall(SYS_mprotect, from, to - from, protection);
    return done;
}

/* The last pages of the last range. */
static bool dissolve_some(struct step *s, struct seal_range *r)
{
    uintptr_t to = r->to, from = to - r->from > COPIED * OS_PAGE ? to - COPIED * OS_PAGE : (uintptr_t)r->from;
    uint64_t there[2] = {from, 0};
    if (!present_each(s->present, from, to, PRESENT_ALL, note_there, there)) there[1] = ~(uint64_t)0;
    for (uintptr_t at = from, end; at < to; at = end) {
        const struct map *m = maps_find(&s->maps, at);
        bool empty = false, first = true;
        for (end = at; end < to && (!m || end < m->to); end += OS_PAGE, first = false) {
            size_t page = r->first + (end - r->from) / OS_PAGE;
            bool is = !(there[1] >> (end - from) / OS_PAGE & 1) && seal_table->returned[page] == OS_PAGE;
            if (!m && maps_find(&s->maps, end)) break;
            if (first) empty = is;
            if (is != empty) break;
        }
        if (is_ours(m) && !restore(s, m, at, end, empty)) return false;
    }
    for (uintptr_t at = from; at < to; at += OS_PAGE) {
        uint32_t page = r->first + (uint32_t)((at - r->from) / OS_PAGE);
        seal_table->broken[page / 64] &= ~((uint64_t)1 << page % 64);
        seal_table->returned[page] = 0;
    }
    uint32_t pages = (uint32_t)((to - from) / OS_PAGE);
    seal_table->pages -= pages;
    s->pages -= pages < s->pages ? pages : s->pages;
    r->to = from;
    if (r->from == from) seal_table->count--;
    return true;
}

/* ---- sealing ---- */

static bool may_seal(void)
{
    struct rlimit size = {0, 0};
    if (refused) return false;
    if (syscall_filter_is_on() || raw_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &size) != 0 || size.rlim_cur != RLIM_INFINITY)
        refused = true; /* a write past the limit raises SIGXFSZ */
    return !refused;
}

static bool open_file(struct step *s)
{
    if (s->file >= 0) return true;
    if (!may_seal()) return false;
    s->file = (int)raw_syscall(SYS_memfd_create, "gleaner-sealed", MFD_CLOEXEC);
    refused = s->file < 0;
    return !refused;
}

struct came {
    const struct present *present;
    bool any;
};

static void note_came(uintptr_t from, uintptr_t to, void *user)
{
    struct came *came = user;
    came->any |= !came->present->absent;
}

/* Pages of one plain mapping that the process has.  They come to lie in the page cache without an entry in its page tables; unless its memory
   is locked (mlockall), which nothing can be told of then. */
static bool seal(struct step *s, uintptr_t from, uintptr_t to)
{
    size_t bytes = to - from;
    if (seal_table->count == SEAL_RANGES || s->maps.count > MAPS_MOST || !open_file(s)) return false;
    if (raw_syscall(SYS_pwrite64, s->file, from, bytes, s->at) != (long)bytes) return false;
    if (raw_syscall(SYS_mmap, from, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, s->file, s->at) != (long)from) return false;
    raw_syscall(SYS_madvise, from, bytes, MADV_NOHUGEPAGE);
    s->at += bytes;
    s->calls--;
    s->pages -= (uint32_t)(bytes / OS_PAGE);
    struct seal_range *r = &seal_table->range[seal_table->count];
    *r = (struct seal_range){from, to, seal_table->pages};
    seal_table->pages += (uint32_t)(bytes / OS_PAGE);
    seal_table->count++;
    atomic_fetch_add(&seal_count, bytes / OS_PAGE);
    struct came came = {s->present, false};
    if (!s->checked) present_each(s->present, from, to, PRESENT_ALL, note_came, &came);
    s->checked = true;
    refused = came.any;
    return !refused;
}

struct sealing {
    struct step *step;
    struct wish *wish;
    uintptr_t reached; /* all before is sealed, or is not to be */
};

static bool has_room(const struct step *s) { return !s->stuck && s->pages > 0 && s->calls > 0 && seal_table->pages < SEAL_PAGES; }

static void seal_run(uintptr_t from, uintptr_t to, void *user)
{
    struct sealing *g = user;
    struct step *s = g->step;
    bool absent = s->present->absent;
    if (g->reached & 1) return;
    while (from < to && has_room(s)) {
        const struct map *m = maps_find(&s->maps, from);
        uintptr_t end = m && m->to < to ? m->to : to;
        size_t most = SEAL_PAGES - seal_table->pages < s->pages ? SEAL_PAGES - seal_table->pages : s->pages;
        if (end - from > most * OS_PAGE) end = from + most * OS_PAGE;
        bool plain = m && m->kind == MAP_KIND_ANONYMOUS && !m->cut_short && !m->shared && m->readable && m->writable && !m->executable;
        if (absent || !plain || seal_is_locked(from)) g->wish->holes = true;
        else s->stuck = !seal(s, from, end);
        if (!s->stuck) g->reached = from = end;
    }
    if (from < to) g->reached = from | 1; /* the runs that follow wait, too */
}

/* True: no more of it. */
static bool seal_wish(struct step *s, struct wish *w)
{
    struct sealing g = {s, w, w->from};
    if (!present_each(s->present, w->from, w->to, PRESENT_ALL, seal_run, &g)) s->stuck = true;
    if (g.reached & 1) {
        w->from = g.reached & ~(uintptr_t)1;
        return false;
    }
    struct lost_trial *t = w->record && is_quarantined(w->record) ? lost_trial_at(w->record) : NULL;
    if (t) t->sealed_whole = !w->holes && !s->stuck;
    return true;
}

static bool more_is_to_dissolve(void)
{
    if (seal_table->count == 0) dissolved = true;
    return !dissolved;
}

bool seal_renew(struct present *p)
{
    struct step s = {.present = p, .pages = STEP_PAGES, .calls = STEP_CALLS, .file = -1};
    if (!seal_table || p->page != OS_PAGE || !maps_read(&s.maps, "/proc/thread-self/maps")) return false;
    if (p->way > PRESENT_PAGEMAP) next_wish = wishes; /* it has become so: pages are taken for touched, and none is sealed any more */
    while (more_is_to_dissolve() && s.pages > 0 && s.calls > 0 && !s.stuck)
        s.stuck = !dissolve_some(&s, &seal_table->range[seal_table->count - 1]);
    while (dissolved && next_wish < wishes && has_room(&s) && seal_wish(&s, &wish[next_wish])) next_wish++;
    atomic_fetch_add(&seal_table->changes, 1);
    maps_free(&s.maps);
    if (s.file >= 0) raw_syscall(SYS_close, s.file);
    return !s.stuck && (!dissolved || (next_wish < wishes && seal_table->pages < SEAL_PAGES && seal_table->count < SEAL_RANGES));
}
