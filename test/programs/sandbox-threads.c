/* sandbox-threads.c: behind a seccomp filter that allows what libc needs for them, and not one call more, it begins threads, gives them
   alternate stacks, installs handlers, forks, tries to be another program, and puts up the filter once more.
   `each`: instead, threads each put up filters of their own, all at once, that kill for nothing.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define THREADS 8
#define ROUNDS 30

static void put_up(struct sock_filter *filter, size_t bytes, int by_call)
{
    struct sock_fprog program = {(unsigned short)(bytes / sizeof *filter), filter};
    if (by_call ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(77);
}

static void narrow(int by_call)
{
    static struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mprotect), ALLOW(SYS_brk),
        ALLOW(SYS_madvise), ALLOW(SYS_futex), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_clone),
        ALLOW(SYS_clone3), ALLOW(SYS_set_robust_list), ALLOW(SYS_rseq), ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_wait4),
        ALLOW(SYS_execve), ALLOW(SYS_clock_nanosleep), ALLOW(SYS_seccomp), ALLOW(SYS_prctl), ALLOW(SYS_sigaltstack),
        /* Of the program's handlers only that of SIGUSR1. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIGUSR1, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    put_up(filter, sizeof filter, by_call);
}

static void on_signal(int unused) { (void)unused; }

static void *thread(void *unused)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    if (sigaltstack(&stack, NULL) != 0) _exit(3);
    stack.ss_flags = SS_DISABLE;
    if (sigaltstack(&stack, NULL) != 0) _exit(3);
    free(stack.ss_sp);
    return unused;
}

static void one_thread(void)
{
    pthread_t t;
    if (pthread_create(&t, NULL, thread, NULL) != 0 || pthread_join(t, NULL) != 0) _exit(2);
}

static void child(int how)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        free(malloc(100));
        one_thread();
        if (how) execl("/nonexistent/program", "program", NULL);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) _exit(4);
}

static void behind_a_narrow_one(void)
{
    one_thread(); /* libc's own preparations */
    narrow(0);
    for (int i = 0; i < 3; i++) one_thread();
    narrow(1);
    narrow(0);
    signal(SIGUSR1, on_signal);
    signal(SIGUSR1, SIG_DFL);
    for (int i = 0; i < 20000; i++) free(malloc((size_t)i * 3));
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    child(0);
    child(1);
}

static pthread_barrier_t barrier;

static void *puts_up(void *unused)
{
    static struct sock_filter wide[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        put_up(wide, sizeof wide, i % 2);
    }
    return unused;
}

static void each(void)
{
    pthread_t t[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, puts_up, NULL) != 0) _exit(2);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

int main(int count, char **arguments)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(77);
    if (count > 1 && strcmp(arguments[1], "each") == 0) each();
    else behind_a_narrow_one();
    write(1, "lived\n", 6);
    return 0;
}
