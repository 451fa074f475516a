/* alloc.c: the slow paths of allocation: first blocks, empty bins, sample points, alignment, large
   blocks, and realloc.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/caller.h"
#include "heap/every.h"
#include "heap/fast.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/lost.h"
#include "heap/os.h"
#include "heap/reclaimed.h"
#include "heap/tag.h"

#include <errno.h>
#include <string.h>

/* ---- sampling ---- */

/* Every block takes the slow path: its caller is wanted (heap_options.watch), or it is to be ignored. */
static ALWAYS_INLINE bool every_block(void) { return heap_tls.attention != 0; }
static ALWAYS_INLINE bool ignoring(void) { return heap_tls.attention > ATTENTION_WATCH; }

/* One byte more than asked, so that a pointer to a block's end lies in it. */
static ALWAYS_INLINE size_t padded(size_t size) { return heap_options.watch ? size + 1 : size; }

/* The block that is about to be handed out is one more than `left` allowed: says how many sample points lie in
   it, and asks how far the next one is when it is the one that `follow` does not reach. */
static ALWAYS_INLINE unsigned sample_points(struct thread_heap *h, struct bin *b)
{
    unsigned n = 0;
    int64_t follow = INT64_MAX / 2;
    b->counted += (uint64_t)(b->left_start - b->left);
    if (b->follow > 0) follow = b->follow - 1;
    else if (heap_hooks->due) follow = heap_hooks->due(&h->hook, b->class, class_size[b->class] / 8, &n);
    int64_t left = unlikely(every_block()) ? 0 : follow < BIN_BEAT ? follow : BIN_BEAT;
    b->follow = follow - left;
    b->left = b->left_start = left;
    return heap_tls.suspended ? 0 : n;
}

/* The last thing that a call does: what the layers above want to call of the program's. */
static ALWAYS_INLINE void end_of_call(struct thread_heap *h)
{
    if (unlikely(h->hook.pending != 0) && heap_hooks->callbacks) heap_hooks->callbacks(&h->hook);
}

/* What a block of no sample point is tagged with. */
static uint32_t tag_of_watched(const void *caller)
{
    uint32_t number = heap_options.watch ? caller_intern((uintptr_t)caller) : 0;
    return (number ? TAG_CALLER | number : 0) | (ignoring() ? TAG_IGNORED : 0);
}

static void tag_slot(void *block, unsigned class, uint32_t tag)
{
    bool medium = class_is_medium(class);
    struct pool *p = pool_of(block, medium);
    if (!pool_set_tag(p, slot_in_pool(block, class, medium), tag)) return;
    if (!(tag & TAG_IGNORED)) return;
    atomic_store(&p->ignored, true);
    *state_of(block, medium) = (int8_t)(class | STATE_TRACKED); /* so that a free clears the tag */
}

static ALWAYS_INLINE bool track(struct thread_heap *h, void *block, size_t asked, unsigned class,
                                enum heap_source source, unsigned n)
{
    if (!heap_hooks->allocated) return false;
    bool medium = class_is_medium(class);
    uint32_t entry = heap_hooks->allocated(&h->hook, block, asked, class_size[class], source, n);
    if (entry == 0) return false;
    struct pool *p = pool_of(block, medium);
    if (unlikely(ignoring())) {
        entry |= TAG_IGNORED;
        atomic_store(&p->ignored, true);
    }
    if (pool_set_tag(p, slot_in_pool(block, class, medium), entry))
        *state_of(block, medium) = (int8_t)(class | STATE_TRACKED);
    else if (heap_hooks->freed) heap_hooks->freed(&h->hook, block, tag_entry(entry), false);
    return true;
}

/* The last step of a block from a pool: what is kept of it. */
static ALWAYS_INLINE void note(struct thread_heap *h, void *block, size_t asked, unsigned class,
                               enum heap_source source, unsigned n, const void *caller)
{
    if (unlikely(heap_options.reclaim)) reclaimed_reuse(block, class);
    if (n > 0 && track(h, block, asked, class, source, n)) return;
    if (unlikely(every_block())) tag_slot(block, class, tag_of_watched(caller));
}

/* ---- pools ---- */

static heap_malloc_of *elsewhere(enum heap_source source)
{
    return unlikely(!heap_tls.heap) && source == HEAP_MALLOC && heap_hooks->elsewhere ? heap_hooks->elsewhere() : NULL;
}

/* The system has refused memory, for the first time or again: is there some that nobody needs? */
static COLD bool found_memory(struct thread_heap *h, unsigned tries)
{
    if (tries == 0 && heap_save_memory()) return true;
    if (tries > 1 || !h || !heap_hooks->starving || !heap_hooks->starving(&h->hook)) return false;
    heap_save_memory();
    return true;
}

static NOINLINE void *alloc_from(unsigned class, size_t asked, enum heap_source source, const void *caller)
{
    heap_malloc_of *other = elsewhere(source);
    if (unlikely(other)) return other(asked);
    struct thread_heap *h = thread_heap_get();
    if (unlikely(!h)) goto none;
    struct bin *b = h->bin[class];
    if (unlikely(b->class == 0)) bin_open(b, class);
    thread_heap_notice_hooks(h);
    /* A tick in the refill may run the program's or our own code, which may use this bin up again. */
    for (unsigned tries = 0; b->n == 0; tries++)
        if (!bin_refill(h, b) && !found_memory(h, tries)) goto none;
    unsigned n = 0;
    if (--b->left < 0) n = sample_points(h, b);
    void *block = b->slot[--b->n];
    *state_of(block, class_is_medium(class)) = (int8_t)class;
    if (unlikely(n > 0 || every_block())) note(h, block, asked, class, source, n, caller);
    end_of_call(h);
    if (unlikely(heap_tls.ending)) thread_heap_release();
    return block;
none:
    if (heap_tls.ending) thread_heap_release();
    errno = ENOMEM;
    return NULL;
}

void *heap_malloc_due(struct bin *b, size_t asked, enum heap_source source, const void *caller)
{
    struct thread_heap *h = heap_tls.heap;
    unsigned class = b->class;
    bool first = b->left_start == 0 && b->counted == 0, now_and_then = (++h->ticks & 15) == 0;
    thread_heap_notice_hooks(h);
    /* Where every block comes this way, ticks are blocks and no beats. */
    if (unlikely(first || (now_and_then && (b->left_start > 0 || (h->ticks & (16 * BIN_BEAT - 1)) == 0)))) {
        bin_unshare(h, b);
        if (unlikely(b->n == 0)) {
            b->left++; /* it is taken off again there */
            return alloc_from(class, asked, source, caller);
        }
    }
    unsigned n = sample_points(h, b);
    void *block = b->slot[--b->n];
    *state_of(block, class_is_medium(class)) = (int8_t)class;
    if (likely(n > 0 || every_block())) note(h, block, asked, class, source, n, caller);
    /* A program whose bins never run empty comes by no other slow path, and memory it has freed waits for decay. */
    if (unlikely(now_and_then)) thread_heap_tick(h);
    end_of_call(h);
    if (unlikely(heap_tls.ending)) thread_heap_release();
    return block;
}

/* Clears by libc's memset, when some counters know of the block and others do not. */
static void *take_large(size_t size, size_t alignment, bool zero, size_t *given)
{
    heap_tls.slot_in_hand = true;
    void *block = large_alloc(size, alignment, zero, given);
    heap_tls.slot_in_hand = false;
    return block;
}

static NOINLINE void *alloc_large(size_t size, size_t alignment, bool zero, enum heap_source source, const void *caller)
{
    heap_malloc_of *other = elsewhere(source);
    if (unlikely(other)) return other(size);
    if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX) goto none;
    heap_notice_fork();
    struct thread_heap *h = thread_heap_get();
    size_t given;
    void *block = take_large(padded(size), alignment, zero, &given);
    if (!block) {
        for (unsigned tries = 0; !block && found_memory(h, tries); tries++)
            block = take_large(padded(size), alignment, zero, &given);
        if (!block) goto none;
    }
    heap_account((int64_t)given);
    if (unlikely(heap_options.reclaim)) reclaimed_forget_large(block);
    uint32_t tag = unlikely(every_block()) ? tag_of_watched(caller) : 0;
    if (h && heap_hooks->large) {
        thread_heap_notice_hooks(h);
        unsigned n = heap_hooks->large(&h->hook, given / 8);
        if (n > 0 && !heap_tls.suspended && heap_hooks->allocated) {
            uint32_t entry = heap_hooks->allocated(&h->hook, block, size, given, source, n);
            if (entry) tag = entry | (tag & TAG_IGNORED);
        }
    }
    if (tag) large_set_entry(block, tag);
    /* A program may allocate large blocks only, and few; beside one the look at the clock is cheap. */
    if (h && (++h->ticks & (heap_options.watch ? 0 : 7)) == 0) thread_heap_tick(h);
    if (h) end_of_call(h);
    if (unlikely(heap_tls.ending)) thread_heap_release();
    return block;
none:
    if (heap_tls.ending) thread_heap_release();
    errno = ENOMEM;
    return NULL;
}

/* With padding the class may be another than the fast path's. */
static NOINLINE void *alloc_padded(size_t size, enum heap_source source, const void *caller)
{
    if (padded(size) > MEDIUM_MAX) return alloc_large(size, 1, source == HEAP_CALLOC, source, caller);
    void *block = alloc_from(class_for(padded(size)), size, source, caller);
    /* Collections by the clock must come in a process, too, that allocates little. */
    struct thread_heap *h = heap_tls.heap;
    if (h && unlikely((++h->ticks & 15) == 0)) thread_heap_tick(h);
    return block;
}

void *heap_malloc_other(size_t size, enum heap_source source, const void *caller)
{
    struct bin *b = heap_tls.by_size[(size + 15) >> 4];
    if (unlikely(heap_options.watch)) {
        if (b->n > 0) b->left++; /* the fast path counted a block that this bin does not give */
        return alloc_padded(size, source, caller);
    }
    if (likely(b->n > 0)) return heap_malloc_due(b, size, source, caller);
    return alloc_from(small_class_of[(size + 15) >> 4], size, source, caller);
}

void *heap_malloc_medium(size_t size, enum heap_source source, const void *caller)
{
    if (size > MEDIUM_MAX) return alloc_large(size, 1, source == HEAP_CALLOC, source, caller);
    unsigned class = medium_class_of[(size + 127) >> 7];
    struct bin *b = heap_tls.by_class[class];
    BIN_POP(b, true, true, goto slow);
slow:
    if (unlikely(heap_options.watch)) {
        if (b->n > 0) b->left++;
        return alloc_padded(size, source, caller);
    }
    if (likely(b->n > 0)) return heap_malloc_every_medium(b, size, source, caller);
    return alloc_from(class, size, source, caller);
}

void *heap_malloc(size_t size) { return heap_malloc_fast(size, HEAP_MALLOC); }

void *heap_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(count, size, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = heap_malloc_fast(bytes, HEAP_CALLOC);
    if (likely(block != NULL) && bytes <= MEDIUM_MAX) memset(block, 0, bytes);
    return block;
}

void *heap_aligned(size_t alignment, size_t size)
{
    if (alignment <= 16) return heap_malloc_fast(size, HEAP_ALIGNED);
    unsigned class = size < MEDIUM_MAX ? class_for_aligned(alignment, padded(size)) : 0;
    if (class != 0) return alloc_from(class, size, HEAP_ALIGNED, CALLER());
    return alloc_large(size > 0 ? size : 1, alignment, false, HEAP_ALIGNED, CALLER());
}

/* ---- realloc ---- */

/* False: it was reclaimed in this moment. */
static bool resized(void *block, uint32_t tag, size_t before, size_t asked, size_t given, bool old)
{
    uint32_t entry = tag_entry(tag);
    if (unlikely(tag & TAG_LOST) && !lost_proved(block, tag, PROOF_RESIZED)) return false;
    if (!entry || !heap_hooks->resized) return true;
    struct thread_heap *h = heap_tls.heap;
    if (h) thread_heap_notice_hooks(h);
    uint32_t now = heap_hooks->resized(h ? &h->hook : NULL, block, entry, before, asked, given, old);
    if (unlikely(now != entry)) heap_retag(block, entry, now);
    if (h) end_of_call(h);
    return true;
}

static ALWAYS_INLINE void *move(void *block, size_t old, size_t size)
{
    void *new = heap_malloc_fast(size, HEAP_REALLOC);
    if (!new) return NULL;
    memcpy(new, block, old < size ? old : size);
    heap_free_fast(block);
    return new;
}

/* The words that a block of no entry has grown by are trials like others. */
static void sample_growth(void *block, size_t old, size_t size, size_t given)
{
    struct thread_heap *h = heap_tls.heap;
    if (!h || given <= old || !heap_hooks->large || !heap_hooks->allocated) return;
    thread_heap_notice_hooks(h);
    unsigned n = heap_hooks->large(&h->hook, (given - old) / 8);
    if (n == 0 || heap_tls.suspended) return;
    uint32_t entry = heap_hooks->allocated(&h->hook, block, size, given, HEAP_REALLOC, n);
    if (entry) large_set_entry(block, entry | (large_entry(block) & TAG_IGNORED));
    end_of_call(h);
}

static ALWAYS_INLINE void *realloc_large(void *block, size_t old, size_t size)
{
    if (size > MEDIUM_MAX) {
        void *now = block;
        bool was_old = large_is_old(block);
        heap_tls.slot_in_hand = true;
        size_t given = large_resize(block, padded(size));
        if (!given && size > old) {
            now = large_move(block, padded(size), &given);
            if (!now) given = 0;
        }
        heap_tls.slot_in_hand = false;
        if (given) {
            if (given == old) return now;
            heap_account((int64_t)given - (int64_t)old);
            if (unlikely(heap_options.reclaim) && now != block) reclaimed_forget_large(now);
            uint32_t tag = large_entry(now);
            resized(now, tag, old, size, given, was_old);
            if (tag_entry(tag) == 0) sample_growth(now, old, size, given);
            return now;
        }
        if (size <= old && size > old / 2) return block;
    }
    return move(block, old, size);
}

/* A lost block is resized after all; before anything is done, since it may move, or be as large already.  False: it was reclaimed. */
static COLD bool prove_large(void *block, uint32_t tag) { return lost_proved(block, tag, PROOF_RESIZED); }

/* No block, or one that was reclaimed: its contents may be there still.  They are set aside, since the new block may be the same slot. */
static COLD void *realloc_reclaimed(void *block, size_t size)
{
    size_t old = reclaimed_size(block), bytes = round_up(old, OS_PAGE);
    void *aside = old ? os_map(bytes) : NULL;
    if (aside) memcpy(aside, block, old);
    heap_free_fast(block); /* says what is wrong with it */
    void *new = heap_malloc_fast(size, HEAP_REALLOC);
    if (new && aside) memcpy(new, aside, old < size ? old : size);
    if (aside) os_unmap(aside, bytes);
    return new;
}

void *heap_realloc(void *block, size_t size)
{
    if (!block) return heap_malloc_fast(size, HEAP_REALLOC);
    if (size == 0) {
        heap_free_fast(block);
        return NULL;
    }
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    size_t old = heap_usable_size(block);
    if (unlikely(old == 0)) {
        if (!window_holds(block) && heap_hooks->foreign_realloc)
            return heap_hooks->foreign_realloc(block, size);
        if (unlikely(heap_options.reclaim)) return realloc_reclaimed(block, size);
        heap_free_fast(block); /* says what is wrong with it */
        return heap_malloc_fast(size, HEAP_REALLOC);
    }
    /* A small block of a large alignment is a large block, too. */
    if (old > MEDIUM_MAX || (uintptr_t)block - (window_base + WINDOW_LARGE_OFFSET) < WINDOW_LARGE_BYTES) {
        uint32_t tag = large_entry(block);
        if (unlikely(tag & TAG_LOST) && !prove_large(block, tag)) return realloc_reclaimed(block, size);
        return realloc_large(block, old, size);
    }
    /* A slot that would be more than half empty is given up: what the block shrank by is worth having. */
    if (padded(size) <= old && (size > old / 2 || old <= 64)) {
        bool medium = old > SMALL_MAX;
        int8_t state = *state_of(block, medium);
        if (unlikely(state < 0)) {
            struct pool *p = pool_of(block, medium);
            if (unlikely(!resized(block, pool_tag(p, slot_of(p, block)), old, size, old, state & STATE_OLD)))
                return realloc_reclaimed(block, size);
        }
        return block;
    }
    return move(block, old, size);
}
