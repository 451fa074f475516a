/* tracer.c: a debugger that comes in the middle of stops, as `gdb -p` and `strace -p` do: takes hold of every thread it finds, of ours
   too, waits until each has stopped, and lets go, some hundred times.  No thread may be unable to stop because it waits for another
   that has stopped already; and each time the process goes on.

      tracer attach | seize | one | child    all by PTRACE_ATTACH; all by PTRACE_SEIZE and PTRACE_INTERRUPT; one thread at a time, the
                                             newest; the snapshot child, which is held until the process has gone on without it
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "program.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define ROUNDS 300
#define LEAST_ROUNDS 20 /* on a slow machine */
#define SECONDS 20
#define THREADS_MOST 64
#define PATIENCE 60 /* seconds until a hang is one */
#define CHILD_ROUNDS 2

/* Shared with the traced process. */
static struct {
    atomic_ulong work, stops;
} *counts;

static pid_t traced;
static pid_t thread[THREADS_MOST];
static int threads;

/* ---- the traced process ---- */

static void *work(void *unused)
{
    for (unsigned i = 0;; i++) {
        void *p = malloc(16 + i % 512);
        atomic_fetch_add(&counts->work, 1);
        free(p);
        if (i % 64 == 0) usleep(100);
    }
    return NULL;
}

static void *sleep_on(void *unused)
{
    for (;;) pause();
    return NULL;
}

/* Stops without a break, so that most attaches come into one. */
static _Noreturn void be_traced(void)
{
    pthread_t t;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    int (*stop)(long) = stopper_find();
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&t, NULL, i < 2 ? work : sleep_on, NULL) == 0);
    for (;;) {
        if (stop) stop(200);
        else usleep(200);
        atomic_fetch_add(&counts->stops, 1);
    }
}

/* ---- the tracer ---- */

static void line_of(pid_t tid, const char *file, char *to, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", traced, tid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, to, bytes - 1);
    to[n > 0 ? n : 0] = 0;
    if (fd >= 0) close(fd);
}

static void on_alarm(int sig)
{
    char stat[256], where[64];
    for (int i = 0; i < threads; i++) {
        line_of(thread[i], "stat", stat, sizeof stat);
        line_of(thread[i], "wchan", where, sizeof where);
        dprintf(2, "%.60s %s\n", stat, where);
    }
    kill(traced, SIGKILL);
    FAIL("hangs");
}

static bool is_known(pid_t tid)
{
    for (int i = 0; i < threads; i++)
        if (thread[i] == tid) return true;
    return false;
}

/* One listing; how many threads were new.  `newest`: only the last one is taken hold of. */
static int take_hold(bool seize, bool newest)
{
    char path[64];
    int fresh = 0;
    pid_t tid, last = 0;
    snprintf(path, sizeof path, "/proc/%d/task", traced);
    DIR *d = opendir(path);
    CHECK(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        tid = atoi(e->d_name);
        if (tid <= 0 || is_known(tid) || threads == THREADS_MOST) continue;
        if (tid > last) last = tid;
        if (newest) continue;
        if (ptrace(seize ? PTRACE_SEIZE : PTRACE_ATTACH, tid, 0, 0) != 0) continue; /* it has ended */
        if (seize) ptrace(PTRACE_INTERRUPT, tid, 0, 0);
        thread[threads++] = tid;
        fresh++;
    }
    closedir(d);
    if (newest && last && ptrace(PTRACE_ATTACH, last, 0, 0) == 0) thread[threads++] = last;
    return fresh;
}

/* Until the thread stands in the stop that we asked for; what other signals come by go to it.  False: it has ended. */
static bool has_stopped(pid_t tid, bool seize)
{
    for (;;) {
        int status;
        pid_t r = waitpid(tid, &status, __WALL);
        CHECK(r == tid);
        if (!WIFSTOPPED(status)) {
            if (tid == traced) FAIL("the process ended with %x", status);
            return false;
        }
        int sig = WSTOPSIG(status);
        if (seize ? status >> 16 == PTRACE_EVENT_STOP : sig == SIGSTOP) return true;
        CHECK(ptrace(PTRACE_CONT, tid, 0, sig) == 0 || errno == ESRCH);
    }
}

static void one_round(bool seize, bool newest, bool long_one)
{
    threads = 0;
    int listings = 0;
    while (take_hold(seize, newest) > 0 && ++listings < 10) continue;
    for (int i = 0; i < threads; i++)
        if (!has_stopped(thread[i], seize)) thread[i] = 0;
    if (long_one) usleep(250000); /* longer than a stop may take */
    for (int i = 0; i < threads; i++)
        if (thread[i]) CHECK(ptrace(PTRACE_DETACH, thread[i], 0, 0) == 0 || errno == ESRCH);
    threads = 0;
}

/* The snapshot child, held; 0 if there is none, or none any more. */
static pid_t hold_child(void)
{
    char path[64], list[256];
    snprintf(path, sizeof path, "/proc/%d/task", traced);
    DIR *d = opendir(path);
    CHECK(d);
    pid_t child = 0;
    for (struct dirent *e; !child && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        line_of(atoi(e->d_name), "children", list, sizeof list);
        child = atoi(list);
    }
    closedir(d);
    if (!child || ptrace(PTRACE_ATTACH, child, 0, 0) != 0) return 0;
    thread[threads++] = child;
    if (has_stopped(child, false)) return child;
    threads = 0;
    return 0;
}

static void without_children(void)
{
    for (int rounds = 0; rounds < CHILD_ROUNDS;) {
        int status;
        alarm(PATIENCE);
        pid_t child = hold_child();
        if (!child) continue;
        unsigned long before = atomic_load(&counts->stops);
        while (atomic_load(&counts->stops) < before + 2) usleep(1000);
        threads = 0;
        CHECK(waitpid(child, &status, __WALL) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        rounds++;
    }
}

static void wait_for_more(atomic_ulong *count)
{
    for (unsigned long before = atomic_load(count), more = before + 1; atomic_load(count) <= more;) usleep(100);
}

int main(int argc, char **argv)
{
    bool seize = argc > 1 && strcmp(argv[1], "seize") == 0, newest = argc > 1 && strcmp(argv[1], "one") == 0;
    int status, rounds = 0;
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counts != MAP_FAILED);
    traced = fork();
    CHECK(traced >= 0);
    if (traced == 0) be_traced();
    signal(SIGALRM, on_alarm);
    if (argc > 1 && strcmp(argv[1], "child") == 0) without_children();
    else for (int64_t end = now_ns() + (int64_t)SECONDS * 1000000000; rounds < LEAST_ROUNDS || (rounds < ROUNDS && now_ns() < end);
              rounds++) {
        alarm(PATIENCE);
        wait_for_more(&counts->stops);
        wait_for_more(&counts->work);
        usleep((useconds_t)(rand() % 1500));
        one_round(seize, newest, rounds % 16 == 0);
    }
    alarm(0);
    kill(traced, SIGKILL);
    CHECK(waitpid(traced, &status, 0) == traced && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return 0;
}
