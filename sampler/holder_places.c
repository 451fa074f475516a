/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/holder_places.h"
#include "heap/grow.h"
#include "heap/window.h"
#include "sampler/module.h"

#define FIRST_AREAS 256

uint32_t holder_module_around(uintptr_t address)
{
    struct module_object object;
    if (module_lock_free()) return module_object(address, &object) ? module_of(address) : 0;
    for (uint32_t number = module_count(); number > 0; number--) {
        const struct module *m = module_get(number);
        if (m && address >= m->start && address < m->end) return number;
    }
    return 0;
}

static bool same(const struct holder_area *a, const struct holder_area *b)
{
    return a->kind == b->kind && a->thread == b->thread && a->module == b->module && a->from == b->from && a->to == b->to;
}

/* Areas come by ascending place, so one that was there before was there just before; but for modules, in whose segments others may
   lie, and which are few. */
static uint32_t area_index(struct holder_places *p, struct holder_area area)
{
    if (p->count && same(&p->area[p->latest], &area)) return p->latest;
    for (uint32_t i = p->count; area.kind != AREA_MAPPING && i-- > 0 && p->count - i < 4096;)
        if (same(&p->area[i], &area)) return p->latest = i;
    if (p->count == p->room) {
        void *more = grow(p->area, p->count, &p->room, sizeof *p->area, FIRST_AREAS);
        if (!more) {
            p->failed = true;
            return 0;
        }
        p->area = more;
    }
    p->area[p->count] = area;
    return p->latest = p->count++;
}

/* Where the next thread's memory begins, from an address on that is in no thread's. */
static uintptr_t next_thread(const struct holders_threads *t, uintptr_t address)
{
    uintptr_t next = UINTPTR_MAX;
    for (size_t i = 0; i < t->count; i++) {
        if (t->by_frames[i].frames > address && t->by_frames[i].frames < next) next = t->by_frames[i].frames;
        if (t->by_tls[i].tls > address && t->by_tls[i].tls < next) next = t->by_tls[i].tls;
    }
    return next;
}

struct holders_unit holder_place_unit(uint64_t place, void *user)
{
    struct holder_places *p = user;
    const struct holders_threads *threads = &p->holders->threads;
    struct holder_area area = {.kind = AREA_KERNEL};
    uintptr_t at = (uintptr_t)place;
    uint64_t to = UINT64_MAX;
    bool joins = false;
    const struct holders_thread *t;
    const struct map *m;
    if (place >= HOLDERS_KERNEL) {
        /* one for all */
    } else if (at - window_base < WINDOW_BYTES) {
        area.kind = AREA_IGNORED;
        to = window_base + WINDOW_BYTES;
    } else if ((t = holders_tls_at(threads, at)) != NULL) {
        area = (struct holder_area){AREA_TLS, .thread = t};
        to = place + sizeof(uintptr_t);
        joins = true;
    } else if ((t = holders_frames_at(threads, at)) != NULL) {
        area = (struct holder_area){AREA_FRAMES, .thread = t};
        to = t->frames_end;
    } else if ((area.module = holder_module_around(at)) != 0) {
        area.kind = AREA_MODULE;
        to = place + sizeof(uintptr_t);
        joins = true;
    } else {
        area.kind = AREA_MAPPING;
        m = maps_find(&p->holders->roots.maps, at);
        area.from = m ? m->from : at;
        area.to = m ? m->to : at + sizeof(uintptr_t);
        uintptr_t next = next_thread(threads, at);
        to = next < area.to ? next : area.to;
    }
    return (struct holders_unit){place, to, area_index(p, area), joins};
}

void holder_places_free(struct holder_places *p)
{
    grow_free(p->area, p->room, sizeof *p->area);
    p->area = NULL;
    p->count = 0;
    p->room = 0;
}
