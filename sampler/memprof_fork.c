/* memprof_fork.c: a forked child's tables.
The kernel copies page after page while the parent's other threads go on, so in the child no list is what it was, a count may
be older than what it counts, and what those threads had begun is never finished.  Entries are whole, since each is one cache
line, or free.  So the child looks at all of them: those that stand in their block's tag are kept, and told of if something is
due; a callback that another thread was in will not come back. Counts follow from what is found.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/one_thread.h"
#include "sampler/memprof_profile.h"

static bool stands_in_its_tag(uint32_t number, const struct memprof_entry *e)
{
    uint32_t tag;
    if (memprof_kind(e) == MEMPROF_PIECE) return true;
    if (!heap_tag(memprof_block(e), &tag)) return false;
    const struct memprof_entry *in;
    for (unsigned i = 0; i < 1000 && (in = memprof_at(tag_entry(tag))); i++, tag = atomic_load(&in->below))
        if (tag_entry(tag) == number) return true;
    return false;
}

/* Its alloc callback was at work in another thread, or had just come back: its data lie in another page than the entry. */
static bool data_are_missing(uint32_t number, const struct memprof_profile *p, uint64_t s)
{
    const struct gleaner_tracker *t = &p->options.tracker;
    return (s & MEMPROF_TOLD_ALLOC) && (s & MEMPROF_WAS_OLD ? t->alloc_old : t->alloc_young) && !atomic_load(memprof_data(number));
}

static void look(uint32_t number, struct memprof_entry *e)
{
    uint64_t s = atomic_load(&e->state);
    if (!(s & MEMPROF_USED)) {
        atomic_store(memprof_data(number), NULL);
        memprof_give_again(number);
        return;
    }
    struct memprof_profile *p = memprof_kind(e) == MEMPROF_WEAK ? NULL : atomic_load(&e->owner);
    bool live = !(s & MEMPROF_ENDED), here = number == memprof_running();
    if (live && !here && !stands_in_its_tag(number, e)) { /* as if it had never been */
        memprof_give(NULL, number);
        return;
    }
    if (p) {
        atomic_fetch_add(&p->entries, 1);
        if (live && !(s & MEMPROF_SILENT)) {
            p->found_blocks++;
            p->found_samples += e->n_samples;
        }
    }
    if (here) return;
    atomic_fetch_and(&e->state, ~(uint64_t)MEMPROF_RUNS);
    if (p && !(s & MEMPROF_SILENT) && data_are_missing(number, p, s)) {
        atomic_fetch_or(&e->state, MEMPROF_SILENT);
        if (live) {
            p->found_blocks--;
            p->found_samples -= e->n_samples;
            memprof_add(p, MEMPROF_N_DECLINED, e->n_samples);
        }
    }
    atomic_fetch_or(&e->state, MEMPROF_QUEUED);
    memprof_queue(NULL, number);
}

static void allocated_is_the_sum(struct memprof_profile *p)
{
    uint64_t blocks = p->found_blocks, samples = p->found_samples;
    static const enum memprof_count ends[] = {MEMPROF_N_FREED_YOUNG, MEMPROF_N_FREED_OLD, MEMPROF_N_RECLAIMED, MEMPROF_N_DECLINED};
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
        blocks += atomic_load(&p->count[ends[i]].blocks);
        samples += atomic_load(&p->count[ends[i]].samples);
    }
    atomic_store(&p->count[MEMPROF_N_ALLOCATED].blocks, blocks);
    atomic_store(&p->count[MEMPROF_N_ALLOCATED].samples, samples);
}

void memprof_fork_child(bool threads)
{
    atomic_fetch_add(&memprof_generation, 1);
    memprof_install_again();
    if (!threads || memprof_end() == MEMPROF_FIRST) return;
    atomic_fetch_add(&memprof_torn, 1);
    memprof_entries_fork_child();
    memprof_queues_fork_child();
    struct memprof_profile *p;
    for (p = atomic_load(&memprof_profiles); p; p = p->next) {
        atomic_store(&p->entries, 0);
        p->found_blocks = p->found_samples = 0;
    }
    for (uint32_t n = MEMPROF_FIRST, end = memprof_end(); n < end; n++) {
        struct memprof_entry *e = memprof_at(n);
        if (e) look(n, e);
    }
    for (p = atomic_load(&memprof_profiles); p; p = p->next) {
        allocated_is_the_sum(p);
        if (atomic_load(&p->phase) == MEMPROF_DISCARDING) atomic_store(&p->phase, MEMPROF_DISCARDED);
    }
}
