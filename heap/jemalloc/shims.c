/* shims.c: what our copy of jemalloc gets in place of libc (rename.syms).  It shares a process with
   a program that may wrap any of these calls, run its own jemalloc, or fork at any moment; so the
   copy sees no configuration, makes no thread, registers nothing, and takes memory only inside
   our window.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large_map.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/quiet_write.h"
#include "heap/syscall.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

/* Nobody but the copy calls them, so no header declares them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* MALLOC_CONF and /etc/malloc.conf are the program's own copy's (redis with
   MALLOC_CONF=abort_conf:… aborted ours). */
char *gleaner_shim_getenv(const char *name)
{
    return NULL;
}
ssize_t gleaner_shim_readlink(const char *path, char *to, size_t n)
{
    return -1;
}
ssize_t gleaner_shim_readlinkat(int fd, const char *path, char *to, size_t n)
{
    return -1;
}

/* For decay: not by a clock that the program makes up (os.h). */
int gleaner_shim_clock_gettime(clockid_t clock, struct timespec *to)
{
    return os_clock(clock, to) == 0 ? 0 : -1;
}

/* jemalloc maps by itself only the metadata of its arena 0, 2 MiB at a time; it goes into the
   window so that a scan of roots leaves it out by its address.  Aligned as it wants it, so that it
   never trims. */
static struct large_region metadata;
void *gleaner_shim_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    size_t alignment = n >= 2 * MIB ? 2 * MIB : OS_PAGE;
    void *p = at || fd != -1 ? NULL : large_region_take(&metadata, round_up(n, OS_PAGE), alignment);
    return p ? p : MAP_FAILED;
}
/* Never called for arena 0's metadata; if it is, the addresses stay ours. */
int gleaner_shim_munmap(void *at, size_t n)
{
    os_discard(at, n);
    return 0;
}
int gleaner_shim_madvise(void *at, size_t n, int advice)
{
    return os_advise(at, n, advice) < 0 ? -1 : 0;
}
int gleaner_shim_mprotect(void *at, size_t n, int prot)
{
    return -1;
} /* guard pages: off */
void *gleaner_shim_sbrk(intptr_t n)
{
    return (void *)-1;
} /* the program's break */

/* Its handlers take its locks across fork; large_gate.h does without. */
int gleaner_shim_atfork(void (*a)(void), void (*b)(void), void (*c)(void))
{
    return 0;
}

/* No thread of ours in the program (background_thread:false, so these are not reached). */
int gleaner_shim_thread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
{
    return EAGAIN;
}
int gleaner_shim_thread_join(pthread_t t, void **result)
{
    return ESRCH;
}
int gleaner_shim_setname(pthread_t t, const char *name)
{
    return 0;
}
int gleaner_shim_getname(pthread_t t, char *name, size_t n)
{
    return ENOENT;
}
int gleaner_shim_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return 0;
}
int gleaner_shim_sigfillset(sigset_t *set)
{
    return 0;
}
int gleaner_shim_cond_init(pthread_cond_t *c, const pthread_condattr_t *a)
{
    return 0;
}
int gleaner_shim_cond_signal(pthread_cond_t *c)
{
    return 0;
}
int gleaner_shim_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    return EINVAL;
}
int gleaner_shim_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t)
{
    return EINVAL;
}

/* Threads are kept out of its lists (large_jemalloc.c), so nothing is to be done at their end; and
   the program's keys and its pthread_setspecific, which allocates, are left alone. */
int gleaner_shim_key_create(pthread_key_t *key, void (*end)(void *))
{
    *key = 0;
    return 0;
}
int gleaner_shim_setspecific(pthread_key_t key, const void *value)
{
    return 0;
}

/* Its mutexes: a futex word at the start of the pthread_mutex_t (Drepper, "Futexes Are Tricky",
   mutex 2), so that a lock checker which wraps pthread_mutex_lock, and allocates there, does not
   see them. */
static _Atomic uint32_t *word(pthread_mutex_t *m)
{
    return (_Atomic uint32_t *)(void *)m;
}

int gleaner_shim_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
    atomic_store(word(m), 0);
    return 0;
}
int gleaner_shim_mutex_trylock(pthread_mutex_t *m)
{
    uint32_t none = 0;
    return atomic_compare_exchange_strong(word(m), &none, 1) ? 0 : EBUSY;
}
int gleaner_shim_mutex_lock(pthread_mutex_t *m)
{
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong(word(m), &seen, 1)) return 0;
    if (seen != 2) seen = atomic_exchange(word(m), 2);
    while (seen != 0) {
        os_wait_changed(word(m), 2, 100000000); /* but not for ever: who would wake us may not be allowed to */
        seen = atomic_exchange(word(m), 2);
    }
    return 0;
}
int gleaner_shim_mutex_unlock(pthread_mutex_t *m)
{
    if (atomic_exchange(word(m), 0) == 2) os_wake_one(word(m));
    return 0;
}
int gleaner_shim_mutexattr(pthread_mutexattr_t *a)
{
    return 0;
}
int gleaner_shim_mutexattr_destroy(pthread_mutexattr_t *a)
{
    return 0;
}
int gleaner_shim_mutexattr_settype(pthread_mutexattr_t *a, int type)
{
    return 0;
}

/* How many processors there are decides only whether it spins on a lock, and a seccomp filter may
   kill for asking (mimalloc#249): say two. */
int gleaner_shim_getaffinity(pid_t pid, size_t n, cpu_set_t *set)
{
    for (size_t i = 0; i < n; i++) ((unsigned char *)set)[i] = i == 0 ? 3 : 0;
    return 0;
}
int gleaner_shim_setaffinity(pid_t pid, size_t n, const cpu_set_t *set)
{
    return -1;
}
int gleaner_shim_getcpu(void)
{
    return 0;
} /* percpu_arena: off */
long gleaner_shim_sysconf(int name)
{
    return name == _SC_PAGESIZE ? (long)getauxval(AT_PAGESZ) : 2;
}

/* dlsym allocates and takes the loader's lock; it wants only the true pthread_create. */
void *gleaner_shim_dlsym(void *handle, const char *name)
{
    return NULL;
}

/* Its profiler is off (prof:false): without these libgcc_s and libm would come into every process.
 */
int gleaner_shim_unwind_backtrace(void *step, void *user)
{
    return 0;
}
uintptr_t gleaner_shim_unwind_getip(void *context)
{
    return 0;
}
double gleaner_shim_exp(double x)
{
    return x;
}
double gleaner_shim_log(double x)
{
    return x;
}
double gleaner_shim_round(double x)
{
    return x;
}

/* It asks /proc and /sys about overcommit and huge pages, which our hooks decide, and writes
   messages to stderr; all but the messages fail. */
static ssize_t message(int fd, const void *text, size_t n)
{
    return fd == STDERR_FILENO ? (ssize_t)quiet_write(fd, text, n) : -1;
}
long gleaner_shim_syscall(long nr, long a, long b, long c)
{
    return nr == SYS_write ? message((int)a, (const void *)b, (size_t)c) : -1;
}
ssize_t gleaner_shim_write(int fd, const void *text, size_t n)
{
    return message(fd, text, n);
}
int gleaner_shim_open(const char *path, int flags)
{
    return -1;
}
int gleaner_shim_creat(const char *path, int mode)
{
    return -1;
}
int gleaner_shim_close(int fd)
{
    return 0;
}
ssize_t gleaner_shim_read(int fd, void *to, size_t n)
{
    return -1;
}
int gleaner_shim_getpid(void)
{
    return 1;
} /* profile file names */
int gleaner_shim_gettimeofday(struct timeval *to, void *zone)
{
    to->tv_sec = to->tv_usec = 0;
    return 0;
}
char *gleaner_shim_strerror(int error, char *to, size_t n)
{
    print_to(to, n, "error %d", error);
    return to;
}

/* stats_print: off. */
int gleaner_shim_atexit(void (*f)(void))
{
    return 0;
}

/* It found its own structures damaged. */
_Noreturn void gleaner_shim_abort(void)
{
    print_fd(STDERR_FILENO, "gleaner: the large heap is damaged (jemalloc gave up)\n");
    abort();
}
_Noreturn void gleaner_shim_exit(int status)
{
    gleaner_shim_abort();
}
