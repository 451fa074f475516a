/* shared-move.c: pointers that a busy thread moves between private and shared memory while snapshots are
   taken: a snapshot freezes only the private half (T21).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define BLOCKS 64

static void *volatile private[BLOCKS];
static void *volatile *shared;
static concealed block[BLOCKS];
static volatile bool end;

/* At every moment each pointer is in one of the two, at least. */
static void *move(void *unused)
{
    while (!end) {
        for (int i = 0; i < BLOCKS; i++) {
            __atomic_store_n(&shared[i], private[i], __ATOMIC_SEQ_CST);
            __atomic_store_n(&private[i], NULL, __ATOMIC_SEQ_CST);
        }
        for (int i = 0; i < BLOCKS; i++) {
            __atomic_store_n(&private[i], shared[i], __ATOMIC_SEQ_CST);
            __atomic_store_n(&shared[i], NULL, __ATOMIC_SEQ_CST);
        }
    }
    return NULL;
}

NOINLINE static void make(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        private[i] = block_make(100);
        block[i] = conceal(private[i]);
    }
}

NOINLINE static void all_live(void)
{
    for (int i = 0; i < BLOCKS; i++) EXPECT_STATE(block[i], GLEANER_OLD, "a block that is moved about");
}

int main(void)
{
    collections_are_there();
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    make();
    controls_lose();
    pthread_t t;
    CHECK(pthread_create(&t, NULL, move, NULL) == 0);
    for (int round = 0; round < 12; round++) {
        scrub();
        majors(1);
        all_live();
    }
    controls_are_lost();
    end = true;
    pthread_join(t, NULL);
    for (int i = 0; i < BLOCKS; i++) CHECK(block_is(private[i], block[i]));
    return 0;
}
