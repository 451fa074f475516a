/* blocking.c: was it our signal that made a call return early?
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/blocking.h"
#include "heap/os.h"
#include "heap/syscall.h"
#include "preload/shut_in.h"

#include <dlfcn.h>

bool blocking_part_was_ours(struct undisturbed *since)
{
    if (shut_in_already(SHUT_IN_COLLECT)) return false;
    atomic_signal_fence(memory_order_seq_cst);
    uint32_t handlers = handlers_ran;
    uint32_t tickets = atomic_load(&stop_tickets);
    struct thread_record *r = thread_find((uint32_t)raw_syscall(SYS_gettid, 0));
    bool here = r && (int32_t)(atomic_load(&r->ticket) - since->tickets) > 0;
    bool elsewhere = (int32_t)(atomic_load(&stop_latest_to_any) - since->tickets) > 0;
    if (!here && !elsewhere) return false;
    if (handlers != since->handlers) return false;
    since->tickets = tickets;
    return true;
}

/* A thread that was woken in vain may get here before the one that took the signal has drawn its
 * ticket. */
bool blocking_eintr_was_ours(struct undisturbed *since)
{
    for (int i = 0; i < 20 && !shut_in_already(SHUT_IN_COLLECT); i++) {
        if (part_was_ours(since)) {
            errno = since->error;
            return true;
        }
        if (handlers_ran != since->handlers) return false;
        raw_syscall(SYS_sched_yield, 0);
    }
    return false;
}

int64_t blocking_now(clockid_t clock)
{
    struct timespec ts;
    os_clock(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

struct timespec blocking_rest(const struct timespec *timeout, int64_t began)
{
    int64_t passed = blocking_now(CLOCK_MONOTONIC) - began;
    struct timespec rest = {timeout->tv_sec - passed / 1000000000,
                            timeout->tv_nsec - passed % 1000000000};
    if (rest.tv_nsec < 0) {
        rest.tv_nsec += 1000000000;
        rest.tv_sec--;
    }
    if (rest.tv_sec < 0) rest = (struct timespec){0, 0};
    return rest;
}

int blocking_rest_ms(int timeout_ms, int64_t began)
{
    int64_t passed = blocking_now(CLOCK_MONOTONIC) - began;
    int64_t rest = ((int64_t)timeout_ms * 1000000 - passed + 999999) / 1000000;
    return rest > 0 ? (int)rest : 0;
}

void *blocking_real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

void blocking_start(void)
{
    handlers_start();
    blocking_time_start();
    blocking_poll_start();
    blocking_signal_start();
    blocking_sem_start();
    blocking_write_start();
    blocking_send_start();
    blocking_recv_start();
    blocking_connect_start();
    blocking_syscall_start();
}
