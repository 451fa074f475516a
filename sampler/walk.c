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
#include "sampler/walk.h"
#include "heap/syscall.h"
#include "sampler/cfi.h"
#include "sampler/module.h"

#include <errno.h>
#include <ucontext.h>

#define SETS 4096
#define WAYS 4
#define BUSY ((uintptr_t)1)
#define REWALK INT32_MIN /* this step's transition cannot be checked by two words */
#define LOWEST_CODE 0x4000

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
#if defined(__aarch64__)
    return word_at(address) & (((uintptr_t)1 << 48) - 1); /* without its signature */
#else
    return word_at(address);
#endif
}

/* The kernel copies the set in before it looks at the bad `how`, so EFAULT tells.  The trick is
   Abseil's (address_is_readable.cc); unlike pipes or process_vm_readv it needs no descriptor and is
   allowed by every seccomp filter that lets libc run. */
bool walk_readable(uintptr_t address)
{
    return raw_syscall(SYS_rt_sigprocmask, -1L, address, 0L, 8L) != -EFAULT;
}

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
    if (pc < LOWEST_CODE || pc >> 48 != 0) return false;
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

static ALWAYS_INLINE bool unchanged(const struct walk_step *of, const struct walk_step *caller)
{
    return of->pc_slot != REWALK && code_at(caller->sp + (intptr_t)of->pc_slot) == caller->pc &&
           (of->fp_slot == 0 || word_at(caller->sp + (intptr_t)of->fp_slot) == caller->fp);
}

static ALWAYS_INLINE void remember(struct walk_trace *t, unsigned *fresh,
                                   const struct walk_state *s, bool exact, int32_t pc_slot,
                                   int32_t fp_slot, int32_t sp_step)
{
    if (!t) return;
    if (*fresh < WALK_TRACE)
        t->fresh[*fresh] =
            (struct walk_step){exact ? 0 : s->pc, s->sp, s->fp, pc_slot, fp_slot, sp_step, 0};
    ++*fresh;
}

/* Puts the new steps on top of the `kept` outermost ones of before. */
static void update(struct walk_trace *t, unsigned kept, unsigned fresh)
{
    if (kept + fresh > WALK_TRACE) {
        t->count = 0;
        return;
    }
    for (unsigned i = 0; i < fresh; i++) t->at[kept + fresh - 1 - i] = t->fresh[i];
    t->count = kept + fresh;
}

/* Is the rest of the walk from at[k] on as it was?  Returns the outermost index up to which it is.
 */
static ALWAYS_INLINE int compare_rest(const struct walk_trace *t, int k)
{
    const struct walk_step *step = &t->at[k];
    while (step > t->at && unchanged(step, step - 1)) step--;
    return (int)(step - t->at);
}

unsigned walk_stack(const struct walk_state *from, uintptr_t *frames, unsigned max,
                    struct walk_trace *t, enum walk_end *end)
{
    struct walk_state s = *from;
    bool exact = true; /* pc is an instruction about to run, not a return address */
    uint32_t now = generation_now();
    unsigned n = 0, fresh = 0;
    uintptr_t page = 0;
    int k = -1, guess = -1; /* where to join, and whose rule to expect next */
    if (t) {
        if (t->generation != now) t->count = 0, t->generation = now;
        t->joined = -1;
        k = guess = (int)t->count - 1;
    }
    *end = WALK_FULL;

    for (;;) {
        if (!exact && k >= 0) {
            while (k >= 0 && t->at[k].sp < s.sp) k--;
            if (k >= 0 && t->at[k].sp == s.sp && t->at[k].pc == s.pc && t->at[k].fp == s.fp) {
                int i = compare_rest(t, k);
                if (i == 0 && t->complete) {
                    t->joined = k;
                    *end = WALK_COMPLETE;
                    update(t, (unsigned)k + 1, fresh);
                    return n;
                }
                for (; k > i && n < max; k--) { /* good so far, but what follows is new */
                    if (fresh < WALK_TRACE) t->fresh[fresh] = t->at[k];
                    fresh++;
                    frames[n++] = t->at[k - 1].pc;
                }
                s.pc = t->at[k].pc, s.sp = t->at[k].sp, s.fp = t->at[k].fp;
                guess = k;
                k--;
            }
        }
        if (n == max) break;
        struct walk_state next = s;
        /* The same function as in the previous walk, perhaps at another depth: its frame has the
           same size.  This takes us out of our own code, from whichever depth it was called. */
        if (guess > 0 && !exact && t->at[guess].pc == s.pc && t->at[guess].sp_step) {
            const struct walk_step *like = &t->at[guess--];
            next.sp = s.sp + (uintptr_t)like->sp_step;
            next.pc = code_at(next.sp + (uintptr_t)(intptr_t)like->pc_slot);
            if (like->fp_slot) next.fp = word_at(next.sp + (uintptr_t)(intptr_t)like->fp_slot);
            if (next.pc < LOWEST_CODE) {
                *end = WALK_COMPLETE;
                break;
            }
            remember(t, &fresh, &s, false, like->pc_slot, like->fp_slot, like->sp_step);
            s = next;
            frames[n++] = s.pc;
            continue;
        }
        if (!exact) guess = -1;
        struct cfi_rule rule = unpack(rule_of(exact ? s.pc : s.pc - 1, now));
        bool first = n == 0 && exact, next_exact = false;
        int32_t pc_slot = REWALK, fp_slot = 0, sp_step = 0;
        if (likely(rule.kind == CFI_PLAIN)) {
            uintptr_t cfa = (rule.cfa_fp ? s.fp : s.sp) + (uintptr_t)(intptr_t)rule.cfa_offset;
            if (unlikely(rule.cfa_load)) {
                cfa = cfa >= s.sp && cfa % 8 == 0 ? word_at(cfa) : 0;
                next.fp = word_at(s.fp);
            } else {
                pc_slot = rule.ra_slot;
                fp_slot = rule.fp_slot;
                if (!rule.cfa_fp && rule.ra_slot) sp_step = rule.cfa_offset;
            }
            if (cfa % 8 != 0 || cfa < s.sp || (cfa == s.sp && !exact)) {
                *end = WALK_COMPLETE;
                break;
            }
            if (fp_slot) next.fp = word_at(cfa + (uintptr_t)(intptr_t)fp_slot);
            if (rule.ra_slot)
                next.pc = code_at(cfa + (uintptr_t)(intptr_t)rule.ra_slot);
            else
                next.pc = exact ? s.lr : 0;
            next.sp = cfa;
        } else if (rule.kind == CFI_SIGNAL) {
            leave_signal(&next);
            next_exact = true;
        } else if (rule.kind == CFI_COMPLEX) {
            *end = WALK_STUCK;
            break;
        } else if (rule.kind == CFI_OUTERMOST || !follow_fp(&next, &page)) {
            *end = WALK_COMPLETE;
            break;
        }
        if (next.pc < LOWEST_CODE) {
            *end = WALK_COMPLETE;
            break;
        }
        if (!first) remember(t, &fresh, &s, exact, pc_slot, fp_slot, sp_step);
        s = next;
        exact = next_exact;
        frames[n++] = s.pc + exact;
    }
    if (t) {
        if (n > 0) remember(t, &fresh, &s, exact, REWALK, 0, 0);
        t->complete = *end == WALK_COMPLETE;
        update(t, 0, fresh);
    }
    return n;
}
