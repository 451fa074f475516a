/* memprof_event.c: what happens to tracked blocks, and the callbacks that tell the program of it.

   1. Events are flags of an entry.  Whoever sets one also sets MEMPROF_QUEUED, and if that was not set puts the entry in a
      queue; who takes it out runs what is due, in order, and then takes the flag away, if nothing happened meanwhile, or ends
      the entry.  So an entry is in one queue at most, one thread at a time tells of it, and counting (at the event) does not
      wait for telling.
   2. Queues.  A thread's own is emptied at the end of the malloc or free that filled it, by the hook `callbacks`.  What has
      no thread (a collection's finds, what a thread left at its end) goes to a shared list that the next one to come by
      empties; what is postponed, to another, for memprof_poll.  Both are taken whole by one exchange, so that they need no
      tag.
   3. Callbacks do not nest: while one runs, its thread's queue only grows; sampling is suspended.  One that does not come
      back (its thread ends in it) is found at the thread's end.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "sampler/memprof_profile.h"

#include <errno.h>

enum { SHARED, POSTPONED, LISTS };
static _Atomic uint32_t lists[LISTS]; /* the latest entry's number, or 0 */

static THREAD_LOCAL uint32_t running; /* the entry whose callback runs here */
static THREAD_LOCAL bool running_alloc, busy;
static THREAD_LOCAL size_t ran;

uint32_t memprof_running(void) { return running; }

/* ---- queues ---- */

static void push(unsigned list, uint32_t number)
{
    struct memprof_entry *e = memprof_entry(number);
    uint32_t head = atomic_load(&lists[list]);
    do atomic_store_explicit(&e->next, head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&lists[list], &head, number));
}

static void append(struct memprof_thread *t, uint32_t number)
{
    atomic_store_explicit(&memprof_entry(number)->next, 0, memory_order_relaxed);
    if (t->queue_last) atomic_store_explicit(&memprof_entry(t->queue_last)->next, number, memory_order_relaxed);
    else t->queue_first = number;
    t->queue_last = number;
}

static uint32_t pop(struct memprof_thread *t)
{
    uint32_t torn = atomic_load_explicit(&memprof_torn, memory_order_relaxed);
    if (unlikely(t->torn != torn)) { /* a callback has forked: what was left in the queue is in a list (memprof_fork.c) */
        t->queue_first = t->queue_last = 0;
        t->torn = torn;
    }
    uint32_t number = t->queue_first;
    if (number == 0) return 0;
    t->queue_first = atomic_load_explicit(&memprof_entry(number)->next, memory_order_relaxed);
    if (t->queue_first == 0) t->queue_last = 0;
    return number;
}

/* A whole list to the end of the thread's queue, the oldest first. */
static void take_list(unsigned list, struct memprof_thread *t)
{
    uint32_t n = atomic_load_explicit(&lists[list], memory_order_relaxed) ? atomic_exchange(&lists[list], 0) : 0, turned = 0;
    while (n) {
        struct memprof_entry *e = memprof_entry(n);
        uint32_t next = atomic_load_explicit(&e->next, memory_order_relaxed);
        atomic_store_explicit(&e->next, turned, memory_order_relaxed);
        turned = n;
        n = next;
    }
    while (turned) {
        uint32_t next = atomic_load_explicit(&memprof_entry(turned)->next, memory_order_relaxed);
        append(t, turned);
        turned = next;
    }
}

static struct memprof_profile *profile_of(const struct memprof_entry *e)
{
    return memprof_kind(e) == MEMPROF_WEAK ? NULL : atomic_load_explicit(&e->owner, memory_order_acquire);
}

void memprof_queue(struct heap_thread_hook *hook, uint32_t number)
{
    const struct memprof_profile *p = profile_of(memprof_entry(number));
    struct memprof_thread *t = heap_thread_is_ending() ? NULL : memprof_thread_of(hook);
    if (p && p->options.postponed) push(POSTPONED, number);
    else if (t) {
        append(t, number);
        hook->pending = 1;
    } else push(SHARED, number);
}

void memprof_queues_fork_child(void)
{
    for (unsigned i = 0; i < LISTS; i++) atomic_store(&lists[i], 0);
}

/* ---- telling ---- */

enum event { NOTHING, ALLOC, PROMOTE, LOST, END };

static enum event due_of_weak(const struct memprof_entry *e, uint64_t s)
{
    bool cleared = s & (MEMPROF_ENDED | MEMPROF_LOST);
    return cleared && !(s & MEMPROF_TOLD_END) && atomic_load(&e->owner) ? END : NOTHING;
}

/* What is to be told next of an entry in this state. */
static enum event due(const struct memprof_entry *e, uint64_t s)
{
    if (s & MEMPROF_SILENT) return NOTHING;
    if (memprof_kind(e) == MEMPROF_WEAK) return due_of_weak(e, s);
    const struct memprof_profile *p = profile_of(e);
    if (atomic_load(&p->phase) >= MEMPROF_DISCARDING) return NOTHING;
    const struct gleaner_tracker *t = &p->options.tracker;
    if (!(s & MEMPROF_TOLD_ALLOC) && (s & MEMPROF_WAS_OLD ? t->alloc_old : t->alloc_young)) return ALLOC;
    if ((s & MEMPROF_PROMOTED) && !(s & MEMPROF_TOLD_PROMOTED) && t->promote) return PROMOTE;
    if ((s & MEMPROF_LOST) && !(s & MEMPROF_TOLD_LOST) && t->lost) return LOST;
    if (s & MEMPROF_TOLD_END) return NOTHING;
    if (s & MEMPROF_RECLAIMED) return t->reclaimed ? END : NOTHING;
    if (s & MEMPROF_FREED) return (s & MEMPROF_FREED_OLD ? t->dealloc_old : t->dealloc_young) ? END : NOTHING;
    return NOTHING;
}

static uint64_t flag_of(enum event event)
{
    switch (event) {
    case ALLOC:
        return MEMPROF_TOLD_ALLOC;
    case PROMOTE:
        return MEMPROF_TOLD_PROMOTED;
    case LOST:
        return MEMPROF_TOLD_LOST;
    case NOTHING:
    case END:
        break;
    }
    return MEMPROF_TOLD_END;
}

static void tell_alloc(uint32_t number, struct memprof_entry *e, const struct gleaner_sample *sample, bool old)
{
    struct memprof_profile *p = profile_of(e);
    void *(*alloc)(const struct gleaner_sample *, void *) = old ? p->options.tracker.alloc_old : p->options.tracker.alloc_young;
    void *data = alloc(sample, p->options.user);
    if (data) {
        atomic_store(memprof_data(number), data);
        return;
    }
    uint64_t was = atomic_fetch_or(&e->state, MEMPROF_SILENT);
    if (!(was & (MEMPROF_ENDED | MEMPROF_SILENT))) memprof_add(p, MEMPROF_N_DECLINED, e->n_samples);
}

static void tell_of_block(uint32_t number, struct memprof_entry *e, uint64_t s, enum event event)
{
    struct memprof_profile *p = profile_of(e);
    const struct gleaner_tracker *t = &p->options.tracker;
    void *frames[STACK_DEPTH_MAX], *data = atomic_load(memprof_data(number));
    unsigned depth = stack_get(e->stack, (uintptr_t *)frames, p->options.depth, NULL);
    const struct gleaner_sample sample = {
        .block = memprof_block(e),
        .asked = e->asked >> 16,
        .given = e->given >> 16,
        .n_samples = e->n_samples,
        .source = (enum gleaner_source)(atomic_load(&e->what) & 0xff),
        .stack = e->stack,
        .n_frames = depth < p->options.depth ? depth : p->options.depth,
        .frames = frames,
        .thread = (unsigned)((e->given & 0xffff) << 16 | (e->asked & 0xffff)),
        .time = e->time,
    };
    if (event == ALLOC) tell_alloc(number, e, &sample, s & MEMPROF_WAS_OLD);
    else if (event == PROMOTE) t->promote(&sample, data, p->options.user);
    else if (event == LOST) t->lost(&sample, data, p->options.user);
    else if (s & MEMPROF_RECLAIMED) t->reclaimed(&sample, data, p->options.user);
    else if (s & MEMPROF_FREED_OLD) t->dealloc_old(&sample, data, p->options.user);
    else t->dealloc_young(&sample, data, p->options.user);
}

static void tell_of_handle(uint32_t number, struct memprof_entry *e, uint64_t s)
{
    void (*cleared)(void *, enum gleaner_end, void *);
    *(void **)&cleared = atomic_load(&e->owner);
    enum gleaner_end end = s & MEMPROF_LOST ? GLEANER_FOUND_LOST : s & MEMPROF_RECLAIMED ? GLEANER_RECLAIMED : GLEANER_FREED;
    cleared(memprof_block(e), end, atomic_load(memprof_data(number)));
}

static void tell(uint32_t number, struct memprof_entry *e, uint64_t s, enum event event)
{
    int before = errno;
    running_alloc = event == ALLOC;
    running = number;
    ran++;
    atomic_fetch_or(&e->state, flag_of(event) | MEMPROF_RUNS);
    if (memprof_kind(e) == MEMPROF_WEAK) tell_of_handle(number, e, s);
    else tell_of_block(number, e, s, event);
    atomic_fetch_and(&e->state, ~(uint64_t)MEMPROF_RUNS);
    running = 0;
    errno = before;
}

/* ---- settling ---- */

static void end(struct memprof_cache *cache, uint32_t number)
{
    struct memprof_profile *p = profile_of(memprof_entry(number));
    memprof_give(cache, number);
    if (p) atomic_fetch_sub(&p->entries, 1);
}

/* Who owns the entries of discarded profiles, which stay in their blocks' tags until those end: only the thread that frees a block,
   or resizes it, may take an entry out, since nobody else knows that it is not just being looked at there. */
static struct memprof_profile nobody = {.phase = MEMPROF_DISCARDED};

/* A silent entry, in the caller's hands, whose profile is to have none any more. */
static bool is_left_behind(const struct memprof_entry *e, uint64_t s)
{
    const struct memprof_profile *p = profile_of(e);
    return (s & MEMPROF_SILENT) && p && p != &nobody && atomic_load(&p->phase) >= MEMPROF_DISCARDING;
}

static void leave(struct memprof_entry *e)
{
    struct memprof_profile *p = profile_of(e);
    atomic_store(&e->owner, &nobody);
    atomic_fetch_add(&nobody.entries, 1);
    atomic_fetch_sub(&p->entries, 1);
}

void memprof_settle(struct memprof_cache *cache, uint32_t number)
{
    struct memprof_entry *e = memprof_entry(number);
    for (;;) {
        uint64_t s = atomic_load_explicit(&e->state, memory_order_acquire);
        enum event event = due(e, s);
        if (event != NOTHING) tell(number, e, s, event);
        else if (s & MEMPROF_ENDED) return end(cache, number);
        else if (is_left_behind(e, s)) leave(e);
        else if (atomic_compare_exchange_strong(&e->state, &s, s & ~(uint64_t)MEMPROF_QUEUED)) return;
    }
}

/* Of an entry with MEMPROF_QUEUED that is in no queue: into one if there is something to tell. */
static void settle_or_queue(struct heap_thread_hook *hook, uint32_t number)
{
    struct memprof_entry *e = memprof_entry(number);
    uint64_t s = atomic_load(&e->state);
    if (due(e, s) != NOTHING) {
        memprof_queue(hook, number);
        return;
    }
    struct memprof_thread *t = hook ? hook->memprof : NULL;
    if (s & MEMPROF_ENDED) end(t ? &t->cache : NULL, number);
    /* What becomes due between our look and this is queued by who sets it, or found here again. */
    else if (!atomic_compare_exchange_strong(&e->state, &s, s & ~(uint64_t)MEMPROF_QUEUED)) settle_or_queue(hook, number);
}

void memprof_publish(struct heap_thread_hook *hook, uint32_t number) { settle_or_queue(hook, number); }

void memprof_died(struct heap_thread_hook *hook, uint32_t number, uint32_t how)
{
    struct memprof_entry *e = memprof_entry(number);
    uint64_t s = atomic_load(&e->state), now;
    /* Read now: once the end is noted, who tells of it may end the entry, too. */
    struct memprof_profile *p = profile_of(e);
    unsigned n_samples = e->n_samples;
    bool was_old, is_old;
    do {
        if (!(s & MEMPROF_USED) || (s & MEMPROF_ENDED)) return;
        was_old = s & (MEMPROF_WAS_OLD | MEMPROF_PROMOTED);
        is_old = was_old || (how & MEMPROF_FREED_OLD);
        now = s | how | MEMPROF_QUEUED;
        if (is_old && !was_old) now |= MEMPROF_PROMOTED; /* by a collection that nobody has told us of yet */
        if (is_old && (how & MEMPROF_FREED)) now |= MEMPROF_FREED_OLD;
    } while (!atomic_compare_exchange_weak(&e->state, &s, now));
    if (p && !(s & MEMPROF_SILENT)) {
        if (is_old && !was_old) memprof_add(p, MEMPROF_N_PROMOTED, n_samples);
        memprof_add(p, how & MEMPROF_RECLAIMED ? MEMPROF_N_RECLAIMED : is_old ? MEMPROF_N_FREED_OLD : MEMPROF_N_FREED_YOUNG,
                    n_samples);
    }
    if (!(s & MEMPROF_QUEUED)) settle_or_queue(hook, number);
}

bool memprof_happened(uint32_t number, uint64_t s, uint32_t flag)
{
    struct memprof_entry *e = memprof_entry(number);
    struct memprof_profile *p = profile_of(e);
    unsigned n_samples = e->n_samples;
    if (!atomic_compare_exchange_strong(&e->state, &s, s | flag | MEMPROF_QUEUED)) return false;
    if (flag == MEMPROF_PROMOTED && !(s & MEMPROF_SILENT)) memprof_add(p, MEMPROF_N_PROMOTED, n_samples);
    if (!(s & MEMPROF_QUEUED)) settle_or_queue(NULL, number);
    return true;
}

bool memprof_silence(uint32_t number, uint64_t s)
{
    struct memprof_entry *e = memprof_entry(number);
    if (!atomic_compare_exchange_strong(&e->state, &s, s | MEMPROF_SILENT | MEMPROF_QUEUED)) return false;
    if (s & MEMPROF_QUEUED) return true; /* who has it sees it */
    atomic_store(memprof_data(number), NULL);
    memprof_settle(NULL, number);
    return true;
}

/* ---- running ---- */

static void run(struct memprof_thread *t)
{
    uint32_t number;
    busy = true;
    heap_suspend_sampling();
    while ((number = pop(t))) memprof_settle(&t->cache, number);
    heap_resume_sampling();
    busy = false;
}

static bool may_run(void) { return !busy && !heap_sampling_is_suspended() && !heap_thread_is_ending(); }

void memprof_callbacks(struct heap_thread_hook *hook)
{
    if (!may_run()) return;
    struct memprof_thread *t = memprof_thread_of(hook);
    if (t) run(t);
    hook->pending = 0;
}

static struct memprof_thread *with_lists(struct heap_thread_hook **hook, unsigned most)
{
    *hook = may_run() ? heap_own_hook() : NULL;
    struct memprof_thread *t = memprof_thread_of(*hook);
    for (unsigned i = 0; t && i < most; i++) take_list(i, t);
    return t;
}

void memprof_run(void)
{
    struct heap_thread_hook *hook;
    if (likely(atomic_load_explicit(&lists[SHARED], memory_order_relaxed) == 0)) return;
    if (with_lists(&hook, SHARED + 1)) memprof_callbacks(hook);
}

size_t memprof_poll(void)
{
    struct heap_thread_hook *hook;
    size_t before = ran;
    if (with_lists(&hook, LISTS)) memprof_callbacks(hook);
    return busy ? 0 : ran - before;
}

void memprof_thread_ended(struct heap_thread_hook *hook)
{
    struct memprof_thread *t = hook->memprof;
    uint32_t number = running;
    if (number) { /* in the middle of a callback */
        struct memprof_entry *e = memprof_entry(number);
        atomic_fetch_and(&e->state, ~(uint64_t)MEMPROF_RUNS);
        if (running_alloc && !(atomic_fetch_or(&e->state, MEMPROF_SILENT) & (MEMPROF_ENDED | MEMPROF_SILENT)))
            memprof_add(profile_of(e), MEMPROF_N_DECLINED, e->n_samples);
        push(SHARED, number);
        running = 0;
    }
    if (t && t->torn == atomic_load(&memprof_torn))
        while ((number = pop(t))) push(SHARED, number);
    hook->pending = 0;
}
