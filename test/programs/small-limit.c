/* small-limit.c: memory runs out under RLIMIT_AS, in one thread and in many; every failure is NULL and
   ENOMEM, threads can still be made afterwards, and what was there is whole (after glibc's
   malloc-thread-fail, on which jemalloc crashes).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct link {
    struct link *next;
    size_t size;
};

static long exhaust(size_t size)
{
    struct link *head = NULL;
    long n = 0;
    for (;;) {
        errno = 0;
        struct link *l = malloc(size);
        if (!l) break;
        l->next = head;
        l->size = size;
        head = l;
        n++;
    }
    int error = errno;
    while (head) {
        struct link *next = head->next;
        if (head->size != size) return -1;
        free(head);
        head = next;
    }
    return error == ENOMEM ? n : -2;
}

static void *work(void *argument)
{
    size_t size = (size_t)argument;
    long n = exhaust(size);
    free(malloc(32));
    return (void *)n;
}

int main(void)
{
    struct rlimit limit = {300u << 20, 300u << 20};
    setrlimit(RLIMIT_AS, &limit);
    static const size_t sizes[] = {16, 100, 1000, 5000, 30000, 100000, 5u << 20};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pid_t pid = fork(); /* each from the same beginning */
        if (pid == 0) {
            long n = exhaust(sizes[i]), again = exhaust(sizes[i]);
            /* A third of the limit can be had at least, all of it at most, and a second time. */
            bool right = n > 0 && (size_t)n * sizes[i] < limit.rlim_cur &&
                         (size_t)n * sizes[i] > limit.rlim_cur / 3 && again > n / 10 * 9;
            if (!right) printf("%zu bytes: %ld, then %ld\n", sizes[i], n, again);
            exit(!right);
        }
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return 1;
    }
    for (int round = 0; round < 5; round++) {
        pthread_t t[16];
        int made = 0;
        while (made < 16 && pthread_create(&t[made], NULL, work, (void *)sizes[made % 7]) == 0)
            made++;
        if (made == 0) return 2;
        for (int i = 0; i < made; i++) {
            void *result;
            pthread_join(t[i], &result);
            if ((long)result < 0) return 3;
        }
    }
    puts("limits mean what they mean");
    return 0;
}
