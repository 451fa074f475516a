/* signal-key.c: SIGUSR2, chosen by the user, writes a profile and is not noticed; it re-executes
   itself so that the library sees the choice.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <sys/stat.h>
#include <sys/wait.h>

static atomic_bool sleeps, end;

/* Most of the time in a sleep, which the signal does not cut short. */
static void *sleeper(void *unused)
{
    while (!atomic_load(&end)) {
        struct timespec ts = {0, 100000000};
        atomic_store(&sleeps, true);
        CHECK(nanosleep(&ts, NULL) == 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (!getenv("LD_PRELOAD")) return 0;
    char path[64];
    snprintf(path, sizeof path, "/tmp/stop-signal-key.%d", getpid());
    if (!getenv("STOP_OUTPUT")) {
        setenv("STOP_OUTPUT", path, 1);
        execv(argv[0], argv);
        FAIL("exec");
    }
    pthread_t t;
    struct stat st;
    struct sigaction a;
    unlink(path);
    CHECK(pthread_create(&t, NULL, sleeper, NULL) == 0);
    while (!atomic_load(&sleeps)) usleep(1000);
    usleep(20000);
    CHECK(pthread_kill(t, SIGUSR2) == 0);
    for (int64_t late = now_ns() + 20000000000; stat(path, &st) != 0 || st.st_size != 8;) {
        if (now_ns() > late) FAIL("no profile came");
        usleep(1000);
    }
    atomic_store(&end, true);
    CHECK(pthread_join(t, NULL) == 0);
    unlink(path);
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    /* The program's own handler replaces ours. */
    CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR && kill(getpid(), SIGUSR2) == 0);
    CHECK(sigaction(SIGUSR2, NULL, &a) == 0 && a.sa_handler == SIG_IGN);
    return 0;
}
