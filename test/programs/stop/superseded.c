/* superseded.c: a verdict waits to be applied while somebody asks for a dump with lost blocks, which makes all blocks old.  What was allocated after
   the verdict's cut, in the slot of a block that it calls lost, is not lost.  Needs `leaks:every=…`: the collection may not be waited for.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ask.h"
#include "gleaner.h"

#include <alloca.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define BLOCKS 4 /* each 16th allocation looks whether a verdict is there */
#define TRIES 30
#define BYTES 200
#define LEAKS 4 /* the request, preload/signal33.h */

/* Only the complements of their addresses are kept. */
static volatile uintptr_t lost[BLOCKS];
static void *volatile kept[BLOCKS];

/* Asks for one dump with lost blocks as soon as a byte comes, and says whether it was answered. */
static void ask(int from, int to)
{
    char c, path[128];
    int parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(from, &c, 1) != 1) _exit(0);
    int fd = ask_prepare(parent, path, sizeof path);
    ask_send(parent, LEAKS, 1);
    c = ask_wait(fd, 20000);
    unlink(path);
    struct timespec ts = {0, 20000000}; /* for the child to end */
    nanosleep(&ts, NULL);
    ask_send(parent, ASK_REAP, 1);
    if (write(to, &c, 1) != 1) _exit(1);
    _exit(0);
}

/* Is there a snapshot child, at work or ended?  It has no signal for its end; the one who asks has. */
static bool child_is_there(bool ended)
{
    siginfo_t info;
    info.si_pid = 0;
    if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WCLONE, NULL) != 0) return false;
    return !ended || info.si_pid != 0;
}

__attribute__((noinline)) static void hide_all(void)
{
    for (int i = 0; i < BLOCKS; i++) lost[i] = ~(uintptr_t)malloc(BYTES);
}

/* An allocation at which the library looks at the clock, now and then. */
static void tick(void)
{
    void *volatile block = malloc(100000);
    free(block);
}

/* Until a collection by the clock has begun; what it finds is not applied before we allocate again. */
__attribute__((noinline)) static void begin_collection(void)
{
    for (int64_t end = now_ns() + 20000000000; !child_is_there(false);) {
        if (now_ns() > end) FAIL("no collection begins");
        tick();
    }
    while (!child_is_there(true)) usleep(500);
}

/* Each slot again, at once: what was freed last is given out first. */
__attribute__((noinline)) static int reuse_all(void)
{
    int same = 0;
    for (int i = 0; i < BLOCKS; i++) {
        void *was = (void *)~lost[i];
        free(was);
        kept[i] = malloc(BYTES);
        same += kept[i] == was;
    }
    return same;
}

__attribute__((noinline)) static void scrub(void)
{
    volatile char *deep = alloca(65536);
    for (size_t i = 0; i < 65536; i++) deep[i] = 0;
}

static void none_is_lost(const char *when)
{
    for (int i = 0; i < BLOCKS; i++) {
        enum gleaner_state state = gleaner_state(kept[i]);
        if (state == GLEANER_LOST || state == GLEANER_POSSIBLY_LOST) FAIL("block %d is in state %d %s", i, (int)state, when);
    }
}

int main(void)
{
    int to[2], from[2];
    char answered;
    if (!gleaner_collect || !gleaner_state) FAIL("the library has no collections");
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    pid_t asker = fork();
    CHECK(asker >= 0);
    if (asker == 0) ask(to[0], from[1]);
    struct gleaner_statistics before, after;
    for (int tries = 0;; tries++) {
        if (tries == TRIES) FAIL("no verdict waits");
        hide_all();
        scrub();
        begin_collection();
        gleaner_statistics(&before);
        int same = reuse_all();
        gleaner_statistics(&after);
        if (same == BLOCKS && after.major == before.major && after.incomplete == before.incomplete) break;
    }
    CHECK(write(to[1], "", 1) == 1 && read(from[0], &answered, 1) == 1);
    if (!answered) FAIL("the dump was not answered");
    CHECK(waitpid(asker, NULL, 0) == asker);
    for (int i = 0; i < 1000; i++) tick(); /* the verdict's time has come */
    none_is_lost("after the dump");
    gleaner_statistics(&after);
    if (after.incomplete == before.incomplete) FAIL("the verdict that waited was not refused");
    int error;
    for (int tries = 0; (error = gleaner_collect(GLEANER_MAJOR)) == EAGAIN && tries < 30; tries++) usleep(100000);
    if (error) FAIL("gleaner_collect gave %d", error);
    none_is_lost("after one more collection");
    return 0;
}
