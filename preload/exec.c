/* exec.c: starting another program in this process, or in a child.

   A signal 33 that is queued when exec succeeds would kill the new program, which has no handler
   yet.  So exec takes the gate (no stop of ours is under way, none begins), has 33
   ignored, which also drops what is queued and is inherited, and undoes both if exec fails.  For
   that instant a setuid in another thread, which glibc announces by 33, would not be heard in a
   thread; programs do not change their identity while another thread calls exec.

   A child of vfork has signal handlers of its own but our memory: it ignores 33 for itself and
   takes no gate. posix_spawn's own child, inside libc, needs nothing: it starts with an empty
   queue, and glibc sets 33 to SIG_IGN in it (sysdeps/unix/sysv/linux/spawni.c); only its
   environment is ours to edit.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/exec.h"
#include "heap/os.h"
#include "heap/syscall.h"
#include "preload/blocking.h"
#include "preload/follow.h"
#include "preload/process.h"
#include "preload/shut_in.h"
#include "preload/signal33.h"

#include <alloca.h>
#include <spawn.h>
#include <stdarg.h>
#include <unistd.h>

static int (*real_execve)(const char *, char *const[], char *const[]);
static int (*real_execvpe)(const char *, char *const[], char *const[]);
static int (*real_fexecve)(int, char *const[], char *const[]);
static int (*real_execveat)(int, const char *, char *const[], char *const[], int);
static int (*real_posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                               const posix_spawnattr_t *, char *const[], char *const[]);
static int (*real_posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                                const posix_spawnattr_t *, char *const[], char *const[]);

void exec_start(void)
{
    real_execve = blocking_real("execve");
    real_execvpe = blocking_real("execvpe");
    real_fexecve = blocking_real("fexecve");
    real_execveat = blocking_real("execveat");
    real_posix_spawn = blocking_real("posix_spawn");
    real_posix_spawnp = blocking_real("posix_spawnp");
}

struct exec {
    bool shut_in; /* nobody sends signal 33, and nothing may be done about it */
    bool gate;    /* taken by this call */
};

static struct exec begin(void)
{
    if (shut_in_already(SHUT_IN_COLLECT)) return (struct exec){.shut_in = true};
    struct exec e = {.gate = !process_is_borrowed() && stop_gate_take()};
    signal33_exec_begin();
    return e;
}

static void failed(struct exec e)
{
    if (e.shut_in) return;
    int error = errno;
    signal33_exec_failed();
    if (e.gate) stop_gate_leave();
    errno = error;
}

/* The environment for the new program; on the caller's stack, or mapped where it is long. */
#define ON_STACK_MAX (32 * KIB)
#define EDITED(environment, edited, room, exec)                                                    \
    char *const *edited = (environment);                                                           \
    size_t room = follow_room(edited, exec);                                                             \
    if (unlikely(room > 0)) {                                                                      \
        void *p = room <= ON_STACK_MAX ? alloca(room) : os_map(round_up(room, OS_PAGE));           \
        if (p) edited = follow_edit(edited, p, exec);                                                    \
    }

static void release(char *const *edited, size_t room)
{
    if (room > ON_STACK_MAX) os_unmap((void *)edited, round_up(room, OS_PAGE));
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    EDITED(envp, edited, room, true);
    struct exec e = begin();
    int r = likely(real_execve) ? real_execve(path, argv, edited)
                                : (int)FALLBACK(SYS_execve, path, argv, edited);
    failed(e);
    if (edited != envp) release(edited, room);
    return r;
}

EXPORT int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    if (unlikely(!real_execvpe)) return errno = ENOSYS, -1;
    EDITED(envp, edited, room, true);
    struct exec e = begin();
    int r = real_execvpe(file, argv, edited);
    failed(e);
    if (edited != envp) release(edited, room);
    return r;
}

EXPORT int execvp(const char *file, char *const argv[])
{
    return execvpe(file, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    if (unlikely(!real_fexecve)) return errno = ENOSYS, -1;
    EDITED(envp, edited, room, true);
    struct exec e = begin();
    int r = real_fexecve(fd, argv, edited);
    failed(e);
    if (edited != envp) release(edited, room);
    return r;
}

EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    EDITED(envp, edited, room, true);
    struct exec e = begin();
    int r = likely(real_execveat) ? real_execveat(fd, path, argv, edited, flags)
                                  : (int)FALLBACK(SYS_execveat, fd, path, argv, edited, flags);
    failed(e);
    if (edited != envp) release(edited, room);
    return r;
}

/* The forms with a list: the arguments are gathered on the stack, as libc does (they may be called
   after vfork). */
#define GATHER(first, argv, list)                                                                  \
    va_list list;                                                                                  \
    size_t n_ = 1;                                                                                 \
    va_start(list, first);                                                                         \
    while (va_arg(list, char *)) n_++;                                                             \
    va_end(list);                                                                                  \
    char **argv = alloca((n_ + 1) * sizeof *argv);                                                 \
    argv[0] = (char *)(first);                                                                     \
    va_start(list, first);                                                                         \
    for (size_t i_ = 1; i_ <= n_; i_++) argv[i_] = va_arg(list, char *)

EXPORT int execl(const char *path, const char *first, ...)
{
    GATHER(first, argv, list);
    va_end(list);
    return execve(path, argv, environ);
}

EXPORT int execlp(const char *file, const char *first, ...)
{
    GATHER(first, argv, list);
    va_end(list);
    return execvpe(file, argv, environ);
}

EXPORT int execle(const char *path, const char *first, ...)
{
    GATHER(first, argv, list);
    char *const *envp = va_arg(list, char *const *);
    va_end(list);
    return execve(path, argv, envp);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    if (unlikely(!real_posix_spawn)) return ENOSYS;
    EDITED(envp, edited, room, false);
    int r = real_posix_spawn(pid, path, actions, attributes, argv, edited);
    if (edited != envp) release(edited, room);
    return r;
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    if (unlikely(!real_posix_spawnp)) return ENOSYS;
    EDITED(envp, edited, room, false);
    int r = real_posix_spawnp(pid, file, actions, attributes, argv, edited);
    if (edited != envp) release(edited, room);
    return r;
}
