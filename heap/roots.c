/* roots.c: finding the roots.

   1. Data.  A mapping's use (enum use) follows from what it is.  `leave_out` holds all that is no root wherever it lies:
      memory of ours, and the parts of stacks that are not in use.  The window is left out by its bounds.
   2. Private memory is asked for in stretches of neighbouring mappings, holes between them included: with 65,000
      mappings a system call each would take longer than all the rest.  What is found is cut to the mappings again,
      since a hole may by now hold memory of the collector.
   3. Shared memory changes under a snapshot, so it is scanned in the pause, up to a bound; then unnamed memory comes
      before files.  A fork does not copy its page tables, so the child asks mincore for it, which also knows
      pages that were taken out of the page tables (by khugepaged, MADV_DONTNEED, or another mapping's end).  Not so
      in the pause: such a page would have to be faulted in, and userfaultfd may leave that to a thread that is stopped.
   4. In the window, private readable memory where the heap may have mapped some is the heap's.  Anything else there is the program's doing (mprotect of
      a block's pages, MAP_FIXED): it is scanned like memory outside, and the marker must keep off it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/roots.h"
#include "heap/arenas_mark.h"
#include "heap/grow.h"
#include "heap/print.h"
#include "heap/registers.h"
#include "heap/stacks.h"
#include "heap/syscall.h"
#include "heap/window.h"

#include <fcntl.h>
#include <sys/stat.h>

#define FIRST_ROOTS 4096
#define MOST_BY_MINCORE (64 * GIB)

enum use {
    USE_UNKNOWN, /* not looked at yet */
    USE_NONE,
    USE_HEAP,    /* ours, in the window */
    USE_PRIVATE, /* without a file */
    USE_COPIED,  /* private, of a file */
    USE_SHARED,
    USE_FILE, /* shared, of a regular file */
    USE_RING
};

struct finder {
    struct roots *to;
    const struct cut *cut;
    const struct roots_options *options;
    struct present present;
    struct ranges leave_out, stacks, unfrozen;
    /* Of the pass under way: */
    enum use use;
    enum root_kind kind;
    bool in_window;          /* what it finds there counts, too */
    bool by_file;            /* for emit */
    bool in_part;            /* a look need not see all */
    uint64_t budget;         /* bytes left to find */
    struct cut_range bounds; /* what is looked for; pages may stick out */
    size_t at;               /* the first mapping that may still be met */
};

static bool starts_in_window(uintptr_t address)
{
    return window_holds((const void *)address);
}

static bool lies_in_window(const struct map *m)
{
    return starts_in_window(m->from) && starts_in_window(m->to - 1);
}

/* A shared mapping that is not writable now may have been: what its file was opened for tells.  That is what the link
   in map_files shows (fs/proc/base.c, proc_map_files_instantiate), to everybody. */
static bool was_writable(const struct map *m)
{
    char path[80];
    struct stat st;
    print_to(path, sizeof path, "/proc/self/map_files/%lx-%lx", (unsigned long)m->from,
             (unsigned long)m->to);
    if (raw_syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return m->kind == MAP_KIND_ANONYMOUS;
    }
    return st.st_mode & S_IWUSR;
}

static enum use use_of(const struct map *m)
{
    if (m->kind == MAP_KIND_DEVICE || m->kind == MAP_KIND_KERNEL) return USE_NONE;
    if (m->kind == MAP_KIND_RING) return USE_RING;
    if (!m->shared) {
        /* Of a private mapping of a memfd the pages that were not copied are memory of this process, too. */
        if (m->kind == MAP_KIND_ANONYMOUS && m->cut_short) return window_is_sealed && lies_in_window(m) && window_is_sealed(m->from, m->to) ? USE_HEAP : USE_SHARED;
        if (m->kind == MAP_KIND_FILE) return USE_COPIED;
        bool in_window = m->kind == MAP_KIND_ANONYMOUS && m->readable && lies_in_window(m);
        return in_window && (!window_is_used || window_is_used(m->from, m->to)) ? USE_HEAP : USE_PRIVATE;
    }
    if (!m->writable && !was_writable(m)) return USE_NONE;
    return m->kind == MAP_KIND_FILE ? USE_FILE : USE_SHARED;
}

static void classify(struct maps *maps)
{
    for (size_t i = 0; i < maps->count; i++) {
        struct map *m = &maps->map[i];
        if (m->use == USE_UNKNOWN) m->use = (uint8_t)use_of(m);
    }
}

static void add_root(struct roots *r, uintptr_t from, uintptr_t to, enum root_kind kind,
                     bool by_file)
{
    from = round_up(from, sizeof(uintptr_t));
    to &= ~(sizeof(uintptr_t) - 1);
    if (from >= to) return;
    r->bytes += to - from;
    struct root *last = r->count ? &r->root[r->count - 1] : NULL;
    if (last && last->to == from && last->kind == kind && last->by_file == by_file) {
        last->to = to;
        return;
    }
    if (r->count == r->room) {
        struct root *more = grow(r->root, r->count, &r->room, sizeof *r->root, FIRST_ROOTS);
        if (!more) {
            roots_lack_memory(r);
            return;
        }
        r->root = more;
    }
    r->root[r->count++] = (struct root){from, to, (uint8_t)kind, by_file};
}

/* A part that is left in: its stacks are told apart. */
static void add_part(uintptr_t from, uintptr_t to, void *user)
{
    struct finder *f = user;
    const struct ranges *stacks = &f->stacks;
    const struct cut_range *stack = f->kind == ROOT_PRIVATE ? ranges_from(stacks, from) : NULL;
    for (; stack && stack < stacks->range + stacks->count && stack->from < to; stack++) {
        uintptr_t begins = stack->from > from ? stack->from : from,
                  ends = stack->to < to ? stack->to : to;
        add_root(f->to, from, begins, f->kind, f->by_file);
        add_root(f->to, begins, ends, ROOT_STACK, f->by_file);
        from = ends;
    }
    add_root(f->to, from, to, f->kind, f->by_file);
}

static void emit(struct finder *f, uintptr_t from, uintptr_t to)
{
    uintptr_t low = window_base, high = window_base + WINDOW_BYTES;
    if (f->in_window || low == 0 || to <= low || from >= high) {
        ranges_each_gap(&f->leave_out, from, to, add_part, f);
        return;
    }
    if (from < low) ranges_each_gap(&f->leave_out, from, low, add_part, f);
    if (to > high) ranges_each_gap(&f->leave_out, high, to, add_part, f);
}

/* A run of present pages of mappings of one use, and of what lies between them. */
static void found(uintptr_t from, uintptr_t to, void *user)
{
    struct finder *f = user;
    const struct maps *maps = &f->to->maps;
    if (from < f->bounds.from) from = f->bounds.from;
    if (to > f->bounds.to) to = f->bounds.to;
    while (f->at < maps->count && maps->map[f->at].to <= from) f->at++;
    for (size_t i = f->at; i < maps->count && maps->map[i].from < to; i++) {
        const struct map *m = &maps->map[i];
        if (m->use != f->use) continue;
        uintptr_t begins = m->from > from ? m->from : from, ends = m->to < to ? m->to : to;
        if (ends - begins > f->budget) ends = begins + f->budget;
        f->budget -= ends - begins;
        f->by_file = !m->readable || m->cut_short || f->present.absent;
        emit(f, begins, ends);
    }
}

static void look(struct finder *f, uintptr_t from, uintptr_t to, enum present_what what)
{
    f->at = maps_from(&f->to->maps, from);
    f->bounds = (struct cut_range){from, to};
    if (!present_each(&f->present, from, to, what, found, f) && !f->in_part) f->to->complete = false;
}

static void pass(struct finder *f, enum use use, enum root_kind kind)
{
    f->use = use;
    f->kind = kind;
    f->in_window = false;
}

/* May mapping `next` be asked for together with `last`?  One way passes over holes, one reads 8 bytes for each page,
   one stops at them; what is mapped between the two takes its time, but less than a system call if it is little.  Not
   so where copies must be told (present.h). */
static bool are_neighbours(const struct finder *f, const struct map *last, const struct map *next,
                           size_t between)
{
    if (next->use != f->use || lies_in_window(next)) return false;
    if (between > (f->use == USE_PRIVATE ? MIB : 0)) return false;
    if (f->present.way == PRESENT_SCAN) return true;
    return next->from - last->to <= (f->present.way == PRESENT_PAGEMAP ? MIB : 0);
}

static void find_private(struct finder *f, enum use use, enum present_what what)
{
    const struct maps *maps = &f->to->maps;
    pass(f, use, ROOT_PRIVATE);
    for (size_t i = 0, next; i < maps->count; i = next) {
        const struct map *first = &maps->map[i], *last = first;
        next = i + 1;
        if (first->use != use) continue;
        f->in_window = lies_in_window(first);
        size_t between = 0;
        for (size_t k = next; k < maps->count && between <= MIB && !f->in_window; k++) {
            const struct map *m = &maps->map[k];
            if (m->use != use) {
                between += m->to - m->from;
            } else if (are_neighbours(f, last, m, between)) {
                last = m;
                next = k + 1;
                between = 0;
            } else {
                break;
            }
        }
        look(f, first->from, last->to, what);
    }
}

/* Each mapping of a use by itself, while the budget lasts. */
static void find_each(struct finder *f, enum use use, uint64_t most_bytes)
{
    const struct maps *maps = &f->to->maps;
    pass(f, use, ROOT_SHARED);
    for (size_t i = 0; i < maps->count && f->budget > 0; i++) {
        const struct map *m = &maps->map[i];
        if (m->use != use || m->to - m->from > most_bytes) continue;
        f->in_window = lies_in_window(m);
        look(f, m->from, m->to, PRESENT_ALL);
    }
}

/* All pages of a ring are there from its start on, though page tables may not show it (VM_PFNMAP). */
static void find_rings(struct finder *f)
{
    pass(f, USE_RING, ROOT_SHARED);
    f->by_file = false;
    for (size_t i = 0; i < f->to->maps.count; i++) {
        const struct map *m = &f->to->maps.map[i];
        if (m->use == USE_RING && m->readable) emit(f, m->from, m->to);
    }
}

static void find_shared(struct finder *f)
{
    f->budget = f->options->part == ROOTS_ALL ? UINT64_MAX : f->options->shared_most;
    find_each(f, USE_SHARED, UINT64_MAX);
    find_each(f, USE_FILE, UINT64_MAX);
    f->budget = UINT64_MAX;
    find_rings(f);
}

/* In the child. */
static void find_rest_of_shared(struct finder *f)
{
    uint64_t mapped = 0;
    for (size_t i = 0; i < f->to->maps.count; i++) {
        const struct map *m = &f->to->maps.map[i];
        if (m->use == USE_SHARED || m->use == USE_FILE) mapped += m->to - m->from;
    }
    bool more = mapped > f->options->shared_most;
    struct present by_tables = f->present;
    present_start(&f->present, PRESENT_MINCORE);
    if (more && f->present.way == PRESENT_NONE) f->to->complete = false;
    f->in_part = true; /* that mincore does not see what is swapped out of private memory is no matter here */
    find_each(f, USE_SHARED, MOST_BY_MINCORE);
    if (more) find_each(f, USE_FILE, MOST_BY_MINCORE);
    f->in_part = false;
    present_end(&f->present);
    f->present = by_tables;
}

/* Calls look for every mapping in a range, cut to it, that `wanted` picks. */
static void look_within(struct finder *f, struct cut_range r,
                        bool (*wanted)(const struct finder *, const struct map *),
                        enum root_kind kind)
{
    const struct maps *maps = &f->to->maps;
    for (size_t i = maps_from(maps, r.from); i < maps->count && maps->map[i].from < r.to; i++) {
        const struct map *m = &maps->map[i];
        if (!wanted(f, m)) continue;
        pass(f, m->use, kind);
        f->in_window = lies_in_window(m);
        enum present_what what =
            kind == ROOT_PRIVATE && m->use == USE_COPIED ? PRESENT_COPIED : PRESENT_ALL;
        look(f, m->from > r.from ? m->from : r.from, m->to < r.to ? m->to : r.to, what);
    }
}

static bool is_private(const struct finder *f, const struct map *m)
{
    return m->use == USE_PRIVATE || m->use == USE_COPIED || m->use == USE_HEAP;
}

/* Private memory that the child will not have. */
static void find_unfrozen(struct finder *f)
{
    for (size_t i = 0; i < f->unfrozen.count; i++) {
        look_within(f, f->unfrozen.range[i], is_private, ROOT_PRIVATE);
    }
}

static bool is_of_part(const struct finder *f, bool frozen)
{
    return f->options->part == ROOTS_ALL || frozen == (f->options->part == ROOTS_FROZEN);
}

/* What would be left: blocks, and pages of files that are only read.  A fork does not copy the page tables of the latter, so that none
   of them would be present in a snapshot child: they belong to the pause. */
static bool is_for_name(const struct finder *f, const struct map *m)
{
    if (m->kind == MAP_KIND_FILE) return f->options->part != ROOTS_FROZEN;
    return m->use == USE_HEAP && is_of_part(f, !m->shared);
}

static void find_named(struct finder *f)
{
    for (size_t i = 0; i < f->cut->n_root; i++) {
        look_within(f, f->cut->root[i], is_for_name, ROOT_NAMED);
    }
}

static void add_registers(const uintptr_t *from, const uintptr_t *to, void *user)
{
    add_root(user, (uintptr_t)from, (uintptr_t)to, ROOT_REGISTERS, false);
}

/* A signal frame lies in the thread's stack, which may be anywhere. */
static void find_registers(struct finder *f)
{
    for (size_t i = 0; i < f->cut->threads; i++) {
        const void *context = f->cut->thread[i].context;
        uintptr_t at = (uintptr_t)context;
        if (!context) continue;
        const struct map *m = maps_find(&f->to->maps, at);
        bool frozen = !(m && (m->use == USE_SHARED || m->use == USE_FILE)) &&
                      !ranges_meet(&f->unfrozen, at, at + 1);
        if (is_of_part(f, frozen)) registers_each(context, add_registers, f->to);
    }
}

static void find_blind(struct finder *f)
{
    struct ranges *blind = &f->to->blind;
    for (size_t i = 0; i < f->to->maps.count; i++) {
        const struct map *m = &f->to->maps.map[i];
        if (m->use != USE_HEAP && lies_in_window(m)) ranges_add(blind, m->from, m->to);
    }
    for (size_t i = 0; f->options->part == ROOTS_FROZEN && i < f->unfrozen.count; i++) {
        const struct cut_range *r = &f->unfrozen.range[i];
        if (starts_in_window(r->from) || starts_in_window(r->to - 1))
            ranges_add(blind, r->from, r->to);
    }
    ranges_settle(blind);
}

static void leave_array_out(struct finder *f, const void *array, size_t bytes)
{
    ranges_add(&f->leave_out, (uintptr_t)array, (uintptr_t)array + bytes);
}

static void prepare(struct finder *f)
{
    const struct cut *c = f->cut;
    const struct roots_options *o = f->options;
    stacks_find(c, &f->to->maps, &f->stacks, &f->leave_out);
    for (size_t i = 0; i < c->n_ours; i++)
        ranges_add(&f->leave_out, c->ours[i].from, c->ours[i].to);
    leave_array_out(f, c->thread, c->threads * sizeof *c->thread);
    leave_array_out(f, c->word, c->words * sizeof *c->word);
    if (c->word_at) leave_array_out(f, c->word_at, c->words * sizeof *c->word_at);
    leave_array_out(f, c->ours, c->n_ours * sizeof *c->ours);
    leave_array_out(f, c->root, c->n_root * sizeof *c->root);
    leave_array_out(f, o->unfrozen, o->n_unfrozen * sizeof *o->unfrozen);
    for (size_t i = 0; i < o->n_unfrozen; i++) {
        const struct cut_range *u = &o->unfrozen[i];
        ranges_add(&f->unfrozen, u->from, u->to);
        /* The hole that such a mapping has left in the child may hold memory that the collector maps and unmaps. */
        if (o->part == ROOTS_FROZEN) ranges_add(&f->leave_out, u->from, u->to);
    }
    ranges_settle(&f->unfrozen);
    if (o->pieces) pieces_leave_out(o->pieces, &f->to->maps, &f->unfrozen, &f->leave_out);
    ranges_settle(&f->leave_out);
    classify(&f->to->maps);
    present_start(&f->present, o->at_best);
}

static void finish(struct finder *f)
{
    struct roots *r = f->to;
    present_end(&f->present);
    if (f->leave_out.incomplete || f->stacks.incomplete || f->unfrozen.incomplete ||
        r->blind.incomplete) {
        roots_lack_memory(r); /* nothing else makes a set of ranges incomplete */
    }
    ranges_free(&f->leave_out);
    ranges_free(&f->stacks);
    ranges_free(&f->unfrozen);
}

void roots_find(struct roots *to, const struct cut *cut, const struct roots_options *options)
{
    *to = (struct roots){.complete = true};
    struct finder f = {.to = to, .cut = cut, .options = options, .budget = UINT64_MAX};
    if (options->maps) {
        to->maps = *options->maps;
        to->maps_lent = true;
    } else if (!maps_read(&to->maps, "/proc/thread-self/maps") &&
               !maps_read(&to->maps, "/proc/self/maps")) {
        to->no_memory = to->maps.no_memory;
        to->complete = false;
        return;
    }
    prepare(&f);
    if (options->part != ROOTS_SHARED) {
        uintptr_t words = (uintptr_t)cut->word;
        add_root(to, words, words + cut->words * sizeof *cut->word, ROOT_KERNEL, false);
        find_private(&f, USE_PRIVATE, PRESENT_ANONYMOUS);
        find_private(&f, USE_COPIED, PRESENT_COPIED);
    }
    if (options->part == ROOTS_FROZEN) {
        find_rest_of_shared(&f);
    } else {
        find_shared(&f);
    }
    if (options->part == ROOTS_SHARED) find_unfrozen(&f);
    find_named(&f);
    find_registers(&f);
    find_blind(&f);
    finish(&f);
}

void roots_free(struct roots *r)
{
    grow_free(r->root, r->room, sizeof *r->root);
    if (!r->maps_lent) maps_free(&r->maps);
    ranges_free(&r->blind);
    *r = (struct roots){0};
}
