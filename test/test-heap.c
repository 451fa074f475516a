/* The heap by itself: random work against a model of it, threads, forks, sampling hooks, refused memory, misuse;
   heap_verify after each.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/collect.h"
#include "heap/fast.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/rescue.h"
#include "heap/white.h"
#include "suite.h"
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Check's own assertions report each pass through a pipe: too slow for inner loops. */
#define must(x)                                                                                   \
    do {                                                                                          \
        if (!(x)) ck_abort_msg("%s", #x);                                                         \
    } while (0)

static void complain(const char *line) { fprintf(stderr, "verify: %s\n", line); }

static void assert_sound(void) { ck_assert(heap_verify(complain)); }

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Most sizes are small, some are of every magnitude up to 256 KiB. */
static size_t random_size(uint64_t *s)
{
    uint64_t r = next_random(s);
    unsigned bits = (unsigned)(r >> 8) % 12 < 9 ? (unsigned)r % 9 : (unsigned)r % 18;
    return (size_t)(next_random(s) & (((uint64_t)2 << bits) - 1));
}

struct item {
    unsigned char *block;
    size_t size;
    unsigned char fill;
};

static void check_fill(const struct item *i)
{
    for (size_t k = 0; k < i->size; k += i->size < 256 ? 1 : 97)
        if (i->block[k] != i->fill) ck_abort_msg("a block of %zu bytes was overwritten", i->size);
}

static void put(struct item *i, void *block, size_t size, uint64_t *s)
{
    must(block != NULL);
    must((uintptr_t)block % 16 == 0);
    must(heap_usable_size(block) >= size);
    must(heap_owns(block));
    *i = (struct item){block, size, (unsigned char)next_random(s)};
    memset(block, i->fill, size);
}

/* Replaces random items by blocks of random sizes through every way there is to get one. */
static void churn(struct item *items, unsigned n, unsigned rounds, uint64_t seed)
{
    uint64_t s = seed * 0x9e3779b97f4a7c15u + 1;
    for (unsigned k = 0; k < rounds; k++) {
        struct item *i = &items[next_random(&s) % n];
        size_t size = random_size(&s);
        if (i->block) check_fill(i);
        switch (next_random(&s) % 8) {
        case 0: {
            heap_free_fast(i->block);
            size_t align = (size_t)16 << next_random(&s) % 10;
            put(i, heap_aligned(align, size), size, &s);
            must((uintptr_t)i->block % align == 0);
            break;
        }
        case 1: {
            heap_free_fast(i->block);
            unsigned char *b = heap_calloc(1, size);
            for (size_t j = 0; j < size; j++) must(b[j] == 0);
            put(i, b, size, &s);
            break;
        }
        case 2:
            if (size == 0) size = 1;
            size_t kept = size < i->size ? size : i->size;
            unsigned char fill = i->fill;
            unsigned char *b = heap_realloc(i->block, size);
            for (size_t j = 0; j < kept; j++) must(b[j] == fill);
            put(i, b, size, &s);
            break;
        case 3:
            heap_free_fast(i->block);
            *i = (struct item){0};
            break;
        default:
            heap_free_fast(i->block);
            put(i, heap_malloc_fast(size, HEAP_MALLOC), size, &s);
        }
    }
}

static void release(struct item *items, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (items[i].block) check_fill(&items[i]);
        heap_free_fast(items[i].block);
        items[i] = (struct item){0};
    }
}

#define ITEMS 4000

START_TEST(test_random)
{
    static struct item items[ITEMS];
    struct heap_stats before, after;
    heap_stats(&before);
    for (unsigned round = 0; round < 10; round++) {
        churn(items, ITEMS, 40000, round);
        assert_sound();
    }
    heap_stats(&after);
    uint64_t live = 0;
    for (unsigned i = 0; i < ITEMS; i++) live += items[i].block != NULL;
    ck_assert_uint_eq(after.live - before.live, live);
    release(items, ITEMS);
    assert_sound();
    heap_stats(&after);
    ck_assert_uint_eq(after.live, before.live);
    ck_assert_uint_eq(after.live_bytes, before.live_bytes);
    ck_assert_uint_ge(after.peak_bytes, after.live_bytes);
    heap_trim();
    assert_sound();
}
END_TEST

/* What is counted is what was done. */
START_TEST(test_counts)
{
    struct heap_stats before, after;
    static void *blocks[1000];
    heap_stats(&before);
    for (unsigned i = 0; i < 1000; i++) blocks[i] = heap_malloc_fast(100, HEAP_MALLOC);
    for (unsigned i = 0; i < 300; i++) heap_free_fast(blocks[i]);
    heap_stats(&after);
    unsigned c = class_for(100);
    ck_assert_uint_eq(after.of[c].size, 112);
    ck_assert_uint_eq(after.of[c].allocated - before.of[c].allocated, 1000);
    ck_assert_uint_eq(after.of[c].freed - before.of[c].freed, 300);
    ck_assert_uint_eq(after.of[c].live - before.of[c].live, 700);
    ck_assert_uint_eq(after.live_bytes - before.live_bytes, 700 * 112);
    for (unsigned i = 300; i < 1000; i++) heap_free_fast(blocks[i]);
}
END_TEST

/* ---- threads ---- */

#define THREADS 6

struct exchange {
    struct item items[THREADS][500];
    pthread_barrier_t barrier;
};
static struct exchange exchange;

/* Each thread churns its own items, then those of its neighbour: most frees are of other threads' blocks. */
static void *worker(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    for (unsigned round = 0; round < 20; round++) {
        churn(exchange.items[(me + round) % THREADS], 500, 4000, me * 100 + round);
        pthread_barrier_wait(&exchange.barrier);
    }
    heap_thread_exit();
    return NULL;
}

static void run_threads(void *(*f)(void *))
{
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, f, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

START_TEST(test_threads)
{
    pthread_barrier_init(&exchange.barrier, NULL, THREADS);
    struct heap_stats before, after;
    heap_stats(&before);
    run_threads(worker);
    assert_sound();
    for (unsigned i = 0; i < THREADS; i++) release(exchange.items[i], 500);
    assert_sound();
    heap_stats(&after);
    ck_assert_uint_eq(after.live, before.live);
}
END_TEST

/* A consumer that frees what a producer allocates: memory stays flat. */
#define QUEUE 4096u
static void *_Atomic queue[QUEUE];

static void *producer(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 2000000; i++) {
        void *b = heap_malloc_fast(64, HEAP_MALLOC), *none = NULL;
        while (!atomic_compare_exchange_weak(&queue[i % QUEUE], &none, b)) {
            none = NULL;
            os_yield();
        }
    }
    heap_thread_exit();
    return NULL;
}

static void *consumer(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 2000000; i++) {
        void *b;
        while (!(b = atomic_exchange(&queue[i % QUEUE], NULL))) os_yield();
        heap_free_fast(b);
    }
    heap_thread_exit();
    return NULL;
}

START_TEST(test_producer_consumer)
{
    pthread_t p, c;
    struct heap_stats before, after;
    heap_stats(&before);
    pthread_create(&p, NULL, producer, NULL);
    pthread_create(&c, NULL, consumer, NULL);
    pthread_join(p, NULL);
    pthread_join(c, NULL);
    heap_stats(&after);
    assert_sound();
    ck_assert_uint_eq(after.live, before.live);
    /* 2 M blocks went through; at most the queue, two caches and some pools were ever there. */
    ck_assert_uint_le(after.pool_bytes - before.pool_bytes, 8 * MIB);
}
END_TEST

/* Threads are born and die by the thousand, each leaving a block to the next: the heaps are reused. */
static void *short_lived(void *arg)
{
    void **slot = arg;
    heap_free_fast(*slot);
    *slot = heap_malloc_fast(40, HEAP_MALLOC);
    heap_thread_exit();
    heap_free_fast(heap_malloc_fast(24, HEAP_MALLOC)); /* an exit handler after ours */
    return NULL;
}

START_TEST(test_thread_birth)
{
    void *left = NULL;
    for (unsigned i = 0; i < 3000; i++) {
        pthread_t t;
        ck_assert_int_eq(pthread_create(&t, NULL, short_lived, &left), 0);
        pthread_join(t, NULL);
    }
    heap_free_fast(left);
    ck_assert_ptr_null(thread_heap_by_number(16));
    assert_sound();
}
END_TEST

/* What a dead thread freed into its cache and what lies in its pools is found before memory is mapped anew. */
static void *leaves_much_free(void *arg)
{
    (void)arg;
    enum { N = 200000 };
    void **b = heap_malloc_fast(N * sizeof *b, HEAP_MALLOC);
    for (unsigned i = 0; i < N; i++) b[i] = heap_malloc_fast(48, HEAP_MALLOC);
    for (unsigned i = 0; i < N; i++)
        if (i % 1000) heap_free_fast(b[i]);
    heap_free_fast(b);
    heap_thread_exit();
    return NULL;
}

START_TEST(test_adoption)
{
    pthread_t t;
    pthread_create(&t, NULL, leaves_much_free, NULL);
    pthread_join(t, NULL);
    struct heap_stats before, after;
    heap_stats(&before);
    static void *b[150000];
    for (unsigned i = 0; i < 150000; i++) b[i] = heap_malloc_fast(48, HEAP_MALLOC);
    heap_stats(&after);
    ck_assert_uint_eq(after.pool_bytes, before.pool_bytes);
    for (unsigned i = 0; i < 150000; i++) heap_free_fast(b[i]);
    assert_sound();
}
END_TEST

/* ---- fork ---- */

static atomic_bool stop_churning;

static void *churn_until_told(void *arg)
{
    struct item *items = exchange.items[(uintptr_t)arg];
    for (unsigned i = 0; !atomic_load(&stop_churning); i++) churn(items, 500, 200, i);
    heap_thread_exit();
    return NULL;
}

/* The child of a process whose threads are anywhere in the heap finds a heap that works: it
   allocates more than what was free, so the gone threads' pools are rescued, and all is sound. */
static int child_of_storm(void)
{
    alarm(60);
    heap_fork_child();
    static struct item items[3000];
    for (unsigned i = 0; i < 3; i++) churn(items, 3000, 20000, i);
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned k = 0; k < 500; k++) /* torn items of the gone threads are left alone */
            if (items[k].block) check_fill(&items[k]);
    heap_before_thread();
    if (rescue_is_due()) return 2;
    if (!heap_verify(complain)) return 3;
    release(items, 3000);
    return heap_verify(complain) ? 0 : 4;
}

START_TEST(test_fork)
{
    pthread_t t[THREADS];
    atomic_store(&stop_churning, false);
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, churn_until_told, (void *)i);
    for (unsigned i = 0; i < 20; i++) {
        heap_fork_prepare();
        pid_t pid = fork();
        if (pid == 0) _exit(child_of_storm());
        heap_fork_parent();
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %u: status 0x%x", i, status);
    }
    atomic_store(&stop_churning, true);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (unsigned i = 0; i < THREADS; i++) release(exchange.items[i], 500);
    assert_sound();
}
END_TEST

/* A forked child counts from zero and keeps what is live. */
START_TEST(test_fork_counts)
{
    void *b[100];
    for (unsigned i = 0; i < 100; i++) b[i] = heap_malloc(200);
    struct heap_stats parent;
    heap_stats(&parent);
    pid_t pid = fork();
    if (pid == 0) {
        heap_fork_child();
        struct heap_stats s;
        heap_stats(&s);
        if (s.allocated != 0 || s.freed != 0 || s.live != parent.live) _exit(1);
        for (unsigned i = 0; i < 100; i++) heap_free(b[i]);
        heap_malloc(200);
        heap_stats(&s);
        _exit(s.allocated == 1 && s.freed == 100 && s.live == parent.live - 99 ? 0 : 2);
    }
    int status;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    for (unsigned i = 0; i < 100; i++) heap_free(b[i]);
}
END_TEST

/* ---- hooks ---- */

static struct {
    unsigned due, allocated, freed, resized;
    unsigned sum_words;
    void *last_block;
    size_t asked, given;
    bool old;
} seen;

static uint32_t on_due(struct heap_thread_hook *h, unsigned class, size_t words, unsigned *n)
{
    (void)h;
    (void)class;
    seen.due++;
    seen.sum_words += (unsigned)words;
    *n = 1;
    return 2; /* every third block of a class */
}

static uint32_t on_allocated(struct heap_thread_hook *h, void *block, size_t asked, size_t given,
                             enum heap_source source, unsigned n)
{
    (void)h;
    (void)source;
    must(n == 1);
    seen.last_block = block;
    seen.asked = asked;
    seen.given = given;
    return ++seen.allocated;
}

static void on_freed(struct heap_thread_hook *h, void *block, uint32_t entry, bool old)
{
    (void)h;
    (void)block;
    seen.old = old;
    must(entry >= 1 && entry <= seen.allocated);
    seen.freed++;
}

static uint32_t on_resized(struct heap_thread_hook *h, void *block, uint32_t entry, size_t before, size_t asked, size_t given, bool old)
{
    (void)h;
    (void)block;
    (void)entry;
    seen.old = old;
    seen.asked = asked;
    seen.given = given;
    seen.resized++;
    return entry;
}

static size_t resident_pages(void *from, size_t bytes)
{
    static unsigned char there[8192];
    uintptr_t start = (uintptr_t)from & ~(OS_PAGE - 1);
    size_t n = 0, pages = ((uintptr_t)from + bytes - start) / OS_PAGE;
    ck_assert_uint_le(pages, sizeof there);
    if (mincore((void *)start, pages * OS_PAGE, there) != 0) return 0; /* unmapped */
    for (size_t i = 0; i < pages; i++) n += there[i] & 1;
    return n;
}

/* A program that only allocates and frees at once comes by no slow path but its sample points: what it freed
   before must go back to the system all the same. */
START_TEST(test_decay_without_refills)
{
    enum { N = 16000 }; /* 16 MB */
    static const struct heap_hooks due_only = {.due = on_due};
    static char *blocks[N];
    heap_start(&(struct heap_options){.decay_ns = 0});
    for (unsigned i = 0; i < N; i++) memset(blocks[i] = heap_malloc(1000), 1, 1000);
    char *low = blocks[0], *high = blocks[0];
    for (unsigned i = 0; i < N; i++) {
        if (blocks[i] < low) low = blocks[i];
        if (blocks[i] > high) high = blocks[i];
    }
    /* Nearly all pools are neighbours; where they are not, the middle of the span is not ours. */
    if ((size_t)(high - low) > 32 * MIB) low = high - 16 * MIB;
    for (unsigned i = 0; i < N; i++) heap_free(blocks[i]);
    size_t before = resident_pages(low, (size_t)(high - low));
    heap_set_hooks(&due_only);
    for (unsigned i = 0; i < 5000; i++) heap_free_fast(heap_malloc_fast(64, HEAP_MALLOC));
    heap_set_hooks(NULL);
    ck_assert_uint_le(resident_pages(low, (size_t)(high - low)), before / 2);
    heap_start(&(struct heap_options){.decay_ns = 10000000000u});
    assert_sound();
}
END_TEST

static unsigned misuses[2];
static void *misused_block;
static void on_misuse(enum heap_misuse kind, void *address, void *block, size_t size, uint32_t entry)
{
    (void)address;
    (void)size;
    (void)entry;
    misuses[kind]++;
    misused_block = block;
}

static const struct heap_hooks hooks = {
    .due = on_due, .allocated = on_allocated, .freed = on_freed, .resized = on_resized, .misuse = on_misuse};

START_TEST(test_sampling)
{
    heap_free(heap_malloc(1));
    heap_set_hooks(&hooks);
    void *b[300];
    for (unsigned i = 0; i < 300; i++) b[i] = heap_malloc_fast(90, HEAP_MALLOC);
    ck_assert_uint_eq(seen.due, 100); /* the first of every three */
    ck_assert_uint_eq(seen.allocated, 100);
    ck_assert_uint_eq(seen.sum_words, 100 * 96 / 8);
    ck_assert_uint_eq(seen.asked, 90);
    ck_assert_uint_eq(seen.given, 96);
    assert_sound();
    void *block;
    size_t size;
    uint32_t entry;
    ck_assert(heap_find((char *)b[0] + 95, &block, &size, &entry));
    ck_assert_ptr_eq(block, b[0]);
    ck_assert_uint_eq(size, 96);
    ck_assert_uint_eq(entry, 1);
    ck_assert(heap_find(b[1], &block, &size, &entry));
    ck_assert_uint_eq(entry, 0);
    ck_assert_ptr_eq(heap_realloc(b[0], 70), b[0]); /* stays, is told */
    ck_assert_uint_eq(seen.resized, 1);
    ck_assert_uint_eq(seen.asked, 70);
    heap_suspend_sampling();
    for (unsigned i = 0; i < 30; i++) heap_free_fast(heap_malloc_fast(400, HEAP_MALLOC));
    heap_resume_sampling();
    ck_assert_uint_eq(seen.allocated, 100);
    for (unsigned i = 0; i < 300; i++) heap_free_fast(b[i]);
    ck_assert_uint_eq(seen.freed, 100);
    struct heap_stats s;
    heap_stats(&s);
    assert_sound();
    heap_set_hooks(NULL);
}
END_TEST

static uint32_t on_due_every(struct heap_thread_hook *h, unsigned class, size_t words, unsigned *n)
{
    (void)h;
    (void)class;
    (void)words;
    *n = 1;
    return 0;
}

static unsigned on_large(struct heap_thread_hook *h, size_t words)
{
    (void)h;
    (void)words;
    return 1;
}

static void *free_one(void *block)
{
    heap_free_fast(block);
    return NULL;
}

static bool old_when_freed(void *block, bool elsewhere)
{
    unsigned before = seen.freed;
    seen.old = !heap_is_old(block);
    if (elsewhere) {
        pthread_t t;
        ck_assert_int_eq(pthread_create(&t, NULL, free_one, block), 0);
        pthread_join(t, NULL);
    } else free_one(block);
    ck_assert_uint_eq(seen.freed, before + 1);
    return seen.old;
}

/* Young is what was allocated since the latest collection, whichever pool or arena it comes from and whoever frees it. */
START_TEST(test_old_when_freed)
{
    static const struct heap_hooks every = {.due = on_due_every, .large = on_large, .allocated = on_allocated,
                                            .freed = on_freed, .resized = on_resized};
    static const size_t sizes[] = {16, 90, 1024, 1025, 5000, 30000, 40000, 300000, 5 * MIB, 300 * MIB};
    struct white_young aged;
    heap_set_hooks(&every);
    for (unsigned i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i / 2];
        bool elsewhere = i % 2;
        void *old = heap_malloc(size);
        white_make_old(&aged, NULL);
        void *young = heap_malloc(size);
        ck_assert_msg(!old_when_freed(young, elsewhere), "a young block of %zu", size);
        ck_assert_msg(old_when_freed(old, elsewhere), "an old block of %zu", size);
        for (unsigned again = 0; again < 3; again++) /* one of them has the old one's place */
            ck_assert_msg(!old_when_freed(heap_malloc(size), elsewhere), "%zu bytes in an old one's place", size);
    }
    /* Resized where it is: it was old, and still is. */
    static const size_t in_place[][2] = {{90, 70}, {5000, 4900}, {500000, 300000}, {5 * MIB, 4 * MIB}};
    for (unsigned i = 0; i < sizeof in_place / sizeof *in_place; i++) {
        void *block = heap_malloc(in_place[i][0]);
        seen.old = false;
        ck_assert_ptr_eq(heap_realloc(block, in_place[i][0] - 1), block);
        ck_assert(!seen.old);
        white_make_old(&aged, NULL);
        seen.resized = 0;
        ck_assert_ptr_eq(heap_realloc(block, in_place[i][1]), block);
        ck_assert_uint_eq(seen.resized, 1);
        ck_assert(seen.old);
        ck_assert(old_when_freed(block, false));
    }
    /* Copied to another place: the old block was freed, the new one is young. */
    void *block = heap_malloc(90);
    white_make_old(&aged, NULL);
    seen.old = false;
    block = heap_realloc(block, 500);
    ck_assert(seen.old);
    ck_assert(!old_when_freed(block, false));
    /* Its pages were moved: the place is new. */
    block = heap_malloc(8 * MIB);
    white_make_old(&aged, NULL);
    seen.resized = 0;
    void *wall = heap_malloc(8 * MIB), *moved = heap_realloc(block, 64 * MIB);
    if (seen.resized) ck_assert(seen.old);
    ck_assert_int_eq(old_when_freed(moved, false), moved == block);
    ck_assert(!old_when_freed(wall, false));
    heap_set_hooks(NULL);
    assert_sound();
}
END_TEST

START_TEST(test_misuse)
{
    heap_set_hooks(&(struct heap_hooks){.misuse = on_misuse});
    size_t sizes[] = {16, 100, 1000, 5000, 30000, 100000};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        misuses[0] = misuses[1] = 0;
        char *b = heap_malloc(sizes[i]), *other = heap_malloc(sizes[i]);
        heap_free(b + 8);
        heap_free(b + 1);
        ck_assert_uint_eq(misuses[HEAP_INVALID_FREE], 2);
        ck_assert_ptr_eq(misused_block, b);
        heap_free(b);
        ck_assert_uint_eq(misuses[HEAP_DOUBLE_FREE], 0);
        heap_free(b);
        ck_assert_uint_eq(misuses[HEAP_DOUBLE_FREE], 1);
        heap_free(other);
        heap_free(other);
        heap_free(b);
        ck_assert_uint_eq(misuses[HEAP_DOUBLE_FREE], 3);
        assert_sound();
    }
    /* Also once the slot lies in its pool again. */
    misuses[0] = 0;
    void *b = heap_malloc(320);
    heap_free(b);
    heap_trim();
    heap_free(b);
    ck_assert_uint_ge(misuses[HEAP_DOUBLE_FREE] + misuses[HEAP_INVALID_FREE], 1);
    assert_sound();
    heap_set_hooks(NULL);
}
END_TEST

/* A pool that is not in use has class 0, and its slots have state 0: equal, and still no live block. */
static void *free_again(void *block)
{
    heap_free(block);
    return NULL;
}

START_TEST(test_misuse_of_a_pool_without_a_class)
{
    heap_set_hooks(&(struct heap_hooks){.misuse = on_misuse});
    enum { N = 1000 };
    void *block[N];
    for (unsigned i = 0; i < N; i++) block[i] = heap_malloc(320);
    for (unsigned i = 0; i < N; i++) heap_free(block[i]);
    heap_trim();
    unsigned gone = 0;
    for (unsigned i = 0; i < N; i++) {
        if (pool_of(block[i], false)->class != 0) continue;
        misuses[0] = misuses[1] = 0;
        pthread_t t;
        if (gone++ % 2) heap_free(block[i]);
        else { /* a thread without a heap */
            ck_assert_int_eq(pthread_create(&t, NULL, free_again, block[i]), 0);
            pthread_join(t, NULL);
        }
        ck_assert_uint_eq(misuses[HEAP_DOUBLE_FREE] + misuses[HEAP_INVALID_FREE], 1);
    }
    ck_assert_uint_gt(gone, N / 2);
    assert_sound();
    heap_set_hooks(NULL);
}
END_TEST

START_TEST(test_usable_size_fast)
{
    size_t sizes[] = {0, 1, 16, 17, 100, 128, 777, 1024, 1025, 5000, 32768, 32769, 300000, 8 << 20};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block = heap_malloc(sizes[i]);
        ck_assert_uint_ge(heap_usable_size_fast(block), sizes[i]);
        ck_assert_uint_eq(heap_usable_size_fast(block), heap_usable_size(block));
        heap_free(block);
    }
    int own;
    ck_assert_uint_eq(heap_usable_size_fast(NULL), 0);
    ck_assert_uint_eq(heap_usable_size_fast(&own), 0);
}
END_TEST

START_TEST(test_verify_sees_the_class_table)
{
    struct pool *p = pool_of(heap_malloc(100), false);
    uint8_t *class = small_pool_class(pool_tables.small_state, pool_id(p));
    ck_assert_uint_eq(*class, p->class);
    assert_sound();
    *class ^= 1;
    ck_assert(!heap_verify(NULL));
    *class ^= 1;
    assert_sound();
}
END_TEST

/* heap_check is quiet about a sound heap, and ends the process over one that is not. */
static int end_of_check(bool damage)
{
    pid_t pid = fork();
    if (pid == 0) {
        heap_start(&(struct heap_options){.verify = true, .decay_ns = 1000000000});
        void *b = heap_malloc(100);
        if (damage) *state_of(b, false) = 1; /* of class 1: another class than its pool's */
        heap_check();
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    return status;
}

START_TEST(test_check)
{
    ck_assert_int_eq(end_of_check(false), 0);
    int status = end_of_check(true);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGABRT);
}
END_TEST

/* ---- limits ---- */

/* What is free gives its addresses back and takes them again: 40 MiB of each area, with one block of the first
   third kept, which must stay whole. */
START_TEST(test_save_memory)
{
    static const size_t sizes[] = {1000, 30000, 300000};
    for (unsigned round = 0; round < 3; round++) {
        struct heap_stats full, saved;
        static char *blocks[3][48000];
        for (unsigned k = 0; k < 3; k++)
            for (size_t i = 0; i < 40 * MIB / sizes[k]; i++) {
                ck_assert_ptr_nonnull(blocks[k][i] = heap_malloc(sizes[k]));
                memset(blocks[k][i], (int)i, sizes[k]);
            }
        heap_stats(&full);
        for (unsigned k = 0; k < 3; k++)
            for (size_t i = 1; i < 40 * MIB / sizes[k]; i++) {
                for (size_t b = 0; b < sizes[k]; b += 999) ck_assert_int_eq(blocks[k][i][b], (char)i);
                heap_free(blocks[k][i]);
            }
        ck_assert(heap_save_memory());
        assert_sound();
        heap_stats(&saved);
        ck_assert_uint_le(saved.pool_bytes, full.pool_bytes - 60 * MIB); /* of 80; a piece is 4 MiB */
        ck_assert_uint_le(saved.large_bytes, full.large_bytes - 30 * MIB);
        for (unsigned k = 0; k < 3; k++) {
            for (size_t b = 0; b < sizes[k]; b += 999) ck_assert_int_eq(blocks[k][0][b], 0);
            heap_free(blocks[k][0]);
        }
    }
    assert_sound();
}
END_TEST

START_TEST(test_impossible)
{
    errno = 0;
    ck_assert_ptr_null(heap_malloc(SIZE_MAX));
    ck_assert_int_eq(errno, ENOMEM);
    errno = 0;
    ck_assert_ptr_null(heap_malloc((size_t)PTRDIFF_MAX + 1));
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_ptr_null(heap_malloc(SIZE_MAX - 14)); /* size + 15 wraps */
    ck_assert_ptr_null(heap_calloc(SIZE_MAX / 2, 3));
    ck_assert_ptr_null(heap_aligned(1u << 20, SIZE_MAX - 100));
    void *b = heap_malloc(100);
    ck_assert_ptr_null(heap_realloc(b, SIZE_MAX));
    errno = 4711;
    heap_free(b);
    ck_assert_int_eq(errno, 4711);
    assert_sound();
}
END_TEST

/* Memory is refused at every place where it is asked for, one after the other: each time NULL and
   ENOMEM, and all works again afterwards. */
START_TEST(test_refused)
{
    for (unsigned skip = 0; skip < 12; skip++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(60);
            heap_fork_child();
            os_fail_mappings(skip, 100000);
            void **chain = NULL;
            unsigned n = 0;
            for (size_t size = 4000;; n++) {
                void **b = heap_malloc(size);
                if (!b) break;
                *b = chain;
                chain = b;
                if (n > 4000000) _exit(2);
            }
            if (errno != ENOMEM) _exit(3);
            os_fail_mappings(0, 0);
            for (; chain; chain = NULL) {
                void **b = chain;
                while (b) {
                    void **next = *b;
                    heap_free(b);
                    b = next;
                }
            }
            if (!heap_malloc(4000)) _exit(4);
            _exit(heap_verify(complain) ? 0 : 5);
        }
        int status;
        waitpid(pid, &status, 0);
        ck_assert_msg(status == 0, "after %u mappings: status 0x%x", skip, status);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heap");
    TCase *t = tcase_create("heap");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, test_random);
    tcase_add_test(t, test_counts);
    tcase_add_test(t, test_threads);
    tcase_add_test(t, test_producer_consumer);
    tcase_add_test(t, test_thread_birth);
    tcase_add_test(t, test_adoption);
    tcase_add_test(t, test_fork);
    tcase_add_test(t, test_fork_counts);
    tcase_add_test(t, test_sampling);
    tcase_add_test(t, test_old_when_freed);
    tcase_add_test(t, test_misuse);
    tcase_add_test(t, test_misuse_of_a_pool_without_a_class);
    tcase_add_test(t, test_usable_size_fast);
    tcase_add_test(t, test_verify_sees_the_class_table);
    tcase_add_test(t, test_check);
    tcase_add_test(t, test_impossible);
    tcase_add_test(t, test_decay_without_refills);
    tcase_add_test(t, test_save_memory);
    tcase_add_test(t, test_refused);
    suite_add_tcase(s, t);
    return suite_run(s);
}
