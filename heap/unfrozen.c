/* unfrozen.c: what a snapshot child did not get.

   A mapping that madvise has marked MADV_DONTFORK is not there in the child; one that it has marked MADV_WIPEONFORK is
   there, empty, and has the flag "wf" in the child's smaps, too.  Reading smaps walks all page tables: that is why
   the child does it.  Both lists ascend, so they are compared while the file is read, without memory: a mapping of
   the child's own would as likely as not lie in the very hole that is looked for.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/proc_text.h"
#include "heap/roots.h"

#include <fcntl.h>

#define TEXT_BYTES (16 * KIB)

struct comparison {
    const struct maps *parents;
    const struct cut *cut;
    size_t next; /* the first of the parent's mappings that may meet what is still to come */
    struct cut_range *to;
    size_t room, count;
};

static bool counts(const struct map *m)
{
    return m->kind != MAP_KIND_DEVICE && m->kind != MAP_KIND_KERNEL && m->kind != MAP_KIND_RING;
}

static bool has_flag(const char *flags, const char *flag)
{
    for (; *flags; flags++) {
        if (flags[0] == flag[0] && flags[1] == flag[1] && (flags[2] == ' ' || flags[2] == 0))
            return true;
        while (*flags && *flags != ' ') flags++;
        if (!*flags) break;
    }
    return false;
}

static void store(struct comparison *c, uintptr_t from, uintptr_t to)
{
    struct cut_range *last = c->count > 0 && c->count <= c->room ? &c->to[c->count - 1] : NULL;
    if (last && last->to == from) {
        last->to = to;
        return;
    }
    if (c->count < c->room) c->to[c->count] = (struct cut_range){from, to};
    c->count++;
}

/* Our ranges are few and in no order. */
static void store_but_ours(struct comparison *c, uintptr_t from, uintptr_t to)
{
    while (from < to) {
        uintptr_t next = to, within = 0;
        for (size_t i = 0; i < c->cut->n_ours; i++) {
            const struct cut_range *o = &c->cut->ours[i];
            if (o->from <= from && from < o->to) within = o->to;
            if (o->from > from && o->from < next) next = o->from;
        }
        if (within) {
            from = within;
        } else {
            store(c, from, next);
            from = next;
        }
    }
}

/* What the parent has in [from, to), the child does not have. */
static void missing(struct comparison *c, uintptr_t from, uintptr_t to)
{
    const struct maps *p = c->parents;
    while (c->next < p->count && p->map[c->next].to <= from) c->next++;
    for (size_t i = c->next; i < p->count && p->map[i].from < to; i++) {
        const struct map *m = &p->map[i];
        if (counts(m)) store_but_ours(c, m->from > from ? m->from : from, m->to < to ? m->to : to);
    }
}

size_t roots_unfrozen(const struct maps *parents, const struct cut *cut, struct cut_range *to,
                      size_t room)
{
    struct comparison c = {.parents = parents, .cut = cut, .to = to, .room = room};
    char buffer[TEXT_BYTES];
    struct proc_text text;
    bool any_flags = false;
    uint64_t from = 0, until = 0;
    if (proc_open(&text, AT_FDCWD, "/proc/thread-self/smaps", buffer, sizeof buffer) != 0)
        return SIZE_MAX;
    for (const char *line; (line = proc_line(&text));) {
        uint64_t first;
        const char *after = proc_hex(line, &first), *flags = proc_after(line, "VmFlags:");
        if (after > line && *after == '-') {
            missing(&c, until, first);
            from = first;
            proc_hex(after + 1, &until);
        } else if (flags) {
            any_flags = true;
            if (has_flag(proc_skip_spaces(flags), "wf")) missing(&c, from, until);
        }
    }
    missing(&c, until, UINTPTR_MAX);
    proc_close(&text);
    return any_flags && !text.failed ? c.count : SIZE_MAX;
}

bool roots_unfrozen_known(const struct cut_range *known, size_t n_known,
                          const struct cut_range *range, size_t n)
{
    struct ranges set = {0};
    for (size_t i = 0; i < n_known; i++) ranges_add(&set, known[i].from, known[i].to);
    ranges_settle(&set);
    bool all = !set.incomplete;
    for (size_t i = 0; all && i < n; i++) all = ranges_hold(&set, range[i].from, range[i].to);
    ranges_free(&set);
    return all;
}
