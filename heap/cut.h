/* cut.h: a consistent cut: what the one who stopped the world knows of it.  Made by preload/, read by the
   collector, in the stopped process itself or in the frozen copy of it that a snapshot child has.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_CUT_H
#define GLEANER_CUT_H

#include "heap/base.h"

/* A thread of the process. */
struct cut_thread {
    const void *context;  /* ucontext_t where it was interrupted by our signal; NULL: see sp */
    uintptr_t sp;         /* stack pointer where there is no context; 0: unknown */
    uintptr_t stack_low;  /* its own stack as pthread_create made it, from the end of the guard; */
    uintptr_t stack_high; /* 0, 0: unknown, then all that is mapped around sp counts */
    uint32_t tid;         /* 0: unknown */
    uintptr_t tp;         /* its thread pointer; 0: unknown */
};

struct cut_range {
    uintptr_t from, to;
};

/* All arrays lie in private memory of ours that a scan of roots leaves out. */
struct cut {
    const struct cut_thread *thread;
    size_t threads;
    /* Words that only the kernel holds: epoll data, timers, alternate stacks, arguments (kernel_roots.h). */
    const uintptr_t *word;
    /* Of each of them the address (shared memory that a fork does not freeze), or, of what lies nowhere, a number that is no multiple
       of 8: see below.  NULL: not known. */
    const uintptr_t *word_at;
    size_t words;
    /* Memory of the library that is no root, beside the window: stacks and tables of our own. */
    const struct cut_range *ours;
    size_t n_ours;
    /* Ranges that the program has named as roots (root ranges of gleaner.h, __lsan_register_root_region);
       scanned also where they would not be found otherwise. */
    const struct cut_range *root;
    size_t n_root;
    uintptr_t pointer_guard; /* glibc's PTR_MANGLE cookie, fs:0x30 on x86-64; 0: none */
    size_t tls_bytes;        /* that the loader gives each thread beside its thread pointer */
};

/* Words that lie nowhere, in the low three bits; above them, for epoll, the descriptor, and that which is registered. */
#define CUT_EPOLL ((uintptr_t)1)
#define CUT_TIMER ((uintptr_t)2)
#define CUT_UNKNOWN ((uintptr_t)3)
#define CUT_DESCRIPTOR_BITS 24
static inline uintptr_t cut_epoll(uint64_t set, uint64_t registered)
{
    const uint64_t most = ((uint64_t)1 << CUT_DESCRIPTOR_BITS) - 1;
    return (uintptr_t)((registered & most) << (3 + CUT_DESCRIPTOR_BITS) | (set & most) << 3) | CUT_EPOLL;
}

#endif
