/* returns.c: leaks of many shapes: at least 95 % of their bytes come back, and what lives is whole.

      returns SECONDS    it collects itself, or waits, that collections come by the clock
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../leaks/leaks.h"

#define LIVE 2000

struct node {
    struct node *next, *other;
    uint64_t filler[];
};
static struct node *live[LIVE];
static size_t lost_bytes;

static struct node *node(size_t bytes)
{
    struct node *n = malloc(bytes);
    CHECK(n);
    memset(n, 0x33, malloc_usable_size(n));
    n->next = n->other = NULL;
    return n;
}

static struct node *lose(size_t bytes)
{
    struct node *n = node(bytes);
    lost_bytes += malloc_usable_size(n);
    return n;
}

/* A list, a ring, two heads that share a tail, a large block. */
NOINLINE static void leak(unsigned i)
{
    struct node *list = NULL, *first, *n;
    for (int k = 0; k < 10; k++) {
        n = lose(16 + (i * 7 + (unsigned)k * 13) % 60 * 8);
        n->next = list;
        list = n;
    }
    first = n = lose(64);
    for (int k = 0; k < 5; k++) n = n->next = lose(48 + (size_t)k * 100);
    n->next = first;
    n = lose(100);
    lose(200)->next = n;
    lose(300)->next = n;
    if (i % 50 == 0) lose(100000);
    if (i % 200 == 0) lose(5000000);
}

NOINLINE static void check_live(void)
{
    for (unsigned i = 0; i < LIVE; i++) {
        struct node *n = live[i];
        size_t words = (malloc_usable_size(n) - sizeof *n) / 8;
        CHECK(n->next == live[(i + 1) % LIVE]);
        for (size_t k = 0; k < words; k++) CHECK(n->filler[k] == 0x3333333333333333);
    }
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 0;
    size_t before, after, most = 0;
    collections_are_there();
    for (unsigned i = 0; i < LIVE; i++) live[i] = node(40 + i % 100 * 8);
    for (unsigned i = 0; i < LIVE; i++) live[i]->next = live[(i + 1) % LIVE];
    gleaner_live(&before, NULL);
    time_t end = time(NULL) + seconds;
    for (int round = 0; seconds ? time(NULL) < end : round < 8; round++) {
        for (unsigned i = 0; i < 400; i++) leak(i);
        check_live();
        if (!seconds) {
            scrub();
            collect(GLEANER_MAJOR);
        } else {
            usleep(50000);
        }
        gleaner_live(&after, NULL);
        if (after > most) most = after;
    }
    /* What was lost last has its time of waiting before it. */
    for (int i = 0; i < (seconds ? 200 : 8); i++) {
        gleaner_live(&after, NULL);
        if (after < before + lost_bytes / 20) break;
        scrub();
        collect(GLEANER_MAJOR);
        if (seconds) usleep(50000);
    }
    check_live();
    printf("lost %zu, left of it %zd, at most %zu\n", lost_bytes, (ssize_t)(after - before), most);
    if (after > before + lost_bytes / 20) FAIL("more than a twentieth of %zu lost bytes is left: %zu", lost_bytes, after - before);
    return 0;
}
