/* threads.c: threads that leak, allocate, free each other's blocks, fork, and hide blocks for a moment, while one collects all the time; what
   lives is whole.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../leaks/leaks.h"

#include <sys/wait.h>

#define THREADS 4
#define SLOTS 500
#define LEAKED_MOST ((size_t)200 << 20)

static _Atomic(uint64_t *) shared[SLOTS];
static volatile bool over;
static _Atomic size_t leaked;

static uint64_t *make(size_t words)
{
    uint64_t *b = malloc(words * 8);
    CHECK(b);
    b[0] = words;
    for (size_t i = 1; i < words; i++) b[i] = words * 0x0101010101010101 + i;
    return b;
}

static void whole(const uint64_t *b)
{
    for (size_t i = 1; i < b[0]; i++)
        if (b[i] != b[0] * 0x0101010101010101 + i) FAIL("a live block has changed");
}

static void *work(void *argument)
{
    uint64_t x = (uintptr_t)argument * 0x9e3779b97f4a7c15;
    for (unsigned i = 0; !over; i++) {
        x = x * 6364136223846793005 + 1442695040888963407;
        size_t words = 2 + (x >> 33) % (i % 500 == 0 ? 20000 : 200);
        uint64_t *b = __atomic_exchange_n((uint64_t **)&shared[(x >> 20) % SLOTS], make(words), __ATOMIC_ACQ_REL);
        if (!b) continue;
        whole(b);
        /* Lost; not faster than slow machines collect, or the heap would outgrow the collections. */
        if (i % 7 == 0 && leaked < LEAKED_MOST) {
            leaked += b[0] * 8;
            memset(b, 0, 16);
            continue;
        }
        free(b);
    }
    return NULL;
}

static void fork_one(void)
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (int i = 0; i < 2; i++) gleaner_collect(GLEANER_MAJOR);
        for (int i = 0; i < SLOTS; i++) {
            uint64_t *b = shared[i];
            if (b) whole(b);
            free(b);
        }
        for (int i = 0; i < 2; i++) gleaner_collect(GLEANER_MAJOR);
        for (int i = 0; i < 1000; i++) free(make(2 + (size_t)i));
        _exit(7);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) FAIL("a child ended with %x", status);
}

int main(int argc, char **argv)
{
    pthread_t t[THREADS];
    int seconds = argc > 1 ? atoi(argv[1]) : 3;
    collections_are_there();
    for (intptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&t[i], NULL, work, (void *)(i + 1)) == 0);
    time_t end = time(NULL) + seconds;
    for (int i = 0; time(NULL) < end; i++) {
        gleaner_collect(GLEANER_MAJOR); /* incomplete ones are no matter */
        if (i % 10 == 5) fork_one();
    }
    over = true;
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        if (shared[i]) whole(shared[i]);
    puts("done");
    return 0;
}
