/* lsan_options.c: the syntax is that of sanitizer_flag_parser.cpp in compiler-rt.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/lsan_options.h"
#include "heap/print.h"

#include <string.h>

#define COMPLAINTS 8

struct reader {
    const char *where;
    void (*complain)(const char *);
    unsigned complaints;
};

struct piece { /* of the text */
    const char *at;
    size_t bytes;
};

static bool is(struct piece p, const char *word)
{
    return p.bytes == strlen(word) && memcmp(p.at, word, p.bytes) == 0;
}

static bool read_yes(struct piece v, bool *to)
{
    bool yes = is(v, "1") || is(v, "yes") || is(v, "true");
    if (!yes && !is(v, "0") && !is(v, "no") && !is(v, "false")) return false;
    *to = yes;
    return true;
}

static bool read_number(struct piece v, uint32_t most, uint32_t *to)
{
    uint64_t n = 0;
    if (v.bytes == 0 || v.bytes > 10) return false;
    for (size_t i = 0; i < v.bytes; i++) {
        if (v.at[i] < '0' || v.at[i] > '9') return false;
        n = 10 * n + (uint64_t)(v.at[i] - '0');
    }
    if (n > most) return false;
    *to = (uint32_t)n;
    return true;
}

static bool take(struct lsan_options *o, struct piece name, struct piece v)
{
    uint32_t n;
    if (is(name, "detect_leaks")) return read_yes(v, &o->detect_leaks);
    if (is(name, "print_suppressions")) return read_yes(v, &o->print_suppressions);
    if (is(name, "report_objects")) return read_yes(v, &o->report_objects);
    if (is(name, "max_leaks")) return read_number(v, UINT32_MAX, &o->max_leaks);
    if (is(name, "exitcode")) {
        if (!read_number(v, 255, &n)) return false;
        o->has_exitcode = true;
        o->exitcode = (int)n;
    }
    if (is(name, "suppressions")) {
        if (v.bytes >= sizeof o->suppressions) return false;
        memcpy(o->suppressions, v.at, v.bytes);
        o->suppressions[v.bytes] = 0;
    }
    return true;
}

/* What the user wrote, cut and made printable. */
struct quoted {
    char text[64];
};

static struct quoted quote(struct piece p)
{
    struct quoted q;
    size_t n = p.bytes < sizeof q.text - 1 ? p.bytes : sizeof q.text - 1;
    for (size_t i = 0; i < n; i++) q.text[i] = p.at[i] >= 0x20 && p.at[i] < 0x7f ? p.at[i] : '?';
    q.text[n] = 0;
    return q;
}

static void complain(struct reader *r, const char *what, struct piece name, struct piece value)
{
    char line[256];
    if (!r->complain || r->complaints > COMPLAINTS) return;
    if (r->complaints++ == COMPLAINTS)
        print_to(line, sizeof line, "gleaner: %s: more of this is not shown", r->where);
    else
        print_to(line, sizeof line, "gleaner: %s: %s '%s=%s'; skipped", r->where, what,
                 quote(name).text, quote(value).text);
    r->complain(line);
}

static bool separates(char c)
{
    return c == ' ' || c == ',' || c == ':' || c == '\n' || c == '\t' || c == '\r';
}

void lsan_options_default(struct lsan_options *to)
{
    memset(to, 0, sizeof *to);
    to->detect_leaks = to->print_suppressions = true;
}

void lsan_options_parse(struct lsan_options *to, const char *text, size_t bytes, const char *where,
                        void (*tell)(const char *))
{
    struct reader r = {where, tell, 0};
    const char *zero = bytes ? memchr(text, 0, bytes) : NULL;
    const char *at = text, *end = zero ? zero : text + bytes;
    while (at < end) {
        if (separates(*at)) {
            at++;
            continue;
        }
        struct piece name = {at, 0}, value;
        while (at < end && *at != '=' && !separates(*at)) at++;
        name.bytes = (size_t)(at - name.at);
        value = (struct piece){at, 0};
        if (at == end || *at != '=') {
            complain(&r, "no value:", name, value);
            continue;
        }
        at++;
        if (at < end && (*at == '\'' || *at == '"')) {
            char quotation = *at++;
            value.at = at;
            while (at < end && *at != quotation) at++;
            value.bytes = (size_t)(at - value.at);
            if (at == end) {
                complain(&r, "a quotation without end:", name, value);
                return;
            }
            at++;
        } else {
            value.at = at;
            while (at < end && !separates(*at)) at++;
            value.bytes = (size_t)(at - value.at);
        }
        if (!take(to, name, value)) complain(&r, "bad value:", name, value);
    }
}
