/* collection.c: see collection.h.

   1. Who owns what.  `now` and all the rest below belong to the holder of the gate, but `under_way`, which is read by anybody.  The verdict lies in
      memory that is shared with the snapshot child and is mapped for one collection.
   2. A major collection: room for the verdict is mapped; the world stops; the cut is taken, blocks become old; the child is cloned, or, where it
      cannot or must not be, marking is done there and then.  Later somebody finds the verdict done (or the child gone) and
      applies it, under the gate, while the program runs: lost_apply looks only at blocks that are as they were.
   3. Reclaim.  Major collections come by the clock and by growth, and cost at most a twentieth of the time; what a complete one has confirmed
      reclaim_cycle looks at.  What speaks against all of it is looked for in the pause or by the child, who have descriptors of their own.
   4. Growth.  Minor collections come when the bytes that are allocated have grown by the nursery's budget.  Adaptive: it starts at 32 MiB, doubles where
      collections would take over a fiftieth of the time (or half of the heap survives), and halves again to its start.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/collection.h"
#include "heap/arenas_mark.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/probes.h"
#include "heap/reclaim.h"
#include "heap/remember.h"
#include "heap/stats.h"
#include "heap/syscall.h"
#include "heap/thread_heap.h"
#include "preload/dead_stack.h"
#include "preload/headroom.h"
#include "preload/mark_helpers.h"
#include "preload/own_memory.h"
#include "preload/process.h"
#include "preload/reclaim_rules.h"
#include "preload/refuse.h"
#include "preload/seal_stop.h"
#include "preload/shut_in.h"
#include "preload/signal33.h"
#include "preload/snapshot.h"
#include "preload/starved.h"
#include "preload/stop.h"
#include "preload/take_cut.h"
#include "sampler/memprof.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#define CHILD_SECONDS 600
#define VERDICT_MOST GIB /* of addresses, for the list of lost blocks */
#define MISSED_MOST 2
#define IN_PLACE_ROW 16
#define NURSERY_LEAST (32 * MIB)
#define NURSERY_MOST (1024 * MIB)

void (*collection_done)(const struct collection *);

static bool possible, growth, verify, reclaims;
static bool refusals;     /* reasons against reclaim are looked for, */
static bool looks_itself; /* in the pause, since a snapshot's child was denied it */
static uint64_t every_ns, fixed_nursery;
static _Atomic uint64_t next_major; /* os_now_coarse */
static _Atomic int64_t nursery_end; /* heap_taken_bytes at which a minor is due */
static atomic_bool under_way;       /* a snapshot child marks */
static enum present_way at_best;
static bool in_place_only;
static _Atomic uint32_t missed;    /* snapshots in a row that lacked memory, since the program had kept more of it from forks */
static atomic_bool in_place_next;
static uint32_t in_place_since;    /* `missed` was too much */

static uint32_t number;
static uint64_t last_complete; /* time of the latest complete major's cut */
static uint64_t last_end;      /* collect_clock */
static bool every_said;        /* how often is said by `leaks` */
static uint64_t major_not_before; /* os_now_coarse: none by growth before */
static _Atomic int64_t major_end; /* heap_taken_bytes at which one is due by growth */
static uint64_t budget = NURSERY_LEAST;
static struct collection now;
static bool superseded;        /* the verdict that is waited for may not be applied any more */
static struct verdict *verdict;
static size_t verdict_bytes;
static struct pieces *pieces; /* the program's arenas; NULL: none */
static size_t pieces_bytes_mapped;

/* ---- the verdict's memory ---- */

static bool map_verdict(void)
{
    struct heap_stats stats;
    heap_stats(&stats);
    size_t want = sizeof *verdict + (stats.live + stats.live / 8 + 1024) * sizeof verdict->block[0];
    if (want > VERDICT_MOST) want = VERDICT_MOST;
    for (want = round_up(want, OS_PAGE);; want = round_up(want / 2, OS_PAGE)) { /* addresses may be limited */
        long at = raw_syscall(SYS_mmap, NULL, want, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if ((unsigned long)at < -4095UL) {
            verdict = (struct verdict *)at;
            verdict_bytes = want;
            break;
        }
        if (want <= 64 * KIB) return false;
    }
    verdict->room = (verdict_bytes - sizeof *verdict) / sizeof verdict->block[0];
    own_memory_add((uintptr_t)verdict, (uintptr_t)verdict + verdict_bytes);
    pieces = pieces_map(&pieces_bytes_mapped);
    if (pieces) own_memory_add((uintptr_t)pieces, (uintptr_t)pieces + pieces_bytes_mapped);
    return true;
}

static void unmap_verdict(void)
{
    if (!verdict) return;
    own_unmap(verdict, verdict_bytes);
    verdict = NULL;
    if (pieces) own_unmap(pieces, pieces_bytes_mapped);
    pieces = NULL;
}

/* What verifying found, told when the world runs again: inside the pause there may be no descriptors. */
static char wrong[256];

static void say(const char *line)
{
    if (!wrong[0]) print_to(wrong, sizeof wrong, "%s", line);
}

static void judge(void)
{
    if (now.missed) print_to(wrong, sizeof wrong, "a minor collection missed %lu live blocks, the first at %p; pages written unseen: %lu, %p",
                             (unsigned long)now.missed, (void *)now.first_missed, (unsigned long)now.unseen, (void *)now.first_unseen);
    if (likely(!wrong[0])) return;
    print_fd(2, "gleaner: verify: %s\ngleaner: this is a fault of Gleaner's, or memory outside the program's blocks was written to\n",
             wrong);
    os_abort();
}

/* ---- inside the pause ---- */

static struct cut cut;

static struct collect_options frozen_options(void)
{
    struct collect_options o = {.frozen = true, .at_best = at_best, .maps = take_cut_maps(), .vet = true, .reclaim = reclaims,
                                .helpers = mark_helpers_wanted(), .start_helper = mark_helpers_start, .pieces = pieces};
    o.unfrozen = take_cut_unfrozen_known(&o.n_unfrozen);
    return o;
}

static void look_for_reasons(uint32_t pid)
{
    if (reclaims && refusals) verdict->refused = refuse_now(pid, &verdict->sharer, &verdict->denied);
}

static void mark_in_child(void *unused)
{
    static struct cut_range found[64];
    size_t n = take_cut_unfrozen(&cut, found, 64);
    if (n > 0) {
        verdict->unfrozen = n < 16 ? (uint32_t)n : 16;
        for (size_t i = 0; i < verdict->unfrozen; i++) {
            verdict->unfrozen_range[i].from = found[i].from;
            verdict->unfrozen_range[i].to = found[i].to;
        }
        verdict->why_not = "memory that a fork does not copy";
        atomic_store(&verdict->done, 1);
    } else {
        const struct collect_options options = frozen_options();
        if (reclaims) starved_in_child();
        if (!looks_itself) look_for_reasons((uint32_t)raw_syscall(SYS_getppid, 0));
        collect_major(verdict, &cut, &options);
    }
    raw_syscall(SYS_futex, &verdict->done, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool room_for_child(void)
{
    uint64_t room = headroom_bytes(), live = (uint64_t)atomic_load(&heap_taken_bytes);
    return room > 64 * MIB && room - 64 * MIB > live / 4;
}

/* A program may keep whatever it maps from forks (V8 does): the pause never knows the newest of it.  Now and then a snapshot is
   tried again. */
static bool snapshot_is_in_vain(void)
{
    if (atomic_exchange(&in_place_next, false)) return true;
    if (atomic_load(&missed) < MISSED_MOST) return false;
    if (++in_place_since < IN_PLACE_ROW) return true;
    in_place_since = 0;
    atomic_store(&missed, MISSED_MOST - 1);
    return false;
}

/* The key `verify`: every structure of the heap, where no thread was stopped in the middle of a change. */
static void verify_heap(void)
{
    if (verify && !take_cut_found_us_at_work()) heap_verify(say);
}

static void inside(const struct stop_result *result, void *unused)
{
    now.stop = result->wait_ns;
    now.time = os_realtime();
    if (!result->complete) {
        now.why_not = result->no_proc ? "/proc cannot be read" : "a thread could not be stopped";
        return;
    }
    const struct collect_options options = {.at_best = at_best, .vet = true, .reclaim = reclaims, .verify = verify,
                                            .pieces = pieces};
    if (now.kind == COLLECTION_MINOR) {
        now.why_not = take_cut(&cut, result, false);
        if (!now.why_not) collect_minor(&cut, &options, &now);
        if (!now.why_not) verify_heap();
        return;
    }
    uint32_t self = (uint32_t)raw_syscall(SYS_getpid, 0);
    bool snapshot = !in_place_only && !snapshot_is_in_vain() && room_for_child();
    if (reclaims) starved_look();
    now.why_not = take_cut(&cut, result, snapshot);
    if (now.why_not) return;
    uint64_t began = collect_clock();
    collect_age(&now);
    if (pieces) pieces_fill(pieces);
    now.sweep = collect_clock() - began;
    verify_heap();
    if (reclaims) verdict->stacks = collect_stacks_state(&cut);
    if (!snapshot || looks_itself) look_for_reasons(self);
    if (snapshot && snapshot_take(mark_in_child, NULL, CHILD_SECONDS) > 0) {
        now.snapshot = true;
        return;
    }
    if (snapshot) now.why_not = take_cut(&cut, result, false);
    if (now.why_not) return;
    if (snapshot && !looks_itself) look_for_reasons(self);
    collect_major(verdict, &cut, &options);
}

/* ---- afterwards ---- */

static void new_budget(void)
{
    uint64_t clock = collect_clock(), since = clock - last_end;
    last_end = clock;
    if (fixed_nursery) budget = fixed_nursery;
    else if (now.kind == COLLECTION_MINOR) {
        bool dear = now.pause * 50 > since, most_survive = now.promoted_bytes * 2 > now.young_bytes;
        if ((dear || most_survive) && budget < NURSERY_MOST) budget *= 2;
        else if (!dear && !most_survive && budget > NURSERY_LEAST) budget /= 2;
    }
    atomic_store(&nursery_end, atomic_load(&heap_taken_bytes) + (int64_t)budget);
}

/* Functions of their own, so that the probes' arguments lie in registers, not at symbols that a stripped library has no more.
   Outside of the pause, since a tracer stops the thread that comes by. */
static NOINLINE void probe_begin(enum collection_kind kind, uint32_t n, enum collection_trigger trigger)
{
    if (kind == COLLECTION_MINOR) PROBE2(gleaner, minor_begin, n, trigger);
    else PROBE2(gleaner, major_begin, n, trigger);
}

static NOINLINE void probe_end(enum collection_kind kind, uint32_t n, bool complete, uint64_t a, uint64_t b, uint64_t pause)
{
    if (kind == COLLECTION_MINOR) PROBE5(gleaner, minor_end, n, complete, a, b, pause);
    else PROBE5(gleaner, major_end, n, complete, a, b, pause);
}

#define MAJOR_GROWTH_LEAST (16 * MIB)
#define MAJOR_GROWTH_NARROW (2 * MIB) /* near a limit */

/* The next one by growth: a quarter more bytes, or a quarter of what limits leave; and so long after this one that it costs a twentieth of
   the time. */
static void next_majors(void)
{
    if (!reclaims) return;
    uint64_t took = now.pause + now.roots + now.mark + now.sweep;
    int64_t taken = atomic_load(&heap_taken_bytes), more = taken / 4 > (int64_t)MAJOR_GROWTH_LEAST ? taken / 4 : (int64_t)MAJOR_GROWTH_LEAST;
    if ((uint64_t)more > starved_room() / 4) more = (int64_t)(starved_room() / 4);
    if (more < (int64_t)MAJOR_GROWTH_NARROW) more = (int64_t)MAJOR_GROWTH_NARROW;
    /* What it costs the program is its pause, and a part of the child's time: copies of pages, and a processor that others want. */
    uint64_t cost = now.snapshot ? 20 * now.pause + 3 * took : 20 * took;
    major_not_before = os_now_coarse() + (starved_is_tight() ? cost / 4 : cost);
    starved_take_reserve();
    atomic_store(&major_end, taken + more);
    uint64_t due = atomic_load(&next_major);
    if (!every_said && due < major_not_before) atomic_store(&next_major, major_not_before);
    if (refusals && stop_is_given_up()) reclaim_stop("threads could not be stopped, five times in a row");
}

static void finished(void)
{
    collect_count(&now);
    bool minor = now.kind == COLLECTION_MINOR;
    probe_end(now.kind, now.number, now.complete, minor ? now.young_bytes : now.lost, minor ? now.promoted_bytes : now.lost_bytes,
              now.pause);
    remember_settle();
    new_budget();
    if (!minor) next_majors();
    memprof_collected();
    if (collection_done) collection_done(&now);
}

/* A vfork child is gone in a moment, and only nothing must be taken meanwhile; what stays has pointers that nobody sees. */
static bool is_shared(void)
{
    static uint32_t before;
    uint32_t now_shares = verdict->sharer;
    if (now_shares != 0 && now_shares == before) reclaim_stop("another process has its memory");
    before = now_shares;
    return now_shares != 0;
}

/* Nothing is taken back at the end, when the report is written. */
static NOINLINE void reclaim(void)
{
    struct reclaim_did did;
    if (!reclaims || now.trigger == TRIGGER_EXIT) return;
    if (refusals && verdict->refused) reclaim_stop(verdict->refused);
    if (refusals && is_shared() && reclaim_is_on()) return;
    if (verdict->denied) {
        looks_itself = true;
        return;
    }
    if (refusals && !signal33_installed()) reclaim_stop("something has taken our signal's handler away");
    seal_stop_look(at_best);
    reclaim_cycle(verdict, now.time, now.number, starved_is_tight(), &did);
    seal_stop_renew(at_best, starved_is_tight());
    dead_stack_clear(); /* deeper than what is cleared afterwards */
    now.reclaims = true;
    now.quarantined = did.quarantined;
    now.quarantined_bytes = did.quarantined_bytes;
    now.reclaimed = did.reclaimed;
    now.reclaimed_bytes = did.reclaimed_bytes;
}

/* Takes the verdict of a major collection over; the holder of the gate. */
static void apply(void)
{
    starved_give_reserve_up(); /* records may need it */
    now.complete = verdict->complete;
    now.why_not = verdict->why_not;
    now.roots = verdict->roots_ns;
    now.mark = verdict->mark_ns;
    now.sweep += verdict->sweep_ns;
    if (superseded) now.why_not = "a dump looked for lost blocks meanwhile", now.complete = false;
    superseded = false;
    if (!atomic_load(&verdict->done)) now.why_not = "the snapshot child ended before its time", now.complete = false;
    struct cut_range unfrozen[16];
    for (uint32_t i = 0; i < verdict->unfrozen && i < 16; i++)
        unfrozen[i] = (struct cut_range){verdict->unfrozen_range[i].from, verdict->unfrozen_range[i].to};
    take_cut_scan_unfrozen(unfrozen, verdict->unfrozen);
    if (verdict->unfrozen > 0) atomic_fetch_add(&missed, 1);
    else if (now.snapshot && now.complete) atomic_store(&missed, 0);
    if (now.complete) {
        now.lost = lost_apply(verdict, now.time, last_complete, now.number, &now.lost_bytes);
        dead_stack_clear(); /* deeper than what is cleared afterwards */
        now.promoted = now.young > now.lost ? now.young - now.lost : 0;
        now.promoted_bytes = now.young_bytes > now.lost_bytes ? now.young_bytes - now.lost_bytes : 0;
        last_complete = now.time;
        if (pieces) pieces_apply(pieces);
        reclaim();
    }
    unmap_verdict();
    atomic_store(&under_way, false);
    finished();
}

static bool child_is_done(void)
{
    if (atomic_load(&verdict->done)) return true;
    snapshot_reap();
    return atomic_load(&process->snapshot) == 0;
}

void collection_apply(void)
{
    if (likely(!atomic_load_explicit(&under_way, memory_order_relaxed)) || process_is_borrowed() || !stop_gate_try()) return;
    if (atomic_load(&under_way) && child_is_done()) {
        apply();
        snapshot_reap();
    }
    stop_gate_leave();
}

static void wait_a_little(void)
{
    const struct timespec most = {0, 20000000};
    struct verdict *v = verdict;
    if (v) raw_syscall(SYS_futex, &v->done, FUTEX_WAIT, 0, &most, NULL, 0);
}

/* Until no snapshot child of a collection is at work.  The verdict cannot be unmapped between our look at it and the wait
   to any harm: a futex on an address without memory returns at once. */
static void wait_for_child(void)
{
    while (atomic_load(&under_way)) {
        wait_a_little();
        snapshot_end_if_stuck();
        collection_apply();
    }
}

static int run(enum collection_kind kind, enum collection_trigger trigger, bool urgent, bool *snapshot)
{
    const struct stop_job job = {.inside = inside, .urgent = urgent, .deep = true,
                                 .keep = (unsigned)(remember_descriptor() + 1)};
    now = (struct collection){.number = ++number, .kind = kind, .trigger = trigger};
    if (kind == COLLECTION_MAJOR && !map_verdict()) {
        now.why_not = "no memory for the list of lost blocks";
        collect_count(&now);
        if (collection_done) collection_done(&now);
        return ENOMEM;
    }
    probe_begin(kind, now.number, trigger);
    uint64_t began = collect_clock();
    bool ran = stop_world(&job);
    now.pause = collect_clock() - began;
    judge();
    *snapshot = now.snapshot;
    if (!ran) {
        number--;
        unmap_verdict();
        return EAGAIN;
    }
    if (now.snapshot) {
        starved_take_reserve(); /* for what is found */
        atomic_store(&under_way, true);
        return 0;
    }
    if (kind == COLLECTION_MAJOR && !now.why_not) {
        apply();
    } else {
        unmap_verdict();
        finished();
    }
    return now.complete ? 0 : EAGAIN;
}

/* What the calling thread has beside its stack, since no signal frame of ours holds it: registers that a call keeps, and where its
   alternate stack lies (a block, perhaps, that only the kernel knows).  Both are stored in this frame, which lies above all that
   follows. */
static NOINLINE int run_spilled(enum collection_kind kind, enum collection_trigger trigger, bool urgent, bool *snapshot)
{
    volatile stack_t alternate;
    __builtin_unwind_init();
    raw_syscall(SYS_sigaltstack, NULL, &alternate);
    int e = run(kind, trigger, urgent, snapshot);
    __asm__ volatile("" ::"m"(alternate) : "memory"); /* no tail call */
    return e;
}

static NOINLINE int run_and_wait(enum collection_kind kind, enum collection_trigger trigger, bool wait, bool urgent)
{
    int before = errno, e;
    if (process_is_borrowed()) return EAGAIN;
    for (;;) {
        if (wait) wait_for_child();
        else collection_apply();
        if (wait ? !stop_gate_take() : !stop_gate_try()) {
            errno = before;
            return EAGAIN;
        }
        if (shut_in(SHUT_IN_COLLECT)) { /* since we were asked; whoever shuts us in waits for the gate but once */
            stop_gate_leave();
            errno = before;
            return ENOTSUP;
        }
        if (!atomic_load(&under_way) && atomic_load(&process->snapshot) == 0) break;
        snapshot_reap();
        bool busy = atomic_load(&process->snapshot) != 0 || atomic_load(&under_way);
        if (!busy) break;
        stop_gate_leave();
        if (!wait) {
            errno = before;
            return EAGAIN;
        }
        const struct timespec ms = {0, 1000000};
        raw_syscall(SYS_nanosleep, &ms, NULL);
        snapshot_end_if_stuck(); /* a dump's */
    }
    bool snapshot = false;
    e = run_spilled(kind, trigger, urgent, &snapshot);
    stop_gate_leave();
    if (e == 0 && snapshot && wait) {
        wait_for_child();
        struct collections all;
        collections(&all);
        /* Another thread's may have come and gone since; if that one was complete, as much is known. */
        if (!all.latest_major.complete) e = EAGAIN;
    }
    errno = before;
    return e;
}

void collection_settle(void)
{
    wait_for_child();
    if (stop_gate_take()) stop_gate_leave();
    wait_for_child(); /* of the one that had the gate */
}

int collection_run(enum collection_kind kind, enum collection_trigger trigger, bool wait, bool urgent)
{
    if (!possible || shut_in(SHUT_IN_COLLECT)) return ENOTSUP;
    dead_stack_clear();
    int e = run_and_wait(kind, trigger, wait, urgent);
    if (e == EAGAIN && wait && kind == COLLECTION_MAJOR && atomic_load(&missed) > 0) { /* somebody wants to know now */
        atomic_store(&in_place_next, true);
        e = run_and_wait(kind, trigger, wait, urgent);
    }
    dead_stack_clear();
    memprof_run();
    return e;
}

void collection_tick(uint64_t at)
{
    if (likely(!possible) || shut_in(SHUT_IN_COLLECT)) return;
    collection_apply();
    uint64_t due = atomic_load_explicit(&next_major, memory_order_relaxed);
    if (due != 0 && at >= due && atomic_compare_exchange_strong(&next_major, &due, at + every_ns)) {
        collection_run(COLLECTION_MAJOR, TRIGGER_TIME, false, false);
        return;
    }
    int64_t most = atomic_load_explicit(&major_end, memory_order_relaxed);
    if (unlikely(atomic_load_explicit(&heap_taken_bytes, memory_order_relaxed) > most) && at >= major_not_before &&
        atomic_compare_exchange_strong(&major_end, &most, INT64_MAX)) {
        if (collection_run(COLLECTION_MAJOR, TRIGGER_GROWTH, false, false) != 0) atomic_store(&major_end, most);
        return;
    }
    if (!growth) return;
    int64_t end = atomic_load_explicit(&nursery_end, memory_order_relaxed);
    if (likely(atomic_load_explicit(&heap_taken_bytes, memory_order_relaxed) < end)) return;
    if (!atomic_compare_exchange_strong(&nursery_end, &end, INT64_MAX)) return;
    int e = collection_run(COLLECTION_MINOR, TRIGGER_GROWTH, false, false);
    if (e != 0) atomic_store(&nursery_end, atomic_load(&heap_taken_bytes) + (int64_t)budget);
}

static struct collection asked; /* for by a dump; finished in its child */

bool collection_in_snapshot(void)
{
    struct heap_stats stats;
    static struct cut_range found[64];
    heap_stats(&stats);
    size_t room = stats.live + 1024, bytes = round_up(sizeof *verdict + room * sizeof verdict->block[0], OS_PAGE);
    if (!asked.why_not && take_cut_unfrozen(&cut, found, 64) > 0) asked.why_not = "memory that a fork does not copy";
    struct verdict *v = asked.why_not ? NULL : os_map(bytes); /* after that look: it may come to lie in a hole */
    if (!v) {
        if (!asked.why_not) asked.why_not = "no memory for the list of lost blocks";
        collect_count(&asked);
        return false;
    }
    v->room = room;
    const struct collect_options options = frozen_options();
    collect_major(v, &cut, &options);
    asked.complete = v->complete;
    asked.why_not = v->why_not;
    asked.roots = v->roots_ns;
    asked.mark = v->mark_ns;
    asked.sweep += v->sweep_ns;
    if (v->complete) asked.lost = lost_apply(v, asked.time, last_complete, asked.number, &asked.lost_bytes);
    collect_count(&asked);
    return v->complete;
}

void collection_prepare_snapshot(const struct stop_result *result)
{
    /* All blocks become old: a verdict that waits would take a block that was allocated since its cut for one that lay there before. */
    superseded = atomic_load(&under_way);
    asked = (struct collection){.number = ++number, .kind = COLLECTION_MAJOR, .trigger = TRIGGER_REQUEST, .snapshot = true,
                              .time = os_realtime(), .stop = result->wait_ns};
    if (!possible) asked.why_not = "collection is off here";
    else if (!result->complete) asked.why_not = result->no_proc ? "/proc cannot be read" : "a thread could not be stopped";
    else asked.why_not = take_cut(&cut, result, true);
    if (!asked.why_not) collect_age(&asked);
}

bool collection_possible(enum present_way *way)
{
    *way = at_best;
    return possible;
}

int collection_add_root(uintptr_t from, uintptr_t to) { return take_cut_add_root(from, to); }
int collection_remove_root(uintptr_t from, uintptr_t to) { return take_cut_remove_root(from, to); }

static int collect_for_memory(void) { return collection_run(COLLECTION_MAJOR, TRIGGER_MEMORY, true, true); }

static void start_reclaim(const struct config *config)
{
    atomic_store(&major_end, INT64_MAX);
    if (config->collect != COLLECT_RECLAIM) return;
    refusals = !config->reclaim_anyway;
    reclaims = true;
    starved_start(collect_for_memory);
    every_said = every_ns != 0;
    uint64_t every = reclaim_rules_start(config);
    if (!every_said) every_ns = every;
    atomic_store(&major_end, atomic_load(&heap_taken_bytes) + (int64_t)(2 * MAJOR_GROWTH_LEAST));
}

void collection_start(const struct config *config)
{
    take_cut_start();
    possible = config->collect != COLLECT_OFF;
    verify = config->verify;
    remember_verify(verify);
    in_place_only = !config->snapshot;
    at_best = (enum present_way)config->pages;
    bool running = config->leaks == LEAKS_EVERY || config->collect == COLLECT_REPORT || config->collect == COLLECT_RECLAIM;
    growth = running;
    fixed_nursery = config->nursery_bytes;
    if (fixed_nursery) budget = fixed_nursery;
    every_ns = config->leaks == LEAKS_EVERY ? config->leaks_every_ns : 0;
    start_reclaim(config);
    last_complete = os_realtime();
    last_end = collect_clock();
    if (every_ns) atomic_store(&next_major, os_now_coarse() + every_ns);
    atomic_store(&nursery_end, running ? atomic_load(&heap_taken_bytes) + (int64_t)budget : INT64_MAX);
    if (running) remember_start((enum remember_way)config->remember);
}

void collection_forked(void)
{
    take_cut_forked();
    unmap_verdict();
    atomic_store(&under_way, false);
    starved_forked();
    last_complete = os_realtime();
    if (every_ns) atomic_store(&next_major, os_now_coarse() + every_ns);
    if (growth) atomic_store(&nursery_end, atomic_load(&heap_taken_bytes) + (int64_t)budget);
    if (reclaims) atomic_store(&major_end, atomic_load(&heap_taken_bytes) + (int64_t)(2 * MAJOR_GROWTH_LEAST));
    collect_fork_child();
    remember_fork_child();
}
