/* churn.c: random allocation in several threads, which free each other's blocks; every block is filled
   with a pattern of its own that is checked before it goes (after glibc's malloc-random and
   aligned-alloc-random-thread-cross).  Argument: the number of threads.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 512
#define STEPS 60000

struct block {
    size_t size;
    uint64_t mark;
    /* the rest is filled with the mark's low byte */
};

static _Atomic(struct block *) shared[SLOTS];
static atomic_int bad;

static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static size_t random_size(uint64_t *s)
{
    uint64_t r = next(s) % 1000;
    if (r < 900) return sizeof(struct block) + next(s) % 1000;
    if (r < 997) return sizeof(struct block) + next(s) % 60000;
    return sizeof(struct block) + next(s) % 1000000;
}

static struct block *make(uint64_t *s)
{
    size_t n = random_size(s);
    void *p = NULL;
    switch (next(s) % 4) {
    case 0:
        p = malloc(n);
        break;
    case 1:
        p = calloc(1, n);
        break;
    case 2:
        p = memalign((size_t)16 << next(s) % 9, n);
        break;
    case 3:
        p = malloc(n / 2);
        p = realloc(p, n);
        break;
    }
    if (!p) return NULL;
    struct block *b = p;
    memset(b, (int)(n & 0xff), n);
    b->size = n;
    b->mark = n ^ 0x5bd1e995u;
    return b;
}

static void check_and_free(struct block *b)
{
    if (!b) return;
    const unsigned char *p = (const unsigned char *)b;
    if (b->mark != (b->size ^ 0x5bd1e995u) || malloc_usable_size(b) < b->size)
        atomic_fetch_add(&bad, 1);
    else
        for (size_t i = sizeof *b; i < b->size; i += 61)
            if (p[i] != (b->size & 0xff)) {
                atomic_fetch_add(&bad, 1);
                break;
            }
    free(b);
}

static void *work(void *argument)
{
    uint64_t s = (uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < STEPS; i++)
        check_and_free(atomic_exchange(&shared[next(&s) % SLOTS], make(&s)));
    return NULL;
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 4;
    pthread_t t[64];
    for (int i = 1; i < threads && i < 64; i++)
        if (pthread_create(&t[i], NULL, work, (void *)(uintptr_t)(i + 1)) != 0) return 2;
    work((void *)1);
    for (int i = 1; i < threads && i < 64; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < SLOTS; i++) check_and_free(atomic_exchange(&shared[i], NULL));
    if (atomic_load(&bad) == 0) puts("all whole");
    return atomic_load(&bad) != 0;
}
