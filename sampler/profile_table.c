/* profile_table.c: the same call is one node of the stack tree for each way that leads to it, but
   one location of the profile.  So nodes are mapped to locations by a hash of address and module,
   and each node remembers the answer.  All tables have their final size at the start: the tree
   tells how many nodes there can be, and pages that are not needed are never touched.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/profile_table.h"
#include "heap/os.h"
#include "sampler/module.h"
#include "sampler/stack.h"

static size_t pages(size_t bytes)
{
    return round_up(bytes, OS_PAGE);
}

bool profile_table_start(struct profile_table *t, uint32_t more)
{
    *t = (struct profile_table){.frames = stack_id_limit()};
    t->room = t->frames + more;
    for (t->hash_size = 1024; t->hash_size < t->room * (uint64_t)2; t->hash_size *= 2) {
    }
    t->of = os_map(pages(t->room * sizeof *t->of));
    t->hash = os_map(pages(t->hash_size * sizeof *t->hash));
    t->by_frame = os_map(pages(t->frames * sizeof *t->by_frame));
    t->used = os_map(pages(MODULE_MAX / 8 + 8));
    if (t->of && t->hash && t->by_frame && t->used) return true;
    profile_table_end(t);
    return false;
}

void profile_table_end(struct profile_table *t)
{
    if (t->of) os_unmap(t->of, pages(t->room * sizeof *t->of));
    if (t->hash) os_unmap(t->hash, pages(t->hash_size * sizeof *t->hash));
    if (t->by_frame) os_unmap(t->by_frame, pages(t->frames * sizeof *t->by_frame));
    if (t->used) os_unmap(t->used, pages(MODULE_MAX / 8 + 8));
    *t = (struct profile_table){0};
}

static uint32_t find(struct profile_table *t, uint64_t address, uint32_t module)
{
    uint32_t at = (uint32_t)((address + module) * 0x9e3779b97f4a7c15u >> 32) & (t->hash_size - 1);
    for (;; at = (at + 1) & (t->hash_size - 1)) {
        uint32_t id = t->hash[at];
        if (id == 0) break;
        if (t->of[id - 1].address == address && t->of[id - 1].module == module) return id;
    }
    if (t->count == t->room) return 0;
    t->of[t->count] = (struct profile_location){address, module};
    t->used[module / 64] |= (uint64_t)1 << module % 64;
    return t->hash[at] = ++t->count;
}

uint32_t profile_table_location(struct profile_table *t, uint32_t frame, uint32_t *parent)
{
    struct stack_frame f;
    *parent = 0;
    if (frame >= t->frames || !stack_frame(frame, &f)) return 0;
    *parent = f.parent;
    uint32_t *known = &t->by_frame[frame];
    return *known ? *known : (*known = find(t, f.address - 1, f.module));
}

uint32_t profile_table_caller(struct profile_table *t, uintptr_t address, uint32_t module)
{
    return find(t, address - 1, module);
}

void profile_table_use(struct profile_table *t, uint32_t module)
{
    if (module <= MODULE_MAX) t->used[module / 64] |= (uint64_t)1 << module % 64;
}

bool profile_table_uses(const struct profile_table *t, uint32_t module)
{
    return t->used[module / 64] >> module % 64 & 1;
}
