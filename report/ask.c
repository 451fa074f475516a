/* ask.c: asks a live process for its profile, by the protocol of preload/dump.h.

   The signal kills a process that has no handler for it, so it is sent only right after the control
   page was seen in the maps, through a pidfd that was opened before, so that a number that was
   given to another process meanwhile is not hit. SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/ask.h"
#include "report/answer_file.h"
#include "report/basics.h"
#include "report/progress.h"
#include "report/target.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SIGNAL = 33,
    OP_DUMP = 2,
    OP_REAP = 3,
    OP_LEAKS = 4,
    OP_HOLDERS = 5,
    ASK_AGAIN_MS = 2000, /* an earlier request's child may be at work, or the gate taken */
    LIMIT_MS = 65000,    /* the child has 60 s, */
    LONG_MS = 605000,    /* and 600 where it looks for lost blocks or holders */
    STOPPED_MS = 5000,   /* a tracer lets go sooner */
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* -- may we? ------------------------------------------------------------------------------------
 */

static bool refuse_closed(int pid)
{
    struct target target;
    if (!target_read(pid, &target)) {
        say("there is no process %d", pid);
    } else if (target.uid == geteuid() && target.shown_owner != target.uid) {
        say("process %d dropped its privileges (it is not dumpable): only root may ask it", pid);
    } else if (target.uid != geteuid()) {
        const struct passwd *user = getpwuid(target.uid);
        char number[24];
        snprintf(number, sizeof number, "user %u", target.uid);
        say("process %d belongs to %s: only they and root may ask it", pid,
            user ? user->pw_name : number);
    } else {
        say("process %d may not be looked at from here (no permission to trace it)", pid);
    }
    return false;
}

static bool runs_under_us(int pid)
{
    struct target target;
    switch (target_state(pid)) {
    case TARGET_OURS:
        return true;
    case TARGET_CLOSED:
        return refuse_closed(pid);
    case TARGET_GONE:
        say("there is no process %d", pid);
        return false;
    default:
        break;
    }
    if (target_read(pid, &target) && target.zombie)
        say("process %d has ended", pid);
    else
        say("process %d does not run under Gleaner (start it by `gleaner run`)", pid);
    return false;
}

/* -- the signal ---------------------------------------------------------------------------------
 */

struct request {
    int pid, pidfd;
    unsigned op;
    uint32_t number;
    uid_t uid; /* as which we ask */
};

static bool send_request(const struct request *request, unsigned op)
{
    siginfo_t info = {0};
    info.si_signo = SIGNAL;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = request->uid;
    info.si_value.sival_ptr =
        (void *)(uintptr_t)((uint64_t)0x474c << 48 | (uint64_t)op << 40 | request->number);
    if (target_state(request->pid) != TARGET_OURS) {
        errno = ESRCH;
        return false;
    }
    return !syscall(SYS_pidfd_send_signal, request->pidfd, SIGNAL, &info, 0);
}

/* -- the answer ---------------------------------------------------------------------------------
 */

static bool has_ended(int pidfd)
{
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) > 0;
}

/* Sleeps until the file's attributes change, the process ends, or a while has passed. */
static void wait_a_while(int notify, int pidfd, int milliseconds)
{
    struct pollfd fds[2] = {{.fd = notify, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
    char events[512];
    if (poll(fds, 2, milliseconds) > 0 && (fds[0].revents & POLLIN))
        if (read(notify, events, sizeof events) < 0) return;
}

static int watch(const struct answer_file *answer)
{
    char path[40];
    int notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    snprintf(path, sizeof path, "/proc/self/fd/%d", answer->file);
    if (notify >= 0) inotify_add_watch(notify, path, IN_ATTRIB);
    return notify; /* where there is no inotify, the timeouts do */
}

static bool is_stopped(int pid)
{
    char path[40], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "re");
    if (stat) {
        line[fread(line, 1, sizeof line - 1, stat)] = 0;
        fclose(stat);
    }
    const char *end = strrchr(line, ')');
    return end && end[1] && (end[2] == 'T' || end[2] == 't');
}

/* False after one line. */
static bool wait_for_answer(const struct request *request, const struct answer_file *answer)
{
    int notify = watch(answer);
    uint64_t begun = now_ms(), asked = begun, ran = begun;
    uint64_t limit = request->op == OP_DUMP ? LIMIT_MS : LONG_MS;
    bool stopped = false;
    enum answer_state state;
    progress_begin("waiting for the process, seconds", limit / 1000);
    while ((state = answer_state(answer)) <= ANSWER_GROWING) {
        uint64_t now = now_ms();
        if (has_ended(request->pidfd) || now - begun > limit) break;
        if (state != ANSWER_EMPTY || !is_stopped(request->pid)) {
            ran = now;
        } else if (now - ran > STOPPED_MS) {
            stopped = true;
            break;
        }
        if (state == ANSWER_EMPTY && now - asked > ASK_AGAIN_MS) {
            asked = now;
            if (!send_request(request, request->op)) break;
        }
        progress_at((now - begun) / 1000, NULL);
        wait_a_while(notify, request->pidfd, 200);
    }
    progress_end();
    if (notify >= 0) close(notify);
    state = answer_state(answer);
    if (state >= ANSWER_COMPLETE) return true;
    if (has_ended(request->pidfd))
        say("process %d ended before it had answered", request->pid);
    else if (target_state(request->pid) != TARGET_OURS)
        say("process %d has become another program that does not run under Gleaner", request->pid);
    else if (stopped)
        say("process %d is stopped, and cannot answer before it goes on (SIGCONT)", request->pid);
    else
        say("process %d did not answer within %d s", request->pid, (int)(limit / 1000));
    return false;
}

/* -- the child that wrote it --------------------------------------------------------------------
 */

/* State letter of the target's snapshot child, which is told from its own children by its exit
   signal 0 (field 38 of stat); 0 when there is none. */
static char child_state(int pid)
{
    char path[64], found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && !found && (task = readdir(tasks));) {
        char name[64 + 256 + 16];
        snprintf(name, sizeof name, "%s/%s/children", path, task->d_name);
        FILE *children = fopen(name, "re");
        int child, signal;
        while (children && !found && fscanf(children, "%d", &child) == 1) {
            char line[1024], state = 0;
            snprintf(name, sizeof name, "/proc/%d/stat", child);
            FILE *stat = fopen(name, "re");
            if (!stat) continue;
            line[fread(line, 1, sizeof line - 1, stat)] = 0;
            fclose(stat);
            char *at = strrchr(line, ')');
            if (at && at[1]) state = at[2];
            for (int field = 2; at && field < 38; field++) at = strchr(at + 1, ' ');
            if (at && sscanf(at, " %d", &signal) == 1 && signal == 0) found = state;
        }
        if (children) fclose(children);
    }
    if (tasks) closedir(tasks);
    return found;
}

/* Has the process reap it, and sees to it: an idle process would keep a zombie. The child needs a
   moment to end; where the kernel does not list children, the one request must do. */
static void reap(const struct request *request)
{
    struct timespec moment = {0, 2000000};
    bool sent = false;
    for (int attempt = 0; attempt < 10; attempt++) { /* 2 s in all */
        char state = child_state(request->pid);
        if (!state && sent) return;
        if (!state || state == 'Z') {
            if (!send_request(request, OP_REAP)) return;
            sent = true;
        }
        if (!state) return;
        nanosleep(&moment, NULL);
        moment.tv_nsec *= 2;
        if (moment.tv_nsec > 500000000) moment.tv_nsec = 500000000;
    }
}

static bool read_answer(const struct request *request, const struct answer_file *answer,
                        struct bytes *bytes)
{
    char problem[PROBLEM_BYTES];
    if (!answer_read(answer, bytes, problem)) {
        say("cannot read the answer of process %d: %s", request->pid, problem);
        return false;
    }
    if (answer_state(answer) == ANSWER_COMPLETE) return true;
    size_t length = 0;
    while (length < bytes->length && length < 200 && bytes->at[length] != '\n') length++;
    char *reason = clean_text((const char *)bytes->at, length);
    say("process %d could not write a profile: %s", request->pid, *reason ? reason : "no reason");
    free(reason);
    free(bytes->at);
    *bytes = (struct bytes){0};
    return false;
}

static bool ask(struct request *request, struct bytes *bytes)
{
    struct target target;
    struct answer_file answer;
    if (!target_read(request->pid, &target)) {
        say("there is no process %d", request->pid);
        return false;
    }
    if (!answer_make(&target, &answer)) return false;
    request->uid = geteuid() ? target.inner_uid : 0;
    request->number = (uint32_t)now_ms();
    bool good = send_request(request, request->op);
    if (!good)
        say("cannot ask process %d: %s", request->pid, strerror(errno));
    else
        good = wait_for_answer(request, &answer) && read_answer(request, &answer, bytes);
    if (!has_ended(request->pidfd)) reap(request);
    answer_remove(&answer); /* last: a second dump, which waits for it, finds the child reaped */
    return good;
}

#define ASKED_AGAIN 3
#define UNPACKED_MOST ((size_t)1 << 30)

/* Memory that a fork does not copy is looked at in the pause as far as it is known; the process has learned by this answer of what there
   is. */
static bool is_worth_another(const struct bytes *answer)
{
    static const char words[] = "memory that a fork does not copy";
    char problem[PROBLEM_BYTES];
    struct bytes copy = {.at = need(answer->length), .length = answer->length};
    memcpy(copy.at, answer->at, answer->length);
    bool is = file_unpack(&copy, UNPACKED_MOST, problem) && memmem(copy.at, copy.length, words, sizeof words - 1);
    free(copy.at);
    return is;
}

bool ask_profile(int pid, enum ask_for what, struct bytes *bytes)
{
    static const unsigned ops[] = {OP_DUMP, OP_LEAKS, OP_HOLDERS};
    *bytes = (struct bytes){0};
    if (!runs_under_us(pid)) return false;
    struct request request = {.pid = pid, .op = ops[what], .pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
    if (request.pidfd < 0) {
        if (errno == ESRCH)
            say("there is no process %d", pid);
        else if (errno == EINVAL)
            say("%d is a thread, not a process", pid);
        else
            say("cannot open process %d: %s", pid, strerror(errno));
        return false;
    }
    /* Again, now that the number cannot change hands. */
    bool good = runs_under_us(pid) && ask(&request, bytes);
    for (unsigned i = 0; good && what != ASK_PROFILE && i < ASKED_AGAIN && is_worth_another(bytes); i++) {
        free(bytes->at);
        *bytes = (struct bytes){0};
        good = ask(&request, bytes);
    }
    close(request.pidfd);
    return good;
}
