/* not-dumpable.c: a server that has dropped its privileges may not read its own /proc/self/mem.  Memory without access beside readable
   memory, as the loader leaves it between a library's segments, ends no collection; what lies there is not known, and nothing
   may be called lost then.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <fcntl.h>
#include <grp.h>

#define PAGES 6

static concealed kept[1000];
static void *volatile place[1000];

/* Every other page of this file's mapping has no access; all are in the page cache. */
static void map_holes(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    volatile char *at = mmap(NULL, PAGES * 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(at != MAP_FAILED);
    for (int i = 0; i < PAGES; i++) (void)at[i * 4096];
    for (int i = 1; i < PAGES; i += 2) CHECK(mprotect((char *)at + i * 4096, 4096, PROT_NONE) == 0);
    close(fd);
}

NOINLINE static void fill(void)
{
    for (int i = 0; i < 1000; i++) {
        struct block *b = block_make(100);
        kept[i] = conceal(b);
        place[i] = b;
    }
}

int main(void)
{
    collections_are_there();
    if (geteuid() != 0) SKIP("only root can drop privileges");
    map_holes();
    fill();
    scrub();
    CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    if (open("/proc/self/mem", O_RDONLY | O_CLOEXEC) >= 0) SKIP("the memory file opens all the same");
    for (int i = 0; i < 3; i++) gleaner_collect(GLEANER_MAJOR);
    for (int i = 0; i < 1000; i++)
        if (gleaner_state(reveal(kept[i])) == GLEANER_LOST) FAIL("block %d is lost", i);
    return 0;
}
