/* sandbox-each.c: for each call that the library makes (preload/shut_in_calls.h), a child that puts up a filter which kills for that one alone
   (`kill`), or answers it with EPERM (`errno`), and then does one thing of several, while it is asked for profiles.  How each child ends
   is printed, so that who runs this with and without the library can compare: no filter may kill for more with it.
   A third argument: the number of one entry of the list, and no other.  `bad pointers`: filters that are refused.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gleaner.h"
#include "preload/control_page.h"
#include "preload/shut_in_calls.h"
#include "preload/signal33.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof *(a))
#define NR BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define OWN_STATUS 17

static int put_up(struct sock_filter *filter, size_t n)
{
    const struct sock_fprog program = {(unsigned short)n, filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* All 64 bits of those arguments are compared that `same` has. */
static int forbid(const struct shut_in_call *call, unsigned same, unsigned action)
{
    struct sock_filter filter[32];
    size_t n = 0;
    unsigned compared = 2 * (unsigned)__builtin_popcount(same);
    filter[n++] = (struct sock_filter)NR;
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call->nr, 0, (unsigned char)(2 * compared + 1));
    for (unsigned half = 0; half < 12; half++) {
        if (!(same >> half / 2 & 1)) continue;
        uint32_t is = (uint32_t)((uint64_t)call->a[half / 2] >> 32 * (half % 2));
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, args) + 4 * half);
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, is, 0, (unsigned char)(2 * --compared + 1));
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    filter[n++] = (struct sock_filter)ALLOW;
    return put_up(filter, n);
}

static _Thread_local void *kept[64];

/* What the heap has, and more than it has: growth of each kind. */
static void grow(void)
{
    static const size_t sizes[] = {24, 500, 3000, 40000, 300000, 5000000};
    for (size_t i = 0; i < LENGTH(sizes); i++)
        for (size_t k = 0; k < (sizes[i] < 40000 ? 400 : 6); k++) {
            char *p = malloc(sizes[i]);
            if (!p) _exit(2);
            p[0] = p[sizes[i] - 1] = 1;
            if (k % 3 == 0 && !(p = realloc(p, 3 * sizes[i]))) _exit(2);
            if (k % 5 == 0) {
                free(kept[k % LENGTH(kept)]);
                kept[k % LENGTH(kept)] = p;
            } else if (k % 7 != 0) {
                free(p);
            }
        }
}

static void *thread(void *stack)
{
    stack_t s = {.ss_sp = stack, .ss_size = 65536};
    if (sigaltstack(&s, NULL) != 0) _exit(3);
    grow();
    s.ss_flags = SS_DISABLE;
    if (sigaltstack(&s, NULL) != 0) _exit(3);
    return NULL;
}

static void threads(void)
{
    static char stack[2][65536];
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&t[i], NULL, thread, stack[i]) != 0) _exit(4);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
}

static void child(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        grow();
        exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) _exit(5);
}

static void handler(int sig) { (void)sig; }

static void handlers(void)
{
    if (signal(SIGUSR1, handler) == SIG_ERR) _exit(6);
    execl("/nonexistent/program", "program", NULL);
}

/* Without the library there is nothing to ask. */
static void ask(void)
{
    if (!gleaner_collect) return;
    gleaner_collect(GLEANER_MAJOR);
    gleaner_collect(GLEANER_MINOR);
    gleaner_dump("asked.profile");
    gleaner_dump("/dev/null");
}

static void again(void)
{
    static struct sock_filter wide[] = {ALLOW};
    if (put_up(wide, LENGTH(wide)) != 0) _exit(7);
}

static void nothing(void) {}

/* What cannot be read is for the kernel to say. */
static void *volatile nowhere = (void *)8;

static int bad_pointers(void)
{
    const struct sock_fprog program = {2, nowhere};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nowhere, 0, 0) != -1 || errno != EFAULT) return 3;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != -1 || errno != EFAULT) return 4;
    /* What was refused has changed nothing. */
    static struct sock_filter endless[] = {KILL, BPF_JUMP(BPF_JMP | BPF_JA, 0xffffffff, 0, 0)};
    if (put_up(endless, LENGTH(endless)) != -1 || errno != EINVAL) return 5;
    grow();
    puts("refused");
    return 0;
}

static const struct {
    const char *name;
    void (*what)(void);
} steps[] = {{"nothing", nothing}, {"asking", ask}, {"threads", threads}, {"first-threads", threads},
             {"fork", child}, {"handlers", handlers}, {"again", again}};

static void live(void (*step)(void))
{
    grow();
    step();
    grow();
    exit(OWN_STATUS);
}

static _Atomic int *is_up; /* the child's filter; shared */

/* As the command does: it looks whether the process answers, and queues signal 33 (preload/dump.h).  Nobody reads what is answered. */
static void request(pid_t pid, uint64_t op)
{
    char path[64], line[512];
    siginfo_t info = {.si_signo = SIGNAL33, .si_code = SI_QUEUE};
    bool answers = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && !answers && fgets(line, sizeof line, maps)) answers = strstr(line, CONTROL_PAGE_NAME);
    if (maps) fclose(maps);
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = (void *)signal33_value(op, 1);
    if (answers) raw_syscall(SYS_rt_sigqueueinfo, pid, SIGNAL33, &info);
}

/* SIGWINCH is nothing to a program, but the `signal` key may say that it asks for a profile. */
static int status_of(pid_t pid)
{
    static const uint64_t ops[] = {SIGNAL33_DUMP, SIGNAL33_REAP, SIGNAL33_LEAKS, SIGNAL33_REAP, SIGNAL33_HOLDERS, SIGNAL33_REAP};
    const struct timespec a_little = {0, 2000000};
    int status;
    pid_t r;
    for (unsigned i = 0; (r = waitpid(pid, &status, WNOHANG)) == 0; i++) {
        kill(pid, SIGWINCH);
        if (gleaner_collect && atomic_load(is_up)) request(pid, ops[i % LENGTH(ops)]);
        nanosleep(&a_little, NULL);
    }
    atomic_store(is_up, 0);
    return r == pid ? status : -1;
}

static void one(size_t call, unsigned same, unsigned action, size_t step)
{
    /* Where libc's threads cannot end, it waits for them for ever. */
    if (shut_in_calls[call].nr == SYS_exit && action != SECCOMP_RET_KILL_PROCESS && steps[step].what == threads) return;
    pid_t pid = fork();
    if (pid == 0) {
        grow();
        alarm(20);
        if (forbid(&shut_in_calls[call], same, action) != 0) _exit(77);
        atomic_store(is_up, 1);
        live(steps[step].what);
    }
    int status = status_of(pid);
    const char *how = WIFEXITED(status) && WEXITSTATUS(status) == OWN_STATUS ? "lived" : "died";
    printf("%s, call %d", steps[step].name, shut_in_calls[call].nr);
    if (same) printf(", entry %zu", call);
    if (shut_in_calls[call].nr == SYS_mmap && shut_in_calls[call].a[3] == (MAP_PRIVATE | MAP_ANONYMOUS)) printf(", plain mmap");
    printf(": %s", how);
    if (how[0] == 'd') printf(" %#x", (unsigned)status);
    printf("\n");
}

/* Is there an earlier entry with this number; are there others at all? */
static bool first_of_number(size_t call)
{
    for (size_t i = 0; i < call; i++)
        if (shut_in_calls[i].nr == shut_in_calls[call].nr) return false;
    return true;
}

static bool only_one(size_t call)
{
    for (size_t i = 0; i < LENGTH(shut_in_calls); i++)
        if (i != call && shut_in_calls[i].nr == shut_in_calls[call].nr) return false;
    return true;
}

static void each(unsigned action, size_t step, const char *only)
{
    for (size_t i = 0; i < LENGTH(shut_in_calls); i++) {
        if (only && (size_t)atoi(only) != i) continue;
        if (first_of_number(i)) one(i, 0, action, step);
        if (shut_in_calls[i].same && !only_one(i)) one(i, shut_in_calls[i].same, action, step);
    }
}

static void *begin_and_end(void *unused) { return unused; }

int main(int count, char **arguments)
{
    pthread_t first;
    is_up = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 77;
    if (strcmp(arguments[2], "first-threads") != 0) { /* what libc, and the library, do once */
        if (pthread_create(&first, NULL, begin_and_end, NULL) != 0) return 78;
        pthread_join(first, NULL);
    }
    if (strcmp(arguments[1], "bad") == 0) return bad_pointers();
    unsigned action = strcmp(arguments[1], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    for (size_t i = 0; i < LENGTH(steps); i++)
        if (strcmp(arguments[2], steps[i].name) == 0) each(action, i, arguments[3]);
    return 0;
}
