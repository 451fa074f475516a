/* arena.c: memory that is freed all at once, with a limit.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/arena.h"
#include "report/basics.h"

#include <stdlib.h>

enum { CHUNK = 64 << 10, ALIGN = 16 };

struct arena_chunk {
    _Alignas(ALIGN) struct arena_chunk *next;
    _Alignas(ALIGN) char bytes[];
};

void *arena_try(struct arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (bytes > arena->room - arena->used) {
        size_t room = bytes > CHUNK ? bytes : CHUNK;
        if (arena->limit && room > arena->limit - arena->total) return NULL;
        struct arena_chunk *chunk = calloc(1, sizeof *chunk + room);
        if (!chunk) return NULL;
        arena->total += room;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->used = 0;
        arena->room = room;
    }
    void *block = arena->chunks->bytes + arena->used;
    arena->used += bytes;
    return block;
}

void *arena_need(struct arena *arena, size_t count, size_t bytes)
{
    size_t product;
    void *block = NULL;
    if (!__builtin_mul_overflow(count, bytes, &product)) block = arena_try(arena, product);
    if (!block) {
        say("out of memory");
        exit(EXIT_PROBLEM);
    }
    return block;
}

void arena_free(struct arena *arena)
{
    while (arena->chunks) {
        struct arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        free(chunk);
    }
    *arena = (struct arena){.limit = arena->limit};
}
