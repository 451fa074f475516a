/* holes.c: an executable with holes between its segments (it is linked for pages of 2 MiB), in one of which other memory lies.  What its data
   and that memory point to is alive, the rest is lost, and its functions have names.

      holes [names]    only loses its block
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <inttypes.h>
#include <link.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define BYTES 120
#define PAGE 4096

static struct block *volatile of_data = (struct block *)1, *volatile of_bss;
static concealed in_data, in_bss, in_hole, lost;

struct hole {
    uintptr_t from, to;
};

/* The largest hole between two of the executable's segments. */
static int find_hole(struct dl_phdr_info *info, size_t size, void *user)
{
    struct hole *hole = user;
    uintptr_t end = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD) continue;
        uintptr_t from = (info->dlpi_addr + p->p_vaddr) / PAGE * PAGE;
        if (end != 0 && from > end && from - end > hole->to - hole->from) *hole = (struct hole){end, from};
        end = (info->dlpi_addr + p->p_vaddr + p->p_memsz + PAGE - 1) / PAGE * PAGE;
    }
    return 1; /* it is the first */
}

NOINLINE void lose_in_holes(void)
{
    lost = conceal(block_make(BYTES));
}

NOINLINE static void hold(struct hole hole)
{
    of_data = block_make(BYTES);
    in_data = conceal(of_data);
    of_bss = block_make(BYTES);
    in_bss = conceal(of_bss);
    struct block *volatile *p = mmap((void *)(hole.from + PAGE), PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(p == (void *)(hole.from + PAGE));
    p[17] = block_make(BYTES);
    in_hole = conceal(p[17]);
}

int main(int argc, char **argv)
{
    struct hole hole = {0};
    dl_iterate_phdr(find_hole, &hole);
    if (hole.to - hole.from < 4 * PAGE) FAIL("no hole: %#" PRIxPTR "-%#" PRIxPTR, hole.from, hole.to);
    lose_in_holes();
    if (argc > 1) {
        scrub();
        return 0;
    }
    collections_are_there();
    hold(hole);
    scrub();
    majors(2);
    EXPECT_STATE(in_data, GLEANER_OLD, "what a variable with a value points to");
    EXPECT_STATE(in_bss, GLEANER_OLD, "what a variable without a value points to");
    EXPECT_STATE(in_hole, GLEANER_OLD, "what memory in a hole points to");
    EXPECT_LOST(lost, "the lost block");
    munmap((void *)(hole.from + PAGE), PAGE);
    of_data = of_bss = NULL;
    scrub();
    majors(2);
    EXPECT_LOST(in_data, "what the variable with a value pointed to");
    EXPECT_LOST(in_bss, "what the variable without a value pointed to");
    EXPECT_LOST(in_hole, "what memory in a hole pointed to");
    return 0;
}
