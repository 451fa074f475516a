/* reclaim_sites.c: open addressing with linear probing, of fixed size, never emptied: what was proven of a place holds for ever.

   Synchronisation.  Places are made by the holder of the collection gate alone, and read by anybody.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/reclaim_sites.h"
#include "heap/caller.h"
#include "heap/heap.h"
#include "heap/reclaim_place.h"
#include "heap/tag.h"
#include "sampler/module.h"
#include "sampler/site.h"
#include "sampler/stack.h"
#include "sampler/tracked.h"

#include <string.h>

#define SLOTS (2 * RECLAIM_SITES)
_Static_assert((SLOTS & (SLOTS - 1)) == 0, "a mask");
_Static_assert(RECLAIM_SITES < RECLAIM_PLACES, "numbers that the heap takes");

struct site {
    uint64_t key; /* where << 32 | number */
    bool library;
    _Atomic uint32_t proof;
};

static struct site sites[RECLAIM_SITES + 1]; /* by number, from 1 */
static uint32_t slots[SLOTS];                /* numbers; 0: free */
static _Atomic uint32_t used;

/* How their files' names begin.  The run-time's own objects: what they allocate they may keep in ways of their own. */
static const char *const of_run_time[] = {"ld-linux", "ld64.so", "ld-2.", "libc.so.", "libc-2.", "libpthread.so.", "libpthread-2.",
                                          "libdl.so.", "libgcc_s.so.", "libgleaner.so"};

/* And libraries that keep blocks by what is no pointer.  The loader tells the name that dlopen was given, which may be that of the link
   without a version; where a package brings its own copy (Python's wheels), a hash stands in the middle. */
static const char *const hide_pointers[] = {
    /* Finds a pattern's elements, and what they lead to, by their distance from the pattern: FcPatternElts in its fcint.h. */
    "libfontconfig.so", "libfontconfig-",
};

static bool begins(const char *name, const char *const *with, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (strncmp(name, with[i], strlen(with[i])) == 0) return true;
    return false;
}

static bool is_library(uint32_t number)
{
    const struct module *m = module_get(number);
    if (!m) return true; /* code that nobody has loaded: just in time */
    const char *slash = strrchr(m->path, '/'), *name = slash ? slash + 1 : m->path;
    return begins(name, of_run_time, sizeof of_run_time / sizeof *of_run_time) ||
           begins(name, hide_pointers, sizeof hide_pointers / sizeof *hide_pointers);
}

static uint32_t find(enum lost_where where, uint32_t of, uint32_t module, bool early)
{
    uint64_t key = (uint64_t)where << 32 | of;
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & (SLOTS - 1);
    for (; slots[at] != 0; at = (at + 1) & (SLOTS - 1))
        if (sites[slots[at]].key == key) return slots[at];
    uint32_t n = atomic_load(&used) + 1;
    if (n > RECLAIM_SITES) return 0;
    sites[n].key = key;
    sites[n].library = early || is_library(module);
    slots[at] = n;
    atomic_store(&used, n);
    return n;
}

static uint32_t of_caller(uint32_t number, uint32_t module, bool early)
{
    return number ? find(LOST_AT_CALLER, number, module, early) : 0;
}

uint32_t reclaim_sites_place(uint32_t tag, const void *block, uint32_t *caller, bool *library)
{
    struct tracked_view v;
    struct stack_frame frame;
    uint32_t place = 0;
    *caller = 0;
    *library = false;
    if (tag_entry(tag) && tracked_get(tag_entry(tag), &v) && v.block == block) {
        uint32_t stack = site_stack(v.site);
        if (!stack_frame(stack, &frame)) return 0;
        bool early = frame.flags & STACK_EARLY;
        place = find(LOST_AT_SITE, stack, frame.module, early);
        *caller = of_caller(caller_intern(frame.address), frame.module, early);
    } else if (tag_caller(tracked_tag(tag))) {
        uint32_t number = tag_caller(tracked_tag(tag));
        uintptr_t address = caller_address(number);
        uint32_t module = address && module_lock_free() ? module_of(address - 1) : 0;
        place = *caller = address ? of_caller(number, module, false) : 0;
    }
    *library = place && sites[place].library;
    return place;
}

void reclaim_sites_vetoed(struct heap_thread_hook *hook, uint32_t place, int proof)
{
    if (place == 0 || place > atomic_load(&used) || proof == PROOF_WRITTEN || proof == PROOF_READ || atomic_load(&sites[place].proof)) return;
    heap_suspend_sampling();
    uint32_t none = 0, stack = stack_capture(NULL);
    heap_resume_sampling();
    atomic_compare_exchange_strong(&sites[place].proof, &none, stack);
}

bool reclaim_sites_get(uint32_t place, struct reclaim_site *to)
{
    if (place == 0 || place > atomic_load(&used)) return false;
    *to = (struct reclaim_site){(enum lost_where)(sites[place].key >> 32), (uint32_t)sites[place].key,
                                atomic_load(&sites[place].proof)};
    return true;
}
