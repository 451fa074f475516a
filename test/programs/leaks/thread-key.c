/* thread-key.c: as the value of a thread-specific key above 31, which libc keeps in a block of its own (H31).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

static pthread_key_t key;

static void put(void *block)
{
    do CHECK(pthread_key_create(&key, NULL) == 0);
    while (key < 40);
    CHECK(pthread_setspecific(key, block) == 0);
}

static void *take(void)
{
    void *block = pthread_getspecific(key);
    CHECK(pthread_setspecific(key, NULL) == 0);
    return block;
}
