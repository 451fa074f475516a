/* scatter.c: every second page of a big old heap is written between collections: whatever tracks writes must not
   cut the mappings into pieces until the system has none left (T16, H57).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#define BLOCKS 24
#define BYTES ((size_t)4 << 20)
#define PAGE 4096

static char *volatile block[BLOCKS];

static int mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    int lines = 0, c;
    CHECK(f);
    while ((c = getc(f)) != EOF) lines += c == '\n';
    fclose(f);
    return lines;
}

int main(void)
{
    collections_are_there();
    for (int i = 0; i < BLOCKS; i++) {
        CHECK((block[i] = malloc(BYTES)));
        memset(block[i], 0x33, BYTES);
    }
    majors(1);
    collect(GLEANER_MINOR);
    int before = mappings();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            for (size_t at = 0; at < BYTES; at += 2 * PAGE) block[i][at] = (char)(i + round);
        }
        collect(GLEANER_MINOR);
        void *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(p != MAP_FAILED && munmap(p, PAGE) == 0);
    }
    majors(1);
    int after = mappings();
    if (after > before + 100) FAIL("%d mappings have become %d", before, after);
    for (int i = 0; i < BLOCKS; i++) {
        for (size_t at = 0; at < BYTES; at += 2 * PAGE) {
            if (block[i][at] != i + 2 || block[i][at + PAGE] != 0x33) FAIL("a byte of block %d is wrong", i);
        }
        if (gleaner_state(block[i]) != GLEANER_OLD) FAIL("block %d is %s", i, state_name(gleaner_state(block[i])));
    }
    return 0;
}
