/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/lost_hash.h"

struct hash {
    uint64_t h;
};

/* Mixed one by one (a multiplication and a shift, as in splitmix64). */
static void add_words(uintptr_t from, uintptr_t to, void *user)
{
    struct hash *hash = user;
    uint64_t h = hash->h;
    for (const uint64_t *w = (const uint64_t *)from; w < (const uint64_t *)to; w++) {
        if (*w == 0) continue;
        h = (h ^ *w ^ (uint64_t)(uintptr_t)w << 8) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 29;
    }
    hash->h = h;
}

uint64_t lost_hash_of(struct present *present, uintptr_t block, size_t bytes)
{
    struct hash h = {0x9e3779b97f4a7c15u};
    if (bytes < LOST_HASH_LOOK) add_words(block, block + bytes, &h);
    else present_each(present, block, block + bytes, false, add_words, &h);
    return h.h ? h.h : 1;
}
