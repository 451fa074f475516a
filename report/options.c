/* options.c: reading the sizes, durations and numbers of a command line.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Digits with at most one point, by hand: strtod would take "inf", "0x10" and the locale's comma.
   `scale` is applied by the caller, so the parts are kept apart; at most nine decimals count. */
static const char *read_decimal(const char *text, uint64_t *whole, uint64_t *billionths)
{
    *whole = *billionths = 0;
    if (!isdigit((unsigned char)*text)) return NULL;
    for (; isdigit((unsigned char)*text); text++) {
        if (__builtin_mul_overflow(*whole, 10, whole) ||
            __builtin_add_overflow(*whole, (uint64_t)(*text - '0'), whole))
            return NULL;
    }
    if (*text != '.') return text;
    text++;
    if (!isdigit((unsigned char)*text)) return NULL;
    for (uint64_t place = 100000000; isdigit((unsigned char)*text); text++, place /= 10)
        *billionths += place * (uint64_t)(*text - '0');
    return text;
}

static bool scaled(uint64_t whole, uint64_t billionths, uint64_t scale, uint64_t *to)
{
    unsigned __int128 value = (unsigned __int128)whole * scale;
    value += (unsigned __int128)billionths * scale / 1000000000;
    if (value > UINT64_MAX) return false;
    *to = (uint64_t)value;
    return true;
}

bool parse_size(const char *text, uint64_t *bytes)
{
    uint64_t whole, billionths, scale = 1;
    const char *rest = read_decimal(text, &whole, &billionths);
    if (!rest) return false;
    static const char letters[] = "KMGT";
    const char *letter = *rest ? strchr(letters, toupper((unsigned char)*rest)) : NULL;
    if (letter) {
        scale <<= 10 * (letter - letters + 1);
        rest++;
        if (!strncasecmp(rest, "ib", 2))
            rest += 2;
        else if (*rest == 'B' || *rest == 'b')
            rest++;
    } else if (*rest == 'B' || *rest == 'b') {
        rest++;
    }
    if (*rest || (scale == 1 && billionths)) return false;
    return scaled(whole, billionths, scale, bytes);
}

bool parse_duration(const char *text, uint64_t *nanoseconds)
{
    static const struct {
        const char *unit;
        uint64_t nanoseconds;
    } units[] = {{"", 1000000000},         {"ms", 1000000},      {"s", 1000000000},
                 {"m", 60000000000},       {"min", 60000000000}, {"h", 3600000000000},
                 {"d", 24 * 3600000000000}};
    uint64_t whole, billionths;
    const char *rest = read_decimal(text, &whole, &billionths);
    if (!rest) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(rest, units[i].unit))
            return scaled(whole, billionths, units[i].nanoseconds, nanoseconds);
    return false;
}

bool parse_number(const char *text, int64_t least, int64_t most, int64_t *number)
{
    char *end;
    if (!isdigit((unsigned char)*text) && *text != '-') return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) return false;
    *number = value;
    return true;
}
