/* profile_holders.c: who holds the sampled blocks, and what is retained by whom: a comment of the profile, in JSON
   (doc/format.md).  Its call stacks are lists of the profile's locations.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/caller.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/proc_text.h"
#include "heap/syscall.h"
#include "heap/tag.h"
#include "sampler/holder_places.h"
#include "sampler/holder_targets.h"
#include "sampler/lost_place.h"
#include "sampler/module.h"
#include "sampler/profile_json.h"
#include "sampler/profile_writer.h"
#include "sampler/site.h"
#include "sampler/stack.h"
#include "sampler/walk_frame.h"

#include <fcntl.h>
#include <string.h>

#define STEPS 48u            /* that are listed of a way */
#define SHARES 65536u        /* that are listed of what is retained */
#define NAMED_MAPPINGS 4096u /* of which the names are looked up */
#define NAME_BYTES (16 * KIB)

struct writing {
    struct writer *w;
    struct protobuf *out, stacks; /* the second: the call stacks, which are found meanwhile */
    struct holders *holders;
    struct holder_places places;
    struct holders_retained retained;
    struct holder_targets targets;
    uint32_t *stack_index, *caller_index; /* by number: index in "stacks" + 1 */
    size_t stack_index_bytes, caller_index_bytes;
    uint32_t stack_limit, callers, listed; /* call stacks so far */
    uint32_t parent;                       /* whose threads they are */
    char name[NAME_BYTES];
};

/* ---- call stacks ---- */

static long new_stack(struct writing *g, uint32_t *index)
{
    profile_put(&g->stacks, g->listed ? ",[" : "[");
    *index = ++g->listed;
    return (long)*index - 1;
}

static long list_stack(struct writing *g, uint32_t stack)
{
    bool any = false;
    if (stack == 0 || stack >= g->stack_limit) return -1;
    if (g->stack_index[stack]) return (long)g->stack_index[stack] - 1;
    long index = new_stack(g, &g->stack_index[stack]);
    for (uint32_t frame = stack, next; frame; frame = next) {
        uint32_t location = profile_table_location(&g->w->table, frame, &next);
        if (location == 0) continue;
        profile_put(&g->stacks, any ? ",%u" : "%u", location);
        any = true;
    }
    profile_put(&g->stacks, "]");
    return index;
}

static long list_caller(struct writing *g, uint32_t caller)
{
    uintptr_t address = caller < g->callers ? caller_address(caller) : 0;
    if (address == 0) return -1;
    if (g->caller_index[caller]) return (long)g->caller_index[caller] - 1;
    uint32_t location = profile_table_caller(&g->w->table, address, holder_module_around(address - 1));
    if (location == 0) return -1;
    long index = new_stack(g, &g->caller_index[caller]);
    profile_put(&g->stacks, "%u]", location);
    return index;
}

/* Where a block was allocated; -1: not known. */
static long stack_of_tag(struct writing *g, uint32_t tag)
{
    struct lost_place place = lost_place_of(tag & ~(TAG_LOST | TAG_IGNORED));
    if (place.where == LOST_AT_SITE) return list_stack(g, site_stack(place.number));
    if (place.where == LOST_AT_CALLER) return list_caller(g, place.number);
    return -1;
}

/* ---- ways ---- */

/* The function in whose frame the word lies. */
static uint32_t frame_location(struct writing *g, uintptr_t at)
{
    const struct holders_thread *t = holders_frames_at(&g->holders->threads, at);
    if (!t || !t->thread->context) return 0;
    uintptr_t pc = walk_frame_of(t->thread->context, t->frames, t->frames_end, at);
    uint32_t module = pc ? holder_module_around(pc - 1) : 0;
    return module ? profile_table_caller(&g->w->table, pc, module) : 0;
}

static void put_root(struct writing *g, const struct holders_direct *root)
{
    uint32_t unit = holders_unit_at(&g->retained, root->at);
    uint64_t at = root->at >= HOLDERS_KERNEL ? root->at - HOLDERS_KERNEL : root->at;
    profile_put(g->out, "{\"area\":%u,\"at\":%lu", g->retained.unit[unit].area, (unsigned long)at);
    const struct holders_thread *t = root->kind == ROOT_STACK ? holders_frames_at(&g->holders->threads, (uintptr_t)root->at) : NULL;
    bool left = t && root->at < t->used;
    if (root->kind == ROOT_REGISTERS) profile_put(g->out, ",\"how\":\"register\"");
    if (left) profile_put(g->out, ",\"how\":\"left\"");
    uint32_t frame = t && !left ? frame_location(g, (uintptr_t)root->at) : 0;
    if (frame) profile_put(g->out, ",\"frame\":%u", frame);
}

static void put_steps(struct writing *g, const struct holders_step *step, size_t n, size_t left_out)
{
    long stack = -1;
    size_t repeat = 0;
    profile_put(g->out, ",\"steps\":[");
    for (size_t i = 0; i < n; i++) {
        bool gap = i == 1 && left_out > 0;
        if (i > 0 && !gap && step[i].bytes == step[i - 1].bytes && step[i].offset == step[i - 1].offset &&
            stack_of_tag(g, step[i].tag) == stack) {
            repeat++;
            continue;
        }
        if (i > 0) profile_put(g->out, ",%lu],", (unsigned long)repeat);
        stack = stack_of_tag(g, step[i].tag);
        repeat = 1;
        profile_put(g->out, "[%ld,%lu,%ld", stack, (unsigned long)step[i].bytes, step[i].offset == SIZE_MAX ? -1L : (long)step[i].offset);
    }
    profile_put(g->out, n > 0 ? ",%lu]]" : "]", (unsigned long)repeat);
    if (left_out) profile_put(g->out, ",\"left_out\":%lu", (unsigned long)left_out);
}

static void put_way(struct writing *g, uint32_t number, bool first)
{
    struct holders_step step[STEPS];
    const struct holders_direct *root;
    size_t left_out, n = holders_way(g->holders, number, step, STEPS, &left_out, &root);
    if (!first) profile_put(g->out, ",");
    put_root(g, root);
    put_steps(g, step, n, left_out);
    if (g->retained.low) profile_put(g->out, ",\"only\":[%u,%u]", g->retained.low[number], g->retained.high[number]);
    profile_put(g->out, "}");
}

static void put_group(struct writing *g, const struct holder_stack *s, bool first)
{
    uint32_t unreached = 0, ignored = 0;
    bool none = true;
    profile_put(g->out, "%s{\"stack\":%ld,\"live\":%u,\"ways\":[", first ? "" : ",", list_stack(g, s->stack), s->live);
    for (uint32_t i = 0; i < s->count; i++) {
        uintptr_t block = g->targets.block[s->first + i];
        uint32_t number = block ? holders_graph_number(&g->holders->graph, block) : HOLDERS_NO_BLOCK;
        if (number != HOLDERS_NO_BLOCK) {
            put_way(g, number, none);
            none = false;
        } else if (heap_is_ignored((const void *)block)) {
            ignored++;
        } else {
            unreached++;
        }
    }
    profile_put(g->out, "],\"unreached\":%u,\"ignored\":%u}", unreached, ignored);
}

/* ---- areas ---- */

static void put_thread(struct writing *g, const struct holders_thread *t)
{
    char path[64], name[32];
    profile_put(g->out, ",\"tid\":%u", t->thread->tid);
    print_to(path, sizeof path, "/proc/%u/task/%u/comm", g->parent, t->thread->tid);
    long fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0L), n = 0;
    if (fd >= 0) n = raw_syscall(SYS_read, fd, name, sizeof name - 1);
    if (fd >= 0) raw_syscall(SYS_close, fd);
    if (n <= 0) return;
    name[name[n - 1] == '\n' ? n - 1 : n] = 0;
    profile_put(g->out, ",\"thread\":");
    profile_json_string(g->out, name);
}

/* The name that /proc/self/maps has; this copy has the same mappings. */
static const char *mapping_name(struct writing *g, uintptr_t address)
{
    struct proc_text text;
    const char *name = NULL;
    if (proc_open(&text, AT_FDCWD, "/proc/self/maps", g->name, sizeof g->name) != 0) return NULL;
    for (const char *line; !name && (line = proc_line(&text));) {
        uint64_t from, to;
        const char *p = proc_hex(line, &from);
        if (*p != '-') continue;
        p = proc_hex(p + 1, &to);
        if (address < from || address >= to) continue;
        for (int field = 0; field < 4; field++) { /* permissions, offset, device, inode */
            p = proc_skip_spaces(p);
            while (*p && *p != ' ') p++;
        }
        name = proc_skip_spaces(p);
    }
    proc_close(&text);
    return name && *name ? name : NULL;
}

static void put_area(struct writing *g, const struct holder_area *a, bool first, uint32_t *named)
{
    static const char *const kinds[] = {"frames", "tls", "module", "mapping", "kernel", "ignored"};
    profile_put(g->out, "%s{\"kind\":\"%s\"", first ? "" : ",", kinds[a->kind]);
    if (a->kind == AREA_FRAMES || a->kind == AREA_TLS) put_thread(g, a->thread);
    if (a->kind == AREA_TLS) profile_put(g->out, ",\"tp\":%lu", (unsigned long)a->thread->tp);
    if (a->kind == AREA_MODULE) {
        const struct module *m = module_get(a->module);
        profile_put(g->out, ",\"mapping\":%u,\"bias\":%lu", a->module, (unsigned long)(m ? m->bias : 0));
        profile_table_use(&g->w->table, a->module);
    }
    if (a->kind == AREA_MAPPING) {
        profile_put(g->out, ",\"from\":%lu,\"to\":%lu", (unsigned long)a->from, (unsigned long)a->to);
        const char *name = (*named)++ < NAMED_MAPPINGS ? mapping_name(g, a->from) : NULL;
        if (name) {
            profile_put(g->out, ",\"name\":");
            profile_json_string(g->out, name);
        }
    }
    profile_put(g->out, "}");
}

/* ---- the whole ---- */

static void put_units(struct writing *g)
{
    const struct holders_retained *r = &g->retained;
    profile_put(g->out, ",\"units\":[");
    for (size_t i = 0; i < r->units; i++) {
        const struct holders_unit *u = &r->unit[i];
        bool kernel = u->from >= HOLDERS_KERNEL;
        profile_put(g->out, "%s[%u,%lu,%lu]", i ? "," : "", u->area, kernel ? 0 : (unsigned long)u->from,
            kernel ? 0 : (unsigned long)(u->to - u->from));
    }
    profile_put(g->out, "]");
    if (!r->low) return;
    profile_put(g->out, ",\"shares\":[");
    for (size_t i = 0; i < r->shares; i++)
        profile_put(g->out, "%s[%u,%u,%lu,%lu]", i ? "," : "", r->share[i].low, r->share[i].high, (unsigned long)r->share[i].blocks,
            (unsigned long)r->share[i].bytes);
    profile_put(g->out, "]");
}

static void put_all(struct writing *g)
{
    const struct holders *h = g->holders;
    uint32_t named = 0;
    profile_put(g->out, ",\"complete\":%s,\"reached\":{\"objects\":%u,\"bytes\":%lu},\"unreached\":{\"objects\":%lu,\"bytes\":%lu}",
        h->complete ? "true" : "false", h->graph.count, (unsigned long)h->graph.bytes,
        (unsigned long)(h->white.blocks - h->graph.count), (unsigned long)(h->white.bytes - h->graph.bytes));
    profile_put(g->out, ",\"groups\":[");
    for (uint32_t i = 0; i < g->targets.stacks && g->targets.stack[i].count; i++) /* those without come last */
        put_group(g, &g->targets.stack[i], i == 0);
    profile_put(g->out, "],\"stacks\":[");
    protobuf_raw(g->out, g->stacks.data, g->stacks.used);
    profile_put(g->out, "],\"areas\":[");
    for (uint32_t i = 0; i < g->places.count; i++) put_area(g, &g->places.area[i], i == 0, &named);
    profile_put(g->out, "]");
    put_units(g);
}

static bool prepare(struct writing *g)
{
    g->stack_limit = stack_id_limit() + 1;
    g->callers = caller_limit() + 1;
    g->stack_index_bytes = round_up(g->stack_limit * sizeof *g->stack_index, OS_PAGE);
    g->caller_index_bytes = round_up(g->callers * sizeof *g->caller_index, OS_PAGE);
    g->stack_index = os_map(g->stack_index_bytes);
    g->caller_index = os_map(g->caller_index_bytes);
    g->places.holders = g->holders;
    if (!g->stack_index || !g->caller_index) return false;
    if (!holders_retained_make(&g->retained, &g->holders->graph, holder_place_unit, &g->places, SHARES)) return false;
    holders_graph_forget_pointers(&g->holders->graph);
    return !g->places.failed && holders_find_ways(g->holders) && holder_targets_find(&g->targets);
}

void profile_holders(struct writer *w, const struct profile_about *about)
{
    static const char mark[] = "#gleaner-holders:";
    const char *why_not = about->no_holders;
    struct writing *g = about->holders ? os_map(round_up(sizeof *g, OS_PAGE)) : NULL;
    protobuf_raw(&w->holders, mark, sizeof mark - 1);
    profile_put(&w->holders, "{\"version\":1");
    if (g) {
        *g = (struct writing){.w = w, .out = &w->holders, .holders = about->holders, .parent = (uint32_t)about->pid};
        if (prepare(g)) put_all(g);
        else why_not = "no memory for the tables";
        holder_targets_free(&g->targets);
        holders_retained_free(&g->retained);
        holder_places_free(&g->places);
        if (g->stack_index) os_unmap(g->stack_index, g->stack_index_bytes);
        if (g->caller_index) os_unmap(g->caller_index, g->caller_index_bytes);
        protobuf_free(&g->stacks);
        os_unmap(g, round_up(sizeof *g, OS_PAGE));
    } else if (!why_not) {
        why_not = "no memory for the tables";
    }
    if (why_not) {
        profile_put(&w->holders, ",\"why_not\":");
        profile_json_string(&w->holders, why_not);
    }
    profile_put(&w->holders, "}");
}
