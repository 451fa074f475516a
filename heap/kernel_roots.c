/* kernel_roots.c: epoll data and timers, as /proc shows them.

   A descriptor's registrations stand in fdinfo, a line each: "tfd: 5 events: 1 data: 7f00... pos:0 ino:1 sdev:8"
   (fs/eventpoll.c, ep_show_fdinfo).  Which descriptors are epoll's?  Each is asked, where they are the caller's own, to
   change the registration of a file that it cannot have: an epoll descriptor does not find it (ENOENT), any other is
   none (EINVAL).  Otherwise by the name that its link has (proc_pid_fd(5)).
   A timer's value stands in its line "signal: 10/00007ffc..." (fs/proc/base.c, show_timer).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/kernel_roots.h"
#include "heap/grow.h"
#include "heap/kernel_dirent.h"
#include "heap/print.h"
#include "heap/proc_text.h"
#include "heap/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define FIRST_WORDS 4096
#define TEXT_BYTES (64 * KIB)
#define LISTING_BYTES (64 * KIB)
#define MOST_ASKED 65536 /* descriptors */

/* One mapping: the words, then where they lie. */
static bool more_room(struct words *w)
{
    size_t room = w->room ? 2 * w->room : FIRST_WORDS;
    uintptr_t *fresh = os_map(grow_bytes(room, 2 * sizeof *fresh));
    if (!fresh) return false;
    if (w->count) {
        __builtin_memcpy(fresh, w->word, w->count * sizeof *fresh);
        __builtin_memcpy(fresh + room, w->at, w->count * sizeof *fresh);
    }
    grow_free(w->word, w->room, 2 * sizeof *fresh);
    w->word = fresh;
    w->at = fresh + room;
    w->room = room;
    return true;
}

void words_add(struct words *w, uintptr_t word, uintptr_t at)
{
    if (w->count == w->room && !more_room(w)) {
        w->incomplete = true;
        return;
    }
    w->word[w->count] = word;
    w->at[w->count++] = at;
}

void words_free(struct words *w)
{
    grow_free(w->word, w->room, 2 * sizeof *w->word);
    *w = (struct words){0};
}

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
    uint64_t set = 0;
    proc_decimal(name, &set);
    if (proc_open(&text, infos, name, buffer, TEXT_BYTES) != 0) {
        to->incomplete = true;
        return;
    }
    for (const char *line; (line = proc_line(&text));) {
        const char *registered = proc_after(line, "tfd:"), *data = registered ? proc_find(line, "data:") : NULL;
        if (!data) continue;
        uint64_t value, descriptor = 0;
        proc_decimal(proc_skip_spaces(registered), &descriptor);
        proc_hex(proc_skip_spaces(data), &value);
        words_add(to, (uintptr_t)value, cut_epoll(set, descriptor));
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

static void by_links(struct words *to, uint32_t thread, long infos, char *text, char *listing)
{
    long links = open_folder(thread, "fd"), n = links;
    while (links >= 0 && (n = raw_syscall(SYS_getdents64, links, listing, LISTING_BYTES)) > 0) {
        for (long at = 0; at < n;) {
            const struct kernel_dirent *d = (const void *)(listing + at);
            at += d->length;
            if (d->name[0] != '.' && is_epoll(links, d->name))
                add_registrations(to, infos, d->name, text);
        }
    }
    if (n < 0) to->incomplete = true;
    if (links >= 0) raw_syscall(SYS_close, links);
}

/* Room of the calling thread's descriptor table; 0 if unknown. */
static uint64_t table_size(void)
{
    uint64_t size;
    return proc_status("FDSize:", &size) ? size : 0;
}

/* False if it cannot be done, or a table with few descriptors is so large that links are better. */
static bool by_asking(struct words *to, long infos, char *text)
{
    uint64_t size = table_size();
    long stranger = size == 0 || size > MOST_ASKED ? -1 : raw_syscall(SYS_eventfd2, 0, EFD_CLOEXEC);
    if (stranger < 0) return false;
    struct epoll_event event = {0};
    for (uint64_t fd = 0; fd < size; fd++) {
        char name[24];
        if (raw_syscall(SYS_epoll_ctl, fd, EPOLL_CTL_MOD, stranger, &event) != -ENOENT) continue;
        print_to(name, sizeof name, "%lu", (unsigned long)fd);
        add_registrations(to, infos, name, text);
    }
    raw_syscall(SYS_close, stranger);
    return true;
}

static void add_epoll(struct words *to, uint32_t thread, char *text, char *listing)
{
    long infos = open_folder(thread, "fdinfo");
    if (infos < 0) {
        to->incomplete = true;
        return;
    }
    bool own = (uint32_t)raw_syscall(SYS_gettid, 0) == thread;
    if (!own || !by_asking(to, infos, text)) by_links(to, thread, infos, text, listing);
    raw_syscall(SYS_close, infos);
}

static void add_timers(struct words *to, char *buffer)
{
    struct proc_text text;
    if (proc_open(&text, AT_FDCWD, "/proc/self/timers", buffer, TEXT_BYTES) != 0) return;
    for (const char *line; (line = proc_line(&text));) {
        const char *signal = proc_after(line, "signal:"),
                   *value = signal ? proc_find(signal, "/") : NULL;
        if (!value) continue;
        uint64_t word;
        proc_hex(value, &word);
        words_add(to, (uintptr_t)word, CUT_TIMER);
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
