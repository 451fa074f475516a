/* refused.c: processes in which nothing may be reclaimed.

      refused shared   a child shares our memory (clone with CLONE_VM)
      refused shared passing   three such children, one after the other: what is lost comes back when they are gone
      refused ring     io_uring, or kernel AIO where that is refused
      refused java     the executable exports JNI_CreateJavaVM
      refused java anyway   what is lost comes back all the same

   Servers that have dropped their privileges are not among them, though no other process may look at them, a snapshot's child included:

      refused user anyway    for good, or not dumpable where we have none to drop
      refused saved anyway   root's is still the saved user
      refused user-shared    as `user`, and a child shares our memory
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../leaks/leaks.h"

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define BLOCKS 100

static concealed blocks[BLOCKS];
static char stack[65536] __attribute__((aligned(16)));

#ifdef JAVA
__attribute__((visibility("default"))) int JNI_CreateJavaVM(void) { return -1; }
#endif

static int child(void *unused)
{
    for (;;) pause();
    return 0;
}

NOINLINE static void lose(void)
{
    for (int i = 0; i < BLOCKS; i++) blocks[i] = conceal(block_make(120));
}

static int count_left(void)
{
    int left = 0;
    for (int i = 0; i < BLOCKS; i++) left += malloc_usable_size(reveal(blocks[i])) != 0;
    return left;
}

static void drop_privileges(bool saved)
{
    if (geteuid() == 0) {
        CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0);
        CHECK(saved ? setresuid(65534, 65534, 0) == 0 : setuid(65534) == 0);
    } else if (saved) SKIP("only root can keep root's");
    CHECK(prctl(PR_SET_DUMPABLE, saved ? 1 : 0) == 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool anyway = argc > 2, passing = argc > 2 && !strcmp(argv[2], "passing");
    pid_t pid = 0;
    collections_are_there();
    if (!strncmp(what, "user", 4) || !strcmp(what, "saved")) drop_privileges(what[0] == 's');
    if (!strcmp(what, "shared") || !strcmp(what, "user-shared")) {
        pid = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
        CHECK(pid > 0);
    } else if (!strcmp(what, "ring")) {
        long context = 0;
        char parameters[120] = {0};
        if (syscall(425, 4, parameters) < 0 && syscall(SYS_io_setup, 4, &context) != 0) SKIP("neither io_uring nor AIO");
    }
    lose();
    for (int i = 0; i < (passing ? 7 : 4); i++) {
        scrub();
        if (pid > 0) gleaner_collect(GLEANER_MAJOR); /* some are incomplete */
        else collect(GLEANER_MAJOR);
        if (!passing || pid == 0) continue;
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, NULL, 0) == pid);
        if (i == 1 && count_left() != BLOCKS) FAIL("blocks were reclaimed while another process had the memory");
        pid = i < 2 ? clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) : 0;
    }
    int left = count_left();
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (anyway ? left > BLOCKS / 10 : left != BLOCKS) FAIL("%d of %d lost blocks are left", left, BLOCKS);
    return 0;
}
