/* follow.c: LD_PRELOAD without us.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/follow.h"

#include <string.h>

static bool follow = true;
static char name[256] = "libgleaner.so";

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
        const char *part = last_part(library, strlen(library));
        if (*part && strlen(part) < sizeof name) memcpy(name, part, strlen(part) + 1);
    }
}

bool follow_children(void)
{
    return follow;
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

size_t follow_room(char *const *environment)
{
    if (follow || !environment) return 0;
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

char **follow_edit(char *const *environment, void *room)
{
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
