/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/proc_text.h"
#include "heap/syscall.h"

#include <errno.h>
#include <fcntl.h>

long proc_open(struct proc_text *t, long folder, const char *path, char *buffer, size_t room)
{
    *t = (struct proc_text){.buffer = buffer, .room = room};
    t->fd = raw_syscall(SYS_openat, (int)folder, path, O_RDONLY | O_CLOEXEC, 0);
    return t->fd < 0 ? t->fd : 0;
}

void proc_close(struct proc_text *t)
{
    if (t->fd >= 0) raw_syscall(SYS_close, t->fd);
    t->fd = -1;
}

/* Moves what is left to the buffer's start and reads behind it; false if nothing came. */
static bool more(struct proc_text *t)
{
    if (t->over) return false;
    if (t->at > 0) {
        __builtin_memmove(t->buffer, t->buffer + t->at, t->end - t->at);
        t->end -= t->at;
        t->at = 0;
    }
    if (t->end + 1 >= t->room) return false;
    long n;
    do n = raw_syscall(SYS_read, t->fd, t->buffer + t->end, t->room - 1 - t->end);
    while (n == -EINTR);
    if (n <= 0) {
        t->over = true;
        t->failed = n < 0;
        return false;
    }
    t->end += (size_t)n;
    return true;
}

char *proc_line(struct proc_text *t)
{
    for (size_t seen = 0;;) {
        char *line = t->buffer + t->at, *end = t->buffer + t->end, *p = line + seen;
        while (p < end && *p != '\n') p++;
        if (p < end) {
            *p = 0;
            t->at = (size_t)(p + 1 - t->buffer);
            if (!t->in_long) return line;
            t->in_long = false;
            seen = 0;
            continue;
        }
        seen = t->end - t->at;
        if (more(t)) continue;
        if (t->over && (seen == 0 || t->in_long)) return NULL;
        /* The last line has no end, or this one is as long as the buffer. */
        bool rest = t->in_long;
        line = t->buffer + t->at;
        t->in_long = !t->over;
        t->buffer[t->end] = 0;
        t->at = t->end;
        seen = 0;
        if (!rest) return line;
    }
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static const char *number(const char *text, int base, uint64_t *to)
{
    uint64_t v = 0;
    for (int d; (d = digit(*text)) < base; text++) v = v * (unsigned)base + (unsigned)d;
    *to = v;
    return text;
}

const char *proc_hex(const char *text, uint64_t *to)
{
    return number(text, 16, to);
}

const char *proc_decimal(const char *text, uint64_t *to)
{
    return number(text, 10, to);
}

const char *proc_after(const char *text, const char *prefix)
{
    while (*prefix && *text == *prefix) text++, prefix++;
    return *prefix ? NULL : text;
}

const char *proc_find(const char *text, const char *word)
{
    for (; *text; text++) {
        const char *after = proc_after(text, word);
        if (after) return after;
    }
    return NULL;
}

const char *proc_skip_spaces(const char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    return text;
}

bool proc_status(const char *key, uint64_t *to)
{
    char buffer[512];
    struct proc_text text;
    bool found = false;
    if (proc_open(&text, AT_FDCWD, "/proc/thread-self/status", buffer, sizeof buffer) != 0) return false;
    for (const char *line; !found && (line = proc_line(&text));) {
        const char *value = proc_after(line, key);
        if (!value) continue;
        value = proc_skip_spaces(value);
        found = proc_decimal(value, to) != value;
    }
    proc_close(&text);
    return found;
}
