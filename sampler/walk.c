/* walk.c: the stack walker.

   1. Data.  A process-wide cache maps a code address to its packed unwinding rule (cfi.h): sets of
      four entries, one cache line each.  The key carries the module table's epoch, so a dlclose
      makes all rules go.  A thread may bring a trace of its previous walk (walk.h).
   2. Synchronisation.  Readers take key, rule and key again.  A writer makes an entry its own by
      replacing the key with BUSY; whoever fails to do so does not cache.  A writer that vanishes in
      a fork leaves one entry unused in the child.
   3. Algorithm.  The loop follows sp and fp only, as libunwind's fast trace does (its Gtrace.c):
   that is enough for what compilers emit.  Code without tables (just-in-time code) is taken to keep
      frame pointers; what is read then is checked first.  Rules from tables are trusted as every
      C++ exception trusts them; a frame address that does not grow ends the walk.
   4. Why not libunwind alone.  Its look-ups take the loader's lock, block signals and keep 256 KiB
   a thread, its trace cache goes stale after dlclose, and it cannot be loaded before start-up.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/walk_trace.h"
#include "heap/os.h"
#include "sampler/cfi.h"
#include "sampler/module.h"

#include <ucontext.h>

#define SETS 4096
#define WAYS 4
#define BUSY ((uintptr_t)1)

struct entry {
    _Atomic uintptr_t key;
    _Atomic uint64_t rule;
};

static struct {
    _Alignas(64) struct entry way[WAYS];
} cache[SETS];
_Static_assert(sizeof cache[0] == 64, "a set is a cache line");

/* What the keys carry is 16 bits of the module table's epoch: when these start again, all keys go.
 */
static COLD void start_again(uint32_t epoch)
{
    static _Atomic uint32_t rounds;
    uint32_t before = atomic_load(&rounds), now = epoch >> 16;
    if (before == now || !atomic_compare_exchange_strong(&rounds, &before, now)) return;
    for (unsigned s = 0; s < SETS; s++)
        for (unsigned w = 0; w < WAYS; w++) atomic_store(&cache[s].way[w].key, 0);
}

static ALWAYS_INLINE uint32_t generation_now(void)
{
    uint32_t epoch = module_epoch();
    if (unlikely(epoch >> 16 != 0)) start_again(epoch);
    return epoch;
}

/* kind 3 bits, flags 2, frame address offset 24, return address slot 16, fp slot 16; the offsets in
   words. */
static uint64_t pack(const struct cfi_rule *r)
{
    return (uint64_t)r->kind | (uint64_t)r->cfa_fp << 3 | (uint64_t)r->cfa_load << 4 |
           ((uint64_t)(r->cfa_offset / 8) & 0xffffff) << 5 |
           ((uint64_t)(r->ra_slot / 8) & 0xffff) << 29 |
           ((uint64_t)(r->fp_slot / 8) & 0xffff) << 45;
}

static ALWAYS_INLINE struct cfi_rule unpack(uint64_t v)
{
    struct cfi_rule r = {
        .kind = (enum cfi_kind)(v & 7), .cfa_fp = v >> 3 & 1, .cfa_load = v >> 4 & 1};
    r.cfa_offset = (int32_t)((int64_t)(v << 35) >> 40) * 8;
    r.ra_slot = (int32_t)(int16_t)(v >> 29) * 8;
    r.fp_slot = (int32_t)(int16_t)(v >> 45) * 8;
    return r;
}

static COLD uint64_t look_up(uintptr_t pc, uintptr_t key, unsigned set)
{
    struct module_object object;
    struct cfi_rule rule = {.kind = CFI_UNKNOWN};
    if (!module_object(pc, &object)) {
        if (!module_lock_free()) rule.kind = CFI_COMPLEX;
        return pack(&rule); /* not kept: code without a module comes and goes unseen */
    }
    rule = cfi_find(object.eh_frame_hdr, pc);
    uint64_t packed = pack(&rule);
    struct entry *victim = NULL;
    for (unsigned w = 0; w < WAYS && !victim; w++) {
        uintptr_t k = atomic_load_explicit(&cache[set].way[w].key, memory_order_relaxed);
        if (k == 0 || (k != BUSY && k >> 48 != key >> 48)) victim = &cache[set].way[w];
    }
    if (!victim) victim = &cache[set].way[(key >> 7 ^ key) % WAYS];
    uintptr_t old = atomic_load(&victim->key);
    if (old != BUSY && atomic_compare_exchange_strong(&victim->key, &old, BUSY)) {
        atomic_store_explicit(&victim->rule, packed, memory_order_release);
        atomic_store_explicit(&victim->key, key, memory_order_release);
    }
    return packed;
}

static ALWAYS_INLINE uint64_t rule_of(uintptr_t pc, uint32_t now)
{
    uintptr_t key = pc ^ (uintptr_t)now << 48;
    unsigned set = (unsigned)(pc * 0x9e3779b97f4a7c15u >> 52) % SETS;
    for (unsigned w = 0; w < WAYS; w++) {
        struct entry *e = &cache[set].way[w];
        if (atomic_load_explicit(&e->key, memory_order_acquire) != key) continue;
        uint64_t rule = atomic_load_explicit(&e->rule, memory_order_acquire);
        if (likely(atomic_load_explicit(&e->key, memory_order_relaxed) == key)) return rule;
    }
    return look_up(pc, key, set);
}

static ALWAYS_INLINE uintptr_t word_at(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

static ALWAYS_INLINE uintptr_t code_at(uintptr_t address)
{
    return walk_code_at((const uintptr_t *)address);
}

bool walk_readable(uintptr_t address) { return os_can_read(address); }

/* A frame record (saved fp, return address) lies at `fp`: a guess, so everything is checked.
   `*page` remembers the last page that was readable. */
static bool follow_fp(struct walk_state *s, uintptr_t *page)
{
    uintptr_t fp = s->fp;
    if (fp % 8 != 0 || fp < s->sp || fp - s->sp > MIB) return false;
    if (fp / OS_PAGE != *page && !walk_readable(fp)) return false;
    if ((fp + 8) / OS_PAGE != fp / OS_PAGE && !walk_readable(fp + 8)) return false;
    *page = (fp + 8) / OS_PAGE;
    uintptr_t pc = code_at(fp + 8);
    if (pc < WALK_LOWEST_CODE || pc >> 48 != 0) return false;
    s->pc = pc;
    s->sp = fp + 16;
    s->fp = word_at(fp);
    return true;
}

unsigned walk_frame_pointers(const struct walk_state *from, uintptr_t *frames, unsigned max)
{
    struct walk_state s = *from;
    unsigned n = 0;
    uintptr_t page = 0;
    while (n < max && follow_fp(&s, &page)) frames[n++] = s.pc;
    return n;
}

bool walk_out(struct walk_state *s, uintptr_t own, uintptr_t bytes)
{
    uint32_t now = generation_now();
    for (unsigned i = 0; i < 32; i++) {
        struct cfi_rule rule = unpack(rule_of(i == 0 ? s->pc : s->pc - 1, now));
        if (rule.kind != CFI_PLAIN || rule.cfa_load) return false;
        uintptr_t cfa = (rule.cfa_fp ? s->fp : s->sp) + (uintptr_t)(intptr_t)rule.cfa_offset;
        if (cfa < s->sp || cfa % 8 != 0) return false;
        if (rule.fp_slot) s->fp = word_at(cfa + (uintptr_t)(intptr_t)rule.fp_slot);
        s->pc = rule.ra_slot ? code_at(cfa + (uintptr_t)(intptr_t)rule.ra_slot) : s->lr;
        s->sp = cfa;
        if (s->pc - 1 - own >= bytes) return true;
    }
    return false;
}

/* From the return trampoline to the interrupted function. */
static void leave_signal(struct walk_state *s)
{
#if defined(__x86_64__)
    const ucontext_t *uc = (const ucontext_t *)s->sp;
    s->pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    s->sp = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
    s->fp = (uintptr_t)uc->uc_mcontext.gregs[REG_RBP];
#elif defined(__aarch64__)
    const ucontext_t *uc = (const ucontext_t *)(s->sp + 128); /* behind a siginfo */
    s->pc = uc->uc_mcontext.pc;
    s->sp = uc->uc_mcontext.sp;
    s->fp = uc->uc_mcontext.regs[29];
    s->lr = uc->uc_mcontext.regs[30];
#endif
}

struct cfi_rule walk_rule(uintptr_t pc)
{
    return unpack(rule_of(pc, generation_now()));
}

/* One step outwards.  `at` says where the caller's pc and fp were read. */
enum stepped { STEP_ON, STEP_EXACT /* to an interrupted instruction */, STEP_END, STEP_STUCK };

struct read_from {
    const uintptr_t *pc, *fp; /* pc: NULL where no single word tells */
    const uintptr_t *sp;      /* not NULL: pc lies before the address that is read there */
};

static ALWAYS_INLINE enum stepped step(struct walk_state *s, const struct cfi_rule *rule,
                                       bool exact, uintptr_t *page, struct read_from *at)
{
    at->pc = at->fp = at->sp = NULL;
    if (likely(rule->kind == CFI_PLAIN)) {
        uintptr_t cfa = (rule->cfa_fp ? s->fp : s->sp) + (uintptr_t)(intptr_t)rule->cfa_offset;
        uintptr_t fp = s->fp;
        if (unlikely(rule->cfa_load)) {
            if (rule->ra_slot == -8) {
                at->sp = (const uintptr_t *)cfa;
                at->fp = (const uintptr_t *)s->fp;
            }
            cfa = cfa >= s->sp && cfa % 8 == 0 ? word_at(cfa) : 0;
            fp = word_at(s->fp);
        }
        if (cfa % 8 != 0 || cfa < s->sp || (cfa == s->sp && !exact)) return STEP_END;
        const uintptr_t *ra = (const uintptr_t *)(cfa + (uintptr_t)(intptr_t)rule->ra_slot);
        if (!rule->cfa_load) {
            if (rule->ra_slot) at->pc = ra;
            if (rule->fp_slot) {
                at->fp = (const uintptr_t *)(cfa + (uintptr_t)(intptr_t)rule->fp_slot);
                fp = *at->fp;
            }
        }
        s->pc = rule->ra_slot ? code_at((uintptr_t)ra) : exact ? s->lr : 0;
        s->sp = cfa;
        s->fp = fp;
    } else if (rule->kind == CFI_SIGNAL) {
        leave_signal(s);
        s->pc++; /* as if it were a return address: the call lies before it */
        return s->pc < WALK_LOWEST_CODE ? STEP_END : STEP_EXACT;
    } else if (rule->kind == CFI_COMPLEX) {
        return STEP_STUCK;
    } else if (rule->kind == CFI_OUTERMOST || !follow_fp(s, page)) {
        return STEP_END;
    }
    return s->pc < WALK_LOWEST_CODE ? STEP_END : STEP_ON;
}

static const enum walk_end ends[] = {[STEP_END] = WALK_COMPLETE, [STEP_STUCK] = WALK_STUCK};

unsigned walk_stack(const struct walk_state *from, uintptr_t *frames, unsigned max,
                    enum walk_end *end)
{
    struct walk_state s = *from;
    struct read_from at;
    uint32_t now = generation_now();
    uintptr_t page = 0;
    bool exact = true;
    s.pc++;
    for (unsigned n = 0; n < max; n++) {
        struct cfi_rule rule = unpack(rule_of(s.pc - 1, now));
        enum stepped how = step(&s, &rule, exact, &page, &at);
        if (how >= STEP_END) {
            *end = ends[how];
            return n;
        }
        exact = how == STEP_EXACT;
        frames[n] = s.pc;
    }
    *end = WALK_FULL;
    return max;
}

/* ---- with a trace ---- */

const uintptr_t walk_no_word;

/* From where a walk starts to the first frame that is not ours, and a record of it.  Only frames of
   constant size are recorded: they differ in nothing but what they hold. */
static NOINLINE bool leave_own(struct walk_trace *t, struct walk_state *s, uintptr_t own,
                               uintptr_t bytes, uint32_t now)
{
    const struct walk_state from = *s;
    struct walk_own way = {.start = s->pc, .fp_at = -1};
    struct read_from at;
    bool constant = true;
    uintptr_t page = 0;
    for (unsigned n = 0; n < 64; n++) {
        struct cfi_rule rule = unpack(rule_of(s->pc - 1, now));
        if (rule.kind != CFI_PLAIN) return false;
        if (step(s, &rule, n == 0, &page, &at) != STEP_ON) return false;
        if (rule.cfa_fp || !at.pc) constant = false;
        if (at.fp) way.fp_at = (int32_t)((uintptr_t)at.fp - from.sp);
        if (s->pc - 1 - own >= bytes) {
            way.exit_at = (int32_t)((uintptr_t)at.pc - from.sp);
            way.delta = (int32_t)(s->sp - from.sp);
            if (constant) t->own[t->own_last = (t->own_last + 1) % WALK_OWN_PATHS] = way;
            return true;
        }
        if (n == WALK_OWN_FRAMES) constant = false;
        if (!constant) continue;
        way.at[n] = (int32_t)((uintptr_t)at.pc - from.sp);
        way.pc[n] = s->pc;
        way.count = n + 1;
    }
    return false;
}

static COLD void forget(struct walk_trace *t, uint32_t now)
{
    t->count = 0;
    if (t->generation != 0) /* else it is new, all zero, and most of it stays untouched */
        __builtin_memset(t->quick, 0, sizeof t->quick);
    t->generation = now + 1;
    t->steps[0].pc_at = &walk_no_word;
    t->steps[0].same = 1;
    t->steps[0].sp = UINTPTR_MAX;
}

static void keep_rule(struct walk_quick *to, uintptr_t pc, const struct cfi_rule *r)
{
    if (r->kind != CFI_PLAIN || r->ra_slot == 0 || (r->cfa_load && r->ra_slot != -8) ||
        r->ra_slot != (int16_t)r->ra_slot || r->fp_slot != (int16_t)r->fp_slot ||
        (!r->cfa_fp && r->cfa_offset <= 0))
        return;
    to[1] = to[0]; /* of the two the older goes */
    *to = (struct walk_quick){pc, r->cfa_offset + r->cfa_fp + 2 * r->cfa_load, (int16_t)r->ra_slot,
                              (int16_t)r->fp_slot};
}

/* Puts the new steps on top of the `kept` outermost ones of before. */
static ALWAYS_INLINE void put(struct walk_trace *t, unsigned kept, const struct walk_step *end)
{
    struct walk_step *to = walk_steps(t) + kept;
    bool needs = kept > 0 && to[-1].needs_fp && !to[-1].fp_at;
    while (end > t->fresh) {
        *to = *--end;
        to->needs_fp = to->uses_fp || needs;
        needs = to->needs_fp && !to->fp_at;
        walk_say_same(to++);
    }
    t->count = (uint32_t)(to - walk_steps(t));
}

/* One step whose rule is not at hand.  `pc` is the code whose rule it takes; says in `f` whether that
   starts from fp. */
static NOINLINE enum stepped slow_step(struct walk_trace *t, struct walk_step *f,
                                       struct walk_state *s, bool exact, uintptr_t *page,
                                       struct read_from *at)
{
    struct cfi_rule rule = unpack(rule_of(s->pc - 1, t->generation - 1));
    keep_rule(walk_quick_set(t, s->pc), s->pc, &rule);
    if (rule.kind == CFI_OUTERMOST || (rule.kind == CFI_PLAIN && !rule.cfa_fp && !rule.cfa_load))
        f->uses_fp = false;
    enum stepped how = step(s, &rule, exact, page, at);
    if (!at->pc) at->pc = &walk_no_word;
    return how;
}

NOINLINE unsigned walk_again(struct walk_trace *t, const struct walk_state *from, uintptr_t own, uintptr_t bytes,
                             unsigned max, enum walk_end *end)
{
    struct walk_state here = {0};
    uint32_t now = generation_now();
    if (unlikely(t->generation != now + 1)) forget(t, now);
    if (likely(from)) {
        here = *from;
    } else {
        WALK_HERE(&here);
        here.pc++;
    }
    if (unlikely(here.pc - 1 - own < bytes || !from) && !likely(walk_known_way(t, &here, own, bytes))) {
        struct walk_state found = here;
        if (unlikely(!leave_own(t, &found, own, bytes, now))) {
            t->count = 0;
            *end = WALK_STUCK;
            return 0;
        }
        here = found;
    }
    struct walk_place p = walk_place_of(&here);
    uintptr_t page = 0;
    struct walk_step *const first = walk_steps(t), *const none = t->fresh;
    struct walk_step *join = first + t->count - 1, *f = none;
    struct walk_step *const full = none + max;
    bool exact = false;
    enum stepped how;

    for (;;) {
        while (join->sp < p.sp) join--;
        if (join->sp == p.sp && join->pc == p.pc && (!join->needs_fp || join->fp == p.fp)) {
            struct walk_step *same = walk_verified(t, join);
            size_t all = (size_t)(f - none) + (size_t)(join - first) + 1;
            if (likely(same == first && (t->complete ? all <= max : all == max))) {
                walk_note_read(join, &p);
                walk_say_same(join);
                unsigned kept = (unsigned)(join - first) + 1;
                put(t, kept, f);
                *end = t->complete ? WALK_COMPLETE : WALK_FULL;
                return kept;
            }
            /* Good so far, but what follows is new, or too much. The fp of steps that did not need
               it may be old. */
            for (; join > same && f < full; join--, f++) {
                *f = *join;
                f->fp = p.fp;
                walk_note_read(f, &p);
                walk_to_caller(&p, join - 1);
            }
            join--;
        }
        if (unlikely(f == full)) {
            *end = WALK_FULL;
            break;
        }
        walk_note(f, &p);
        const struct walk_quick *q = walk_quick_of(t, p.pc);
        if (likely(q->pc == p.pc && !exact && !(q->cfa & 2))) {
            f->uses_fp = q->cfa & 1;
            uintptr_t cfa = walk_quick_cfa(&p, q);
            f++;
            if (unlikely(cfa <= p.sp || cfa % 8 != 0)) goto complete;
            walk_quick_step(&p, q, cfa);
            if (likely(p.pc >= WALK_LOWEST_CODE)) continue;
            goto complete;
        }
        {
            struct walk_state s = {.pc = p.pc, .sp = p.sp, .fp = p.fp, .lr = here.lr};
            struct read_from at;
            uintptr_t readable = page;
            f->uses_fp = true;
            how = slow_step(t, f++, &s, exact, &readable, &at);
            here.lr = s.lr;
            page = readable;
            p = (struct walk_place){s.pc, s.sp, s.fp, at.pc, at.fp, at.sp};
        }
        if (how == STEP_END) goto complete;
        if (unlikely(how == STEP_STUCK)) {
            t->count = 0;
            *end = WALK_STUCK;
            return 0;
        }
        exact = how == STEP_EXACT;
    }
    if (false) {
    complete:
        *end = WALK_COMPLETE;
    }
    t->complete = *end == WALK_COMPLETE;
    put(t, 0, f);
    return 0;
}
