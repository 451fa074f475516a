/* fork-dlopen.c: children that are forked while threads load and unload a library, and collections run: every child works and collects
   by itself (H81).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <dlfcn.h>
#include <sys/wait.h>

#define LOADERS 2
#define FORKS 40

static volatile bool end;
static const char *library;

static void *loader(void *unused)
{
    while (!end) {
        void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        if (!l) FAIL("%s", dlerror());
        CHECK(dlclose(l) == 0);
    }
    return NULL;
}

static void *collector(void *unused)
{
    for (int i = 0; !end; i++) {
        int error = gleaner_collect(i % 4 ? GLEANER_MINOR : GLEANER_MAJOR);
        if (error && error != EAGAIN) FAIL("gleaner_collect gave %d", error);
        struct timespec ts = {0, 5000000};
        nanosleep(&ts, NULL);
    }
    return NULL;
}

static void *volatile kept;

int main(int argc, char **argv)
{
    pthread_t t[LOADERS + 1];
    CHECK(argc > 1);
    library = argv[1];
    collections_are_there();
    for (int i = 0; i < LOADERS; i++) CHECK(pthread_create(&t[i], NULL, loader, NULL) == 0);
    CHECK(pthread_create(&t[LOADERS], NULL, collector, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(60); /* a hang ends by a signal */
            kept = block_make(100);
            collect(GLEANER_MINOR);
            collect(GLEANER_MAJOR);
            if (gleaner_state(kept) != GLEANER_OLD) _exit(5);
            _exit(7);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) FAIL("child %d ended with %x", i, status);
    }
    end = true;
    for (int i = 0; i <= LOADERS; i++) pthread_join(t[i], NULL);
    return 0;
}
