/* growing-cache.c: a cache without a limit.  Nothing is lost, every entry can be found, and yet the
   process grows with every new question.
   Questions are numbers on stdin; each is answered by one line on stdout: its smallest factor.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <stdlib.h>

#define BUCKETS 1024

struct entry {
    struct entry *next;
    unsigned long number;
    char *answer;
};
static struct entry *cache[BUCKETS];

static char *compute_answer(unsigned long n)
{
    unsigned long factor = 2;
    while (factor * factor <= n && n % factor != 0) factor++;
    if (factor * factor > n) factor = n;
    char *text = malloc(512); /* more than it needs, as a page or a picture would */
    snprintf(text, 512, "%lu = %lu * %lu", n, factor, factor ? n / factor : 0);
    return text;
}

static struct entry *add_to_cache(unsigned long n)
{
    struct entry *e = malloc(sizeof *e);
    e->number = n;
    e->answer = compute_answer(n);
    e->next = cache[n % BUCKETS];
    return cache[n % BUCKETS] = e;
}

static const char *ask(unsigned long n)
{
    struct entry *e = cache[n % BUCKETS];
    while (e && e->number != n) e = e->next;
    return (e ? e : add_to_cache(n))->answer;
}

int main(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        puts(ask(strtoul(line, NULL, 10)));
        fflush(stdout);
    }
    return 0;
}
