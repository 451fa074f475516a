/* verify.c: walks every structure of the heap and holds it against its invariants (pool.h section 2, bin.h section 1).
   Exact only while no other thread is in the heap: the tests, and a world that is stopped.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/reclaimed.h"
#include "heap/rescue.h"
#include "heap/stats.h"
#include "heap/tag.h"
#include "heap/thread_heap.h"

#include <stdlib.h>
#include <sys/single_threaded.h>

struct check {
    void (*complain)(const char *);
    bool ok;
    uint8_t *listed[2]; /* per area and pool: on some heap's list */
    uint8_t *cached[2]; /* per area and granule: the slot that starts there is in a bin */
    size_t bytes[2][2];
    uint64_t live[HEAP_CLASSES], in_bins[HEAP_CLASSES];
};

static void wrong(struct check *c, const char *what, const struct pool *p, uint64_t a, uint64_t b)
{
    char line[200];
    c->ok = false;
    print_to(line, sizeof line, "%s: pool %u of class %u (%lu, %lu)", what, p ? pool_id(p) : 0,
             p ? p->class : 0, a, b);
    if (c->complain) c->complain(line);
}

static uint32_t index_in_area(const struct pool *p)
{
    return pool_is_medium(p) ? pool_id(p) - SMALL_POOLS : pool_id(p);
}

static void check_list(struct check *c, struct thread_heap *h, struct bin *b, uint32_t head, enum pool_list list)
{
    uint32_t before = ID_NONE;
    for (uint32_t id = head; id != ID_NONE;) {
        struct pool *p = pool_of_id(id);
        uint8_t *seen = &c->listed[pool_is_medium(p)][index_in_area(p)];
        if (*seen) {
            wrong(c, "a pool is on two lists", p, 0, 0);
            return; /* it may be a ring */
        }
        *seen = 1;
        if (p->list != list) wrong(c, "a pool's list differs from the list it is on", p, p->list, list);
        if (atomic_load(&p->owner) != h) wrong(c, "a listed pool has another owner", p, h->number, 0);
        if (p->class != b->class) wrong(c, "a pool is listed under another class", p, b->class, 0);
        if (p->prev != before) wrong(c, "a list's back link is wrong", p, p->prev, before);
        if (list == POOL_AVAIL && p->free == 0) wrong(c, "an available pool has no free slot", p, 0, 0);
        if (list == POOL_FULL && p->free > 0) wrong(c, "a full pool has free slots", p, p->free, 0);
        before = id;
        id = p->next;
    }
    if (list == POOL_AVAIL && b->avail_last != before)
        wrong(c, "a list's end is wrong", NULL, b->avail_last, before);
}

static void check_bin(struct check *c, struct thread_heap *h, struct bin *b)
{
    bool medium = class_is_medium(b->class);
    unsigned shift = medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT;
    if (b->n > b->cap || b->cap > b->max_cap) wrong(c, "a bin is over its room", NULL, b->n, b->cap);
    for (size_t i = 0; i < b->n; i++) {
        struct pool *p = pool_of(b->slot[i], medium);
        uintptr_t base = medium ? pool_tables.medium_base : pool_tables.small_base;
        uint8_t *seen = &c->cached[medium][((uintptr_t)b->slot[i] - base) >> shift];
        unsigned slot = slot_of(p, b->slot[i]);
        if (p->class != b->class || slot_address(p, slot) != b->slot[i])
            wrong(c, "a bin holds no slot of its class", p, b->class, slot);
        if (*state_of(b->slot[i], medium) != 0) wrong(c, "a cached slot is not marked free", p, slot, 0);
        if (pool_bits(p)[slot / 64] >> slot % 64 & 1) wrong(c, "a cached slot is free in its pool", p, slot, 0);
        if (*seen) wrong(c, "a slot is cached twice", p, slot, 0);
        *seen = 1;
    }
    c->in_bins[b->class] += b->n;
    check_list(c, h, b, b->avail, POOL_AVAIL);
    check_list(c, h, b, b->full, POOL_FULL);
}

static void check_pool(struct check *c, struct pool *p)
{
    bool medium = pool_is_medium(p);
    unsigned granule = 1u << (medium ? MEDIUM_GRANULE_SHIFT : SMALL_GRANULE_SHIFT);
    uintptr_t base = pool_base(p), area = medium ? pool_tables.medium_base : pool_tables.small_base;
    int8_t *states = state_of((void *)base, medium);
    const uint64_t *bits = pool_bits(p);
    bool listed = c->listed[medium][index_in_area(p)];
    if (listed != (p->list == POOL_AVAIL || p->list == POOL_FULL))
        wrong(c, "a pool is on no list that it says it is on", p, p->list, listed);
    if (!medium && *small_pool_class(pool_tables.small_state, pool_id(p)) != p->class && !rescue_is_due())
        wrong(c, "the table of classes differs from a descriptor", p, *small_pool_class(pool_tables.small_state, pool_id(p)), 0);
    unsigned free = 0, live = 0, back = 0, cached = 0, outside = 0;
    for (uintptr_t at = 0; at < pool_bytes(p); at += granule) {
        int8_t s = states[at / granule];
        unsigned slot = p->class ? slot_of_offset(p->class, at) : 0;
        bool start = p->class && slot < p->slots && (uintptr_t)slot * class_size[p->class] == at;
        if (!start) {
            outside += s != 0;
            continue;
        }
        bool bit = bits[slot / 64] >> slot % 64 & 1;
        bool in_bin = c->cached[medium][(base + at - area) / granule];
        free += bit;
        cached += in_bin;
        if ((uint8_t)s == STATE_RETURNED) back++;
        else if (state_is_live(s)) {
            live++;
            if ((s & STATE_CLASS) != p->class) wrong(c, "a state byte names another class", p, slot, (uint8_t)s);
            if (bit) wrong(c, "a live slot is free in its pool", p, slot, 0);
            if (s >= 0 && tag_is_for_free(pool_tag(p, slot)) && !rescue_is_due())
                wrong(c, "a slot has a tag that a free would not see", p, slot, pool_tag(p, slot));
        } else if (s != 0) wrong(c, "a state byte is none", p, slot, (uint8_t)s);
        else if (!tag_is_reclaimed(pool_tag(p, slot)) && tag_is_for_free(pool_tag(p, slot)))
            wrong(c, "a free slot has an entry", p, slot, pool_tag(p, slot));
        if (!state_is_live(s) && tag_is_reclaimed(pool_tag(p, slot)) && !atomic_load(&p->reclaimed))
            wrong(c, "a slot was reclaimed in a pool that does not say so", p, slot, pool_tag(p, slot));
        if (bit && s != 0) wrong(c, "a free slot has a state", p, slot, (uint8_t)s);
    }
    if (outside) wrong(c, "state bytes where no slot starts", p, outside, 0);
    if (p->class == 0) return;
    if (free != p->free) wrong(c, "free bits and their count differ", p, free, p->free);
    /* Until it is rescued, a forked child leaves be what its parent's other threads had in their caches. */
    unsigned found = free + live + back + cached;
    if (found > p->slots || (found < p->slots && !rescue_is_due()))
        wrong(c, "slots are neither free, cached, returned nor live", p, found, p->slots);
    c->live[p->class] += live;
}

static bool get_room(struct check *c)
{
    for (unsigned medium = 0; medium < 2; medium++) {
        uint32_t first, count;
        pool_range(medium, &first, &count);
        size_t granules = medium ? pool_tables.medium_granules : pool_tables.small_granules;
        c->bytes[medium][0] = round_up(count + 1u, OS_PAGE);
        c->bytes[medium][1] = round_up(granules + 1, OS_PAGE);
        c->listed[medium] = os_map(c->bytes[medium][0]);
        c->cached[medium] = os_map(c->bytes[medium][1]);
        if (!c->listed[medium] || !c->cached[medium]) return false;
    }
    return true;
}

static void say(const char *line) { print_fd(2, "gleaner: verify: %s\n", line); }

void heap_check(void)
{
    if (likely(!heap_options.verify) || !__libc_single_threaded || heap_verify(say)) return;
    print_fd(2, "gleaner: the heap is damaged: this is a fault of Gleaner's, or memory outside the program's blocks "
                "was written to\n");
    abort();
}

bool heap_verify(void (*complain)(const char *line))
{
    heap_start(NULL);
    struct check c = {.complain = complain, .ok = true};
    if (get_room(&c)) {
        struct thread_heap *h;
        for (uint32_t i = 0; (h = thread_heap_by_number(i)) != NULL; i++) {
            if (atomic_load(&h->state) == THREAD_HEAP_BROKEN) continue;
            for (unsigned k = 1; k <= POOL_CLASSES; k++)
                if (h->bin[k]->class != 0) check_bin(&c, h, h->bin[k]);
        }
        for (unsigned medium = 0; medium < 2; medium++) {
            uint32_t first, count;
            pool_range(medium, &first, &count);
            for (uint32_t i = 0; i < count; i++) {
                struct pool *p = pool_of_id(first + i);
                struct thread_heap *owner = atomic_load(&p->owner);
                if (owner && atomic_load(&owner->state) == THREAD_HEAP_BROKEN) continue;
                check_pool(&c, p);
            }
        }
        struct heap_stats s;
        heap_stats(&s);
        if (!rescue_is_due())
            for (unsigned k = 1; k <= POOL_CLASSES; k++)
                if (s.of[k].live != c.live[k])
                    wrong(&c, "the counted live blocks differ from those that are there", NULL, s.of[k].live, c.live[k]);
    }
    for (unsigned medium = 0; medium < 2; medium++) {
        if (c.listed[medium]) os_unmap(c.listed[medium], c.bytes[medium][0]);
        if (c.cached[medium]) os_unmap(c.cached[medium], c.bytes[medium][1]);
    }
    return large_verify(complain) && c.ok;
}
