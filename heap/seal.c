/* seal.c: see seal.h.  The table, and what is read from it; seal_renew.c changes it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/seal.h"
#include "heap/huge.h"
#include "heap/lost_record.h"
#include "heap/lost_records.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/seal_table.h"
#include "heap/syscall.h"
#include "heap/window.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif
#define PIECE 512 /* bytes read at once where the program may have taken the access away */

struct seal_table *seal_table;
_Atomic uint64_t seal_count;
static bool doubtful;

bool seal_start(void)
{
    if (!seal_table) seal_table = meta_alloc(sizeof *seal_table);
    if (seal_table) window_is_sealed = seal_covers;
    return seal_table != NULL;
}

bool seal_any(void) { return seal_table && atomic_load_explicit(&seal_table->count, memory_order_relaxed) != 0; }
void seal_doubt(void) { doubtful = true; }

bool seal_is_doubtful(void)
{
    if (!seal_any()) doubtful = false;
    return doubtful;
}

/* ---- looking up ---- */

uint32_t seal_from(uintptr_t address)
{
    uint32_t low = 0, high = atomic_load(&seal_table->count);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (atomic_load(&seal_table->range[middle].to) > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

bool seal_meets(uintptr_t from, size_t bytes)
{
    uint32_t changes;
    bool meets;
    if (likely(!seal_any())) return false;
    do {
        changes = atomic_load(&seal_table->changes);
        uint32_t i = seal_from(from);
        meets = i < atomic_load(&seal_table->count) && atomic_load(&seal_table->range[i].from) < from + bytes;
    } while (atomic_load(&seal_table->changes) != changes);
    return meets;
}

bool seal_covers(uintptr_t from, uintptr_t to)
{
    if (!seal_any()) return false;
    for (uint32_t i = seal_from(from); from < to; i++) {
        if (i >= atomic_load(&seal_table->count) || atomic_load(&seal_table->range[i].from) > from) return false;
        from = atomic_load(&seal_table->range[i].to);
    }
    return true;
}

bool seal_make_plain(uintptr_t from, uintptr_t to)
{
    if (!os_replace((void *)from, to - from)) return false;
    /* As long as it is empty, so that it becomes one mapping with its neighbours again. */
    if (huge_is_preferred(from)) os_prefer_huge((void *)from, to - from);
    return true;
}

/* Plain memory for sealed pages; the seal itself is taken out of the table when the world stops next. */
static void replace(uintptr_t from, uintptr_t to)
{
    if (!seal_make_plain(from, to)) __builtin_memset((void *)from, 0, to - from); /* too many mappings: zeroed copies, then */
}

void seal_discard(void *address, size_t bytes)
{
    uintptr_t from = (uintptr_t)address, end = from + bytes;
    os_discard(address, bytes);
    if (likely(!seal_any())) return;
    uint32_t changes;
    do {
        changes = atomic_load(&seal_table->changes);
        for (uint32_t i = seal_from(from); i < atomic_load(&seal_table->count); i++) {
            uintptr_t a = atomic_load(&seal_table->range[i].from), b = atomic_load(&seal_table->range[i].to);
            if (a >= end || atomic_load(&seal_table->changes) != changes) break;
            if (a < from) a = from;
            if (b > end) b = end;
            if (a < b) replace(a, b);
        }
    } while (atomic_load(&seal_table->changes) != changes);
}

void seal_break(uintptr_t block, size_t bytes)
{
    uintptr_t from = round_up(block, OS_PAGE), to = (block + bytes) & ~(OS_PAGE - 1);
    if (from < to && seal_meets(from, to - from)) seal_discard((void *)from, to - from);
}

void seal_figures(struct seal_figures *f)
{
    *f = (struct seal_figures){.sealed = atomic_load(&seal_count)};
    for (uint32_t i = 0; seal_any() && i < atomic_load(&seal_table->count); i++)
        f->bytes += atomic_load(&seal_table->range[i].to) - atomic_load(&seal_table->range[i].from);
}

/* ---- looking at the pages ---- */

struct look {
    struct present *present;
    const struct seal_range *range;
    bool broken;
};

static void note_broken(uintptr_t from, uintptr_t to, void *user)
{
    struct look *l = user;
    if (l->present->absent) return; /* swapped, or marked by a tracker: no access has brought it in */
    for (; from < to; from += OS_PAGE) {
        uint32_t page = l->range->first + (uint32_t)((from - l->range->from) / OS_PAGE);
        seal_table->broken[page / 64] |= (uint64_t)1 << page % 64;
        l->broken = true;
    }
}

/* This advice is refused for locked memory. */
bool seal_is_locked(uintptr_t from)
{
    return raw_syscall(SYS_madvise, from, OS_PAGE, MADV_COLD) != 0;
}

/* Of a large block all pages of which were sealed: has it others now that are not empty? */
struct rest {
    struct present *present;
    bool written;
};

/* False also for a page that cannot be read. */
static bool is_empty(uintptr_t page)
{
    uintptr_t words[PIECE / sizeof(uintptr_t)], any = 0;
    for (uintptr_t at = page; at < page + OS_PAGE && !any; at += PIECE) {
        if (os_read_own(words, at, PIECE) != PIECE) return false;
        for (unsigned i = 0; i < PIECE / sizeof *words; i++) any |= words[i];
    }
    return !any;
}

static void look_at_rest(uintptr_t from, uintptr_t to, void *user)
{
    struct rest *rest = user;
    if (rest->present->absent) return;
    for (; from < to; from += OS_PAGE) {
        uint32_t i = seal_from(from);
        if (i < seal_table->count && seal_table->range[i].from <= from) continue;
        rest->written |= !is_empty(from);
    }
}

static void look_at_large(struct present *p)
{
    for (uint32_t n = 1; n < lost_records_end(); n++) {
        const struct lost_record *r = lost_record_at(n);
        struct lost_trial *t = lost_trial_at(n);
        uint64_t block = atomic_load(&r->block);
        if (!t || !t->sealed_whole || block == 0 || block & LOST_MARKS) continue;
        struct rest rest = {.present = p};
        if (!present_each(p, block, block + r->given, PRESENT_ALL, look_at_rest, &rest)) doubtful = true;
        t->changed = rest.written;
    }
}

void seal_look(enum present_way at_best)
{
    struct present present;
    if (!seal_any()) return;
    present_start(&present, at_best);
    bool tells = present.way <= PRESENT_PAGEMAP;
    if (!tells) doubtful = true;
    for (uint32_t i = 0; tells && i < seal_table->count; i++) {
        const struct seal_range *r = &seal_table->range[i];
        struct look look = {.present = &present, .range = r};
        if (!present_each(&present, r->from, r->to, PRESENT_ALL, note_broken, &look)) doubtful = true;
        if (look.broken && seal_is_locked(r->from)) doubtful = true; /* mlockall brings all pages in, which is no access to any */
    }
    if (tells) look_at_large(&present);
    present_end(&present);
}

/* Not by loads: the program may have taken the access away. */
void seal_lift(void)
{
    for (uint32_t i = 0; seal_any() && i < seal_table->count; i++) {
        uintptr_t from = seal_table->range[i].from, end = seal_table->range[i].to;
        if (raw_syscall(SYS_madvise, from, end - from, MADV_POPULATE_READ) == 0) continue;
        for (uintptr_t at = from; at < end; at += OS_PAGE) {
            char byte;
            os_read_own(&byte, at, 1);
        }
    }
}

struct lowering {
    const struct seal_range *range;
    uintptr_t at;
};

/* Up to there no page is a copy of the process's own. */
static void lower_to(struct lowering *l, uintptr_t end)
{
    for (uintptr_t next; l->at < end; l->at = next) {
        uint32_t page = l->range->first + (uint32_t)((l->at - l->range->from) / OS_PAGE);
        bool broken = seal_is_broken(page);
        for (next = l->at; next < end && seal_is_broken(page) == broken; next += OS_PAGE) page++;
        if (!broken) os_discard((void *)l->at, next - l->at);
    }
}

static void lower_before(uintptr_t from, uintptr_t to, void *user)
{
    struct lowering *l = user;
    lower_to(l, from);
    l->at = to;
}

/* What was written holds all there is of it, also where seal_look could not see that (it was swapped out, or pagemap cannot be read any more). */
void seal_lower(enum present_way at_best)
{
    struct present present;
    if (!seal_any()) return;
    present_start(&present, at_best);
    for (uint32_t i = 0; present.way <= PRESENT_PAGEMAP && i < seal_table->count; i++) {
        struct lowering l = {&seal_table->range[i], seal_table->range[i].from};
        if (present_each(&present, l.at, l.range->to, PRESENT_COPIED, lower_before, &l)) lower_to(&l, l.range->to);
    }
    present_end(&present);
}

/* ---- what follows from it ---- */

static bool is_broken(uintptr_t from, uintptr_t to)
{
    for (uint32_t i = seal_from(from); i < seal_table->count && seal_table->range[i].from < to; i++) {
        const struct seal_range *r = &seal_table->range[i];
        uintptr_t at = r->from > (from & ~(OS_PAGE - 1)) ? r->from : from & ~(OS_PAGE - 1), end = r->to < to ? r->to : to;
        for (; at < end; at += OS_PAGE)
            if (seal_is_broken(r->first + (uint32_t)((at - r->from) / OS_PAGE))) return true;
    }
    return false;
}

void seal_prove(void)
{
    if (!seal_any() || seal_is_doubtful()) return;
    for (uint32_t n = 1; n < lost_records_end(); n++) {
        const struct lost_record *r = lost_record_at(n);
        const struct lost_trial *t = lost_trial_at(n);
        uint64_t block = atomic_load(&r->block);
        if (!t || !t->sealed || block == 0 || block & LOST_MARKS) continue;
        if (t->changed) lost_disprove(n, PROOF_WRITTEN);
        else if (is_broken(block, block + r->given)) lost_disprove(n, PROOF_READ);
    }
}

void seal_returned(uintptr_t block, size_t bytes)
{
    if (!seal_any()) return;
    for (uint32_t i = seal_from(block); i < seal_table->count && seal_table->range[i].from < block + bytes; i++) {
        const struct seal_range *r = &seal_table->range[i];
        uintptr_t from = r->from > block ? r->from : block, to = r->to < block + bytes ? r->to : block + bytes;
        for (uintptr_t next; from < to; from = next) {
            next = (from & ~(OS_PAGE - 1)) + OS_PAGE;
            if (next > to) next = to;
            seal_table->returned[r->first + (from - r->from) / OS_PAGE] += (uint16_t)(next - from);
        }
    }
}
