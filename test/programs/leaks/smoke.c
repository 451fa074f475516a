/* smoke.c: says the same under gdb, strace and valgrind, and without the library, while another thread asks for ten
   collections a second (T27).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

static volatile bool end;

static void *collector(void *unused)
{
    for (int i = 0; !end; i++) {
        if (gleaner_collect) gleaner_collect(i % 3 ? GLEANER_MINOR : GLEANER_MAJOR);
        struct timespec ts = {0, 100000000};
        nanosleep(&ts, NULL);
    }
    return NULL;
}

int main(void)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, collector, NULL) == 0);
    void **list = NULL;
    unsigned long sum = 0;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 1000; i++) {
            void **b = malloc(sizeof(void *) + sizeof(unsigned long));
            CHECK(b);
            b[0] = list;
            b[1] = (void *)(uintptr_t)(round * 1000 + i);
            list = b;
        }
        struct timespec ts = {0, 100000000};
        CHECK(nanosleep(&ts, NULL) == 0);
    }
    int blocks = 0;
    while (list) {
        void **next = list[0];
        sum += (unsigned long)(uintptr_t)list[1];
        free(list);
        list = next;
        blocks++;
    }
    end = true;
    pthread_join(t, NULL);
    printf("%d blocks, sum %lu\n", blocks, sum);
    return 0;
}
