/* follow.c: LD_PRELOAD without us.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/follow.h"
#include "heap/syscall.h"
#include "preload/shut_in.h"

#include <string.h>

static bool follow = true;
static char name[256] = "libgleaner.so";
static char path[4096]; /* "" where it is too long */
static int kept_in;

static const char PRELOAD[] = "LD_PRELOAD=";
#define PRELOAD_LENGTH (sizeof PRELOAD - 1)

static const char *last_part(const char *path, size_t n)
{
    size_t i = n;
    while (i > 0 && path[i - 1] != '/') i--;
    return path + i;
}

void follow_start(bool follow_, const char *library)
{
    follow = follow_;
    if (library) {
        size_t bytes = strlen(library) + 1;
        if (bytes <= sizeof path) memcpy(path, library, bytes);
        const char *part = last_part(library, strlen(library));
        if (*part && strlen(part) < sizeof name) memcpy(name, part, strlen(part) + 1);
    }
}

void follow_keep_in(int process)
{
    kept_in = process;
}

static bool is_preload(const char *variable)
{
    return variable && strncmp(variable, PRELOAD, PRELOAD_LENGTH) == 0;
}

/* The loader separates by spaces and colons (ld.so(8)). */
static size_t entry_length(const char *p)
{
    return strcspn(p, " :");
}

static bool is_ours(const char *entry, size_t n)
{
    const char *part = last_part(entry, n);
    size_t length = n - (size_t)(part - entry);
    return length == strlen(name) && memcmp(part, name, length) == 0;
}

static bool names_us(const char *variable)
{
    if (!is_preload(variable)) return false;
    for (const char *p = variable + PRELOAD_LENGTH;; p++) {
        size_t n = entry_length(p);
        if (is_ours(p, n)) return true;
        p += n;
        if (!*p) return false;
    }
}

/* -- a process that goes on as another program -- */

/* The number tells a forked child, and a vfork's, from the process. */
static bool keeps(bool exec)
{
    return exec && kept_in != 0 && path[0] && !shut_in_already(SHUT_IN_LINE) && (int)raw_syscall(SYS_getpid, 0) == kept_in;
}

static size_t room_with_us(char *const *environment)
{
    size_t n = 0, text = PRELOAD_LENGTH + strlen(path) + 2;
    bool first = false;
    for (; environment[n]; n++) {
        if (names_us(environment[n])) return 0;
        if (is_preload(environment[n])) text += strlen(environment[n]);
        first |= strncmp(environment[n], "GLEANER_FIRST=", 14) == 0;
    }
    return first ? (n + 2) * sizeof(char *) + text : 0;
}

static char **with_us(char *const *environment, void *room)
{
    size_t n = 0, kept = 1, length = strlen(path);
    while (environment[n]) n++;
    char **to = room;
    char *text = (char *)(to + n + 2);
    to[0] = text;
    memcpy(text, PRELOAD, PRELOAD_LENGTH);
    memcpy(text + PRELOAD_LENGTH, path, length + 1);
    text += PRELOAD_LENGTH + length;
    for (size_t i = 0; i < n; i++) {
        if (!is_preload(environment[i])) {
            to[kept++] = environment[i];
            continue;
        }
        const char *others = environment[i] + PRELOAD_LENGTH;
        if (!*others) continue;
        *text++ = ':';
        memcpy(text, others, strlen(others) + 1);
        text += strlen(others);
    }
    to[kept] = NULL;
    return to;
}

/* -- a child -- */

size_t follow_room(char *const *environment, bool exec)
{
    if (follow || !environment) return 0;
    if (keeps(exec)) return room_with_us(environment);
    size_t n = 0, text = 0;
    for (; environment[n]; n++) {
        if (names_us(environment[n])) text += strlen(environment[n]) + 1;
    }
    return text ? (n + 1) * sizeof(char *) + text : 0;
}

/* Copies all entries but ours; returns the end, or NULL if none is left. */
static char *without_us(char *to, const char *variable)
{
    memmove(to, variable, PRELOAD_LENGTH);
    char *end = to + PRELOAD_LENGTH;
    for (const char *p = variable + PRELOAD_LENGTH;; p++) {
        size_t n = entry_length(p);
        if (n > 0 && !is_ours(p, n)) {
            if (end > to + PRELOAD_LENGTH) *end++ = ':';
            memmove(end, p, n);
            end += n;
        }
        p += n;
        if (!*p) break;
    }
    *end++ = 0;
    return end > to + PRELOAD_LENGTH + 1 ? end : NULL;
}

char **follow_edit(char *const *environment, void *room, bool exec)
{
    if (keeps(exec)) return with_us(environment, room);
    size_t n = 0, kept = 0;
    while (environment[n]) n++;
    char **to = room;
    char *text = (char *)(to + n + 1);
    for (size_t i = 0; i < n; i++) {
        if (!names_us(environment[i])) {
            to[kept++] = environment[i];
            continue;
        }
        char *end = without_us(text, environment[i]);
        if (!end) continue;
        to[kept++] = text;
        text = end;
    }
    to[kept] = NULL;
    return to;
}

void follow_edit_own(char **environment)
{
    if (follow) return;
    char **to = environment;
    for (char **from = environment; *from; from++) {
        /* The text only shrinks, and without_us reads ahead of where it writes. */
        if (names_us(*from) && !without_us(*from, *from)) continue;
        *to++ = *from;
    }
    *to = NULL;
}
