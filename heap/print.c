/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/print.h"
#include "heap/quiet_write.h"

#include <string.h>

struct sink {
    char *at, *end;
    size_t length;
};

static void put(struct sink *s, char c)
{
    if (s->at < s->end) *s->at++ = c;
    s->length++;
}

static void put_number(struct sink *s, unsigned long long v, bool negative, unsigned base, int width,
                       char pad)
{
    char digits[24];
    int n = 0;
    do digits[n++] = "0123456789abcdef"[v % base];
    while ((v /= base) != 0);
    int length = n + negative;
    if (negative && pad == '0') put(s, '-');
    for (; length < width; length++) put(s, pad);
    if (negative && pad != '0') put(s, '-');
    while (n > 0) put(s, digits[--n]);
}

size_t print_to_v(char *to, size_t bytes, const char *f, va_list args)
{
    struct sink s = {to, bytes ? to + bytes - 1 : to, 0};
    for (; *f; f++) {
        if (*f != '%') {
            put(&s, *f);
            continue;
        }
        f++;
        char pad = ' ';
        int width = 0, longs = 0;
        if (*f == '0') pad = *f++;
        while (*f >= '0' && *f <= '9') width = width * 10 + (*f++ - '0');
        for (; *f == 'l' || *f == 'z'; f++) longs++;
        switch (*f) {
        case 's': {
            const char *text = va_arg(args, const char *);
            if (!text) text = "(null)";
            for (; *text; text++) put(&s, *text);
            break;
        }
        case 'c': put(&s, (char)va_arg(args, int)); break;
        case 'd':
        case 'i': {
            long long v = longs ? va_arg(args, long) : va_arg(args, int);
            put_number(&s, v < 0 ? 0ull - (unsigned long long)v : (unsigned long long)v, v < 0, 10,
                       width, pad);
            break;
        }
        case 'u':
        case 'x': {
            unsigned long v = longs ? va_arg(args, unsigned long) : va_arg(args, unsigned);
            put_number(&s, v, false, *f == 'x' ? 16 : 10, width, pad);
            break;
        }
        case 'p':
            put(&s, '0');
            put(&s, 'x');
            put_number(&s, (uintptr_t)va_arg(args, void *), false, 16, width, '0');
            break;
        case '%': put(&s, '%'); break;
        case 0: f--; break;
        default:
            put(&s, '%');
            put(&s, *f);
        }
    }
    if (bytes) *s.at = 0;
    return s.length;
}

size_t print_to(char *to, size_t bytes, const char *f, ...)
{
    va_list args;
    va_start(args, f);
    size_t n = print_to_v(to, bytes, f, args);
    va_end(args);
    return n;
}

void print_fd(int fd, const char *f, ...)
{
    char text[1024];
    va_list args;
    va_start(args, f);
    size_t n = print_to_v(text, sizeof text, f, args);
    va_end(args);
    if (n > sizeof text - 1) n = sizeof text - 1;
    quiet_write(fd, text, n);
}

const char *print_error(int error)
{
    const char *text = strerrordesc_np(error);
    return text ? text : "error";
}
