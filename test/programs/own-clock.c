/* own-clock.c: a program that makes up its own time, as libfaketime does for others: it is asked for by those who want to know its time, not by the
   library, which would have it before it is ready, and wait by it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int asked;

int clock_gettime(clockid_t clock, struct timespec *to)
{
    (void)clock;
    asked++;
    to->tv_sec = 1;
    to->tv_nsec = 0;
    return 0;
}

int main(void)
{
    static void *volatile block[2000];
    for (int round = 0; round < 300; round++)
        for (int i = 0; i < 2000; i++) {
            free(block[i]);
            block[i] = malloc((size_t)(i * 7 % 3000 + (i % 500 ? 0 : 100000)));
        }
    puts(asked == 0 ? "nobody asked" : "asked");
    return 0;
}
