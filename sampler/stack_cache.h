/* stack_cache.h: what stack.c and its inline part share.  See stack.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_STACK_CACHE_H
#define GLEANER_STACK_CACHE_H

#include "sampler/module.h"
#include "sampler/stack.h"
#include "sampler/walk_trace.h"

#define OWN_FRAMES 24 /* room for our own frames at the top */

#define NODES_AT_HAND 1024
struct at_hand {
    uintptr_t address;
    uint32_t parent;
    uint32_t node : 31;
    bool is_stack : 1; /* its node is marked as a stack's innermost */
};
_Static_assert(sizeof(struct at_hand) == 16, "four a cache line");

/* A stack of before that has left the trace: some frames on top of one of its steps.  They are the same as long as the words are from which
   the walk read them, in the order in which it did. */
#define STACKS_AT_HAND 128
#define STACK_WAYS 4 /* in a set */
#define STACK_WORDS 16
struct stack_at_hand {
    uintptr_t pc, sp, fp;        /* of the innermost frame; pc 0: none */
    uintptr_t base_sp, base_fp;  /* of the step */
    uint32_t node, base_node;
    uint16_t base;               /* its number, from 1 */
    uint8_t words;
    bool needs_fp;
    struct {
        const uintptr_t *at;
        uintptr_t is;
    } word[STACK_WORDS];
};

struct stack_cache {
    _Atomic bool busy; /* a signal handler may allocate while its thread is in here */
    uint32_t epoch;    /* + 1, of `nodes` */
    uint32_t last;     /* the previous stack */
    uint32_t same_in;  /* module_epoch() + 1 in which the trace is that stack's, deeper than one frame; 0: it is not */
    const struct walk_step *top; /* then: the last step of the trace */
    struct at_hand nodes[NODES_AT_HAND];
    uint32_t turn;     /* whose place in its set the next stack at hand takes */
    struct stack_at_hand stacks[STACKS_AT_HAND];
    struct walk_trace trace; /* its steps' `node`: the frame's node */
    uintptr_t frames[STACK_DEPTH_MAX + OWN_FRAMES];
};

HIDDEN extern unsigned stack_depth_limit; /* frames kept of a stack */

/* The node (parent, address), made if it is new; 0 when the tree is full.  `now`: the epoch of the module table. */
uint32_t stack_step_in(uint32_t parent, uintptr_t address, unsigned depth, unsigned flags, uint32_t now);

/* A capture ended at this node. */
void stack_mark(uint32_t node);

static ALWAYS_INLINE struct at_hand *stack_at_hand(struct stack_cache *c, uint32_t parent, uintptr_t address)
{
    uint64_t hash = (address + (uint64_t)parent * 0x9e3779b1u) * 0x9e3779b97f4a7c15u;
    _Static_assert(NODES_AT_HAND == 1 << (64 - 54), "what the shift leaves");
    return &c->nodes[hash >> 54];
}

/* The stack by the short way (stack_again.c), or 0: then stack_capture_frame is to be called.  Sampling need not be suspended. */
uint32_t stack_again(struct stack_cache *c, const uintptr_t *frame);

/* Of a frame record (sample_every.c). */
static ALWAYS_INLINE struct walk_state stack_state_of(const uintptr_t *frame)
{
    return (struct walk_state){.fp = frame[0], .pc = frame[1], .sp = (uintptr_t)(frame + 2)};
}

/* The first of the places of a stack. */
static ALWAYS_INLINE unsigned stack_place(uintptr_t pc, uintptr_t sp)
{
    _Static_assert(STACKS_AT_HAND == STACK_WAYS << (64 - 59), "what the shift leaves");
    return STACK_WAYS * (unsigned)((pc ^ sp << 12) * 0x9e3779b97f4a7c15u >> 59);
}

/* Is it the one at hand, up to its base? */
static ALWAYS_INLINE bool stack_is(const struct stack_at_hand *h, const struct walk_state *s)
{
    if (h->pc != s->pc || h->sp != s->sp || (h->needs_fp && h->fp != s->fp)) return false;
    for (unsigned i = 0; i < h->words; i++)
        if (*h->word[i].at != h->word[i].is) return false;
    return true;
}

/* The stack from that frame on if it is one at hand (of no cache, none is), else 0.  Reads only; sampling need not be suspended. */
static ALWAYS_INLINE uint32_t stack_find(const struct stack_cache *c, const uintptr_t *frame)
{
    if (unlikely(!frame || !c || c->same_in != module_epoch() + 1)) return 0;
    const struct walk_state s = stack_state_of(frame);
    const struct walk_step *const top = c->top;
    if (top->sp == s.sp && top->pc == s.pc && (!top->needs_fp || top->fp == s.fp) && walk_all_same(&c->trace, top)) return c->last;
    const struct stack_at_hand *h = &c->stacks[stack_place(s.pc, s.sp)], *const end = h + STACK_WAYS;
    while (!stack_is(h, &s))
        if (++h == end) return 0;
    const struct walk_step *base = c->trace.steps + h->base;
    if (base > top || base->node != h->base_node || base->sp != h->base_sp || (base->needs_fp && base->fp != h->base_fp)) return 0;
    return walk_all_same(&c->trace, base) ? h->node : 0;
}

#endif
