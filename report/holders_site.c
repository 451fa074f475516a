/* holders_site.c: which call stacks a user means.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/holders.h"
#include "report/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_stack_of(const struct held *held, const struct site *site)
{
    const struct site *stack = held->stack;
    if (!stack) return site->stack_note && !strcmp(site->stack_note, "dropped");
    return stack->depth == site->depth && !memcmp(stack->stack, site->stack, site->depth * sizeof *site->stack);
}

/* The n-th of the report. */
static const struct site *numbered(const struct profile *profile, int64_t number)
{
    for (size_t i = 0; i < profile->site_count; i++)
        if (profile->sites[i].figures[MEASURE_LIVE].bytes.value != 0 && --number == 0) return &profile->sites[i];
    return NULL;
}

static bool has_address(const struct held *held, uint64_t address)
{
    for (size_t i = 0; held->stack && i < held->stack->depth; i++)
        if (held->stack->stack[i]->address == address) return true;
    return false;
}

static bool has_function(const struct held *held, const char *name, bool whole)
{
    for (size_t i = 0; held->stack && i < held->stack->step_count; i++) {
        const struct frame *frame = held->stack->steps[i].frame;
        if (!frame || !frame->function) continue;
        if (whole ? !strcmp(frame->function, name) : strstr(frame->function, name) != NULL) return true;
    }
    return false;
}

static int compare_live(const void *a, const void *b)
{
    const struct held *left = *(const struct held *const *)a, *right = *(const struct held *const *)b;
    if (left->live != right->live) return left->live < right->live ? 1 : -1;
    return (left > right) - (left < right);
}

size_t holders_find_site(const struct profile *profile, const char *text, const struct held ***found)
{
    const struct holders *h = profile->holders;
    int64_t number = 0;
    size_t count = 0;
    char *end;
    errno = 0;
    uint64_t address = strtoull(text, &end, 16);
    bool is_address = !strncmp(text, "0x", 2) && text[2] && !*end && !errno;
    bool is_number = parse_number(text, 1, INT32_MAX, &number);
    const struct site *site = is_number ? numbered(profile, number) : NULL;
    *found = need_array(h->held_count, sizeof **found);
    for (int whole = 1; whole >= 0 && !count; whole--)
        for (size_t i = 0; i < h->held_count; i++) {
            const struct held *held = &h->held[i];
            bool is = is_number ? site && is_stack_of(held, site)
                                : is_address ? has_address(held, address) : has_function(held, text, whole);
            if (is) (*found)[count++] = held;
        }
    qsort(*found, count, sizeof **found, compare_live);
    return count;
}
