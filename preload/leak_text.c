/* leak_text.c: lost blocks by call stack.

   1. Data.  One array of groups, first one for each record of lost_sites.h, then merged by call stack and kind.  A place is
      one word: where it is known from, and the stack's or caller's number.  Neither it nor the list of objects holds an address of
      a block as it is (the objects' are inverted), or a collection that another thread runs would find them here.
   2. Suppressions.  LeakSanitizer takes the blocks of a suppressed stack for reachable and looks again, so that what they alone
      lead to is not reported either.  Here an indirectly lost block names the place of the block that it hangs on, and is
      hidden with it.  The table of used suppressions counts, as there, what matched by its own stack.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/leak_text.h"
#include "heap/caller.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/quiet_write.h"
#include "heap/sort.h"
#include "heap/syscall.h"
#include "sampler/exported.h"
#include "sampler/lost_sites.h"
#include "sampler/module.h"
#include "sampler/site.h"
#include "sampler/stack.h"

#include <errno.h>
#include <time.h>

#define NAME 1024        /* longest name of a function that is looked at */
#define PATIENCE_MS 1000 /* for a reader of the text that is slow */

/* Text, in few writes. */

struct text {
    int fd;
    bool broken;
    size_t n;
    char buffer[4096];
};

static void flush(struct text *t)
{
    const struct timespec ms = {0, 1000000};
    unsigned waits = 0;
    for (size_t at = 0; at < t->n && !t->broken;) {
        long r = quiet_write(t->fd, t->buffer + at, t->n - at);
        if (r > 0)
            at += (size_t)r;
        else if (r == -EAGAIN && waits++ < PATIENCE_MS)
            raw_syscall(SYS_nanosleep, &ms, NULL);
        else if (r != -EINTR)
            t->broken = true;
    }
    t->n = 0;
}

static void put(struct text *t, const char *format, ...) PRINTF_LIKE(2, 3);
static void put(struct text *t, const char *format, ...)
{
    va_list args;
    for (int tries = 0; tries < 2; tries++) {
        va_start(args, format);
        size_t room = sizeof t->buffer - t->n, n = print_to_v(t->buffer + t->n, room, format, args);
        va_end(args);
        if (n < room || t->n == 0) {
            t->n += n < room ? n : room - 1;
            return;
        }
        flush(t);
    }
}

/* Places. */

#define PLACE(where, number) ((uint64_t)(where) << 32 | (number))
#define NOWHERE PLACE(LOST_NOWHERE, 0)

static uint64_t place_of(struct lost_place p)
{
    if (p.where == LOST_AT_CALLER && p.number != 0) return PLACE(LOST_AT_CALLER, p.number);
    uint32_t stack = p.where == LOST_AT_SITE ? site_stack(p.number) : 0;
    return stack != 0 ? PLACE(LOST_AT_SITE, stack) : NOWHERE;
}

/* The frame of a place, the innermost first; false at its end.  Of a caller there is one. */
struct walk {
    uint64_t place;
    uint32_t frame; /* of a stack: the next */
    bool done;
};

struct walk_frame {
    uintptr_t address; /* of the call */
    uint32_t module;
};

static struct walk walk_from(uint64_t place)
{
    return (struct walk){place, (uint32_t)place, false};
}

static bool walk_next(struct walk *w, struct walk_frame *to)
{
    struct stack_frame f;
    switch ((enum lost_where)(w->place >> 32)) {
    case LOST_AT_SITE:
        if (!stack_frame(w->frame, &f)) return false;
        w->frame = f.parent;
        *to = (struct walk_frame){f.address - 1, f.module};
        return true;
    case LOST_AT_CALLER:
        if (w->done) return false;
        w->done = true;
        to->address = caller_address((uint32_t)w->place) - 1;
        to->module = module_lock_free() ? module_of(to->address) : 0;
        return true;
    case LOST_NOWHERE:
        break;
    }
    return false;
}

/* Groups. */

struct group {
    uint64_t place;
    uint64_t head; /* of indirectly lost blocks: place of what they hang on */
    uint64_t blocks, bytes, low, high;
    int32_t match; /* number of its own suppression, or -1 */
    bool indirect, estimated, hidden;
};
_Static_assert(sizeof(struct group) <= SORT_MOST, "sort_in_place can move it");

struct object {
    uint64_t place;
    uintptr_t inverted; /* ~address */
    size_t bytes;
    bool indirect;
};

struct leaks {
    struct suppressions *suppressions;
    struct exported *names;
    /* What matched from a frame outwards, by its number (stacks share their outer frames): 0 not looked for, 1 nothing, else a
       pattern's number + 2.  NULL without memory. */
    uint32_t *matched;
    uint32_t matched_room;
    struct group *group;
    size_t groups, room, group_bytes;
    struct object *object;
    size_t objects, object_room, object_bytes;
    uint64_t possible, possible_bytes;
};

static void count_site(const struct lost_site *s, void *user)
{
    struct leaks *l = user;
    l->room++;
}

static void add_site(const struct lost_site *s, void *user)
{
    struct leaks *l = user;
    if (s->kind == LOST_POSSIBLE) {
        l->possible += s->objects;
        l->possible_bytes += s->bytes;
        return;
    }
    if (l->groups == l->room) return;
    l->group[l->groups++] = (struct group){
        .place = place_of(s->place),
        .head = s->kind == LOST_INDIRECT ? place_of(s->head) : NOWHERE,
        .blocks = s->objects,
        .bytes = s->bytes,
        .low = s->estimated ? s->bytes_limits.low : s->bytes,
        .high = s->estimated ? s->bytes_limits.high : s->bytes,
        .match = -1,
        .indirect = s->kind == LOST_INDIRECT,
        .estimated = s->estimated,
    };
}

static bool by_place(const void *one, const void *other)
{
    const struct group *a = one, *b = other;
    return a->place != b->place ? a->place < b->place : a->indirect < b->indirect;
}

static bool by_weight(const void *one, const void *other)
{
    const struct group *a = one, *b = other;
    if (a->indirect != b->indirect) return b->indirect;
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->place < b->place;
}

/* Makes the groups of one place and kind one. */
static void merge(struct leaks *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->groups; i++) {
        struct group *from = &l->group[i], *to = n > 0 ? &l->group[n - 1] : NULL;
        if (!to || to->place != from->place || to->indirect != from->indirect) {
            l->group[n++] = *from;
            continue;
        }
        to->blocks += from->blocks;
        to->bytes += from->bytes;
        to->low += from->low;
        to->high += from->high;
        to->estimated |= from->estimated;
    }
    l->groups = n;
}

/* Suppressions. */

static int match_frame(struct leaks *l, const struct walk_frame *f)
{
    const struct module *m = module_get(f->module);
    char name[NAME];
    exported_name(l->names, f->module, f->address, name, sizeof name);
    return suppressions_match(l->suppressions, name, NULL, m ? m->path : NULL);
}

static uint32_t *matched_at(struct leaks *l, const struct walk *w)
{
    bool is_frame = w->place >> 32 == LOST_AT_SITE;
    return is_frame && w->frame < l->matched_room ? &l->matched[w->frame] : NULL;
}

/* The first pattern that matches, from the innermost frame outwards. */
static int match(struct leaks *l, uint64_t place)
{
    struct walk w = walk_from(place);
    struct walk_frame f;
    int found = -1;
    for (;;) {
        uint32_t *known = matched_at(l, &w);
        if (known && *known != 0) {
            found = (int)*known - 2;
            break;
        }
        if (!walk_next(&w, &f)) break;
        found = match_frame(l, &f);
        if (found >= 0) break;
    }
    /* The frames before that matched nothing by themselves. */
    uint32_t end = w.frame;
    for (w = walk_from(place); matched_at(l, &w) && w.frame != end; walk_next(&w, &f))
        *matched_at(l, &w) = (uint32_t)(found + 2);
    return found;
}

/* What matched at a place that the groups, by ascending place, know; else it is looked for. */
static int match_known(struct leaks *l, uint64_t place)
{
    size_t low = 0, high = l->groups;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->group[middle].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l->groups && l->group[low].place == place ? l->group[low].match : match(l, place);
}

static void hide(struct leaks *l)
{
    if (suppressions_total(l->suppressions) == 0) return;
    suppressions_forget(l->suppressions);
    uint32_t frames = stack_id_limit();
    size_t bytes = round_up(frames * sizeof *l->matched, OS_PAGE);
    if ((l->matched = os_map(bytes))) l->matched_room = frames;
    for (size_t i = 0; i < l->groups; i++) {
        struct group *g = &l->group[i];
        bool seen = i > 0 && g[-1].place == g->place;
        g->match = seen ? g[-1].match : match(l, g->place);
        suppressions_count(l->suppressions, g->match, g->blocks, g->bytes);
    }
    size_t kept = 0;
    for (size_t i = 0; i < l->groups; i++) {
        struct group *g = &l->group[i];
        g->hidden =
            g->match >= 0 || (g->indirect && g->head != NOWHERE && match_known(l, g->head) >= 0);
    }
    for (size_t i = 0; i < l->groups; i++)
        if (!l->group[i].hidden) l->group[kept++] = l->group[i];
    l->groups = kept;
    if (l->matched) os_unmap(l->matched, bytes);
}

/* Objects. */

static void count_object(const struct lost_view *v, void *user)
{
    struct leaks *l = user;
    l->object_room++;
}

static void add_object(const struct lost_view *v, void *user)
{
    struct leaks *l = user;
    if (v->kind == LOST_POSSIBLE || l->objects == l->object_room) return;
    l->object[l->objects++] = (struct object){
        .place = place_of(lost_place_of(v->tag)),
        .inverted = ~(uintptr_t)v->block,
        .bytes = v->given,
        .indirect = v->kind == LOST_INDIRECT,
    };
}

static int compare_object(const struct object *a, uint64_t place, bool indirect)
{
    if (a->place != place) return a->place < place ? -1 : 1;
    return (int)a->indirect - (int)indirect;
}

static bool by_group(const void *one, const void *other)
{
    const struct object *a = one, *b = other;
    int c = compare_object(a, b->place, b->indirect);
    return c != 0 ? c < 0 : a->inverted > b->inverted;
}

static void find_objects(struct leaks *l)
{
    lost_each(count_object, l);
    l->object_bytes = round_up(l->object_room * sizeof *l->object, OS_PAGE);
    l->object = l->object_bytes ? os_map(l->object_bytes) : NULL;
    if (!l->object) return;
    lost_each(add_object, l);
    sort_in_place(l->object, l->objects, sizeof *l->object, by_group);
}

static void put_objects(struct text *t, const struct leaks *l, const struct group *g)
{
    size_t low = 0, high = l->objects;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_object(&l->object[middle], g->place, g->indirect) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    put(t, "Objects leaked above:\n");
    for (; low < l->objects && compare_object(&l->object[low], g->place, g->indirect) == 0; low++)
        put(t, "0x%lx (%zu bytes)\n", (unsigned long)~l->object[low].inverted,
            l->object[low].bytes);
    put(t, "\n");
}

/* The text. */

static void put_frames(struct text *t, const struct leaks *l, uint64_t place)
{
    struct walk w = walk_from(place);
    struct walk_frame f;
    char name[NAME];
    unsigned i = 0;
    for (; walk_next(&w, &f); i++) {
        const struct module *m = module_get(f.module);
        exported_name(l->names, f.module, f.address, name, sizeof name);
        put(t, "    #%u 0x%lx", i, (unsigned long)f.address);
        if (name[0]) put(t, " in %s", name);
        if (m) put(t, " (%s+0x%lx)", m->path, (unsigned long)(f.address - m->bias));
        put(t, "\n");
    }
    if (i == 0)
        put(t, "    (no call stack recorded: sample:all takes every block's, leaks:exit its "
               "caller)\n");
    else if (place >> 32 == LOST_AT_CALLER)
        put(t, "    (the caller only: sample:all records call stacks)\n");
}

static void put_group(struct text *t, const struct leaks *l, const struct group *g, bool objects)
{
    put(t, "%s leak of %lu byte(s) in %lu object(s) ", g->indirect ? "Indirect" : "Direct",
        (unsigned long)g->bytes, (unsigned long)g->blocks);
    if (g->estimated)
        put(t, "(estimated; 95 %%: %lu to %lu bytes) ", (unsigned long)g->low,
            (unsigned long)g->high);
    put(t, "allocated from:\n");
    put_frames(t, l, g->place);
    put(t, "\n");
    if (objects) put_objects(t, l, g);
}

static void put_suppressions(struct text *t, const struct suppressions *s)
{
    static const char line[] = "-----------------------------------------------------";
    bool any = false;
    for (unsigned i = 0; i < suppressions_total(s); i++) {
        uint64_t blocks, bytes;
        const char *pattern = suppressions_pattern(s, i, &blocks, &bytes);
        if (blocks == 0) continue;
        if (!any) put(t, "%s\nSuppressions used:\n  count      bytes template\n", line);
        any = true;
        put(t, "%7lu %10lu %s\n", (unsigned long)blocks, (unsigned long)bytes, pattern);
    }
    if (any) put(t, "%s\n\n", line);
}

static void put_all(struct leaks *l, const struct leak_text_options *o,
                    const struct leak_totals *sum)
{
    struct text t = {.fd = o->fd};
    bool any = l->groups > 0 || sum->unrecorded > 0;
    if (any) {
        if (o->objects) find_objects(l);
        sort_in_place(l->group, l->groups, sizeof *l->group, by_weight);
        put(&t,
            "\n=================================================================\n"
            "==%d==ERROR: Gleaner: detected memory leaks\n\n",
            (int)raw_syscall(SYS_getpid, 0));
        size_t shown = o->most > 0 && o->most < l->groups ? o->most : l->groups;
        if (shown < l->groups) put(&t, "The %zu top leak(s):\n", shown);
        for (size_t i = 0; i < shown; i++) put_group(&t, l, &l->group[i], o->objects);
        if (shown < l->groups) put(&t, "Omitting %zu more leak(s).\n\n", l->groups - shown);
        if (sum->unrecorded > 0)
            put(&t, "Lost, but there was no memory to record where from: %lu byte(s) in %lu object(s)\n\n",
                (unsigned long)sum->unrecorded_bytes, (unsigned long)sum->unrecorded);
    }
    if (o->show_suppressions) put_suppressions(&t, l->suppressions);
    if (any) {
        struct lost_totals now;
        lost_totals(&now);
        if (l->possible > 0)
            put(&t, "Possibly lost, not counted: %lu byte(s) in %lu object(s)\n",
                (unsigned long)l->possible_bytes, (unsigned long)l->possible);
        put(&t, "Called lost so far, and used by the program since: %lu object(s)\n",
            (unsigned long)lost_used(&now));
        put(&t, "SUMMARY: Gleaner: %lu byte(s) leaked in %lu allocation(s).\n",
            (unsigned long)(sum->bytes + sum->unrecorded_bytes), (unsigned long)(sum->blocks + sum->unrecorded));
    }
    flush(&t);
}

bool leak_text(struct suppressions *suppressions, const struct leak_text_options *options,
               struct leak_totals *sum)
{
    struct leaks l = {.suppressions = suppressions};
    struct lost_totals totals;
    lost_totals(&totals);
    *sum = (struct leak_totals){.unrecorded = totals.unrecorded, .unrecorded_bytes = totals.unrecorded_bytes};
    struct lost_sites *sites = lost_sites_make();
    if (!sites) return false;
    lost_sites_each(sites, count_site, &l);
    l.group_bytes = round_up(l.room * sizeof *l.group, OS_PAGE);
    l.group = l.group_bytes ? os_map(l.group_bytes) : NULL;
    if (l.group) lost_sites_each(sites, add_site, &l);
    lost_sites_free(sites);
    if (!l.group && l.room > 0) return false;
    if (!l.group && sum->unrecorded == 0) return true;
    l.names = exported_open();
    sort_in_place(l.group, l.groups, sizeof *l.group, by_place);
    hide(&l);
    merge(&l);
    for (size_t i = 0; i < l.groups; i++) {
        sum->blocks += l.group[i].blocks;
        sum->bytes += l.group[i].bytes;
    }
    if (options->fd >= 0) put_all(&l, options, sum);
    exported_close(l.names);
    if (l.object) os_unmap(l.object, l.object_bytes);
    if (l.group) os_unmap(l.group, l.group_bytes);
    return true;
}
