/* blocking.h: what the wrappers of blocking calls share.

   1. Problem.  Our signal makes some calls return EINTR in spite of SA_RESTART, and some return a
      part of a transfer as success.  The program must see neither; yet what a
      handler of its own interrupts must be seen, or `while (!stop) epoll_wait(…, -1)` hangs.
   2. Evidence.  (a) Our signal ran in this thread during the call: every delivery draws a ticket
      from a global counter and notes it in the thread's record; the wrapper reads the counter
      before the call, and looks the record up only when the result is suspect and the counter
      moved.  (b) No handler of the program ran in this thread meanwhile: handlers.c counts them,
      per thread.  Only (a) without (b) is hidden.  (c) A signal that is sent to the process, as
      requests are, may wake a thread in vain: another one takes it, and sigwaitinfo, epoll_wait and
      others say EINTR though no handler ran.  So an EINTR without (b) is hidden too where such a
      request was taken elsewhere.  What a signal of the program does to a call that the kernel
      itself restarts after our handler is restart.h's part.  Cheaper evidence is not enough: our
      handler sees the registers that it interrupted, but a handler of the program that ran just
      before it, or that was pending and runs just after it, leaves no trace there, and our handler
      parks for so long that the latter is common.
   3. Window.  Between the check of (b) and the re-issued system call lie some twenty instructions
      in which a handler of the program goes unnoticed: the same window as between a program's test
      of its own flag and its own call, which only the calls with a signal mask (ppoll, sigsuspend
      …) close, and for those it stays closed, since the mask is only swapped inside the call.
   4. Cost when nothing stops: two loads before the call, and a comparison of the result after it;
      calls with a timeout that may be slept out read the clock first (vDSO).
   5. The real function is called always, so cancellation points stay such.  Before start-up has
      looked it up (other libraries' constructors), the raw system call serves; nothing is ever
      looked up lazily.
   6. Re-issuing a call with SO_RCVTIMEO or SO_SNDTIMEO would start the timeout anew: see
      transfer_wait.
   7. Not wrapped, because it cannot be or because it needs nothing: io_uring_enter and others
      issued inline (such a thread is left alone: disturb.h); sigwait, sem_wait, mq_*, pthread_*,
      flock, fcntl(F_SETLKW) (they restart); close.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_BLOCKING_H
#define GLEANER_BLOCKING_H

#include "preload/handlers.h"
#include "preload/stop.h"

#include <errno.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
/* Another name by which libc exports the same function. */
#define ALSO_KNOWN_AS(function, name)                                                              \
    extern __typeof(function) name __attribute__((alias(#function), visibility("default")))

/* What was true before the call. */
struct undisturbed {
    uint32_t tickets;
    uint32_t handlers;
    int error; /* errno */
};

static ALWAYS_INLINE struct undisturbed undisturbed(void)
{
    struct undisturbed u = {atomic_load_explicit(&stop_tickets, memory_order_relaxed),
                            handlers_ran, errno};
    atomic_signal_fence(memory_order_seq_cst);
    return u;
}

/* Slow paths of the next. */
bool blocking_part_was_ours(struct undisturbed *since);
bool blocking_eintr_was_ours(struct undisturbed *since);

/* The call returned a part, or EINTR: was it our doing alone?  If so `since` is renewed for the
   next attempt.  The first keeps errno; the second sets it to what it was before the call, which may
   succeed next, when it is ours. */
static ALWAYS_INLINE bool part_was_ours(struct undisturbed *since)
{
    if (likely(atomic_load_explicit(&stop_tickets, memory_order_relaxed) == since->tickets)) {
        return false;
    }
    return blocking_part_was_ours(since);
}

static ALWAYS_INLINE bool eintr_was_ours(struct undisturbed *since)
{
    return handlers_ran == since->handlers && blocking_eintr_was_ours(since);
}

/* Either, by the call's result, which is negative for EINTR. */
static ALWAYS_INLINE bool was_ours(struct undisturbed *since, long result)
{
    return result < 0 ? eintr_was_ours(since) : part_was_ours(since);
}

/* Nanoseconds of the clock; raw values, so that a deadline is compared with nothing but itself. */
int64_t blocking_now(clockid_t clock);

/* The rest of a relative timeout that began at `began` (CLOCK_MONOTONIC): never negative. */
struct timespec blocking_rest(const struct timespec *timeout, int64_t began);

/* Milliseconds left, rounded up. */
int blocking_rest_ms(int timeout_ms, int64_t began);

/* Looks up a real function of the next object; NULL if there is none. */
void *blocking_real(const char *name);

/* A raw system call with libc's convention: -1 and errno. */
#define FALLBACK(...) blocking_result(raw_syscall(__VA_ARGS__))
static inline long blocking_result(long r)
{
    if ((unsigned long)r < -4095UL) return r;
    errno = (int)-r;
    return -1;
}

/* Looks up all real functions; from start-up, as early as possible, in one thread. */
void blocking_start(void);

/* Its parts, by family. */
void blocking_time_start(void);
void blocking_poll_start(void);
void blocking_signal_start(void);
void blocking_sem_start(void);
void blocking_write_start(void);
void blocking_send_start(void);
void blocking_recv_start(void);
void blocking_connect_start(void);
void blocking_syscall_start(void);

#endif
