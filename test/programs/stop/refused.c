/* refused.c: answers that the process must not write to, and requests that it must not serve.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ask.h"

#include <sys/wait.h>

static void nothing_comes(int pid, int fd, const char *what, unsigned value_op)
{
    struct stat st;
    ask_send(pid, value_op, 1);
    usleep(100000);
    CHECK(fstat(fd, &st) == 0);
    if (st.st_size != 0 || (st.st_mode & 0777) == 0400) FAIL("%s: an answer came", what);
    ask_send(pid, ASK_REAP, 1);
}

/* In a fork of the program that waits to be asked. */
static void serve(void)
{
    for (;;) pause();
}

static void from(int pid, unsigned uid)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = 33;
    info.si_code = SI_QUEUE;
    info.si_uid = uid;
    info.si_value.sival_ptr = (void *)((uint64_t)0x474c << 48 | (uint64_t)ASK_DUMP << 40);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, 33, &info, 0) == 0);
    close(fd);
}

int main(void)
{
    if (!getenv("LD_PRELOAD")) return 0;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) serve();
    usleep(50000);
    char path[128], other[160];
    struct stat st;
    CHECK(ask_dump(pid, 1, 20000)); /* as a proof that it answers otherwise */

    int fd = ask_prepare(pid, path, sizeof path);
    nothing_comes(pid, fd, "an operation of a later version", 9);
    fchmod(fd, 0644);
    nothing_comes(pid, fd, "mode 0644", ASK_DUMP);
    fchmod(fd, 0600);
    snprintf(other, sizeof other, "%s.link", path);
    unlink(other);
    CHECK(link(path, other) == 0);
    nothing_comes(pid, fd, "two links", ASK_DUMP);
    CHECK(unlink(path) == 0 && symlink(other, path) == 0);
    nothing_comes(pid, fd, "a symbolic link", ASK_DUMP);
    CHECK(unlink(path) == 0 && rename(other, path) == 0);
    if (getuid() == 0) {
        CHECK(fchown(fd, 1234, 1234) == 0);
        nothing_comes(pid, fd, "another owner", ASK_DUMP);
        CHECK(fchown(fd, 0, 0) == 0);
    }
    from(pid, geteuid() + 1);
    usleep(100000);
    CHECK(fstat(fd, &st) == 0 && st.st_size == 0);
    close(fd);
    unlink(path);
    CHECK(ask_dump(pid, 2, 20000)); /* nothing of this has spoilt it */
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
    return 0;
}
