/* exec-storm.c: execs itself again and again, by every form of exec, from a thread among others and
   with a full signal mask, while it is stopped and asked for profiles: no signal 33 may be left for
   the new image (H82), and the mask must not keep it from us (H83).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <fcntl.h>

extern char **environ;

static void *idle(void *unused)
{
    for (;;) usleep(300);
    return NULL;
}

static char count[16];
static char *self;

static void *again(void *unused)
{
    char *argv[] = {self, count, NULL}, *nothing[] = {"no", NULL};
    CHECK(execv("/nonexistent/program", nothing) == -1 && errno == ENOENT);
    CHECK(execvp("no-such-program-anywhere", nothing) == -1 && errno == ENOENT);
    switch (atoi(count) % 7) {
    case 0:
        execv(self, argv);
        break;
    case 1:
        execve(self, argv, environ);
        break;
    case 2:
        execl(self, self, count, (char *)NULL);
        break;
    case 3:
        execle(self, self, count, (char *)NULL, environ);
        break;
    case 4:
        execlp(self, self, count, (char *)NULL);
        break;
    case 5:
        fexecve(open(self, O_RDONLY | O_CLOEXEC), argv, environ);
        break;
    case 6:
        execveat(AT_FDCWD, self, argv, environ, 0);
        break;
    }
    FAIL("exec failed: errno %d", errno);
    return NULL;
}

int main(int argc, char **argv)
{
    int left = argc > 1 ? atoi(argv[1]) : 150;
    pthread_t t;
    self = argv[0];
    stopper_start(400, 0);
    if (left == 0) {
        stopper_end(0);
        usleep(100000);
        return 0;
    }
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&t, NULL, idle, NULL) == 0);
    snprintf(count, sizeof count, "%d", left - 1);
    if (left % 3 == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
    }
    usleep((unsigned)(left * 331 % 5000));
    if (left % 2) {
        CHECK(pthread_create(&t, NULL, again, NULL) == 0);
        pause();
    }
    again(NULL);
}
