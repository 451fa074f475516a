/* holder_text.c: a holder in words.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/holders.h"
#include "report/print_site.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* "thread 123 (name)" */
static void print_thread(FILE *to, const struct area *area)
{
    fprintf(to, "thread %" PRId64, area->tid);
    if (area->thread && *area->thread) fprintf(to, " (%s)", area->thread);
}

/* Which words of a variable they are, from the first to the last. */
static void print_offsets(FILE *to, const struct unit *unit)
{
    uint64_t first = unit->at - unit->variable.start, last = first + unit->bytes - sizeof(uint64_t);
    if (unit->bytes > sizeof(uint64_t))
        fprintf(to, " at +%" PRIu64 " to +%" PRIu64, first, last);
    else if (first)
        fprintf(to, " at +%" PRIu64, first);
}

static void print_module(FILE *to, const struct unit *unit)
{
    if (unit->variable.name) {
        fprintf(to, "variable `%s` in %s", unit->variable.name, unit->area->module->name);
        print_offsets(to, unit);
    } else {
        fprintf(to, "data of %s (at its address 0x%" PRIx64 ")", unit->area->module->name, unit->at - unit->area->bias);
    }
}

static void print_thread_local(FILE *to, const struct unit *unit)
{
    const struct area *area = unit->area;
    if (unit->variable.name) {
        fprintf(to, "thread-local variable `%s` of ", unit->variable.name);
        print_thread(to, area);
        print_offsets(to, unit);
    } else {
        fputs("thread-local memory of ", to);
        print_thread(to, area);
        bool behind = unit->at >= area->tp;
        fprintf(to, ", %" PRIu64 " bytes %s its thread pointer", behind ? unit->at - area->tp : area->tp - unit->at,
                behind ? "behind" : "before");
    }
}

static void print_frame(FILE *to, const struct unit *unit, const struct site *frame)
{
    char name[512];
    if (frame && frame->step_count) {
        step_name(&frame->steps[0], name, sizeof name);
        fprintf(to, "a frame of %s on ", name);
    }
    fputs("the stack of ", to);
    print_thread(to, unit->area);
}

static void print_mapping(FILE *to, const struct unit *unit)
{
    const struct area *area = unit->area;
    if (area->name)
        fprintf(to, "mapping %s", area->name);
    else
        fputs("an anonymous mapping", to);
    fprintf(to, " (0x%" PRIx64 "-0x%" PRIx64 ")", area->from, area->to);
    if (unit->at > area->from) fprintf(to, " at +%" PRIu64, unit->at - area->from);
}

/* As heap/cut.h has it. */
static void print_kernel(FILE *to, const struct unit *unit)
{
    uint64_t at = unit->at;
    enum { EPOLL = 1, TIMER = 2, DESCRIPTOR_BITS = 24 };
    const uint64_t descriptor = (1 << DESCRIPTOR_BITS) - 1;
    if ((at & 7) == EPOLL) {
        fprintf(to, "the kernel: epoll descriptor %" PRIu64, at >> 3 & descriptor);
        if (unit->bytes <= sizeof at) /* one of its registrations */
            fprintf(to, ", data of descriptor %" PRIu64, at >> (3 + DESCRIPTOR_BITS) & descriptor);
    } else {
        fputs((at & 7) == TIMER ? "the kernel: a timer" : "the kernel: epoll or a timer", to);
    }
}

char *holder_text(const struct unit *unit, enum holder_how how, const struct site *frame)
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!to) return need_copy("");
    switch (unit->area->kind) {
    case AREA_FRAMES:
        if (how != HOW_WORD) {
            fputs(how == HOW_REGISTER ? "a register of " : "what a call has left, that returned, on the stack of ", to);
            print_thread(to, unit->area);
        } else {
            print_frame(to, unit, frame);
        }
        break;
    case AREA_TLS:
        print_thread_local(to, unit);
        break;
    case AREA_MODULE:
        print_module(to, unit);
        break;
    case AREA_MAPPING:
        print_mapping(to, unit);
        break;
    case AREA_KERNEL:
        print_kernel(to, unit);
        break;
    default:
        fputs("a block that the program told Gleaner to ignore", to);
    }
    fclose(to);
    return text;
}
