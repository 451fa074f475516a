/* sandbox-calls.c: is preload/shut_in_calls.h complete, and are its registers those of the calls?  A child puts up a filter, by a bare system call
   that the library does not see, which hands every call from the library's text to its parent, and does all that makes the library call;
   the parent says which calls the list does not have.  Arguments: the command, which asks the child for profiles.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gleaner.h"
#include "preload/shut_in_calls.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof *(a))

static uintptr_t text_from, text_to;

static bool find_text(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "libgleaner") && strstr(line, " r-xp "))
            return sscanf(line, "%lx-%lx", &text_from, &text_to) == 2 && text_from >> 32 == (text_to - 1) >> 32;
    return false;
}

/* The listener, or negative. */
static int put_up(void)
{
    const unsigned at = offsetof(struct seccomp_data, instruction_pointer);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + 4), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(text_from >> 32), 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)text_from, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (unsigned)(text_to - 1), 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {LENGTH(filter), filter};
    raw_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0L, 0L, 0L);
    return (int)raw_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* ---- what the child does ---- */

static _Thread_local void *kept[64];

static void grow(void)
{
    static const size_t sizes[] = {24, 500, 3000, 40000, 300000, 5000000};
    for (size_t i = 0; i < LENGTH(sizes); i++)
        for (size_t k = 0; k < (sizes[i] < 40000 ? 400 : 6); k++) {
            char *p = malloc(sizes[i]);
            p[0] = p[sizes[i] - 1] = 1;
            if (k % 3 == 0) p = realloc(p, 3 * sizes[i]);
            if (k % 5 == 0) {
                free(kept[k % LENGTH(kept)]);
                kept[k % LENGTH(kept)] = p;
            } else if (k % 7 != 0) {
                free(p);
            }
        }
}

static void *thread(void *unused)
{
    for (int i = 0; i < 5; i++) grow();
    return unused;
}

static void threads(void)
{
    pthread_t t[3];
    for (size_t i = 0; i < LENGTH(t); i++) pthread_create(&t[i], NULL, thread, NULL);
    for (size_t i = 0; i < LENGTH(t); i++) pthread_join(t[i], NULL);
}

static void forks(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        grow();
        exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void *waits(void *from)
{
    char c;
    (void)!read(*(int *)from, &c, 1); /* until the parent has asked for all that it asks for */
    return NULL;
}

static void live(int from)
{
    pthread_t waiting;
    pthread_create(&waiting, NULL, waits, &from);
    for (int i = 0; i < 3; i++) {
        grow();
        gleaner_collect(GLEANER_MINOR);
        gleaner_collect(GLEANER_MAJOR);
        threads();
        forks();
    }
    gleaner_dump("asked.profile");
    gleaner_dump("asked.profile");
    gleaner_dump("/dev/null");
    gleaner_dump("/nowhere/at/all");
    raise(SIGWINCH); /* the `signal` key may say that it asks for a profile */
    malloc(300000000);
    signal(SIGUSR1, SIG_IGN);
    execl("/nonexistent/program", "program", NULL);
    pthread_join(waiting, NULL);
    close_range(100, ~0u, 0); /* the library's as well */
    gleaner_collect(GLEANER_MAJOR);
    grow();
}

/* ---- what the parent does ---- */

static bool is_listed(const struct seccomp_data *call)
{
    for (size_t i = 0; i < LENGTH(shut_in_calls); i++) {
        const struct shut_in_call *c = &shut_in_calls[i];
        bool same = c->nr == call->nr && ((uint32_t)call->args[0] != (uint32_t)AT_FDCWD || (c->same & 1)); /* no descriptor like others */
        for (unsigned n = 0; n < 6; n++)
            if ((c->same >> n & 1) && (uint64_t)c->a[n] != call->args[n]) same = false;
        if (same) return true;
    }
    return false;
}

static unsigned long calls, missing;

static bool serve(int listener)
{
    struct seccomp_notif request;
    struct seccomp_notif_resp answer;
    struct pollfd p = {.fd = listener, .events = POLLIN};
    if (poll(&p, 1, 60000) <= 0 || !(p.revents & POLLIN)) return false;
    memset(&request, 0, sizeof request);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) return errno == ENOENT || errno == EINTR;
    calls++;
    if (!is_listed(&request.data) && missing++ < 50) {
        printf("not listed: call %d (", request.data.nr);
        for (unsigned n = 0; n < 6; n++) printf("%s%#llx", n ? ", " : "", (unsigned long long)request.data.args[n]);
        printf(") at %#llx\n", (unsigned long long)request.data.instruction_pointer - text_from);
    }
    memset(&answer, 0, sizeof answer);
    answer.id = request.id;
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    return true;
}

static pid_t asks(const char *command, pid_t of, int done)
{
    static const char *const how[] = {NULL, "--leaks", "--holders", "--leaks"};
    pid_t pid = fork();
    if (pid != 0) return pid;
    unsetenv("LD_PRELOAD");
    for (size_t i = 0; i < LENGTH(how); i++) {
        char number[24];
        snprintf(number, sizeof number, "%d", (int)of);
        pid_t one = fork();
        if (one == 0) {
            execl(command, command, "dump", number, "-o", "dumped", how[i], NULL);
            _exit(127);
        }
        int status;
        waitpid(one, &status, 0);
        if (status != 0) printf("dump %s: status %x\n", how[i] ? how[i] : "", (unsigned)status);
    }
    write(done, "x", 1);
    _exit(0);
}

static void send_descriptor(int to, int fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    char byte = 0;
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    sendmsg(to, &m, 0);
}

static int receive_descriptor(int from)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    char byte;
    int fd = -1;
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&m)) return -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

int main(int count, char **arguments)
{
    int pair[2], done[2], status = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count < 2 || !gleaner_collect || !find_text()) return 77;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 || pipe(done) != 0) return 77;
    pid_t pid = fork();
    if (pid == 0) {
        close(done[1]);
        gleaner_collect(GLEANER_MAJOR);
        gleaner_collect(GLEANER_MINOR);
        int listener = put_up();
        if (listener < 0) _exit(77);
        send_descriptor(pair[1], listener);
        close(listener);
        live(done[0]);
        exit(17);
    }
    close(pair[1]);
    int listener = receive_descriptor(pair[0]);
    pid_t asking = listener >= 0 ? asks(arguments[1], pid, done[1]) : 0;
    while (listener >= 0 && serve(listener)) {}
    if (asking) waitpid(asking, NULL, 0);
    waitpid(pid, &status, 0);
    if (listener < 0) return 77;
    printf("%lu calls, %lu not listed, status %d\n", calls, missing, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    return 0;
}
