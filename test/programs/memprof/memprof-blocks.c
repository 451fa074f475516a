/* memprof-blocks.c: what collections tell a tracker, weak handles, data as roots, arenas, memory on a block's account:
   memprof-blocks TEST. Run with collections possible (collect:report).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "programs/memprof/memprof.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>

#define KEY 0x5a5a5a5a5a5a5a5aull /* addresses that a collector must not find */
static uintptr_t hidden[4096];

NOINLINE static void scrub(void)
{
    volatile char dead[50000];
    for (size_t i = 0; i < sizeof dead; i++) dead[i] = 0;
}
NOINLINE static void *shown(unsigned i) { return (void *)(hidden[i] ^ KEY); }
NOINLINE static void hide(unsigned i, size_t bytes) { hidden[i] = (uintptr_t)calloc(1, bytes) ^ KEY; }
NOINLINE static void free_hidden(unsigned i) { free(shown(i)); }

static void collect(enum gleaner_collection kind)
{
    scrub();
    int e = gleaner_collect(kind);
    if (e) fail("the collection failed: %d", e);
}

static struct {
    _Atomic long alloc_young, alloc_old, promote, dealloc_young, dealloc_old, lost, reclaimed;
} seen;
static _Atomic int source[8];

static void *on_alloc_young(const struct gleaner_sample *s, void *user)
{
    seen.alloc_young++;
    source[s->source]++;
    return &seen;
}
static void *on_alloc_old(const struct gleaner_sample *s, void *user)
{
    seen.alloc_old++;
    source[s->source]++;
    return &seen;
}
#define ON(event)                                                                                  \
    static void on_##event(const struct gleaner_sample *s, void *data, void *user)                 \
    {                                                                                              \
        seen.event++;                                                                              \
        if (data != &seen) fail("not our data");                                                   \
    }
ON(promote)
ON(dealloc_young)
ON(dealloc_old)
ON(lost)
ON(reclaimed)
static const struct gleaner_tracker counting = {on_alloc_young, on_alloc_old, on_promote, on_dealloc_young, on_dealloc_old,
                                                on_lost, on_reclaimed};

/* ---- ages ---- */

static void *blocks[100];

static void ages(void)
{
    unsigned long p = start(1, &counting, 0);
    for (int i = 0; i < 100; i++) blocks[i] = malloc(i % 10 == 9 ? 100000 : 40);
    for (int i = 0; i < 20; i++) free(blocks[i]);
    need_equal(seen.dealloc_young, 20);
    collect(GLEANER_MINOR);
    need_equal(seen.promote, 80);
    for (int i = 20; i < 60; i++) free(blocks[i]);
    need_equal(seen.dealloc_old, 40);
    void *young = malloc(40);
    collect(GLEANER_MAJOR);
    need_equal(seen.promote, 81);
    free(young);
    need_equal(seen.dealloc_old, 41);
    need_equal(seen.dealloc_young, 20);
    collect(GLEANER_MAJOR);
    need_equal(seen.promote, 81);
    need_equal(seen.lost, 0);
    struct gleaner_memprof_counts c = conserved(p);
    need_equal(c.promoted.blocks, 81);
    need_equal(c.live.blocks, 40);
    gleaner_memprof_stop();
}

/* Nobody collects while its callbacks are postponed, but the deaths know what was old. */
static void ages_postponed(void)
{
    unsigned long p = start(1, &counting, 1);
    for (int i = 0; i < 100; i++) blocks[i] = malloc(40);
    collect(GLEANER_MINOR);
    for (int i = 0; i < 50; i++) free(blocks[i]);
    need_equal(seen.alloc_young + seen.promote + seen.dealloc_old, 0);
    need_equal(gleaner_memprof_poll(), 100 + 100 + 50);
    need_equal(seen.promote, 100);
    need_equal(seen.dealloc_old, 50);
    need_equal(conserved(p).freed_old.blocks, 50);
    gleaner_memprof_stop();
}

/* ---- lost ---- */

NOINLINE static void hide_some(unsigned n)
{
    for (unsigned i = 0; i < n; i++) hide(i, 200);
}

static void *volatile kept;

static void lost(void)
{
    unsigned long p = start(1, &counting, 0);
    hide_some(50);
    collect(GLEANER_MAJOR);
    need_equal(seen.lost, 50);
    need_equal(seen.promote, 50);
    need_equal(conserved(p).lost.blocks, 50);
    for (unsigned i = 0; i < 10; i++) free_hidden(i); /* they were not, after all */
    need_equal(seen.dealloc_old, 10);
    need_equal(conserved(p).lost.blocks, 40);
    kept = shown(20);
    collect(GLEANER_MAJOR); /* reaches it again */
    need_equal(conserved(p).lost.blocks, 39);
    need_equal(conserved(p).live.blocks, 1);
    need_equal(seen.lost, 50);
    kept = NULL;
    collect(GLEANER_MAJOR);
    need_equal(seen.lost, 51);
    need_equal(conserved(p).lost.blocks, 40);
    gleaner_memprof_stop();
    need_equal(gleaner_memprof_discard(p), 0);
}

/* With collect:reclaim,reclaim_delay:0 lost blocks are taken back, and that is their end. */
static _Atomic long handles_lost;
static void on_handle(void *block, enum gleaner_end end, void *user)
{
    handles_lost++;
    need(end == GLEANER_FOUND_LOST); /* which comes first */
}

/* Each has its handle before the next is made: collections come by the clock, too. */
NOINLINE static void hide_with_handles(unsigned blocks, unsigned handles, unsigned long *h)
{
    for (unsigned i = 0; i < blocks; i++) {
        hide(i, 200);
        if (i < handles) h[i] = gleaner_weak_make(shown(i), on_handle, NULL);
    }
}

static void reclaimed(void)
{
    unsigned long h[50], p = start(1, &counting, 0);
    hide_with_handles(100, 50, h);
    for (int i = 0; i < 10 && seen.reclaimed < 100; i++) {
        collect(GLEANER_MAJOR);
        struct gleaner_memprof_counts c = conserved(p);
        need_equal(c.lost.blocks + c.reclaimed.blocks, 100);
        need_equal(seen.reclaimed, c.reclaimed.blocks);
    }
    need_equal(seen.lost, 100);
    need_equal(handles_lost, 50);
    need_equal(seen.reclaimed, 100);
    for (int i = 0; i < 50; i++) need(gleaner_weak_get(h[i]) == NULL);
    for (int i = 0; i < 1000; i++) free(calloc(1, 200)); /* their slots are used again */
    struct gleaner_memprof_counts c = conserved(p);
    need_equal(c.reclaimed.blocks, 100);
    need_equal(c.live.blocks, 0);
    gleaner_memprof_stop();
    need_equal(gleaner_memprof_discard(p), 0);
}

/* ---- data are roots, blocks are not ---- */

struct record {
    char text[64];
};

static void *on_alloc_record(const struct gleaner_sample *s, void *user)
{
    struct record *r = malloc(sizeof *r); /* our only pointer to it is what we return */
    strcpy(r->text, "kept");
    return r;
}
static void on_end_record(const struct gleaner_sample *s, void *data, void *user)
{
    need(strcmp(((struct record *)data)->text, "kept") == 0);
    free(data);
    seen.dealloc_old++;
}

static struct gleaner_count lost_now(void)
{
    struct gleaner_leaks l = {0};
    scrub();
    need_equal(gleaner_leak_check(0, &l), 0);
    return l.lost;
}

NOINLINE static void make_recorded(void)
{
    for (int i = 0; i < 100; i++) blocks[i] = malloc(40);
}

static void roots(void)
{
    unsigned long p = start(1, &(struct gleaner_tracker){.alloc_young = on_alloc_record, .dealloc_young = on_end_record,
                                                         .dealloc_old = on_end_record}, 0);
    make_recorded();
    gleaner_memprof_stop();
    need_equal(lost_now().blocks, 0);
    collect(GLEANER_MINOR);
    collect(GLEANER_MINOR);
    need_equal(lost_now().blocks, 0);
    for (int i = 0; i < 50; i++) free(blocks[i]);
    need_equal(seen.dealloc_old, 50);
    for (int i = 50; i < 100; i++) blocks[i] = NULL;
    scrub();
    need_equal(lost_now().blocks, 50); /* the tracked blocks, and not their records */
    need_equal(gleaner_memprof_discard(p), 0);
    need_equal(lost_now().blocks, 100); /* now nothing leads to those */
}

/* ---- weak handles ---- */

static _Atomic long cleared[3];
static void on_cleared(void *block, enum gleaner_end end, void *user)
{
    cleared[end]++;
    if ((uintptr_t)user != ((uintptr_t)block ^ KEY)) fail("another block was cleared");
}

NOINLINE static unsigned long weak_to(unsigned i)
{
    return gleaner_weak_make(shown(i), on_cleared, (void *)hidden[i]);
}
NOINLINE static int leads_to(unsigned long handle, unsigned i) { return gleaner_weak_get(handle) == shown(i); }

static void weak(void)
{
    unsigned long h[200];
    int local;
    need_equal(gleaner_weak_make(NULL, NULL, NULL), 0);
    need_equal(gleaner_weak_make(&local, NULL, NULL), 0);
    need(gleaner_weak_get(0) == NULL && gleaner_weak_get(123456) == NULL && gleaner_weak_get(0x18000000) == NULL);
    need_equal(gleaner_weak_drop(0), EINVAL);
    for (unsigned i = 0; i < 100; i++) {
        hide(i, i % 10 == 3 ? 100000 : i % 10 == 4 ? 3000 : 100);
        h[i] = weak_to(i);
        need(h[i] != 0);
        need(leads_to(h[i], i));
    }
    for (unsigned i = 0; i < 20; i++) {
        free_hidden(i);
        need(gleaner_weak_get(h[i]) == NULL);
        need_equal(cleared[GLEANER_FREED], i + 1);
    }
    for (unsigned i = 0; i < 2000; i++) free(malloc(100)); /* their slots are used again, */
    for (unsigned i = 100; i < 200; i++) {
        hide(i, 100);
        h[i] = weak_to(i); /* their entries too */
    }
    for (unsigned i = 0; i < 20; i++) need(gleaner_weak_get(h[i]) == NULL);
    for (unsigned i = 20; i < 200; i++) need(leads_to(h[i], i));
    for (unsigned i = 20; i < 30; i++) {
        need_equal(gleaner_weak_drop(h[i]), 0);
        need(gleaner_weak_get(h[i]) == NULL);
        need_equal(gleaner_weak_drop(h[i]), EINVAL);
        free_hidden(i);
    }
    need_equal(cleared[GLEANER_FREED], 20);
    collect(GLEANER_MAJOR);
    need_equal(cleared[GLEANER_FOUND_LOST], 170);
    for (unsigned i = 30; i < 200; i++) {
        need(gleaner_weak_get(h[i]) == NULL);
        free_hidden(i);
    }
    need_equal(cleared[GLEANER_FREED], 20);
    need_equal(cleared[GLEANER_FOUND_LOST], 170);
}

/* Many handles of one block, given up in any order, do not pile up; a resize that moves the block ends them, one in its place
   does not. */
static void weak_chain(void)
{
    hide(0, 100);
    unsigned long h[8];
    for (int i = 0; i < 8; i++) h[i] = weak_to(0);
    for (int round = 0; round < 100000; round++) {
        unsigned k = draw() % 8;
        if (h[k]) {
            need_equal(gleaner_weak_drop(h[k]), 0);
            unsigned long old = h[k];
            h[k] = 0;
            need(gleaner_weak_get(old) == NULL);
        } else {
            h[k] = weak_to(0);
            need(leads_to(h[k], 0));
        }
    }
    int left = 0;
    for (int i = 0; i < 8; i++) left += h[i] != 0;
    void *b = shown(0);
    need(realloc(b, 90) == b);
    for (int i = 0; i < 8; i++) need(h[i] == 0 || gleaner_weak_get(h[i]) == b);
    b = realloc(b, 5000);
    for (int i = 0; i < 8; i++) need(gleaner_weak_get(h[i]) == NULL);
    need_equal(cleared[GLEANER_FREED], left);
    free(b);
}

/* Handles are made and asked in many threads while their blocks come and go; each thread frees its own. */
static void *weak_in_thread(void *seed)
{
    draw_state = (uintptr_t)seed;
    unsigned long h[64] = {0}, old[64] = {0};
    void *b[64] = {0};
    for (int i = 0; i < 30000; i++) {
        unsigned k = draw() % 64;
        if (b[k]) {
            need(gleaner_weak_get(h[k]) == b[k]);
            old[k] = h[k];
            if (draw() % 3 == 0) need_equal(gleaner_weak_drop(h[k]), 0);
            free(b[k]);
            b[k] = NULL;
            need(gleaner_weak_get(h[k]) == NULL);
        } else {
            b[k] = malloc(draw() % 100);
            h[k] = gleaner_weak_make(b[k], NULL, NULL);
            need(h[k] != old[k]);
        }
        need(gleaner_weak_get(old[draw() % 64]) == NULL);
    }
    for (int i = 0; i < 64; i++) free(b[i]);
    return NULL;
}

static void weak_threads(void)
{
    pthread_t t[4];
    unsigned long p = start(0.1, &counting, 0);
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, weak_in_thread, (void *)(i + 1));
    for (int i = 0; i < 20; i++) gleaner_collect(i % 2 ? GLEANER_MAJOR : GLEANER_MINOR);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    conserved(p);
}

/* ---- arenas ---- */

static void arena_on(char *memory, size_t bytes, int flags)
{
    memset(&seen, 0, sizeof seen);
    memset(source, 0, sizeof source);
    struct gleaner_arena *a = gleaner_arena_begin(memory, bytes, flags);
    need(a != NULL);
    unsigned long p = start(1, &counting, 0);
    need_equal(gleaner_arena_alloc(a, memory + bytes, 8), EINVAL);
    need_equal(gleaner_arena_alloc(a, memory - 8, 8), EINVAL);
    need_equal(gleaner_arena_alloc(a, memory + 4, 8), EINVAL);
    need_equal(gleaner_arena_alloc(a, memory + bytes - 8, 16), EINVAL);
    need_equal(gleaner_arena_free(a, memory), EINVAL);
    for (int i = 0; i < 100; i++) need_equal(gleaner_arena_alloc(a, memory + i * 64, 60), 0);
    need_equal(gleaner_arena_alloc(a, memory, 8), EINVAL); /* it is there already */
    need_equal(flags ? seen.alloc_old : seen.alloc_young, 100);
    for (int i = 0; i < 30; i++) need_equal(gleaner_arena_free(a, memory + i * 64), 0);
    need_equal(gleaner_arena_free(a, memory), EINVAL);
    need_equal(flags ? seen.dealloc_old : seen.dealloc_young, 30);
    struct gleaner_piece pieces[50];
    for (int i = 0; i < 50; i++) pieces[i] = (struct gleaner_piece){memory + 7000 + i * 16, (size_t)(i % 2 ? 16 : 9)};
    /* One bad piece, wherever it stands, and there is none of them; the one that was there before stays. */
    const struct gleaner_piece bad[] = {{memory + bytes, 8}, {memory + 7004, 8}, {memory + 7000, 0}, {memory + bytes - 8, 16}, {memory + 64 * 99, 8}, pieces[49]};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int at = 0; at < 49; at += 16) {
            struct gleaner_piece good = pieces[at];
            pieces[at] = bad[i];
            need_equal(gleaner_arena_bulk(a, pieces, 50), EINVAL);
            pieces[at] = good;
            for (int k = 0; k < 50; k++) need_equal(gleaner_arena_state(a, pieces[k].block), GLEANER_NO_BLOCK);
            need(gleaner_arena_state(a, memory + 64 * 99) != GLEANER_NO_BLOCK);
        }
    need_equal(source[GLEANER_BULK], 0);
    need_equal(gleaner_arena_bulk(a, pieces, 0), 0);
    need_equal(gleaner_arena_bulk(a, pieces, 50), 0);
    need_equal(source[GLEANER_ARENA], 100);
    need_equal(source[GLEANER_BULK], 50);
    if (!flags && gleaner_collect(GLEANER_MINOR) == 0) {
        need_equal(seen.promote, 120);
        need_equal(gleaner_arena_alloc(a, memory, 60), 0);
        gleaner_arena_reset(a);
        need_equal(seen.dealloc_young, 31);
        need_equal(seen.dealloc_old, 120);
    } else gleaner_arena_reset(a);
    struct gleaner_memprof_counts c = conserved(p);
    need_equal(c.live.blocks, 0);
    need_equal(gleaner_arena_alloc(a, memory, 60), 0);
    gleaner_arena_end(a);
    need_equal(conserved(p).live.blocks, 0);
    gleaner_memprof_stop();
    need_equal(gleaner_memprof_discard(p), 0);
}

static void arena(void)
{
    char *block = malloc(10000), *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(gleaner_arena_begin(block, 0, 0) == NULL && gleaner_arena_begin(block, (size_t)1 << 41, 0) == NULL);
    for (int i = 0; i < 50; i++) {
        arena_on(block, 10000, i % 2 ? GLEANER_ARENA_OLD : 0);
        arena_on(mapped + 8 * (i % 9), 1 << 19, i % 3 ? GLEANER_ARENA_OLD : 0);
    }
    free(block);
}

/* Pieces are sampled as blocks are. */
static void arena_unbiased(void)
{
    size_t bytes = 1 << 22;
    char *memory = malloc(bytes);
    double words = 0, n = 0, lambda = 0.005;
    for (int round = 0; round < 20; round++) {
        struct gleaner_arena *a = gleaner_arena_begin(memory, bytes, 0);
        unsigned long p = start(lambda, &(struct gleaner_tracker){0}, 0);
        for (size_t at = 0; at < bytes - 4096;) {
            size_t size = draw() % 300 + 1;
            need_equal(gleaner_arena_alloc(a, memory + at, size), 0);
            words += (double)((size + 7) / 8);
            at += (size + 15) / 16 * 16;
        }
        gleaner_memprof_stop();
        n += (double)conserved(p).allocated.samples;
        gleaner_arena_end(a);
        need_equal(conserved(p).live.blocks, 0);
        need_equal(gleaner_memprof_discard(p), 0);
    }
    if (fabs(n - lambda * words) > 5 * sqrt(lambda * words)) fail("%g samples, not %g", n, lambda * words);
    free(memory);
}

/* ---- what of an arena is lost ---- */

struct piece {
    struct piece *next;
    void *block; /* of malloc */
    char fill[80];
};
static char *volatile arena_memory; /* its beginning, which is in no piece */
static struct piece *volatile listed; /* the first 50 pieces hang on it */
static char *volatile in_a_gap, *volatile at_an_end; /* behind piece 90, which that is no pointer to, and at the end of 91 */
static struct gleaner_arena *the_arena;

static int reached(int i) { return i < 50 || i == 80 || i == 91; }

NOINLINE static struct piece *piece_at(int i) { return (struct piece *)(void *)(arena_memory + 48 + 160 * i); }

/* 100 pieces, each with a block of malloc: 50 in a list that `listed` begins, 20 in a ring that nothing leads to, 30 alone. */
NOINLINE static void cut_pieces(void)
{
    for (int i = 0; i < 100; i++) {
        struct piece *p = piece_at(i);
        need_equal(gleaner_arena_alloc(the_arena, p, sizeof *p), 0);
        p->block = calloc(1, 100);
        hidden[i] = (uintptr_t)p->block ^ KEY;
        p->next = i < 50 ? (i < 49 ? piece_at(i + 1) : NULL) : i < 70 ? piece_at(i < 69 ? i + 1 : 50) : NULL;
    }
    listed = piece_at(0);
    in_a_gap = (char *)piece_at(90) + 120;
    at_an_end = (char *)(piece_at(91) + 1);
}

static void pieces_lost(char *memory, size_t bytes, bool offset)
{
    struct gleaner_count lost;
    arena_memory = memory;
    seen.lost = 0;
    the_arena = gleaner_arena_begin(memory, bytes, 0);
    need(the_arena != NULL);
    unsigned long p = start(1, &counting, 0);
    cut_pieces();
    if (offset) *(char *volatile *)&listed += 40; /* inside of the first */
    *(struct piece *volatile *)(arena_memory + 48 + 160 * 3 + 120) = piece_at(80); /* in a gap: looked at with the rest */
    scrub();
    collect(GLEANER_MAJOR);
    gleaner_arena_lost(the_arena, &lost);
    need_equal(lost.blocks, 48);
    need_equal(lost.bytes, 48 * sizeof(struct piece));
    for (int i = 0; i < 100; i++)
        need_equal(gleaner_arena_state(the_arena, piece_at(i)), reached(i) ? GLEANER_OLD : GLEANER_LOST);
    need(seen.lost >= 48);
    struct gleaner_memprof_counts c = conserved(p);
    need(c.lost.blocks >= 48);
    for (int i = 0; i < 100; i++) /* a block of malloc lives by its piece */
        if (reached(i)) need_equal(gleaner_state(shown((unsigned)i)), GLEANER_OLD);
        else need_equal(gleaner_state(shown((unsigned)i)), GLEANER_LOST);
    listed = piece_at(10); /* the ten before it are lost from now on */
    need_equal(gleaner_arena_free(the_arena, piece_at(60)), 0);
    need_equal(gleaner_arena_alloc(the_arena, piece_at(60), 8), 0);
    need_equal(gleaner_arena_state(the_arena, piece_at(60)), GLEANER_YOUNG);
    scrub();
    collect(GLEANER_MAJOR);
    gleaner_arena_lost(the_arena, &lost);
    need_equal(lost.blocks, 58);
    for (int i = 0; i < 100; i++) free_hidden((unsigned)i);
    gleaner_arena_end(the_arena);
    conserved(p);
    gleaner_memprof_stop();
    need_equal(gleaner_memprof_discard(p), 0);
    listed = NULL;
    in_a_gap = at_an_end = NULL;
}

static void arena_lost(void)
{
    char *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pieces_lost(mapped, 1 << 20, false);
    memset(mapped, 0, 1 << 20); /* what an arena has left there is looked at with the rest */
    pieces_lost(mapped + 104, 100 * 160 + 3, true);
    munmap(mapped, 1 << 20);
    char *block = calloc(1, 20000); /* a slot of a pool */
    pieces_lost(block, 20000, false);
    memset(block, 0, 20000);
    pieces_lost(block + 16, 16100, true);
    memset(block, 0, 20000);
    free(block);
    block = calloc(1, 400000);
    pieces_lost(block, 400000, true);
    free(block);
}

/* Threads announce and free while snapshots are marked: nothing that is held is ever lost, and what was announced after a cut
   counts as held. */
#define SLICE 4096
static struct piece *volatile held[4][SLICE];
static _Atomic int collections_over;

static void *churn_pieces(void *number)
{
    long t = (long)number;
    draw_state = (uint64_t)t + 7;
    while (!collections_over)
        for (int i = 0; i < 1000; i++) {
            unsigned k = draw() % SLICE;
            struct piece *p = (struct piece *)(void *)(arena_memory + (size_t)(t * SLICE + k) * 96);
            struct piece *hid = (struct piece *)((uintptr_t)p ^ KEY);
            struct piece *is = held[t][k];
            if (is == p) {
                enum gleaner_state state = gleaner_arena_state(the_arena, p);
                if (state != GLEANER_OLD && state != GLEANER_YOUNG) fail("a block that is held is in state %d", state);
            }
            /* What is hidden may be lost; it is announced anew before it is held again. */
            if (is) need_equal(gleaner_arena_free(the_arena, p), 0);
            held[t][k] = is == p ? draw() % 2 ? hid : NULL : p;
            if (held[t][k]) need_equal(gleaner_arena_alloc(the_arena, p, 96), 0);
        }
    return NULL;
}

static void arena_threads(void)
{
    pthread_t t[4];
    size_t bytes = 4 * SLICE * 96;
    unsigned long p = start(0.05, &counting, 0);
    arena_memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    the_arena = gleaner_arena_begin(arena_memory, bytes, 0);
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, churn_pieces, (void *)i);
    int complete = 0;
    for (int i = 0; i < 60 || complete <= 20; i++) complete += gleaner_collect(i % 4 ? GLEANER_MAJOR : GLEANER_MINOR) == 0;
    collections_over = 1;
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    conserved(p);
    need(seen.promote > 0 && seen.lost > 0);
    gleaner_arena_end(the_arena);
    need_equal(conserved(p).live.blocks < 20, 1);
}

/* ---- memory on a block's account ---- */

static void custom(void)
{
    unsigned long p = start(1, &counting, 0);
    char *b = malloc(64);
    need_equal(gleaner_memprof_custom(b, 80000), 0);
    need_equal(source[GLEANER_CUSTOM], 1);
    need_equal(conserved(p).allocated.samples, malloc_usable_size(b) / 8 + 10000);
    need_equal(gleaner_memprof_custom(b + 8, 80000), EINVAL);
    need_equal(gleaner_memprof_custom(b, 800), 0);
    need_equal(seen.dealloc_young, 0);
    b = realloc(b, 60); /* in its place */
    need_equal(seen.dealloc_young, 0);
    free(b);
    need_equal(seen.dealloc_young, 3);
    need_equal(conserved(p).live.blocks, 0);
    gleaner_memprof_stop();
    gleaner_memprof_discard(p);
    double lambda = 0.01;
    p = start(lambda, &(struct gleaner_tracker){0}, 0);
    double words = 0;
    for (int i = 0; i < 10000; i++) {
        size_t bytes = draw() % 2000;
        b = malloc(16);
        need_equal(gleaner_memprof_custom(b, bytes), 0);
        words += (double)((bytes + 7) / 8 + malloc_usable_size(b) / 8);
        free(b);
    }
    double n = (double)conserved(p).allocated.samples;
    if (fabs(n - lambda * words) > 5 * sqrt(lambda * words)) fail("%g samples, not %g", n, lambda * words);
    need_equal(conserved(p).live.blocks, 0);
}

static const struct test tests[] = {
    {"ages", ages},
    {"ages-postponed", ages_postponed},
    {"lost", lost},
    {"reclaimed", reclaimed},
    {"roots", roots},
    {"weak", weak},
    {"weak-chain", weak_chain},
    {"weak-threads", weak_threads},
    {"arena", arena},
    {"arena-unbiased", arena_unbiased},
    {"arena-lost", arena_lost},
    {"arena-threads", arena_threads},
    {"custom", custom},
    {NULL, NULL},
};

int main(int count, char **arguments) { return run_test(tests, count, arguments); }
