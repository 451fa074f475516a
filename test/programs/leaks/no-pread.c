/* no-pread.c: a filter refuses the call by which memory is read that must not be loaded.  What lies there is not known, then:
   nothing may be called lost.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void *volatile place[1000] = {(void *)1}; /* in a page of the executable's file */
static concealed kept[1000];

static void refuse_pread(void)
{
    static struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    static const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        SKIP("no filters");
}

NOINLINE static void fill(void)
{
    for (int i = 1; i < 1000; i++) {
        struct block *b = block_make(100);
        kept[i] = conceal(b);
        place[i] = b;
    }
}

int main(void)
{
    collections_are_there();
    fill();
    scrub();
    refuse_pread();
    for (int i = 0; i < 3; i++) gleaner_collect(GLEANER_MAJOR);
    for (int i = 1; i < 1000; i++)
        if (gleaner_state(reveal(kept[i])) == GLEANER_LOST) FAIL("block %d is lost", i);
    return 0;
}
