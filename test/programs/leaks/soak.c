/* soak.c: a service under load: a table of strings that come and go in several threads, children that are forked and spawned, threads
   that are born and die, and a collection after each batch.  Its memory must stay flat, and no zombie,
   descriptor or mapping may be left over.

      soak [COLLECTIONS]

   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <dirent.h>
#include <spawn.h>
#include <sys/wait.h>

#define WORKERS 3
#define KEYS 20000

extern char **environ;

/* A table as a server has it: chains of entries, each with a key and a value of its own. */
struct entry {
    struct entry *next;
    uint64_t key;
    char *value;
};
struct table {
    struct entry *chain[KEYS / 4];
    uint64_t random;
    uint64_t changes;
};

static bool end;
static unsigned children, births;
static unsigned full; /* workers whose tables have their full size */

static uint64_t next(struct table *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    return t->random ^= t->random << 17;
}

static void set(struct table *t, uint64_t key, size_t bytes)
{
    struct entry **at = &t->chain[key % COUNT(t->chain)], *e;
    while ((e = *at) && e->key != key) at = &e->next;
    if (e && bytes == 0) { /* expires */
        *at = e->next;
        free(e->value);
        free(e);
        return;
    }
    if (bytes == 0) return;
    if (!e) {
        CHECK((e = calloc(1, sizeof *e)));
        e->key = key;
        e->next = *at;
        *at = e;
    }
    CHECK((e->value = realloc(e->value, bytes)));
    memset(e->value, (int)(key % 251), bytes);
    memcpy(e->value, &bytes, sizeof bytes);
}

static void look(const struct table *t, uint64_t key)
{
    const struct entry *e = t->chain[key % COUNT(t->chain)];
    size_t bytes;
    while (e && e->key != key) e = e->next;
    if (!e) return;
    memcpy(&bytes, e->value, sizeof bytes);
    for (size_t i = sizeof bytes; i < bytes; i += 7) {
        if ((unsigned char)e->value[i] != key % 251) FAIL("a value has changed");
    }
}

static void clear(struct table *t)
{
    for (size_t i = 0; i < COUNT(t->chain); i++) {
        while (t->chain[i]) set(t, t->chain[i]->key, 0);
    }
}

static void *work(void *number)
{
    struct table *t = calloc(1, sizeof *t);
    CHECK(t);
    t->random = (uintptr_t)number * 77 + 1;
    while (!__atomic_load_n(&end, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 500; i++) {
            uint64_t r = next(t), key = next(t) % KEYS;
            set(t, key, r % 3 == 0 ? 0 : 16 + (r >> 32) % (r % 97 == 0 ? 20000 : 200));
            look(t, next(t) % KEYS);
        }
        if (++t->changes == 200) __atomic_add_fetch(&full, 1, __ATOMIC_RELAXED);
        sched_yield();
    }
    clear(t);
    free(t);
    return NULL;
}

static void *short_life(void *p)
{
    char *b = malloc(1000);
    CHECK(b);
    memset(b, 1, 1000);
    free(b);
    return p;
}

static void *give_birth(void *unused)
{
    static char *const argv[] = {"/bin/true", NULL};
    while (!__atomic_load_n(&end, __ATOMIC_RELAXED)) {
        pid_t pid = fork();
        int status;
        CHECK(pid >= 0);
        if (pid == 0) {
            for (int i = 0; i < 1000; i++) free(malloc(100));
            _exit(3);
        }
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
        CHECK(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) == 0);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        children += 2;
        for (int i = 0; i < 8; i++) {
            pthread_t t;
            void *back;
            CHECK(pthread_create(&t, NULL, short_life, &end) == 0);
            CHECK(pthread_join(t, &back) == 0 && back == &end);
            births++;
        }
        short_sleep();
    }
    return NULL;
}

static unsigned entries(const char *folder)
{
    DIR *d = opendir(folder);
    unsigned n = 0;
    CHECK(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

struct footprint {
    size_t resident; /* pages */
    unsigned descriptors, mappings;
};

static struct footprint footprint(void)
{
    struct footprint now = {0};
    int c;
    FILE *f = fopen("/proc/self/statm", "re");
    CHECK(f && fscanf(f, "%*u %zu", &now.resident) == 1);
    fclose(f);
    CHECK((f = fopen("/proc/self/maps", "re")));
    while ((c = getc(f)) != EOF) now.mappings += c == '\n';
    fclose(f);
    now.descriptors = entries("/proc/self/fd");
    return now;
}

/* The most of some collections: one look alone falls on any moment. */
static struct footprint most_of(int collections, int *number)
{
    struct footprint most = {0};
    for (int i = 0; i < collections; i++) {
        collect((*number)++ % 3 == 2 ? GLEANER_MAJOR : GLEANER_MINOR);
        struct footprint f = footprint();
        if (f.resident > most.resident) most.resident = f.resident;
        if (f.descriptors > most.descriptors) most.descriptors = f.descriptors;
        if (f.mappings > most.mappings) most.mappings = f.mappings;
    }
    return most;
}

int main(int argc, char **argv)
{
    int collections = argc > 1 ? atoi(argv[1]) : 60, number = 0;
    pthread_t t[WORKERS + 1];
    collections_are_there();
    for (uintptr_t i = 0; i < WORKERS; i++) CHECK(pthread_create(&t[i], NULL, work, (void *)i) == 0);
    CHECK(pthread_create(&t[WORKERS], NULL, give_birth, NULL) == 0);
    do most_of(collections / 3, &number);
    while (__atomic_load_n(&full, __ATOMIC_RELAXED) < WORKERS);
    struct footprint first = most_of(collections / 3, &number), last = most_of(collections / 3, &number);
    struct gleaner_leaks leaks = check_leaks();
    __atomic_store_n(&end, true, __ATOMIC_RELAXED);
    for (int i = 0; i <= WORKERS; i++) CHECK(pthread_join(t[i], NULL) == 0);
    if (children == 0 || births == 0) FAIL("no child, no thread was made");
    if (leaks.false_lost.blocks) FAIL("%zu live blocks were called lost", leaks.false_lost.blocks);
    if (leaks.lost.blocks) FAIL("%zu blocks are called lost in a program that loses none", leaks.lost.blocks);
    if (last.resident > first.resident + first.resident / 4) {
        FAIL("%zu resident pages have become %zu", first.resident, last.resident);
    }
    /* Two for the program's own files; a snapshot's pipe or page comes and goes. */
    if (last.descriptors > first.descriptors + 2) FAIL("%u descriptors have become %u", first.descriptors, last.descriptors);
    if (last.mappings > first.mappings + first.mappings / 4 + 20) {
        FAIL("%u mappings have become %u", first.mappings, last.mappings);
    }
    if (waitpid(-1, NULL, __WALL) != -1 || errno != ECHILD) FAIL("a child is left");
    return 0;
}
