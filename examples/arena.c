/* arena.c: a pool of the program's own, announced to Gleaner: who holds the memory in it? The service parses each line of
   words into nodes that it cuts from one block, and forgets to give those of long words back.  malloc's profile knows only
   the block; the tracker below adds up the pool's own blocks by the function that asked for them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gleaner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a pool of nodes of 64 bytes ---- */

#define NODES 100000
union node {
    union node *next;
    char word[64];
};
static union node *pool, *free_nodes;
static struct gleaner_arena *arena;

static void pool_start(void)
{
    pool = malloc(NODES * sizeof *pool);
    if (!pool) abort();
    for (int i = NODES; i-- > 0;) {
        pool[i].next = free_nodes;
        free_nodes = &pool[i];
    }
    if (gleaner_arena_begin) arena = gleaner_arena_begin(pool, NODES * sizeof *pool, 0);
}

void *pool_take(void)
{
    union node *n = free_nodes;
    if (!n) exit(3);
    free_nodes = n->next;
    if (arena) gleaner_arena_alloc(arena, n, sizeof *n);
    return n;
}

static void pool_give(union node *n)
{
    if (arena) gleaner_arena_free(arena, n);
    n->next = free_nodes;
    free_nodes = n;
}

/* ---- the program ---- */

union node *take_word(const char *word)
{
    union node *n = pool_take();
    snprintf(n->word, sizeof n->word, "%s", word);
    return n;
}

union node *take_long_word(const char *word)
{
    union node *n = pool_take();
    snprintf(n->word, sizeof n->word, "%.20s…", word);
    return n;
}

static void answer(char *line)
{
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
        int is_long = strlen(word) > 20;
        union node *n = is_long ? take_long_word(word) : take_word(word);
        printf("%s ", n->word);
        if (!is_long) pool_give(n); /* and the long one? */
    }
    printf("\n");
}

/* ---- the tracker: live bytes by caller, estimated from the samples ---- */

#define LAMBDA 0.05
struct caller {
    void *address;
    double bytes;
};
static struct caller callers[100]; /* the program is small */

static void *add(const struct gleaner_sample *s, void *user)
{
    void *from = s->n_frames > 1 ? s->frames[1] : NULL; /* frames[0] is in pool_take */
    if (s->source != GLEANER_ARENA) return NULL;
    for (int i = 0; i < 100; i++)
        if (!callers[i].address || callers[i].address == from) {
            callers[i].address = from;
            callers[i].bytes += (double)s->n_samples * 8 / LAMBDA;
            return &callers[i];
        }
    return NULL;
}

static void subtract(const struct gleaner_sample *s, void *data, void *user)
{
    ((struct caller *)data)->bytes -= (double)s->n_samples * 8 / LAMBDA;
}

int main(void)
{
    char line[4096], name[100];
    pool_start();
    const struct gleaner_memprof_options options = {
        .lambda = LAMBDA, .depth = 8, .tracker = {.alloc_young = add, .dealloc_young = subtract, .dealloc_old = subtract}};
    if (!gleaner_memprof_start || gleaner_memprof_start(&options, NULL) != 0) {
        fprintf(stderr, "arena: start it with gleaner run\n");
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) answer(line);
    gleaner_memprof_stop();
    for (int i = 0; i < 100 && callers[i].address; i++) {
        gleaner_stack_name(callers[i].address, name, sizeof name);
        fprintf(stderr, "about %.0f bytes of the pool are held by nodes from %s\n", callers[i].bytes, name);
    }
    if (arena) gleaner_arena_end(arena);
    return 0;
}
