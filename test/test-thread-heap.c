/* Bins and beats: slots go back to their pools in whichever order they are freed; slots whose neighbours another thread has go back to it, sample points stay where they were
   drawn however far away they are, and memory decays in programs that only allocate and free.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/fast.h"
#include "heap/heap.h"
#include "suite.h"
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* More blocks than pass between two looks at a bin for other threads' slots. */
#define MANY (20 * (BIN_BEAT + 1))

static void complain(const char *line) { fprintf(stderr, "verify: %s\n", line); }

static void assert_sound(void) { ck_assert(heap_verify(complain)); }

static bool share_a_line(const void *a, const void *b)
{
    return (uintptr_t)a / CACHE_LINE == (uintptr_t)b / CACHE_LINE;
}

/* The last of many blocks that are freed at once. */
static void *settle(size_t size)
{
    void *block = NULL;
    for (unsigned i = 0; i < MANY; i++) {
        block = heap_malloc_fast(size, HEAP_MALLOC);
        heap_free_fast(block);
    }
    return block;
}

/* ---- flushing ---- */

/* Frees upwards, downwards, by strides and in short rows, over many pools: every slot is free once afterwards, and
   the blocks are had again without fresh memory. */
START_TEST(test_orders_of_freeing)
{
    enum { N = 6000 };
    static const size_t sizes[] = {16, 48, 64, 400, 1024, 1152, 5632, 32768};
    static const unsigned strides[] = {1, 5999, 2, 7, 641, 5993};
    static char *block[N];
    for (unsigned z = 0; z < sizeof sizes / sizeof sizes[0]; z++) {
        uint64_t mapped = 0;
        unsigned n = sizes[z] > 4096 ? 600 : N;
        for (unsigned s = 0; s < 2 * sizeof strides / sizeof strides[0]; s++) {
            struct heap_stats before, after;
            unsigned stride = strides[s / 2] % n;
            if (n % stride == 0 && stride > 1) stride++;
            heap_stats(&before);
            for (unsigned i = 0; i < n; i++) *(block[i] = heap_malloc_fast(sizes[z], HEAP_MALLOC)) = (char)i;
            /* Another's neighbours stay, so that rows have gaps. */
            char *kept = s % 2 ? block[n / 3] : NULL;
            for (unsigned i = 0, k = 0; i < n; i++, k = (k + stride) % n) {
                if (block[k] == NULL || block[k] == kept) continue;
                ck_assert_int_eq(*block[k], (char)k);
                heap_free_fast(block[k]);
                block[k] = NULL;
            }
            for (unsigned k = 0; k < n; k++) /* what the stride left out */
                if (block[k] && block[k] != kept) heap_free_fast(block[k]);
            assert_sound();
            heap_free_fast(kept);
            heap_stats(&after);
            ck_assert_uint_eq(after.live, before.live);
            if (s == 0) mapped = after.pool_bytes;
            ck_assert_uint_eq(after.pool_bytes, mapped);
        }
    }
    heap_trim();
    assert_sound();
}
END_TEST

/* ---- false sharing ---- */

struct hand_over {
    void *given;   /* the thread frees it */
    bool warm;     /* the thread has used the class before */
    size_t size;
    bool at_once;  /* its first block is of another line */
    void *settled; /* what it uses in the end */
};

static void *take_over(void *arg)
{
    struct hand_over *o = arg;
    if (o->warm) heap_free_fast(heap_malloc_fast(o->size, HEAP_MALLOC));
    heap_free_fast(o->given);
    void *first = heap_malloc_fast(o->size, HEAP_MALLOC);
    o->at_once = !share_a_line(first, o->given);
    heap_free_fast(first);
    o->settled = settle(o->size);
    heap_thread_exit();
    return NULL;
}

static void run(void *(*f)(void *), void *arg)
{
    pthread_t t;
    ck_assert_int_eq(pthread_create(&t, NULL, f, arg), 0);
    pthread_join(t, NULL);
}

/* A thread that frees a block of ours, neighbour of one that we keep, does not go on in that line. */
START_TEST(test_false_sharing)
{
    static const size_t sizes[] = {16, 48, 80, 1000}; /* 1000: slots of 1024 bytes share no line */
    for (unsigned warm = 0; warm < 2; warm++)
        for (unsigned i = 0; i < 4; i++) {
            void *block[4];
            for (unsigned k = 0; k < 4; k++) block[k] = heap_malloc_fast(sizes[i], HEAP_MALLOC);
            struct hand_over o = {.given = block[1], .warm = warm, .size = sizes[i]};
            run(take_over, &o);
            if (sizes[i] < 1000) {
                if (!warm) ck_assert(o.at_once);
                ck_assert(!share_a_line(o.settled, o.given));
            } else {
                ck_assert_ptr_eq(o.settled, o.given); /* nothing to give back for */
            }
            assert_sound();
            heap_trim(); /* no heap for the next thread to take over */
            for (unsigned k = 0; k < 4; k++)
                if (k != 1) heap_free_fast(block[k]);
        }
}
END_TEST

/* The owner uses again what it got back. */
START_TEST(test_returned_to_owner)
{
    enum { N = 64 };
    void *block[N], *again[4096];
    for (unsigned k = 0; k < N; k++) block[k] = heap_malloc_fast(32, HEAP_MALLOC);
    struct hand_over o = {.given = block[N / 2], .size = 32};
    run(take_over, &o);
    bool found = false;
    for (unsigned k = 0; k < 4096; k++) {
        again[k] = heap_malloc_fast(32, HEAP_MALLOC);
        found |= again[k] == o.given;
    }
    ck_assert(found);
    for (unsigned k = 0; k < 4096; k++) heap_free_fast(again[k]);
    assert_sound();
}
END_TEST

static void *make_three(void *arg)
{
    void **block = arg;
    for (unsigned k = 0; k < 3; k++) block[k] = heap_malloc_fast(48, HEAP_MALLOC);
    heap_thread_exit();
    return NULL;
}

/* A thread that is gone writes nothing: its memory is worth more used than given back. */
START_TEST(test_no_sharing_with_the_gone)
{
    void *block[3];
    run(make_three, block);
    heap_free_fast(block[1]);
    ck_assert_ptr_eq(settle(48), block[1]);
    heap_free_fast(block[0]);
    heap_free_fast(block[2]);
    assert_sound();
}
END_TEST

/* ---- beats ---- */

static uint32_t gap;        /* blocks between two sample points */
static unsigned dues;
static uint64_t made, due_at[16]; /* blocks made before each call of due */

static uint32_t on_due(struct heap_thread_hook *h, unsigned class, size_t words, unsigned *n)
{
    (void)h;
    (void)class;
    (void)words;
    if (dues < 16) due_at[dues] = made;
    dues++;
    *n = 1;
    return gap;
}

/* Wherever the next point lies beside the beats, it is asked for at the very block. */
START_TEST(test_sample_points_between_beats)
{
    static const struct heap_hooks hooks = {.due = on_due};
    static const uint32_t gaps[] = {0,
                                    1,
                                    BIN_BEAT - 1,
                                    BIN_BEAT,
                                    BIN_BEAT + 1,
                                    2 * BIN_BEAT + 1,
                                    5 * BIN_BEAT / 2,
                                    7 * BIN_BEAT};
    heap_free_fast(heap_malloc_fast(200, HEAP_MALLOC));
    for (unsigned g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
        struct heap_stats before, after;
        heap_stats(&before);
        gap = gaps[g];
        dues = 0;
        heap_set_hooks(&hooks);
        uint64_t blocks = 10 * ((uint64_t)gap + 1);
        for (made = 0; made < blocks; made++) heap_free_fast(heap_malloc_fast(200, HEAP_MALLOC));
        heap_set_hooks(NULL);
        ck_assert_uint_eq(dues, 10);
        for (unsigned i = 0; i < 10; i++) ck_assert_uint_eq(due_at[i], i * ((uint64_t)gap + 1));
        heap_stats(&after);
        unsigned c = class_for(200);
        ck_assert_uint_eq(after.of[c].allocated - before.of[c].allocated, blocks);
        ck_assert_uint_eq(after.of[c].live, before.of[c].live);
    }
    assert_sound();
}
END_TEST

static size_t resident_pages(char *from, size_t bytes)
{
    static unsigned char there[16384];
    uintptr_t start = (uintptr_t)from & ~(OS_PAGE - 1);
    size_t n = 0, pages = ((uintptr_t)from + bytes - start) / OS_PAGE;
    ck_assert_uint_le(pages, sizeof there);
    if (mincore((void *)start, pages * OS_PAGE, there) != 0) return 0; /* unmapped */
    for (size_t i = 0; i < pages; i++) n += there[i] & 1;
    return n;
}

/* Nothing is sampled and no bin runs empty or over: what was freed before goes back to the system all the same. */
START_TEST(test_decay_without_sampling)
{
    enum { N = 16000 }; /* 16 MB */
    static char *block[N];
    heap_start(&(struct heap_options){.decay_ns = 0});
    for (unsigned i = 0; i < N; i++) memset(block[i] = heap_malloc(1000), 1, 1000);
    char *low = block[0], *high = block[0];
    for (unsigned i = 0; i < N; i++) {
        if (block[i] < low) low = block[i];
        if (block[i] > high) high = block[i];
    }
    ck_assert_uint_lt((size_t)(high - low), 64 * MIB);
    size_t before = resident_pages(low, (size_t)(high - low));
    for (unsigned i = 0; i < N; i++) heap_free(block[i]);
    for (unsigned i = 0; i < 10; i++) settle(64);
    ck_assert_uint_ge(before, N * 1000 / OS_PAGE);
    ck_assert_uint_le(resident_pages(low, (size_t)(high - low)), before / 2);
    heap_start(&(struct heap_options){.decay_ns = 10000000000u});
    assert_sound();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("thread heaps");
    TCase *t = tcase_create("thread heaps");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_orders_of_freeing);
    tcase_add_test(t, test_false_sharing);
    tcase_add_test(t, test_returned_to_owner);
    tcase_add_test(t, test_no_sharing_with_the_gone);
    tcase_add_test(t, test_sample_points_between_beats);
    tcase_add_test(t, test_decay_without_sampling);
    suite_add_tcase(s, t);
    return suite_run(s);
}
