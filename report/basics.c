/* basics.c: one-line messages, memory that cannot fail, strings that are safe to print.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say_v(const char *format, va_list arguments)
{
    char line[1200];
    int head = snprintf(line, sizeof line, "gleaner: ");
    int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
    size_t length = (size_t)head + (body < 0 ? 0 : (size_t)body);
    if (length > sizeof line - 2) length = sizeof line - 2;
    line[length] = '\n';
    if (write(STDERR_FILENO, line, length + 1) < 0) return; /* nowhere left to complain */
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_v(format, arguments);
    va_end(arguments);
}

_Noreturn void usage_error(const char *command, const char *format, ...)
{
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    say("%s (see gleaner %s%s--help)", text, command ? command : "", command ? " " : "");
    exit(EXIT_USAGE);
}

_Noreturn static void out_of_memory(void)
{
    say("out of memory");
    exit(EXIT_PROBLEM);
}

void *need(size_t bytes)
{
    void *block = malloc(bytes ? bytes : 1);
    if (!block) out_of_memory();
    return block;
}

void *need_array(size_t count, size_t bytes)
{
    void *block = calloc(count ? count : 1, bytes);
    if (!block) out_of_memory();
    return block;
}

void *need_again(void *block, size_t count, size_t bytes)
{
    void *moved = reallocarray(block, count ? count : 1, bytes);
    if (!moved) out_of_memory();
    return moved;
}

char *need_copy(const char *text)
{
    char *copy = strdup(text);
    if (!copy) out_of_memory();
    return copy;
}

char *need_text(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) out_of_memory();
    va_end(arguments);
    return text;
}

void *need_more(void *array, size_t count, size_t *room, size_t bytes)
{
    if (count < *room) return array;
    *room = *room ? *room * 2 : 16;
    return need_again(array, *room, bytes);
}

/* The length of the UTF-8 sequence at `at`, or 0 (RFC 3629: no overlong forms, no surrogates). */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char mask, lead, bytes;
        uint32_t least;
    } forms[] = {{0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    for (size_t form = 0; form < 3; form++) {
        if ((at[0] & forms[form].mask) != forms[form].lead) continue;
        if (left < forms[form].bytes) return 0;
        uint32_t code = at[0] & (unsigned char)~forms[form].mask;
        for (size_t i = 1; i < forms[form].bytes; i++) {
            if ((at[i] & 0xc0) != 0x80) return 0;
            code = code << 6 | (at[i] & 0x3f);
        }
        bool surrogate = code >= 0xd800 && code < 0xe000;
        /* U+0080 to U+009F are control characters of a terminal too. */
        if (code < forms[form].least || code > 0x10ffff || surrogate || code < 0xa0) return 0;
        return forms[form].bytes;
    }
    return 0;
}

char *clean_text(const char *text, size_t length)
{
    const unsigned char *from = (const unsigned char *)text;
    char *clean = need(length + 1);
    size_t at = 0;
    while (at < length) {
        size_t step = from[at] >= 0x80 ? utf8_length(from + at, length - at) : 0;
        if (step) {
            memcpy(clean + at, from + at, step);
            at += step;
        } else {
            bool plain = from[at] >= 0x20 && from[at] < 0x7f;
            clean[at] = plain ? (char)from[at] : '?';
            at++;
        }
    }
    clean[length] = 0;
    return clean;
}

char *human_bytes(double bytes, char *to)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (fabs(bytes) >= 1024 && unit < 6) {
        bytes /= 1024;
        unit++;
    }
    snprintf(to, 24, "%.*f %s", unit ? 1 : 0, bytes, units[unit]);
    return to;
}
