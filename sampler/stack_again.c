/* stack_again.c: the stack of a thread whose previous one is known, by the short way: a few frames that are new, all with plain rules that the
   thread has at hand (walk.h), on top of some that are as they were, down to the outermost.

   It does what walk_again and take_again (walk.c, stack.c) do in that case, and leaves the trace as they would; whatever else there may be is
   left to them, and nothing is changed then.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/stack_cache.h"
#include "sampler/unwind.h"

#define NEW_FRAMES 32u

/* The node of a frame whose caller's node is `parent`; 0 when the tree is full. */
static ALWAYS_INLINE uint32_t node_of(struct stack_cache *c, uint32_t parent, uintptr_t pc, unsigned depth, bool innermost)
{
    struct at_hand *h = stack_at_hand(c, parent, pc);
    if (unlikely(h->address != pc || h->parent != parent)) {
        uint32_t node = stack_step_in(parent, pc, depth, c->trace.root, c->epoch - 1);
        if (!node) return 0;
        *h = (struct at_hand){.address = pc, .parent = parent, .node = node};
    }
    if (innermost && unlikely(!h->is_stack)) {
        stack_mark(h->node);
        h->is_stack = true;
    }
    return h->node;
}

/* The new steps lie in t->fresh, innermost first, before `end`; they go on top of `join`. */
static ALWAYS_INLINE uint32_t put(struct stack_cache *c, struct walk_step *join, const struct walk_step *end)
{
    struct walk_trace *t = &c->trace;
    uint32_t node = join->node;
    bool needs = join->needs_fp && !join->fp_at;
    while (end > t->fresh) {
        end--;
        join++;
        join->pc = end->pc;
        join->sp = end->sp;
        join->fp = end->fp;
        join->pc_at = end->pc_at;
        join->fp_at = end->fp_at;
        join->sp_at = end->sp_at;
        join->uses_fp = end->uses_fp;
        join->needs_fp = end->uses_fp || needs;
        needs = join->needs_fp && !join->fp_at;
        walk_say_same(join);
        node = node_of(c, node, join->pc, (unsigned)(join - t->steps), end == t->fresh);
        if (unlikely(!node)) return 0;
        join->node = node;
    }
    t->count = (uint32_t)(join - t->steps);
    return node;
}

static ALWAYS_INLINE bool keep_word(struct stack_at_hand *h, const void *at, uintptr_t is)
{
    if (h->words == STACK_WORDS) return false;
    h->word[h->words].at = at;
    h->word[h->words++].is = is;
    return true;
}

/* The words of a frame outwards of the innermost one. */
static ALWAYS_INLINE bool keep_frame(struct stack_at_hand *h, const struct walk_step *s)
{
    if (s->sp_at && !keep_word(h, s->sp_at, s->sp)) return false;
    return keep_word(h, s->sp_at ? (const uintptr_t *)s->sp - 1 : s->pc_at, s->pc) && (!s->needs_fp || !s->fp_at || keep_word(h, s->fp_at, s->fp));
}

/* What was read on the way out of our own code, from `sp` on, and the innermost frame's own words. */
static bool keep_own(struct stack_at_hand *h, const struct walk_own *w, uintptr_t sp, const struct walk_step *innermost)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (!keep_word(h, (const char *)sp + w->at[i], w->pc[i])) return false;
    return keep_word(h, (const char *)sp + w->exit_at, innermost->pc) &&
           (w->fp_at < 0 || keep_word(h, (const char *)sp + w->fp_at, innermost->fp));
}

/* Puts a stack at hand whose innermost frame is the step `top`, for when other steps have taken its place on top of `base`.  `from`: the frame that
   it was walked from, which is not that of `top` where it is our own. */
static NOINLINE void keep(struct stack_cache *c, const struct walk_state *from, const struct walk_step *top,
                          const struct walk_step *base)
{
    const struct walk_trace *t = &c->trace;
    const struct walk_own *own = from->pc != top->pc ? &t->own[t->own_last] : NULL;
    struct stack_at_hand *const set = &c->stacks[stack_place(from->pc, from->sp)], *h = set;
    while (h < set + STACK_WAYS && !(h->node == top->node && h->pc == from->pc && h->sp == from->sp)) h++;
    if (h == set + STACK_WAYS) h = set + c->turn++ % STACK_WAYS;
    h->pc = 0;
    h->words = 0;
    if (own && !keep_own(h, own, from->sp, top)) return;
    for (const struct walk_step *s = top - 1; s >= base; s--)
        if (!keep_frame(h, s)) return;
    h->sp = from->sp;
    h->fp = from->fp;
    h->needs_fp = top->needs_fp && !(own && own->fp_at >= 0);
    h->base_sp = base->sp;
    h->base_fp = base->fp;
    h->base_node = base->node;
    h->base = (uint16_t)(base - t->steps);
    h->node = top->node;
    h->pc = from->pc;
}

static ALWAYS_INLINE uint32_t again(struct stack_cache *c, const uintptr_t *frame, unsigned max)
{
    struct walk_trace *t = &c->trace;
    const struct walk_state from = stack_state_of(frame);
    struct walk_state s = from;
    if (s.pc - 1 - unwind_own_from < unwind_own_bytes &&
        !walk_known_way(t, &s, unwind_own_from, unwind_own_bytes))
        return 0;
    struct walk_place p = walk_place_of(&s);
    struct walk_step *join = t->steps + t->count, *f = t->fresh;
    for (;;) {
        while (join->sp < p.sp) join--;
        if (join->sp == p.sp && join->pc == p.pc && (!join->needs_fp || join->fp == p.fp)) {
            const struct walk_step *same = walk_verified(t, join);
            if (likely(same == t->steps + 1)) break;
            for (; join > same; join--, f++) { /* what it calls is as it was, as walk_again does it */
                if (f == t->fresh + NEW_FRAMES) return 0;
                walk_note(f, &p);
                f->uses_fp = join->uses_fp;
                walk_to_caller(&p, join - 1);
            }
            join--;
        }
        const struct walk_quick *q = walk_quick_of(t, p.pc);
        if (unlikely(q->pc != p.pc || f == t->fresh + NEW_FRAMES)) return 0;
        walk_note(f, &p);
        f->uses_fp = q->cfa & 1;
        f++;
        uintptr_t cfa = walk_quick_cfa(&p, q);
        if (unlikely(cfa <= p.sp || cfa % 8 != 0)) {
            p.sp_at = (const uintptr_t *)(cfa - 2);
            if (!(q->cfa & 2) || (uintptr_t)p.sp_at < p.sp || (uintptr_t)p.sp_at % 8 != 0) return 0;
            cfa = *p.sp_at;
            if (cfa <= p.sp || cfa % 8 != 0) return 0;
            p.fp_at = (const uintptr_t *)p.fp;
            p.pc_at = &walk_no_word;
            p.fp = *p.fp_at;
            p.pc = walk_code_at((const uintptr_t *)cfa - 1);
            p.sp = cfa;
            if (p.pc < WALK_LOWEST_CODE) return 0;
            continue;
        }
        walk_quick_step(&p, q, cfa);
        if (unlikely(p.pc < WALK_LOWEST_CODE)) return 0;
    }
    size_t depth = (size_t)(f - t->fresh) + (size_t)(join - t->steps);
    if (unlikely(t->complete ? depth > max : depth != max) || unlikely(depth <= 1)) return 0;
    if (f == t->fresh) { /* the trace stays: what called these frames may call again what lies further in */
        stack_mark(join->node);
        keep(c, &from, join, join);
        return join->node;
    }
    walk_note_read(join, &p);
    walk_say_same(join);
    uint32_t node = put(c, join, f);
    if (unlikely(!node)) {
        t->count = 0;
        c->same_in = 0;
        return 0;
    }
    c->last = node;
    c->top = t->steps + t->count;
    if (t->complete) keep(c, &from, t->steps + t->count, join);
    return node;
}

uint32_t stack_again(struct stack_cache *c, const uintptr_t *frame)
{
    if (unlikely(!frame || !c || c->same_in != module_epoch() + 1)) return 0;
    if (unlikely(atomic_load_explicit(&c->busy, memory_order_relaxed))) return 0;
    atomic_store_explicit(&c->busy, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    uint32_t id = again(c, frame, stack_depth_limit);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&c->busy, false, memory_order_relaxed);
    return id;
}
