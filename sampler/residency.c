/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/residency.h"
#include "heap/syscall.h"
#include "heap/window.h"

#include <fcntl.h>

struct lines {
    long fd;
    char buffer[4096];
    long at, end;
};

static int next_char(struct lines *in)
{
    if (in->at == in->end) {
        in->at = 0;
        in->end = raw_syscall(SYS_read, in->fd, in->buffer, sizeof in->buffer);
        if (in->end <= 0) {
            in->end = 0;
            return -1;
        }
    }
    return (unsigned char)in->buffer[in->at++];
}

/* The next line, cut to what fits; false at the end. */
static bool next_line(struct lines *in, char *line, size_t bytes)
{
    size_t n = 0;
    int c;
    while ((c = next_char(in)) >= 0 && c != '\n')
        if (n + 1 < bytes) line[n++] = (char)c;
    line[n] = 0;
    return c >= 0;
}

static int digit(char c, unsigned base)
{
    int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
    return v < (int)base ? v : -1;
}

static const char *number(const char *text, unsigned base, uint64_t *value)
{
    *value = 0;
    for (int d; (d = digit(*text, base)) >= 0; text++) *value = *value * base + (unsigned)d;
    return text;
}

/* A mapping's line begins with its range, every other one with a name in capitals. */
static bool is_range(const char *line, uint64_t *start)
{
    const char *after = number(line, 16, start);
    return after > line && *after == '-';
}

static uint64_t *part_of(struct residency *r, uint64_t address)
{
    uint64_t at = address - window_base;
    if (window_base == 0 || at >= WINDOW_BYTES) return NULL;
    if (at >= WINDOW_TABLES_OFFSET) return &r->metadata;
    return at >= WINDOW_LARGE_OFFSET ? &r->large : &r->pools;
}

bool residency_read(struct residency *r)
{
    *r = (struct residency){0};
    struct lines in = {.fd = raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/smaps", O_RDONLY | O_CLOEXEC, 0)};
    if (in.fd < 0) return false;
    char line[96];
    uint64_t *part = NULL;
    for (uint64_t value; next_line(&in, line, sizeof line);) {
        if (is_range(line, &value)) {
            part = part_of(r, value);
        } else if (part && __builtin_memcmp(line, "Rss:", 4) == 0) {
            const char *text = line + 4;
            while (*text == ' ') text++;
            number(text, 10, &value);
            *part += value * 1024;
        }
    }
    raw_syscall(SYS_close, in.fd);
    return true;
}
