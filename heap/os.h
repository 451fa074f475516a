/* os.h: what the library asks of the operating system for memory and time, in one place so that
   tests can make it fail.  All calls are raw (syscall.h), leave errno alone and may be made from any
   thread, also in a snapshot child.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_OS_H
#define GLEANER_OS_H

#include "heap/base.h"

#include <time.h>

/* Maps `bytes` (a multiple of OS_PAGE) of zeroed private memory exactly at `address`.  False if the
   range is occupied in part (nothing is changed then) or if the system refuses. `*occupied`, where
   not NULL, tells the two apart. */
bool os_map_at(void *address, size_t bytes, bool *occupied);

/* Maps `bytes` of zeroed private memory anywhere; NULL if refused. */
void *os_map(size_t bytes);
void os_unmap(void *address, size_t bytes);

/* Gives the pages back; they read as zero when touched again. */
void os_discard(void *address, size_t bytes);

/* The same where they may be mapped otherwise now (a file's): fresh private memory takes the place of whatever is there.  False: too many mappings. */
bool os_replace(void *address, size_t bytes);

/* Copies from the process's own memory where it may not be readable, or mapped: the bytes that could be read, all of them or up to the end of a page;
   negative: none. */
long os_read_own(void *to, uintptr_t from, size_t bytes);

/* Can the eight bytes be read?  By a system call, without a fault; false where that may not be asked any more. */
bool os_can_read(uintptr_t address);

/* Asks for huge pages in the range; a hint.  Only where a good deal is mapped, OS_HUGE_FROM: a huge page
   is cleared as a whole, is made by compaction where memory is in pieces, and on a virtual machine is seldom one that the host has there (a
   process of 160 MB took four times as long for its pages), while what it saves grows with the memory that is used. */
#define OS_HUGE_FROM (256 * MIB)
void os_prefer_huge(void *address, size_t bytes);

/* Makes the pages present in one call instead of by faults; a hint (Linux 5.14). */
void os_populate(void *address, size_t bytes);

/* Nanoseconds of CLOCK_MONOTONIC_COARSE (cheap, some 4 ms fine), and of CLOCK_REALTIME. */
uint64_t os_now_coarse(void);
uint64_t os_realtime(void);

/* The clocks, by the kernel itself: the vDSO's function where one was given, else the system call.  Never by libc's name, behind which a
   library may stand that makes up other times (libfaketime), and allocates, or complains, when it is asked too early. */
typedef int os_clock_function(clockid_t, struct timespec *);
extern __attribute__((visibility("hidden"))) os_clock_function *os_clock;

/* From start-up: NULL leaves the system call. */
void os_clock_is(os_clock_function *);

/* CLOCK_MONOTONIC_COARSE in ticks of 1/64 second. */
#define OS_TICKS 64
static ALWAYS_INLINE uint64_t os_ticks_of(const struct timespec *ts)
{
    return (uint64_t)ts->tv_sec * OS_TICKS + (uint32_t)ts->tv_nsec / (1000000000u / OS_TICKS);
}

static ALWAYS_INLINE uint64_t os_ticks(void)
{
    struct timespec ts;
    os_clock(CLOCK_MONOTONIC_COARSE, &ts);
    return os_ticks_of(&ts);
}

/* Fills `bytes` with random data: AT_RANDOM's bytes, the clock and addresses, never a system call
   that a seccomp filter may kill for (mimalloc#249). */
void os_random(void *to, size_t bytes);

/* The calling thread's number, asked for once a thread: the first block asks, so that a program that shuts itself
   in a seccomp filter later makes no such call there.  os_fork_child forgets it. */
uint32_t os_thread_id(void);
void os_fork_child(void);

/* Sleeps that long (less than a second); by futex, which every sandbox allows that has threads.  Not where waiting is withheld. */
void os_sleep(long nanoseconds);

/* Sleeps while *word is `from`, at most so long (less than a second); nobody need wake us. */
void os_wait_changed(_Atomic uint32_t *word, uint32_t from, long nanoseconds);
void os_wake_one(_Atomic uint32_t *word);

/* Does a thread of this process have that number? */
bool os_thread_exists(uint32_t thread);
void os_yield(void);

/* What must not be asked of the kernel any more, since a filter that the program put over itself would kill for it (preload/shut_in.h).  The
   allocator does without: */
enum os_withheld {
    OS_NUMBERS = 1,       /* which thread this is, and whether another lives: those that were not known are OS_SOMEBODY, who lives */
    OS_MAPPING = 2,       /* there is no memory; not meanwhile */
    OS_PLACING = 4,       /* MAP_FIXED_NOREPLACE: addresses are hints */
    OS_REPLACING = 8,     /* MAP_FIXED: what is mapped stays */
    OS_UNMAPPING = 16,    /* addresses stay taken; their pages go */
    OS_MOVING = 32,       /* mremap: it fails */
    OS_ADVICE = 64,       /* hints are not given; what is discarded is mapped anew */
    OS_CLOCK = 128,       /* as coarse as the vDSO tells without the kernel; without vDSO the clock stands still */
    OS_LOOKING = 256,     /* whether an address can be read: it cannot */
    OS_DESCRIPTORS = 512, /* those of ours that a forked child has inherited stay open */
    OS_WAITING = 1024     /* futex: who waits spins, and nobody is woken */
#define OS_WITHHELD_ALL 2047u
};
#define OS_WITHHELD_ABOVE(bits) ((unsigned)(bits) << 16) /* what the layers above do without */
bool os_withheld(unsigned any_of);

/* A filter is on its way; what it will kill for, if that is known before; and then: this is withheld for good, 0 where it was refused, and what was
   withheld meanwhile is not when no other is on its way.  Any thread, several at once. */
void os_withhold_begin(void);
void os_withhold_meanwhile(unsigned what);
void os_withhold_end(unsigned what);
bool os_withhold_is_under_way(void);

/* In a forked child: those that other threads were about to put up are not its own. */
void os_withhold_forked(void);
#define OS_SOMEBODY UINT32_MAX

/* mremap and madvise; negative errno. */
long os_move(void *from, size_t n, size_t bytes, int flags, void *to);
long os_advise(void *address, size_t bytes, int advice);

/* Ends the process by SIGABRT, whatever the program does with that signal; no libc. */
_Noreturn void os_abort(void);

/* Tests only: the next `n` mappings after `skip` more succeed are refused. */
void os_fail_mappings(unsigned skip, unsigned n);

#endif
