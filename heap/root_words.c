/* root_words.c: reading the roots.

   What must not be loaded is copied by /proc/self/mem, which needs no right to the page and answers a page that is gone
   (a file cut short, a guard region) with an error instead of a signal.  It is three times as slow as a load.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/load_all.h"
#include "heap/os.h"
#include "heap/roots.h"
#include "heap/syscall.h"

#include <errno.h>
#include <fcntl.h>

#define BUFFER_BYTES (256 * KIB)

struct reader {
    struct roots *roots;
    void (*words)(const uintptr_t *from, const uintptr_t *to, enum root_kind kind, void *user);
    void *user;
    long fd;
    char *buffer;
};

static void load(struct reader *r, uintptr_t from, uintptr_t to, enum root_kind kind)
{
    r->roots->at = from;
    r->words((const uintptr_t *)from, (const uintptr_t *)to, kind, r->user);
}

/* Nobody could have loaded it: then what it holds is unknown. */
static bool is_readable(const struct reader *r, uintptr_t address)
{
    const struct map *m = maps_find(&r->roots->maps, address);
    return m && m->readable;
}

static void copy(struct reader *r, uintptr_t from, uintptr_t to, enum root_kind kind)
{
    while (from < to) {
        size_t bytes = to - from < BUFFER_BYTES ? to - from : BUFFER_BYTES;
        long n = raw_syscall(SYS_pread64, r->fd, r->buffer, bytes, from);
        if (n == -EINTR) continue;
        if (n <= 0) { /* this page cannot be read; perhaps the next one can */
            if (!is_readable(r, from) || (n < 0 && n != -EIO)) /* or no page can (seccomp) */ r->roots->complete = false;
            from = (from / OS_PAGE + 1) * OS_PAGE;
            continue;
        }
        size_t whole = (size_t)n & ~(sizeof(uintptr_t) - 1);
        if (whole == 0) whole = sizeof(uintptr_t); /* never: pages hold whole words */
        r->roots->at = from;
        r->words((const uintptr_t *)r->buffer, (const uintptr_t *)(r->buffer + whole), kind, r->user);
        from += whole;
    }
}

/* Where the file does not open, for a process that is not dumpable, readable memory is loaded after all: a mapping at a time, since a
   root goes on over their borders, and the next may be without access (the loader leaves such between the segments of a library). */
static void read_by_file(struct reader *r, const struct root *root)
{
    if (r->fd >= 0 && r->buffer) {
        copy(r, root->from, root->to, root->kind);
        return;
    }
    for (uintptr_t from = root->from, to; from < root->to; from = to) {
        const struct map *m = maps_find(&r->roots->maps, from);
        to = m && m->to < root->to ? m->to : root->to;
        if (m && m->readable) load(r, from, to, root->kind);
        else if (!r->buffer) roots_lack_memory(r->roots);
        else r->roots->complete = false;
    }
}

static long open_memory(void)
{
    long fd = raw_syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/mem", O_RDONLY | O_CLOEXEC, 0);
    return fd >= 0 ? fd
                   : raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
}

void roots_each_words(struct roots *roots,
                      void (*words)(const uintptr_t *from, const uintptr_t *to, enum root_kind kind,
                                    void *user),
                      void *user)
{
    struct reader r = {roots, words, user, open_memory(), os_map(BUFFER_BYTES)};
    struct load_all loads;
    load_all_begin(&loads);
    for (size_t i = 0; i < roots->count; i++) {
        const struct root *root = &roots->root[i];
        if (root->by_file) {
            read_by_file(&r, root);
        } else {
            load(&r, root->from, root->to, root->kind);
        }
    }
    load_all_end(&loads);
    if (r.fd >= 0) raw_syscall(SYS_close, r.fd);
    if (r.buffer) os_unmap(r.buffer, BUFFER_BYTES);
}
