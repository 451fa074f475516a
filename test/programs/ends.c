/* ends.c: ends in the way that its argument names, status 7; prints its process numbers.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *in_thread(void *how)
{
    if (strcmp(how, "thread-exit") == 0) exit(7);
    _exit(7);
}

static void at_end(void)
{
    free(malloc(100));
    static const char text[] = "handler ran\n";
    if (write(1, text, sizeof text - 1) < 0) _exit(9);
}

static char *volatile kept; /* not main's: after its return nothing would reach the block */

int main(int count, char **arguments)
{
    const char *how = count > 1 ? arguments[1] : "return";
    kept = malloc(1000);
    strcpy(kept, how);
    if (strcmp(how, "return") == 0) return 7;
    if (strcmp(how, "exit") == 0) {
        atexit(at_end);
        exit(7);
    }
    if (strcmp(how, "_exit") == 0) _exit(7);
    if (strcmp(how, "_Exit") == 0) _Exit(7);
    if (strcmp(how, "quick_exit") == 0) {
        at_quick_exit(at_end);
        quick_exit(7);
    }
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    if (strncmp(how, "thread", 6) == 0) {
        pthread_t t;
        pthread_create(&t, NULL, in_thread, (void *)how);
        pthread_join(t, NULL);
    }
    if (strcmp(how, "vfork") == 0) {
        pid_t pid = vfork();
        if (pid == 0) _exit(3);
        int status;
        waitpid(pid, &status, 0);
        return WEXITSTATUS(status) == 3 ? 7 : 1;
    }
    if (strcmp(how, "fork") == 0 || strcmp(how, "_Fork") == 0) {
        pid_t pid = how[0] == '_' ? _Fork() : fork();
        if (pid == 0) {
            free(malloc(50));
            _exit(3);
        }
        int status;
        waitpid(pid, &status, 0);
        return WEXITSTATUS(status) == 3 ? 7 : 1;
    }
    if (strcmp(how, "interval") == 0) { /* until the first two profiles are there */
        while (access("p.1", F_OK) != 0 || access("p.2", F_OK) != 0)
            for (int i = 0; i < 1000; i++) {
                char *p = malloc(100000 + (size_t)i * 100);
                p[0] = 1;
                free(p);
            }
        _exit(7);
    }
    if (strcmp(how, "signal") == 0) { /* the `signal` key */
        raise(SIGUSR2);
        return 7;
    }
    if (strcmp(how, "closed") == 0) { /* no descriptor is left */
        closefrom(0);
        return 7;
    }
    if (strcmp(how, "spawn") == 0) {
        char *child[] = {arguments[0], "return", NULL};
        extern char **environ;
        pid_t pid;
        int status;
        if (posix_spawn(&pid, arguments[0], NULL, NULL, child, environ) != 0) return 1;
        waitpid(pid, &status, 0);
        return WEXITSTATUS(status);
    }
    return 1;
}
