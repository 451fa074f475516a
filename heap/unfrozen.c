/* unfrozen.c: what a snapshot child did not get.

   A mapping that madvise has marked MADV_DONTFORK is not there in the child; one that it has marked MADV_WIPEONFORK is
   there, empty, and has the flag "wf" in the child's smaps, too.  Reading smaps walks all page tables: that is why
   the child does it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/os.h"
#include "heap/proc_text.h"
#include "heap/roots.h"

#include <fcntl.h>

#define TEXT_BYTES (64 * KIB)

static bool counts(const struct map *m)
{
    return m->kind != MAP_KIND_DEVICE && m->kind != MAP_KIND_KERNEL && m->kind != MAP_KIND_RING;
}

static bool has_flag(const char *flags, const char *flag)
{
    for (; *flags; flags++) {
        if (flags[0] == flag[0] && flags[1] == flag[1] && (flags[2] == ' ' || flags[2] == 0)) return true;
        while (*flags && *flags != ' ') flags++;
        if (!*flags) break;
    }
    return false;
}

/* Adds the child's mappings to `all`, and those that were wiped to `wiped`. */
static bool read_own(struct ranges *all, struct ranges *wiped)
{
    char *buffer = os_map(TEXT_BYTES);
    struct proc_text text;
    bool any_flags = false;
    uint64_t from = 0, to = 0;
    if (!buffer) return false;
    if (proc_open(&text, AT_FDCWD, "/proc/thread-self/smaps", buffer, TEXT_BYTES) == 0) {
        for (const char *line; (line = proc_line(&text));) {
            uint64_t first;
            const char *after = proc_hex(line, &first), *flags = proc_after(line, "VmFlags:");
            if (after > line && *after == '-') {
                from = first;
                proc_hex(after + 1, &to);
                ranges_add(all, from, to);
            } else if (flags) {
                any_flags = true;
                if (has_flag(proc_skip_spaces(flags), "wf")) ranges_add(wiped, from, to);
            }
        }
    }
    bool read = any_flags && !text.failed && !all->incomplete && !wiped->incomplete;
    proc_close(&text);
    os_unmap(buffer, TEXT_BYTES);
    ranges_settle(all);
    ranges_settle(wiped);
    return read;
}

struct output {
    const struct ranges *ours;
    struct cut_range *to;
    size_t room, count;
};

static void store(uintptr_t from, uintptr_t to, void *user)
{
    struct output *o = user;
    if (o->count < o->room) o->to[o->count] = (struct cut_range){from, to};
    o->count++;
}

static void store_but_ours(uintptr_t from, uintptr_t to, void *user)
{
    ranges_each_gap(((struct output *)user)->ours, from, to, store, user);
}

/* Of one mapping of the parent, by ascending address. */
static void compare(const struct map *m, const struct ranges *all, const struct ranges *wiped, struct output *o)
{
    uintptr_t from = m->from;
    const struct cut_range *w = ranges_from(wiped, from);
    for (; w && w < wiped->range + wiped->count && w->from < m->to; w++) {
        uintptr_t begins = w->from > from ? w->from : from, ends = w->to < m->to ? w->to : m->to;
        ranges_each_gap(all, from, begins, store_but_ours, o);
        store_but_ours(begins, ends, o);
        from = ends;
    }
    if (from < m->to) ranges_each_gap(all, from, m->to, store_but_ours, o);
}

size_t roots_unfrozen(const struct maps *parents, const struct cut *cut, struct cut_range *to, size_t room)
{
    struct ranges ours = {0}, all = {0}, wiped = {0};
    struct output o = {.ours = &ours, .to = to, .room = room};
    for (size_t i = 0; i < cut->n_ours; i++) ranges_add(&ours, cut->ours[i].from, cut->ours[i].to);
    ranges_settle(&ours);
    bool known = read_own(&all, &wiped) && !ours.incomplete;
    for (size_t i = 0; known && i < parents->count; i++) {
        if (counts(&parents->map[i])) compare(&parents->map[i], &all, &wiped, &o);
    }
    ranges_free(&ours);
    ranges_free(&all);
    ranges_free(&wiped);
    return known ? o.count : SIZE_MAX;
}

bool roots_unfrozen_known(const struct cut_range *known, size_t n_known, const struct cut_range *range, size_t n)
{
    struct ranges set = {0};
    for (size_t i = 0; i < n_known; i++) ranges_add(&set, known[i].from, known[i].to);
    ranges_settle(&set);
    bool all = !set.incomplete;
    for (size_t i = 0; all && i < n; i++) all = ranges_hold(&set, range[i].from, range[i].to);
    ranges_free(&set);
    return all;
}
