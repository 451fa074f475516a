/* follow.c: with `follow:no` what is started does not get the library, and keeps the rest of
   LD_PRELOAD and of the environment.  Run with STOP_FOLLOW=no.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static void expect_in_child(char *const envp[], bool spawn, const char *script)
{
    char *argv[] = {"/bin/sh", "-c", (char *)script, NULL};
    pid_t pid;
    int status;
    if (spawn) {
        CHECK(posix_spawn(&pid, argv[0], NULL, NULL, argv, envp) == 0);
    } else {
        pid = vfork();
        if (pid == 0) {
            execve(argv[0], argv, envp);
            _exit(99);
        }
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0) FAIL("%s: %x", script, status);
}

int main(void)
{
    if (!dlsym(RTLD_DEFAULT, "stop_for_test")) return 0;
    CHECK(!getenv("LD_PRELOAD"));
    CHECK(system("[ -z \"$LD_PRELOAD\" ]") == 0);
    const char *preload = "/some/where/libgleaner-stop.so";
    char two[4096];
    setenv("LD_PRELOAD", preload, 1);
    snprintf(two, sizeof two, "LD_PRELOAD=libc.so.6:%s libm.so.6", preload);
    char *with_two[] = {"A=1", two, "B=2", NULL};
    for (int spawn = 0; spawn < 2; spawn++) {
        expect_in_child(environ, spawn, "[ -z \"$LD_PRELOAD\" ]");
        expect_in_child(with_two, spawn,
                        "[ \"$LD_PRELOAD\" = libc.so.6:libm.so.6 ] && [ $A$B = 12 ]");
    }
    CHECK(strcmp(getenv("LD_PRELOAD"), preload) == 0);
    CHECK(strstr(two, preload));
    return 0;
}
