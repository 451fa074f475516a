/* stack.c: the tree of call stacks.

   1. Data.  A stack is a path in a tree: a node is (its caller's node, a return address, the module
      the address belongs to), so stacks share their outer frames, and the id of a stack is the
      number of its innermost node.  A root's "caller" is one of the numbers below FIRST_NODE: the
   flags of the stack. Nodes are found by a hash trie over (caller, address): 256 roots, then
   branches of 16, whose leaves are chains of nodes.  Nodes and branches are units of 32 bytes in
   chunks of 64 KiB; a number is chunk and unit, so a table of chunks bounds the memory.
   2. Synchronisation.  Insert-only: every link is set once by compare-and-swap from empty (or from
      a leaf to a branch that holds that leaf), after what it points to is complete.  No lock,
   nothing to repair after a fork; a thread that vanishes leaves at most some unused units.
   3. Algorithm.  A capture starts at the outermost frame that differs from the thread's previous
   capture (walk.h finds it, and its steps carry the nodes).  The nodes of the frames within it come
   from a small table of the thread, next from their caller's `child`, the inner frame that was asked
   for last; only then the trie is searched.  stack_find and stack_again (stack_cache.h) do without all this
   where a stack comes again, or nearly.
   4. Epochs.  A node notes in which epoch of the module table its address was last seen to belong
   to its module.  In the present epoch it matches at once; after a dlclose the module is asked
      again: the same one keeps the node, another one gets its own beside it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/stack_cache.h"
#include "heap/meta.h"
#include "heap/print.h"
#include "sampler/module.h"
#include "sampler/unwind.h"

#include <errno.h>

#define UNIT 32u
#define CHUNK_UNITS 2048u
#define CHUNKS 8192u
#define FIRST_NODE 8u /* below: roots, by flags */
#define BRANCH 0x80000000u
#define DEFAULT_LIMIT (96 * MIB)

struct node {
    uintptr_t address;
    uint32_t parent;
    _Atomic uint32_t epoch; /* + 1; see 4 */
    _Atomic uint32_t next;  /* in its leaf's chain */
    _Atomic uint32_t child; /* a hint */
    uint16_t module, depth;
    uint8_t flags;
    _Atomic uint8_t is_stack; /* some capture ended here */
};
_Static_assert(sizeof(struct node) <= UNIT, "a node is one unit");

#define FANOUT 16
struct branch {
    _Atomic uint32_t slot[FANOUT];
};
_Static_assert(sizeof(struct branch) == 2 * UNIT, "a branch is two units");

_Static_assert(WALK_TRACE >= STACK_DEPTH_MAX, "the deepest stack fits");

static _Atomic uint32_t roots[256];
static _Atomic uintptr_t chunks[CHUNKS];
static _Atomic uint32_t next_unit = FIRST_NODE;
static _Atomic size_t limit = DEFAULT_LIMIT;
static _Atomic uint64_t count_stacks, count_nodes, count_dropped, count_one_frame, count_early;
unsigned stack_depth_limit = 64;
static bool only_here; /* the user wants frame pointers */
static THREAD_LOCAL bool inside;

static ALWAYS_INLINE void *unit_at(uint32_t number)
{
    uintptr_t c = atomic_load_explicit(&chunks[number / CHUNK_UNITS], memory_order_acquire);
    return (void *)(c + (size_t)(number % CHUNK_UNITS) * UNIT);
}

static ALWAYS_INLINE struct node *node_at(uint32_t number)
{
    return unit_at(number);
}

/* Claims `units` next to each other (1 or 2); 0 when full. */
static uint32_t claim(unsigned units)
{
    for (;;) {
        uint32_t at = atomic_load_explicit(&next_unit, memory_order_relaxed);
        uint32_t from = at;
        if (from % CHUNK_UNITS + units > CHUNK_UNITS) from = (from / CHUNK_UNITS + 1) * CHUNK_UNITS;
        if (from / CHUNK_UNITS >= CHUNKS) return 0;
        size_t chunk_end = ((size_t)from / CHUNK_UNITS + 1) * CHUNK_UNITS * UNIT;
        _Atomic uintptr_t *chunk = &chunks[from / CHUNK_UNITS];
        if (atomic_load(chunk) == 0) {
            if (chunk_end > atomic_load_explicit(&limit, memory_order_relaxed)) return 0;
            uintptr_t fresh = (uintptr_t)meta_alloc((size_t)CHUNK_UNITS * UNIT), none = 0;
            if (!fresh) return 0;
            atomic_compare_exchange_strong(chunk, &none, fresh);
        }
        if (atomic_compare_exchange_weak(&next_unit, &at, from + units)) return from;
    }
}

static ALWAYS_INLINE uint64_t hash_of(uint32_t parent, uintptr_t address)
{
    uint64_t h = (address ^ (uint64_t)parent << 40) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ (uint64_t)parent) * 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

/* Does the node stand for its address as mapped now? */
static bool is_current(struct node *n, uint32_t now)
{
    if (likely(atomic_load_explicit(&n->epoch, memory_order_relaxed) == now + 1)) return true;
    if (module_of(n->address - 1) != n->module) return false;
    atomic_store_explicit(&n->epoch, now + 1, memory_order_relaxed);
    return true;
}

static uint32_t make_node(uint32_t parent, uintptr_t address, unsigned depth, unsigned flags,
                          uint32_t now)
{
    uint32_t module = module_of(address - 1);
    uint32_t number = claim(1);
    if (!number) return 0;
    struct node *n = node_at(number);
    n->address = address;
    n->parent = parent;
    n->module = (uint16_t)module;
    n->depth = (uint16_t)depth;
    n->flags = (uint8_t)flags;
    atomic_store_explicit(&n->epoch, now + 1, memory_order_relaxed);
    return number;
}

/* The node (parent, address), made if it is new; 0 when full. */
static uint32_t find_or_make(uint32_t parent, uintptr_t address, unsigned depth, unsigned flags,
                             uint32_t now)
{
    uint64_t hash = hash_of(parent, address);
    _Atomic uint32_t *slot = &roots[hash & 255];
    uint32_t made = 0;
    for (unsigned shift = 8;;) {
        uint32_t v = atomic_load_explicit(slot, memory_order_acquire);
        if (v & BRANCH) {
            struct branch *b = unit_at(v & ~BRANCH);
            slot = &b->slot[hash >> shift & (FANOUT - 1)];
            shift += 4;
            continue;
        }
        if (v != 0) {
            struct node *n = node_at(v);
            uint32_t number = v;
            for (;;) { /* the chain: one hash, or no more bits */
                if (n->address == address && n->parent == parent && is_current(n, now))
                    return number; /* an own `made` stays unused: another thread was faster */
                uint32_t after = atomic_load_explicit(&n->next, memory_order_acquire);
                if (!after) break;
                number = after;
                n = node_at(after);
            }
            uint64_t other = hash_of(node_at(v)->parent, node_at(v)->address);
            if (other != hash && shift < 60) { /* split the leaf */
                uint32_t unit = claim(2);
                if (!unit) return 0;
                struct branch *b = unit_at(unit);
                atomic_store_explicit(&b->slot[other >> shift & (FANOUT - 1)], v,
                                      memory_order_relaxed);
                atomic_compare_exchange_strong(slot, &v, unit | BRANCH);
                continue;
            }
            slot = &n->next; /* full collision, or another module at this address */
        }
        if (!made && !(made = make_node(parent, address, depth, flags, now))) return 0;
        uint32_t none = 0;
        if (atomic_compare_exchange_strong(slot, &none, made)) {
            atomic_fetch_add_explicit(&count_nodes, 1, memory_order_relaxed);
            return made;
        }
        if (v != 0) { /* the chain grew: look at it from its start again */
            slot = &roots[hash & 255];
            shift = 8;
        }
    }
}

static ALWAYS_INLINE uint32_t step_in(uint32_t parent, uintptr_t address, unsigned depth,
                                      unsigned flags, uint32_t now)
{
    struct node *p = parent >= FIRST_NODE ? node_at(parent) : NULL;
    if (p) {
        uint32_t hint = atomic_load_explicit(&p->child, memory_order_acquire);
        if (hint) {
            struct node *n = node_at(hint);
            if (n->address == address &&
                atomic_load_explicit(&n->epoch, memory_order_relaxed) == now + 1)
                return hint;
        }
    }
    uint32_t found = find_or_make(parent, address, depth, flags, now);
    if (p && found) atomic_store_explicit(&p->child, found, memory_order_release);
    return found;
}

static uint32_t is_full(void)
{
    atomic_fetch_add_explicit(&count_dropped, 1, memory_order_relaxed);
    return 0;
}

/* A capture ended at this node. */
static ALWAYS_INLINE void mark_stack(uint32_t at)
{
    struct node *n = node_at(at);
    if (unlikely(!atomic_load_explicit(&n->is_stack, memory_order_relaxed)) &&
        !atomic_exchange(&n->is_stack, 1))
        atomic_fetch_add_explicit(&count_stacks, 1, memory_order_relaxed);
}

uint32_t stack_step_in(uint32_t parent, uintptr_t address, unsigned depth, unsigned flags, uint32_t now)
{
    return step_in(parent, address, depth, flags, now);
}

void stack_mark(uint32_t node)
{
    mark_stack(node);
}

/* Interns `count` frames, innermost first. */
static uint32_t intern(const uintptr_t *frames, unsigned count, unsigned flags, uint32_t now)
{
    uint32_t at = flags, depth = 0;
    for (unsigned i = count; i-- > 0;)
        if (unlikely(!(at = step_in(at, frames[i], ++depth, flags, now)))) return is_full();
    mark_stack(at);
    return at;
}

uint32_t stack_intern(const uintptr_t *frames, unsigned depth, unsigned flags)
{
    if (depth == 0) return 0;
    if (depth > STACK_DEPTH_MAX) depth = STACK_DEPTH_MAX, flags |= STACK_CUT;
    flags &= FIRST_NODE - 1;
    return intern(frames, depth, flags, module_epoch());
}

static ALWAYS_INLINE bool is_own(uintptr_t address)
{
    return address - 1 - unwind_own_from < unwind_own_bytes;
}

static uint32_t take(uintptr_t *frames, unsigned room, bool *one_frame)
{
    unsigned n = unwind_here(frames, room), skip = 0, flags = 0;
    while (skip < n && is_own(frames[skip])) skip++;
    frames += skip;
    n -= skip;
    if (unlikely(n == 0)) { /* nothing to go by: our caller, to have something */
        frames[0] = (uintptr_t)__builtin_return_address(0);
        n = 1;
        flags = STACK_EARLY;
        atomic_fetch_add_explicit(&count_early, 1, memory_order_relaxed);
    }
    /* As found: that only one frame is kept says nothing of the unwinder. */
    if (unlikely(n == 1)) {
        flags |= STACK_ONE_FRAME;
        atomic_fetch_add_explicit(&count_one_frame, 1, memory_order_relaxed);
    }
    unwind_judge(n);
    if (one_frame) *one_frame = n == 1;
    if (n > stack_depth_limit) n = stack_depth_limit, flags |= STACK_CUT;
    return intern(frames, n, flags, module_epoch());
}

static COLD void forget_nodes(struct stack_cache *c, uint32_t now)
{
    if (c->epoch != 0) { /* else it is new, and zero already */
        __builtin_memset(c->nodes, 0, sizeof c->nodes);
        __builtin_memset(c->stacks, 0, sizeof c->stacks);
    }
    c->epoch = now;
    c->last = 0;
}

/* As step_in, by way of the thread's table, whose nodes are all of the present epoch. */
static ALWAYS_INLINE uint32_t step_in_cached(struct stack_cache *c, uint32_t parent,
                                             uintptr_t address, unsigned depth, unsigned flags)
{
    struct at_hand *h = stack_at_hand(c, parent, address);
    if (likely(h->address == address && h->parent == parent)) return h->node;
    uint32_t node = step_in(parent, address, depth, flags, c->epoch - 1);
    if (node) *h = (struct at_hand){.address = address, .parent = parent, .node = node};
    return node;
}

static ALWAYS_INLINE uint32_t take_again(struct stack_cache *c, const struct walk_state *from, bool *one_frame)
{
    struct walk_trace *t = &c->trace;
    unsigned flags = 0;
    enum walk_end end;
    c->same_in = 0;
    unsigned kept = walk_again(t, from, unwind_own_from, unwind_own_bytes, stack_depth_limit, &end);
    unsigned n = t->count;
    if (unlikely(n == 0)) return take(c->frames, stack_depth_limit + OWN_FRAMES, one_frame);
    if (unlikely(c->epoch != t->generation)) forget_nodes(c, t->generation);
    const unsigned found = n + (end == WALK_FULL); /* or more */
    if (unlikely(end == WALK_FULL)) flags = STACK_CUT;
    if (unlikely(found == 1)) {
        flags |= STACK_ONE_FRAME;
        atomic_fetch_add_explicit(&count_one_frame, 1, memory_order_relaxed);
    }
    unwind_judge(found);
    if (one_frame) *one_frame = found == 1;
    if (unlikely(flags != t->root)) {
        t->root = flags;
        kept = 0;
    }
    struct walk_step *step = walk_steps(t);
    uint32_t at = kept > 0 ? step[kept - 1].node : flags;
    for (unsigned i = kept; i < n; i++) {
        at = step_in_cached(c, at, step[i].pc, i + 1, flags);
        if (unlikely(!at)) {
            t->count = 0;
            return is_full();
        }
        step[i].node = at;
    }
    if (at != c->last) mark_stack(at);
    if (n > 1) c->same_in = t->generation;
    c->top = t->steps + t->count;
    return c->last = at;
}

uint32_t stack_capture(bool *one_frame)
{
    uintptr_t frames[64 + OWN_FRAMES];
    unsigned room = (stack_depth_limit < 64 ? stack_depth_limit : 64) + OWN_FRAMES;
    if (inside) room = 1 + OWN_FRAMES;
    bool outer = inside;
    inside = true;
    uint32_t id = take(frames, room, one_frame);
    inside = outer;
    return id;
}

static ALWAYS_INLINE uint32_t capture_cached(struct stack_cache **cache, const struct walk_state *from, bool *one_frame)
{
    struct stack_cache *c = *cache;
    if (unlikely(!c)) {
        if (!(c = meta_alloc(sizeof *c))) return stack_capture(one_frame);
        *cache = c;
    }
    if (unlikely(only_here || atomic_load_explicit(&c->busy, memory_order_relaxed)))
        return stack_capture(one_frame);
    atomic_store_explicit(&c->busy, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    uint32_t id = take_again(c, from, one_frame);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&c->busy, false, memory_order_relaxed);
    return id;
}

uint32_t stack_capture_cached(struct stack_cache **cache, bool *one_frame)
{
    return capture_cached(cache, NULL, one_frame);
}

uint32_t stack_capture_frame(struct stack_cache **cache, const uintptr_t *frame)
{
    if (unlikely(!frame)) return capture_cached(cache, NULL, NULL);
    const struct walk_state from = stack_state_of(frame);
    return capture_cached(cache, &from, NULL);
}

void stack_cache_forget(struct stack_cache *c)
{
    if (!c) return;
    c->same_in = 0;
    c->trace.generation = c->epoch = UINT32_MAX; /* none that there is */
}

bool stack_frame(uint32_t id, struct stack_frame *to)
{
    if (id < FIRST_NODE || id >= stack_id_limit()) return false;
    const struct node *n = node_at(id);
    if (n->depth == 0) return false;
    to->address = n->address;
    to->module = n->module;
    to->parent = n->parent < FIRST_NODE ? 0 : n->parent;
    to->depth = n->depth;
    to->flags = n->flags;
    return true;
}

unsigned stack_get(uint32_t id, uintptr_t *frames, unsigned max, unsigned *flags)
{
    struct stack_frame f;
    unsigned depth = 0;
    if (flags) *flags = 0;
    for (; stack_frame(id, &f); id = f.parent, depth++) {
        if (depth < max) frames[depth] = f.address;
        if (flags) *flags = f.flags;
    }
    return depth;
}

void stack_print(int fd, uint32_t id)
{
    struct stack_frame f;
    for (unsigned i = 0; stack_frame(id, &f); id = f.parent, i++) {
        uintptr_t call = f.address - 1;
        const struct module *m = module_get(f.module);
        if (m)
            print_fd(fd, "    #%u 0x%lx (%s+0x%lx)\n", i, (unsigned long)call, m->path,
                     (unsigned long)(call - m->bias));
        else
            print_fd(fd, "    #%u 0x%lx\n", i, (unsigned long)call);
    }
}

uint32_t stack_id_limit(void)
{
    return atomic_load(&next_unit);
}

void stack_stats(struct stack_stats *to)
{
    to->stacks = atomic_load(&count_stacks);
    to->frames = atomic_load(&count_nodes);
    to->dropped = atomic_load(&count_dropped);
    to->one_frame = atomic_load(&count_one_frame);
    to->early = atomic_load(&count_early);
    to->memory_bytes = (uint64_t)atomic_load(&next_unit) * UNIT;
}

void stack_set_limit(size_t bytes)
{
    atomic_store(&limit, bytes);
}

void stack_set_own_text(uintptr_t from, uintptr_t to)
{
    unwind_own_from = from;
    unwind_own_bytes = to - from;
}

void stack_start(const struct sampler_options *options)
{
    if (options->depth >= 1 && options->depth <= STACK_DEPTH_MAX) stack_depth_limit = options->depth;
    module_start();
    const struct module *own = module_get(module_of((uintptr_t)stack_start));
    /* In a test that links us in, "our text" would be the whole program. */
    if (own && own != module_get(1)) stack_set_own_text(own->text, own->text_end);
    unwind_start(options);
    only_here = !unwind_by_walking();
}

void stack_fork_prepare(void)
{
    unwind_fork_prepare();
}
void stack_fork_parent(void)
{
    unwind_fork_parent();
}
void stack_fork_child(void)
{
    unwind_fork_child();
}

/* sampler.h's functions that concern stacks. */
void sampler_prepare_threads(void)
{
    unwind_prepare_threads();
}
void sampler_modules_changed(void)
{
    module_changed();
}
