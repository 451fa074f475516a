/* walk_trace.h: what walk.c does with a trace, shared with who does the same by a shorter way (stack_again.c).  See walk.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_WALK_TRACE_H
#define GLEANER_WALK_TRACE_H

#include "sampler/walk.h"

#define WALK_LOWEST_CODE 0x4000

HIDDEN extern const uintptr_t walk_no_word; /* no code address */

/* Compared from the innermost frame on, so that no word beyond the frames that are there is read. */
static ALWAYS_INLINE bool walk_take_way(const struct walk_own *w, struct walk_state *s, uintptr_t own,
                                   uintptr_t bytes)
{
    uintptr_t sp = s->sp;
    if (w->start != s->pc) return false;
    for (uint32_t i = 0; i < w->count; i++)
        if (walk_code_at((const uintptr_t *)(sp + (uintptr_t)(intptr_t)w->at[i])) != w->pc[i]) return false;
    uintptr_t pc = walk_code_at((const uintptr_t *)(sp + (uintptr_t)(intptr_t)w->exit_at));
    if (pc - 1 - own < bytes || pc < WALK_LOWEST_CODE) return false;
    s->pc = pc;
    if (w->fp_at >= 0) s->fp = *(const uintptr_t *)(sp + (uintptr_t)w->fp_at);
    s->sp = sp + (uintptr_t)w->delta;
    return true;
}

/* The way that was taken last is tried first. */
static inline bool walk_known_way(struct walk_trace *t, struct walk_state *s, uintptr_t own, uintptr_t bytes)
{
    if (likely(walk_take_way(&t->own[t->own_last], s, own, bytes))) return true;
    for (uint32_t i = 0; i < WALK_OWN_PATHS; i++)
        if (walk_take_way(&t->own[i], s, own, bytes)) {
            t->own_last = i;
            return true;
        }
    return false;
}

/* The first of the two places of a rule. */
static ALWAYS_INLINE struct walk_quick *walk_quick_set(struct walk_trace *t, uintptr_t pc)
{
    _Static_assert(WALK_QUICK == 2 << (64 - 55), "what the shift leaves");
    return &t->quick[2 * (pc * 0x9e3779b97f4a7c15u >> 55)];
}

/* The rule of a return address, or another's. */
static ALWAYS_INLINE const struct walk_quick *walk_quick_of(struct walk_trace *t, uintptr_t pc)
{
    const struct walk_quick *q = walk_quick_set(t, pc);
    return likely(q->pc == pc) ? q : q + 1;
}

/* Is the frame as it was?  Of those whose `same` does not suffice; reads what a walk would read, in that order. */
static inline bool walk_is_as_it_was(const struct walk_step *of)
{
    if (of->sp_at) {
        if (*of->sp_at != of->sp || walk_code_at((const uintptr_t *)of->sp - 1) != of->pc) return false;
        return !of->needs_fp || *of->fp_at == of->fp;
    }
    return of->check_fp && walk_code_at(of->pc_at) == of->pc && *of->fp_at == of->fp;
}

/* The frames outwards of `from` that are as they were: returns the outermost such. */
static ALWAYS_INLINE struct walk_step *walk_verified(struct walk_trace *t, struct walk_step *from)
{
    for (;; from--) {
        const struct walk_step *caller = from - 1;
        if (likely(walk_code_at(caller->pc_at) == caller->same)) continue;
        if (caller == t->steps || !walk_is_as_it_was(caller)) return from;
    }
}

static ALWAYS_INLINE void walk_say_same(struct walk_step *of)
{
    of->check_fp = of->needs_fp && of->fp_at;
    of->same = of->sp_at ? 1 : of->check_fp ? 0 : of->pc; /* with sp_at, pc_at is that of no word */
}

/* A frame on the way outwards, and where its values were read. */
struct walk_place {
    uintptr_t pc, sp, fp;
    const uintptr_t *pc_at, *fp_at, *sp_at;
};

static ALWAYS_INLINE struct walk_place walk_place_of(const struct walk_state *s)
{
    return (struct walk_place){s->pc, s->sp, s->fp, &walk_no_word, NULL, NULL};
}

static ALWAYS_INLINE void walk_note_read(struct walk_step *f, const struct walk_place *p)
{
    f->pc_at = p->pc_at;
    f->fp_at = p->fp_at;
    f->sp_at = p->sp_at;
}

static ALWAYS_INLINE void walk_note(struct walk_step *f, const struct walk_place *p)
{
    f->pc = p->pc;
    f->sp = p->sp;
    f->fp = p->fp;
    walk_note_read(f, p);
}

/* On to the caller, a step of the previous walk which is as it was; its fp, where nothing needed it, may be another. */
static ALWAYS_INLINE void walk_to_caller(struct walk_place *p, const struct walk_step *caller)
{
    p->pc_at = caller->pc_at;
    p->fp_at = caller->fp_at;
    p->sp_at = caller->sp_at;
    p->pc = caller->pc;
    p->sp = caller->sp;
    if (p->fp_at) p->fp = *p->fp_at;
}

/* Where a rule at hand says that the frame ends. */
static ALWAYS_INLINE uintptr_t walk_quick_cfa(const struct walk_place *p, const struct walk_quick *q)
{
    return (q->cfa & 1 ? p->fp - 1 : p->sp) + (uintptr_t)(intptr_t)q->cfa;
}

/* On to the caller by that rule. */
static ALWAYS_INLINE void walk_quick_step(struct walk_place *p, const struct walk_quick *q, uintptr_t cfa)
{
    p->pc_at = (const uintptr_t *)(cfa + (uintptr_t)(intptr_t)q->ra);
    p->fp_at = p->sp_at = NULL;
    if (q->fp) {
        p->fp_at = (const uintptr_t *)(cfa + (uintptr_t)(intptr_t)q->fp);
        p->fp = *p->fp_at;
    }
    p->pc = walk_code_at(p->pc_at);
    p->sp = cfa;
}

/* Are all the frames outwards of `from` as they were?  Reads what a walk would read. */
static ALWAYS_INLINE bool walk_all_same(const struct walk_trace *t, const struct walk_step *from)
{
    for (;; from--) {
        const struct walk_step *caller = from - 1;
        if (likely(walk_code_at(caller->pc_at) == caller->same)) continue;
        if (likely(caller == t->steps)) return true;
        if (!walk_is_as_it_was(caller)) return false;
    }
}

#endif
