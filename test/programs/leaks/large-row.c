/* large-row.c: of large blocks that fill more than a GiB of addresses each one is lost.  (Tables of the allocator's in thread-local memory
   held addresses rounded to a GiB, and so the block that lies there.)
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define BLOCKS 1300
#define BYTES ((size_t)1 << 20)

static concealed lost[BLOCKS];

NOINLINE static void lose(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *block = malloc(BYTES); /* not touched */
        CHECK(block);
        lost[i] = conceal(block);
    }
}

static void *lose_in_thread(void *unused)
{
    (void)unused;
    lose();
    scrub();
    majors(2);
    int hidden = 0;
    for (int i = 0; i < BLOCKS; i++) hidden += gleaner_state(reveal(lost[i])) != GLEANER_LOST;
    if (hidden) FAIL("%d of %d lost blocks are hidden", hidden, BLOCKS);
    for (int i = 0; i < BLOCKS; i++) free(reveal(lost[i]));
    return NULL;
}

int main(void)
{
    pthread_t t;
    collections_are_there();
    lose_in_thread(NULL);
    CHECK(pthread_create(&t, NULL, lose_in_thread, NULL) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    return 0;
}
