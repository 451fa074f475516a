/* stop.c: stopping the world by signal 33.

   1. Data.  The process page (process.h) holds the number of the stop under way, on which parked
      threads sleep, and a count of arrivals, on which the stopper sleeps. thread_table.h holds a record
      a thread.
   2. Who stops.  In a process with one thread nothing needs stopping.  Else a helper thread does
      it, made for this stop and gone after it, with a stack and a *descriptor table of its own*
      (CLONE_THREAD without CLONE_FILES): listing /proc opens files, and a number taken in the
      program's table, however briefly, is a number that another thread's open() does not get, or
      that a closefrom() closes under us.  The caller sleeps meanwhile, with its signals blocked, on the
      futex that the kernel wakes when the helper has left its stack.  Where seccomp refuses the helper,
      the caller does the work itself.
   3. Algorithm.  List /proc/self/task; ask every thread not yet asked, save those
      that a signal would disturb (disturb.h); wait for the answers; list again, until a listing
      that began with everybody parked brings nobody new.  A thread that has not answered in 5 ms is
      looked at: dead ones drop out, vfork's parents and those that a debugger holds are not waited
      for, the others (33 blocked for a moment by libc, or no CPU) get up to 200 ms.
   4. A signal that arrives late finds another stop number, or none, and returns at once.
   5. Debuggers.  One that attaches takes hold of every thread in turn and waits for each to stop: the
      helper's as well.  So nobody waits for the helper where he cannot be stopped (vfork's parent is
      such a one: the debugger waits for it, it for the helper, the helper for the debugger).  A helper
      that is held before it has begun is given up: the caller goes on with an incomplete stop, and
      the helper ends when it is let go.  Once it has begun, what it has stopped waits for it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/stop.h"
#include "heap/kernel_dirent.h"
#include "heap/os.h"
#include "heap/syscall.h"
#include "preload/disturb.h"
#include "preload/dump.h"
#include "preload/own_memory.h"
#include "preload/process.h"
#include "preload/raw_clone.h"
#include "preload/signal33.h"
#include "preload/valgrind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#define MS ((uint64_t)1000000)
#define FIRST_LOOK (5 * MS)
#define HARD_BOUND (200 * MS)
#define FAILURES_MAX 5
#define STACK_BYTES (256 * KIB)
#define LISTING_BYTES (32 * KIB)

_Atomic uint32_t stop_tickets;
_Atomic uint32_t stop_latest_to_any;

/* process->helper.  From ASKED either the helper or who waits for it goes on. */
enum { HELPER_NONE, HELPER_ASKED, HELPER_BEGUN, HELPER_GIVEN_UP };

static char *helper_stack; /* the listing's buffer lies at its low end; the helper's while process->helper is not 0 */

struct stopper {
    const struct stop_job *job;
    struct stop_result result;
    uint32_t number;
    uint32_t caller, self;
    uint64_t began, bound;
    unsigned asked;   /* threads sent to */
    unsigned unknown; /* threads without a record, or that the signal queue had no room for */
    unsigned fresh;   /* new in the listing under way */
};

static uint64_t now(void)
{
    struct timespec ts;
    raw_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void futex_sleep(_Atomic uint32_t *word, uint32_t while_it_is, uint64_t ns)
{
    struct timespec ts = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    raw_syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, while_it_is, ns ? &ts : NULL);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    raw_syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n);
}

static uint32_t own_tid(void)
{
    return (uint32_t)raw_syscall(SYS_gettid, 0);
}

bool stop_start(void)
{
    if (runs_in_valgrind()) return false;
    if (!helper_stack) helper_stack = own_map(STACK_BYTES);
    disturb_start();
    return helper_stack != NULL;
}

bool stop_gate_take(void)
{
    uint32_t self = own_tid(), holder = 0;
    while (!atomic_compare_exchange_strong(&process->gate, &holder, self)) {
        if (holder == self) return false;
        /* A vfork child of a child that was forked behind libc's back took itself for the latter
           (process.h), and is gone: do not wait for it. */
        if (raw_syscall(SYS_tgkill, raw_syscall(SYS_getpid, 0), holder, 0) == -ESRCH &&
            atomic_compare_exchange_strong(&process->gate, &holder, self)) {
            atomic_store(&process->in_exec, 0);
            return true;
        }
        if (holder == 0) continue;
        atomic_fetch_add(&process->waiting, 1);
        futex_sleep(&process->gate, holder, 0);
        atomic_fetch_sub(&process->waiting, 1);
        holder = 0;
    }
    return true;
}

bool stop_gate_try(void)
{
    uint32_t holder = 0;
    return atomic_compare_exchange_strong(&process->gate, &holder, own_tid());
}

void stop_gate_leave(void)
{
    do {
        uint64_t request = atomic_exchange(&process->request, 0);
        if (request) dump_serve(request, NULL);
        atomic_store(&process->gate, 0);
        if (atomic_load(&process->waiting)) futex_wake(&process->gate, 1);
        /* A request that came between the exchange and the store found the gate taken. */
    } while (atomic_load(&process->request) && stop_gate_try());
}

struct thread_record *stop_note_signal(bool to_any)
{
    struct thread_record *r = thread_enter(own_tid());
    uint32_t ticket = atomic_fetch_add(&stop_tickets, 1) + 1;
    if (r) atomic_store(&r->ticket, ticket);
    if (to_any) atomic_store(&stop_latest_to_any, ticket);
    return r;
}

void stop_arrived(uint32_t number, void *context)
{
    struct thread_record *r = stop_note_signal(false);
    if (!r || atomic_load(&process->stopping) != number) return;
    atomic_store(&r->context, context);
    atomic_store(&r->parked_for, number);
    atomic_fetch_add(&process->arrived, 1);
    futex_wake(&process->arrived, 1);
    while (atomic_load(&process->stopping) == number) futex_sleep(&process->stopping, number, 0);
    atomic_store(&r->context, NULL);
}

/* Queues the signal; the queue is bounded, and shared by all of a user's processes.
 */
static long send_with_patience(uint32_t tid, uint32_t number)
{
    long r = -EAGAIN;
    for (uint64_t pause = 50000; pause <= 6400000 && r == -EAGAIN; pause *= 2) {
        r = signal33_send((int)tid, signal33_value(SIGNAL33_STOP, number));
        if (r == -EAGAIN) {
            struct timespec ts = {0, (long)pause};
            raw_syscall(SYS_nanosleep, &ts, NULL);
        }
    }
    return r;
}

static void ask(struct stopper *w, uint32_t tid)
{
    struct thread_record *r = thread_enter(tid);
    if (!r) {
        w->unknown++;
        return;
    }
    r->seen_in = w->number;
    if (r->asked_for == w->number) return;
    w->fresh++;
    r->asked_for = w->number;
    r->sp = 0;
    struct task_call call;
    if (task_call(tid, &call) && disturb_would_show(&call)) {
        r->state = THREAD_INLINE;
        r->sp = (uintptr_t)call.sp;
        return;
    }
    r->state = THREAD_SENT;
    long e = send_with_patience(tid, w->number);
    if (e == 0) {
        w->asked++;
    } else {
        r->state = e == -ESRCH ? THREAD_GONE : THREAD_SILENT;
    }
}

/* One pass over the threads; false if they cannot be listed. */
static bool list_and_ask(struct stopper *w)
{
    long fd =
        raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    w->fresh = w->unknown = w->result.threads = 0;
    w->result.listings++;
    long n;
    while ((n = raw_syscall(SYS_getdents64, fd, helper_stack, LISTING_BYTES)) > 0) {
        for (long at = 0; at < n;) {
            struct kernel_dirent *d = (void *)(helper_stack + at);
            at += d->length;
            uint32_t tid = 0;
            for (const char *p = d->name; *p >= '0' && *p <= '9'; p++) {
                tid = tid * 10 + (uint32_t)(*p - '0');
            }
            if (!tid || tid == w->self) continue;
            w->result.threads++;
            if (tid != w->caller) ask(w, tid);
        }
    }
    raw_syscall(SYS_close, fd);
    return n == 0;
}

struct tally {
    struct stopper *w;
    unsigned pending, left, held, silent;
    bool look; /* into /proc, for those that have not answered */
};

static void count(struct thread_record *r, void *argument)
{
    struct tally *t = argument;
    if (r->asked_for != t->w->number) return;
    if (r->state == THREAD_SENT || r->state == THREAD_HELD || r->state == THREAD_SILENT) {
        if (atomic_load(&r->parked_for) == t->w->number) r->state = THREAD_PARKED;
    }
    if (r->state == THREAD_SENT && t->look) {
        struct task_call call;
        char state = task_state(atomic_load(&r->tid));
        if (state == 0 || state == 'Z' || state == 'X') {
            r->state = THREAD_GONE;
        } else if (state == 'T' || state == 't') {
            r->state = THREAD_HELD;
        } else if (state == 'D' && task_call(atomic_load(&r->tid), &call) &&
                   (call.number == SYS_clone || call.number == SYS_clone3
#ifdef SYS_vfork
                    || call.number == SYS_vfork
#endif
                    )) {
            r->state = THREAD_HELD;
            r->sp = (uintptr_t)call.sp;
        }
    }
    t->pending += r->state == THREAD_SENT;
    t->left += r->state == THREAD_INLINE;
    t->held += r->state == THREAD_HELD;
    t->silent += r->state == THREAD_SILENT;
}

static struct tally walk(struct stopper *w, bool look)
{
    struct tally t = {.w = w, .look = look};
    thread_each(count, &t);
    return t;
}

/* Waits until nobody is awaited any more, or until `until`.  The count of arrivals saves a walk at
   each; it is a hint, since those that died do not arrive, and a latecomer of an earlier stop may.
 */
static unsigned wait_for_answers(struct stopper *w, uint64_t until)
{
    if (until > w->bound) until = w->bound;
    for (;;) {
        uint32_t arrived = atomic_load(&process->arrived);
        uint64_t time = now();
        if (arrived >= w->asked || time >= until) {
            unsigned pending = walk(w, false).pending;
            if (pending == 0 || time >= until) return pending;
            w->asked = arrived + pending;
        }
        futex_sleep(&process->arrived, arrived, until - time);
    }
}

static void ask_everybody(struct stopper *w)
{
    bool all_parked = false; /* when the listing began */
    for (;;) {
        if (!list_and_ask(w)) {
            w->result.no_proc = true;
            return;
        }
        if (all_parked && w->fresh == 0) break;
        unsigned pending = wait_for_answers(w, now() + FIRST_LOOK);
        for (uint64_t step = FIRST_LOOK; pending > 0 && now() < w->bound; step *= 2) {
            uint32_t arrived = atomic_load(&process->arrived);
            pending = walk(w, true).pending;
            w->asked = arrived + pending;
            if (pending > 0) pending = wait_for_answers(w, now() + step);
        }
        if (pending > 0) break;
        w->asked = atomic_load(&process->arrived);
        all_parked = true;
        if (now() >= w->bound) break; /* threads are born faster than we list them */
    }
    struct tally t = walk(w, false);
    w->result.left = t.left;
    w->result.held = t.held;
    w->result.silent = t.silent + t.pending + w->unknown;
    w->result.complete = all_parked && w->fresh == 0 && !t.left && !t.held && !w->result.silent;
}

static void forget_dead(struct thread_record *r, void *argument)
{
    struct stopper *w = argument;
    uint32_t tid = atomic_load(&r->tid);
    if (r->seen_in != w->number && tid != w->caller) atomic_store(&r->tid, 0);
}

static void stop_and_go(struct stopper *w)
{
    w->began = now();
    w->bound = w->began + HARD_BOUND;
    atomic_store(&process->arrived, 0);
    atomic_store(&process->stopping, w->number);
    ask_everybody(w);
    w->result.wait_ns = now() - w->began;
    w->job->inside(&w->result, w->job->argument);
    atomic_store(&process->stopping, 0);
    futex_wake(&process->stopping, INT32_MAX);
    if (!w->result.no_proc) thread_each(forget_dead, w);
}

static void helper(void *argument)
{
    uint32_t asked = HELPER_ASKED;
    if (!atomic_compare_exchange_strong(&process->helper, &asked, HELPER_BEGUN)) raw_syscall(SYS_exit, 0); /* `w` is gone */
    struct stopper *w = argument;
    w->self = own_tid();
#ifdef SYS_close_range
    /* Our copies of the program's descriptors would delay the end of a pipe. */
    unsigned keep = w->job->keep;
    if (keep > 1) raw_syscall(SYS_close_range, 0, keep - 2, 0);
    raw_syscall(SYS_close_range, keep, ~0u, 0);
#endif
    stop_and_go(w);
    raw_syscall(SYS_exit, 0);
}

static bool helper_is_held(uint32_t tid)
{
    uint32_t asked = HELPER_ASKED;
    return task_state(tid) == 't' && atomic_compare_exchange_strong(&process->helper, &asked, HELPER_GIVEN_UP);
}

/* All in the helper: 0.  A negative errno: nothing is done; -EBUSY where a debugger holds it. */
static long by_helper(struct stopper *w)
{
    uint32_t state = HELPER_NONE;
    if (!atomic_compare_exchange_strong(&process->helper, &state, HELPER_ASKED)) return -EBUSY; /* one that was given up */
    long tid = raw_clone(CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID |
                             CLONE_UNTRACED,
                         helper_stack + STACK_BYTES, helper, w, &process->helper);
    if (tid < 0) {
        atomic_store(&process->helper, HELPER_NONE);
        return tid;
    }
    /* The kernel's own wake at the end is not a private one. */
    const struct timespec bound = {0, (long)HARD_BOUND};
    while ((state = atomic_load(&process->helper)) != HELPER_NONE) {
        raw_syscall(SYS_futex, &process->helper, FUTEX_WAIT, state, &bound);
        /* The look needs a descriptor of the program's table, but who has not begun by then is held in all likelihood. */
        if (state == HELPER_ASKED && atomic_load(&process->helper) == state && helper_is_held((uint32_t)tid)) return -EBUSY;
    }
    return 0;
}

static void nobody_stopped(struct stopper *w, unsigned threads)
{
    w->result.threads = threads;
    w->result.silent = threads > 1 ? threads - 1 : 1;
    w->job->inside(&w->result, w->job->argument);
}

static void alone(struct stopper *w)
{
    w->result.threads = 1;
    w->result.complete = true;
    w->job->inside(&w->result, w->job->argument);
}

static void remember_outcome(const struct stop_result *r)
{
    if (r->complete) {
        atomic_store(&process->failures, 0);
        return;
    }
    /* One that did not wait for its time counts for nothing: five in a second show that the machine has other work, not that threads
       cannot be stopped. */
    if (atomic_load(&process->failures) > 0 && now() < atomic_load(&process->not_before)) return;
    uint32_t failures = atomic_fetch_add(&process->failures, 1);
    atomic_store(&process->not_before, now() + (1000 * MS << (failures < 8 ? failures : 8)));
}

bool stop_is_given_up(void) { return atomic_load(&process->failures) >= FAILURES_MAX; }

bool stop_world(const struct stop_job *job)
{
    if (!job->urgent && atomic_load(&process->failures) > 0) {
        if (stop_is_given_up()) return false;
        if (now() < atomic_load(&process->not_before)) return false;
    }
    struct stopper w = {.job = job, .caller = own_tid()};
    do w.number = atomic_fetch_add(&process->stops, 1) + 1;
    while (w.number == 0);
    struct thread_record *r = thread_enter(w.caller);
    if (r) {
        r->state = THREAD_CALLER;
        r->asked_for = r->seen_in = w.number;
        r->sp = (uintptr_t)__builtin_frame_address(0);
        atomic_store(&r->context, job->context);
    }
    uint64_t all = ~(uint64_t)0, mask;
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
    signal33_check();
    unsigned threads = task_count();
    if (threads == 1 && !job->deep) {
        alone(&w);
    } else if (threads == 0) {
        w.result.no_proc = true;
        w.job->inside(&w.result, w.job->argument);
    } else {
        long error = by_helper(&w);
        if (error == -EBUSY) nobody_stopped(&w, threads);
        else if (error < 0 && threads == 1) alone(&w);
        else if (error < 0) stop_and_go(&w);
    }
    if (r) { /* as the others' records: parked once, without a context now */
        atomic_store(&r->context, NULL);
        r->state = THREAD_PARKED;
    }
    remember_outcome(&w.result);
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8);
    return true;
}
