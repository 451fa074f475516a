/* stack.h: interned call stacks.  A stack is the number (id) of its innermost frame in a tree of
   frames, see stack.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_STACK_H
#define GLEANER_STACK_H

#include "sampler/sampler.h"

#define STACK_DEPTH_MAX 256

enum stack_flag {
    STACK_EARLY = 1,     /* taken before stacks could be walked: the caller's address only */
    STACK_ONE_FRAME = 2, /* came back one frame deep */
    STACK_CUT = 4        /* deeper than `depth`: the outer frames are missing */
};

/* What the previous capture of a thread found: makes the next one cheaper. */
struct stack_cache;

/* Takes depth and unwinder from the options, and finds our own text.  Once, from start-up; captures
   before it work and use the defaults. */
void stack_start(const struct sampler_options *options);

/* The calling thread's stack, without our own frames at its top, interned.  Returns its id, or 0 if
   the table is full (counted).  `one_frame`, where not NULL, tells whether only one frame was
   found.  Sampling must be suspended: libunwind may call malloc.  No lock of ours is held; errno is
   kept.  Async-signal safe but for libunwind; inside itself (a signal handler that allocates) it
   keeps one frame. */
uint32_t stack_capture(bool *one_frame);

/* The same with a cache: `*cache` is NULL at first, belongs to the calling thread, and may be
   handed to another thread when this one has ended.  Its memory comes from meta_alloc once. */
uint32_t stack_capture_cached(struct stack_cache **cache, bool *one_frame);

/* As stack_capture_cached, of the frame `frame` on (sample_every.c; NULL: the calling one). */
uint32_t stack_capture_frame(struct stack_cache **cache, const uintptr_t *frame);

/* In a forked child, for a cache that may have been another thread's (NULL too): what it remembers
   may be newer than the tables that the child has. */
void stack_cache_forget(struct stack_cache *);

/* Interns the given return addresses, innermost first: for tests and for stacks that somebody else
   took.  `depth` at least 1.  As stack_capture. */
uint32_t stack_intern(const uintptr_t *frames, unsigned depth, unsigned flags);

/* One frame of a stack: walk from stack id to 0 with `parent`. */
struct stack_frame {
    uintptr_t address; /* a return address: the call lies before it */
    uint32_t module;   /* number of its module (module.h), 0: none */
    uint32_t parent;   /* the caller's frame; 0: outermost */
    uint32_t depth;    /* frames from here outwards, this one included */
    uint32_t flags;    /* of the stack: enum stack_flag */
};

/* Reads one frame.  False for 0 and for numbers that are no frame.  Any thread, no lock, also in a
   snapshot child. */
bool stack_frame(uint32_t id, struct stack_frame *to);

/* The return addresses of a stack, innermost first, at most `max`; returns how many there are in
   all. `flags` may be NULL. */
unsigned stack_get(uint32_t id, uintptr_t *frames, unsigned max, unsigned *flags);

/* Writes one line a frame, `    #0 0x… (module+0x…)`. */
void stack_print(int fd, uint32_t id);

struct stack_stats {
    uint64_t stacks;       /* different stacks that were interned */
    uint64_t frames;       /* nodes of the tree */
    uint64_t dropped;      /* captures that found no room */
    uint64_t one_frame;    /* captures that came back one frame deep */
    uint64_t early;        /* captures with the caller's address only */
    uint64_t memory_bytes; /* in use by the tree, of its bound */
};
void stack_stats(struct stack_stats *to);

/* Frame ids are below this: a table by frame id needs so many entries.  Grows. */
uint32_t stack_id_limit(void);

/* Tests: how many bytes the tree may use; what counts as our own text (0, 0: nothing). */
void stack_set_limit(size_t bytes);
void stack_set_own_text(uintptr_t from, uintptr_t to);

void stack_fork_prepare(void);
void stack_fork_parent(void);
void stack_fork_child(void);

#endif
