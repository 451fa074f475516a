/* daemon.c: a daemon as the old ones are: forks twice, starts a session, closes every descriptor,
   then waits for signals only.  It holds 1000 blocks of 1000 bytes.
   The process that was started prints the daemon's pid, when the daemon is ready, and ends.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *held[1000];

__attribute__((noinline)) void hold_blocks(void)
{
    for (int i = 0; i < 1000; i++) held[i] = malloc(1000);
}

int main(void)
{
    int ready[2];
    if (pipe(ready) != 0) return 1;
    pid_t first = fork();
    if (first == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        hold_blocks();
        pid_t self = getpid();
        if (write(ready[1], &self, sizeof self) != sizeof self) _exit(1);
        closefrom(0);
        for (;;) pause();
    }
    pid_t daemon_pid;
    close(ready[1]);
    if (read(ready[0], &daemon_pid, sizeof daemon_pid) != sizeof daemon_pid) return 1;
    waitpid(first, NULL, 0);
    printf("%d\n", (int)daemon_pid);
    return 0;
}
