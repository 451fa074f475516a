/* unfrozen-always.c: a program that keeps whatever it maps from forks (as V8 does), and maps more between any two collections: who
   asks gets a complete collection all the same, and it finds what lies there.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <sys/mman.h>

#define ROUNDS 12

static void *volatile *page[ROUNDS];
static concealed kept[ROUNDS], dropped;

NOINLINE static void put(int i)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    CHECK(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    CHECK(madvise(at, 4096, MADV_DONTFORK) == 0);
    struct block *b = block_make(100);
    kept[i] = conceal(b);
    page[i] = at;
    page[i][9] = b;
}

NOINLINE static void drop(void) { dropped = conceal(block_make(100)); }

int main(void)
{
    collections_are_there();
    drop();
    for (int i = 0; i < ROUNDS; i++) {
        put(i);
        scrub();
        int e = gleaner_collect(GLEANER_MAJOR);
        if (e != 0) FAIL("collection %d: %s", i, strerror(e));
        for (int k = 0; k <= i; k++) EXPECT_STATE(kept[k], GLEANER_OLD, "a block in memory that a fork does not copy");
    }
    EXPECT_LOST(dropped, "a block that was dropped");
    return 0;
}
