/* kernel_roots.c: epoll data and timers, as /proc shows them.

   A descriptor is known as epoll's by the name that its link has (proc_pid_fd(5)); its registrations stand in fdinfo, a
   line each: "tfd: 5 events: 1 data: 7f00... pos:0 ino:1 sdev:8" (fs/eventpoll.c, ep_show_fdinfo).  A timer's value
   stands in its line "signal: 10/00007ffc..." (fs/proc/base.c, show_timer).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/kernel_roots.h"
#include "heap/grow.h"
#include "heap/print.h"
#include "heap/proc_text.h"
#include "heap/syscall.h"

#include <errno.h>
#include <fcntl.h>

#define FIRST_WORDS 4096
#define TEXT_BYTES (64 * KIB)
#define LISTING_BYTES (64 * KIB)

void words_add(struct words *w, uintptr_t word)
{
    if (w->count == w->room) {
        uintptr_t *more = grow(w->word, w->count, &w->room, sizeof *w->word, FIRST_WORDS);
        if (!more) {
            w->incomplete = true;
            return;
        }
        w->word = more;
    }
    w->word[w->count++] = word;
}

void words_free(struct words *w)
{
    grow_free(w->word, w->room, sizeof *w->word);
    *w = (struct words){0};
}

struct kernel_dirent {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

/* A link's target is not ended by a zero. */
static bool is_epoll(long folder, const char *name)
{
    static const char epoll[] = "anon_inode:[eventpoll]";
    char target[sizeof epoll];
    long n = raw_syscall(SYS_readlinkat, folder, name, target, sizeof target);
    return n == (long)sizeof epoll - 1 && __builtin_memcmp(target, epoll, (size_t)n) == 0;
}

static void add_registrations(struct words *to, long infos, const char *name, char *buffer)
{
    struct proc_text text;
    if (proc_open(&text, infos, name, buffer, TEXT_BYTES) != 0) {
        to->incomplete = true;
        return;
    }
    for (const char *line; (line = proc_line(&text));) {
        const char *data = proc_after(line, "tfd:") ? proc_find(line, "data:") : NULL;
        if (!data) continue;
        uint64_t value;
        proc_hex(proc_skip_spaces(data), &value);
        words_add(to, (uintptr_t)value);
    }
    if (text.failed) to->incomplete = true;
    proc_close(&text);
}

static long open_folder(uint32_t thread, const char *name)
{
    char path[64];
    print_to(path, sizeof path, "/proc/self/task/%u/%s", thread, name);
    return raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

static void add_epoll(struct words *to, uint32_t thread, char *text, char *listing)
{
    long links = open_folder(thread, "fd"), infos = open_folder(thread, "fdinfo"), n = links < 0 ? links : infos;
    if (n >= 0) {
        while ((n = raw_syscall(SYS_getdents64, links, listing, LISTING_BYTES)) > 0) {
            for (long at = 0; at < n;) {
                const struct kernel_dirent *d = (const void *)(listing + at);
                at += d->length;
                if (d->name[0] != '.' && is_epoll(links, d->name)) add_registrations(to, infos, d->name, text);
            }
        }
    }
    if (n < 0) to->incomplete = true;
    if (links >= 0) raw_syscall(SYS_close, links);
    if (infos >= 0) raw_syscall(SYS_close, infos);
}

static void add_timers(struct words *to, char *buffer)
{
    struct proc_text text;
    if (proc_open(&text, AT_FDCWD, "/proc/self/timers", buffer, TEXT_BYTES) != 0) return;
    for (const char *line; (line = proc_line(&text));) {
        const char *signal = proc_after(line, "signal:"), *value = signal ? proc_find(signal, "/") : NULL;
        if (!value) continue;
        uint64_t word;
        proc_hex(value, &word);
        words_add(to, (uintptr_t)word);
    }
    if (text.failed) to->incomplete = true;
    proc_close(&text);
}

void kernel_roots(struct words *to, uint32_t thread)
{
    char *memory = os_map(TEXT_BYTES + LISTING_BYTES);
    if (!memory) {
        to->incomplete = true;
        return;
    }
    add_epoll(to, thread, memory, memory + TEXT_BYTES);
    add_timers(to, memory);
    os_unmap(memory, TEXT_BYTES + LISTING_BYTES);
}
