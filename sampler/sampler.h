/* sampler.h: the face of sampler/ to preload/.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SAMPLER_H
#define GLEANER_SAMPLER_H

#include "heap/hooks.h"

enum sampler_unwinder { SAMPLER_LIBUNWIND, SAMPLER_FRAME_POINTERS };

struct sampler_options {
    uint64_t interval;  /* mean bytes between samples; 0: off */
    bool all;           /* every block (lambda 1) */
    unsigned depth;     /* frames kept of a call stack, 1 to 256 */
    enum sampler_unwinder unwinder;
    bool fixed_seed;
    uint64_t seed;
    void (*warn)(const char *line); /* one line, no newline; may be NULL */
};

/* Fills the sampling hooks (due, large, allocated, freed, resized) of `hooks`, and false_lost.  Once a process, from
   start-up. With interval 0 and not `all` it fills only the last. */
void sampler_start(const struct sampler_options *options, struct heap_hooks *hooks);

/* Mean bytes between sample points: the period of a profile, and what estimate.h wants.  0: off; 8:
   every word, so that estimates are exact. */
uint64_t sampler_interval(void);

/* Loads libunwind if that has not happened and can happen safely now: from the first pthread_create
   (before the thread exists) and from the first sample of a single-threaded process.  Never with a
   lock of ours held. */
void sampler_prepare_threads(void);

/* dlclose is about to run, or has: stacks taken from now on are told apart from earlier ones, so that
   an address stays with the module that was mapped when the stack was taken. */
void sampler_modules_changed(void);

/* fork: prepare closes the unwinding gate (samples then keep frame pointers) and waits at most 10 ms
   for threads inside; parent and child open it; a child whose gate could not be emptied never calls
   libunwind again.  The child's profile starts with what is live and counts allocations from zero. */
void sampler_fork_prepare(void);
void sampler_fork_parent(void);
void sampler_fork_child(void);

/* Lets text be written of the stack of a tracked entry (misuse messages): one line a frame,
   `    #0 0x… (module+0x…)`. */
void sampler_print_stack(int fd, uint32_t entry);

struct sampler_stats {
    uint64_t samples, samples_freed;      /* blocks sampled, and of them freed */
    uint64_t live_entries;                /* tracked now */
    uint64_t dropped_entries;             /* not tracked because the table was full */
    uint64_t stacks, dropped_stacks;      /* interned; not interned because the table was full */
    uint64_t one_frame;                   /* samples whose stack came back one frame deep */
    uint64_t early;                       /* samples before start, with the return address only */
    uint64_t memory_bytes;                /* held by the sampler */
};
void sampler_stats(struct sampler_stats *to);

#endif
