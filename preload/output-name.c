/* output-name.c: the names of profile files, see output-name.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/output-name.h"
#include "heap/print.h"

struct name {
    char *to;
    size_t bytes, length;
};

static void put(struct name *n, char c)
{
    if (n->length + 1 < n->bytes) n->to[n->length] = c;
    n->length++;
}

static void put_text(struct name *n, const char *s, bool part)
{
    for (; *s; s++)
        put(n, part && (*s == '/' || (unsigned char)*s < 0x20 || *s == 0x7f) ? '_' : *s);
}

static void put_number(struct name *n, uint64_t v)
{
    char digits[24];
    print_to(digits, sizeof digits, "%lu", (unsigned long)v);
    put_text(n, digits, false);
}

size_t output_name(char *to, size_t bytes, const char *from, const struct output_facts *f)
{
    struct name n = {to, bytes, 0};
    bool has_process = false;
    for (; *from; from++) {
        if (*from != '%') {
            put(&n, *from);
            continue;
        }
        switch (*++from) {
        case 'p':
            has_process = true;
            put_number(&n, (uint64_t)f->process);
            break;
        case 'e':
            put_text(&n, f->executable, true);
            break;
        case 't':
            put_number(&n, f->seconds);
            break;
        case 'n':
            put_number(&n, f->number);
            break;
        case 'h':
            put_text(&n, f->host, true);
            break;
        case '%':
            put(&n, '%');
            break;
        case 0: /* a single % at the end stands for itself */
            put(&n, '%');
            from--;
            break;
        default: /* so do unknown directives */
            put(&n, '%');
            put(&n, *from);
        }
    }
    if (!f->first && !has_process) {
        put(&n, '.');
        put_number(&n, (uint64_t)f->process);
    }
    if (bytes > 0) to[n.length < bytes ? n.length : bytes - 1] = 0;
    return n.length;
}
