/* sandbox.c: shuts itself in behind a seccomp filter that kills for all but the plainest calls, then
   makes the allocator do everything that it does late: new pools, large blocks of each kind,
   giving back, freed blocks that were sampled.  `worker`: it may also say something; `call`: this filter by seccomp(2);
   `wide`: it kills for a call that nobody makes; `divides`, `shifts`: for clone, by arithmetic.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void shut_in(const char *how)
{
    static struct sock_filter worker[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)), BPF_STMT(BPF_ST, 3),
        BPF_STMT(BPF_LDX | BPF_MEM, 3),
        BPF_STMT(BPF_MISC | BPF_TXA, 0), BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap),
        ALLOW(SYS_brk), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_futex), ALLOW(SYS_getpid),
        ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_rt_sigpending), ALLOW(SYS_rt_sigtimedwait), ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_exit), ALLOW(SYS_exit_group),
        /* To write a profile is to open files for writing. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)};
    static struct sock_filter wide[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    /* Arithmetic: what divides by 0 kills, and a shift by 32 is none. */
    static struct sock_filter divides[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2),
        BPF_STMT(BPF_LDX | BPF_IMM, 0), BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    static struct sock_filter shifts[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
        BPF_STMT(BPF_LDX | BPF_IMM, 32), BPF_STMT(BPF_ALU | BPF_LSH | BPF_X, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    static struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mremap),
        ALLOW(SYS_brk), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_futex),
        ALLOW(SYS_rt_sigreturn), ALLOW(SYS_exit), ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (strcmp(how, "worker") == 0) program = (struct sock_fprog){sizeof worker / sizeof *worker, worker};
    if (strcmp(how, "wide") == 0) program = (struct sock_fprog){sizeof wide / sizeof *wide, wide};
    if (strcmp(how, "divides") == 0) program = (struct sock_fprog){sizeof divides / sizeof *divides, divides};
    if (strcmp(how, "shifts") == 0) program = (struct sock_fprog){sizeof shifts / sizeof *shifts, shifts};
    /* Whether there are filters is asked with NULL. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != -1 || errno != EFAULT) _exit(76);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(77);
    if (strcmp(how, "call") == 0 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                                 : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(77);
}

static void use(void)
{
    static const size_t sizes[] = {1, 64, 1000, 3000, 30000, 40000, 300000, 3000000, 70000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        static void *block[4000];
        size_t n = sizes[i] < 40000 ? 4000 : 4;
        for (size_t k = 0; k < n; k++) {
            block[k] = k % 2 ? malloc(sizes[i]) : calloc(1, sizes[i]);
            if (!block[k]) _exit(2);
            memset(block[k], 1, sizes[i] < 5000 ? sizes[i] : 5000);
            if (k % 3 == 0 && !(block[k] = realloc(block[k], sizes[i] * 2))) _exit(2);
        }
        for (size_t k = 0; k < n; k++) free(block[k]);
    }
    malloc_trim(0);
}

int main(int count, char **arguments)
{
    free(malloc(100)); /* a program that reaches its filter without a block is a rare one */
    shut_in(count > 1 ? arguments[1] : "");
    for (int round = 0; round < 3; round++) use();
    write(1, "shut in\n", 8);
    _exit(0);
}
