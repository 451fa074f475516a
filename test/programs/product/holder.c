/* holder.c: main calls a function that calls a function that takes blocks.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdlib.h>

static void *held[2000];

__attribute__((noinline)) void take(int from, int to)
{
    for (int i = from; i < to; i++) held[i] = malloc(500);
}

__attribute__((noinline)) void take_half(int half)
{
    take(half * 1000, half * 1000 + 1000);
    __asm__ volatile(""); /* no tail call */
}

int main(void)
{
    take_half(0);
    take_half(1);
    return held[1999] == NULL;
}
