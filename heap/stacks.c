/* stacks.c: a thread's stack is in use from its stack pointer up, if that is where its stack pointer is.

   It is elsewhere in a coroutine, and on an alternate stack: then the thread's own stack is suspended at a place that
   nobody knows, and all of it counts.  An alternate stack that lies within the own one (an array of main, say) must not
   be mistaken for it.  Stack pointers of other threads that lie in a stack (coroutines that moved) count like its own.
   Everything else that a stack pointer may point into, an unknown stack, a coroutine's, the alternate one, is memory of
   the program like any other, and a root as a whole.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/stacks.h"
#include "heap/registers.h"

static uintptr_t sp_of(const struct cut_thread *t)
{
    return t->context ? registers_sp(t->context) : t->sp;
}

static bool on_alternate(const struct cut_thread *t, uintptr_t sp)
{
    if (!t->context) return false;
    uintptr_t low, high;
    registers_alternate(t->context, &low, &high);
    return sp - low < high - low;
}

static bool own_stack(const struct cut_thread *t, const struct maps *maps, uintptr_t sp,
                      struct cut_range *to)
{
    *to = (struct cut_range){t->stack_low, t->stack_high};
    if (to->from < to->to) return true;
    const struct map *m = maps_find(maps, sp);
    if (!m || m->kind != MAP_KIND_MAIN_STACK) return false;
    *to = (struct cut_range){m->from, m->to};
    return true;
}

void stacks_find(const struct cut *cut, const struct maps *maps, struct ranges *used,
                 struct ranges *unused)
{
    struct ranges pointers = {0};
    for (size_t i = 0; i < cut->threads; i++) {
        uintptr_t sp = sp_of(&cut->thread[i]);
        if (sp) ranges_add(&pointers, sp, sp + 1);
    }
    ranges_settle(&pointers);
    for (size_t i = 0; i < cut->threads && !pointers.incomplete; i++) {
        const struct cut_thread *t = &cut->thread[i];
        struct cut_range own;
        uintptr_t sp = sp_of(t);
        if (!own_stack(t, maps, sp, &own)) continue;
        uintptr_t live = own.from;
        if (sp - own.from < own.to - own.from && !on_alternate(t, sp)) {
            uintptr_t lowest = ranges_from(&pointers, own.from)->from;
            if (lowest < own.from) lowest = own.from;
            live = (lowest - RED_ZONE) & ~(sizeof(uintptr_t) - 1);
            if (live < own.from) live = own.from;
        }
        ranges_add(unused, own.from, live);
        ranges_add(used, live, own.to);
    }
    if (pointers.incomplete) used->incomplete = true;
    ranges_free(&pointers);
    ranges_settle(used);
    ranges_settle(unused);
}
