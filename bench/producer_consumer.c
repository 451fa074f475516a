// One thread allocates, another one frees: batches of blocks go through a bounded queue, so that
// all frees are of another thread's blocks and the allocator must bring the memory back.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

enum { PAIRS, BATCHES, BATCH, DEPTH, LOW, HIGH, PARAMS };
static struct bench_param param[PARAMS] = {
    [PAIRS] = {"pairs", 1, 1, "producers, each with a consumer", 0},
    [BATCHES] = {"batches", 80000, 8000, "batches of one producer", 0},
    [BATCH] = {"batch", 128, 128, "blocks in a batch", 0},
    [DEPTH] = {"depth", 32, 32, "batches that may wait in a queue", 0},
    [LOW] = {"min", 16, 16, "smallest block", 0},
    [HIGH] = {"max", 512, 512, "largest block", 0},
};

struct batch {
    struct batch *next;
    size_t size;
    void *block[];
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct batch *first, **last;
    long waiting;
    uint64_t random;
};

static void *produce(void *argument)
{
    struct queue *queue = argument;
    for (long n = 0; n < param[BATCHES].value; n++) {
        size_t count = (size_t)param[BATCH].value;
        struct batch *batch = escape(malloc(sizeof *batch + count * sizeof batch->block[0]));
        if (batch == NULL) bench_fail("out of memory");
        batch->next = NULL;
        batch->size =
            rng_range(&queue->random, (size_t)param[LOW].value, (size_t)param[HIGH].value);
        for (size_t i = 0; i < count; i++) batch->block[i] = block_new(batch->size + i % 16, i);
        pthread_mutex_lock(&queue->lock);
        while (queue->waiting == param[DEPTH].value)
            pthread_cond_wait(&queue->changed, &queue->lock);
        *queue->last = batch;
        queue->last = &batch->next;
        if (queue->waiting++ == 0) pthread_cond_signal(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

static void *consume(void *argument)
{
    struct queue *queue = argument;
    for (long n = 0; n < param[BATCHES].value;) {
        pthread_mutex_lock(&queue->lock);
        while (queue->waiting == 0) pthread_cond_wait(&queue->changed, &queue->lock);
        struct batch *batch = queue->first;
        queue->first = NULL;
        queue->last = &queue->first;
        queue->waiting = 0;
        pthread_cond_signal(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
        for (struct batch *next; batch != NULL; batch = next, n++) {
            next = batch->next;
            for (size_t i = 0; i < (size_t)param[BATCH].value; i++)
                block_delete(batch->block[i], batch->size + i % 16, i);
            free(batch);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    size_t pairs = (size_t)param[PAIRS].value;
    struct queue *queue = calloc(pairs, sizeof *queue);
    pthread_t *thread = calloc(2 * pairs, sizeof *thread);
    if (queue == NULL || thread == NULL) bench_fail("out of memory");
    for (size_t i = 0; i < pairs; i++) {
        pthread_mutex_init(&queue[i].lock, NULL);
        pthread_cond_init(&queue[i].changed, NULL);
        queue[i].last = &queue[i].first;
        queue[i].random = i + 1;
        thread[2 * i] = thread_start(produce, &queue[i]);
        thread[2 * i + 1] = thread_start(consume, &queue[i]);
    }
    for (size_t i = 0; i < 2 * pairs; i++) thread_wait(thread[i]);
    free(thread);
    free(queue);
    return bench_done((uint64_t)pairs * (uint64_t)param[BATCHES].value *
                      ((uint64_t)param[BATCH].value + 1));
}
