/* lost_sites.c: from records of lost blocks to figures by call stack.

   1. Data.  A vector of records (what lost_sites.h shows, and how much of it is known for sure), one for each place, kind, head
      and size, found by an index that is open-addressed and at most half full.  Both double in mappings of their own.  The first three
      records take what finds no room.
   2. Synchronisation.  None: the caller's own memory.  The records of lost.h may end meanwhile.
   3. Of blocks that are not tracked lost_share.c finds out what can be known.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/os.h"
#include "heap/sizeclass.h"
#include "heap/tag.h"
#include "sampler/estimate.h"
#include "sampler/lost_table.h"
#include "sampler/sampler.h"
#include "sampler/tracked.h"

/* The table */

static bool grow_vector(struct vector *v, size_t bytes, size_t keep)
{
    bytes = round_up(bytes, OS_PAGE);
    void *fresh = os_map(bytes);
    if (!fresh) return false;
    if (keep) __builtin_memcpy(fresh, v->at, keep);
    if (v->at) os_unmap(v->at, v->bytes);
    *v = (struct vector){fresh, bytes};
    return true;
}

static uint64_t place_key(struct lost_place p)
{
    return (uint64_t)p.where << 32 | p.number;
}

/* The finaliser of splitmix64. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t hash(const struct lost_site *s)
{
    uint64_t h = mix(place_key(s->place) + (uint64_t)s->kind * 0x9e3779b97f4a7c15u);
    return (uint32_t)mix(h ^ mix(place_key(s->head) + 1 + s->why) ^ s->given * 0xd1342543de82ef95u);
}

static bool same(const struct lost_site *a, const struct lost_site *b)
{
    return place_key(a->place) == place_key(b->place) && a->kind == b->kind &&
           place_key(a->head) == place_key(b->head) && a->given == b->given && a->why == b->why;
}

static void enter(struct lost_sites *l, uint32_t number)
{
    uint32_t at = hash(&l->records[number].is) & l->mask;
    while (l->index[at]) at = (at + 1) & l->mask;
    l->index[at] = number + 1;
}

static bool make_room(struct lost_sites *l)
{
    if (l->count < l->room) return true;
    uint32_t room = l->room ? l->room * 2 : 256;
    if (room > UINT32_MAX / 4) return false;
    if (!grow_vector(&l->records_memory, room * sizeof(struct record),
                     l->count * sizeof(struct record)))
        return false;
    l->records = l->records_memory.at;
    if (!grow_vector(&l->index_memory, (size_t)room * 2 * sizeof *l->index, 0)) return false;
    l->index = l->index_memory.at;
    l->mask = room * 2 - 1;
    l->room = room;
    for (uint32_t i = LOST_KINDS; i < l->count; i++) enter(l, i);
    return true;
}

uint32_t lost_table_find(struct lost_sites *l, const struct lost_site *key)
{
    uint32_t at = hash(key) & l->mask;
    for (; l->index[at]; at = (at + 1) & l->mask)
        if (same(&l->records[l->index[at] - 1].is, key)) return l->index[at] - 1;
    if (!make_room(l)) return (uint32_t)key->kind;
    uint32_t number = l->count++;
    l->records[number] = (struct record){.is = {.place = key->place,
                                                .kind = key->kind,
                                                .head = key->head,
                                                .why = key->why,
                                                .given = key->given}};
    enter(l, number);
    return number;
}

/* Collecting */

void lost_table_times(struct lost_site *s, uint64_t reached, uint64_t first, uint64_t last,
                      uint32_t misses)
{
    if (!s->first_missed || first < s->first_missed) s->first_missed = first;
    if (!s->last_reached || reached < s->last_reached) s->last_reached = reached;
    if (last > s->last_missed) s->last_missed = last;
    if (misses > s->misses) s->misses = misses;
}

/* The tracked entry of a tag if it is this block's. */
static bool entry_of(uint32_t tag, const void *block, struct tracked_view *v)
{
    return tag_entry(tag) && tracked_get(tag_entry(tag), v) && v->block == block;
}

static struct lost_place head_of(const struct lost_view *v)
{
    struct lost_view head;
    if (v->kind != LOST_INDIRECT || !lost_find(v->head, &head))
        return (struct lost_place){LOST_NOWHERE, 0};
    return lost_place_of(head.tag);
}

static void add_block(const struct lost_view *v, void *user)
{
    struct lost_sites *l = user;
    struct tracked_view entry;
    bool tracked = entry_of(v->tag, v->block, &entry);
    struct lost_site key = {
        .place = tracked ? (struct lost_place){LOST_AT_SITE, entry.site} : lost_caller_of(v->tag),
        .kind = v->kind,
        .head = head_of(v),
        .why = v->kind == LOST_POSSIBLE ? v->why : 0,
        .given = v->given,
    };
    uint32_t number = lost_table_find(l, &key); /* which may move the records */
    struct record *r = &l->records[number];
    struct lost_site *s = &r->is;
    s->objects++;
    s->bytes += v->given;
    if (v->rule || v->quarantined) s->rules |= 1u << v->rule;
    if (tracked && s->place.where == LOST_AT_SITE) {
        r->tracked++;
        r->points += entry.n_samples;
        s->asked += entry.asked;
    }
    if (v->kind == LOST_DIRECT) {
        s->hangs += v->hangs;
        s->hangs_bytes += v->hangs_bytes;
    }
    if (v->given > MEDIUM_MAX && v->kind != LOST_POSSIBLE) l->large_bytes += v->given;
    lost_table_times(s, v->last_reached, v->first_missed, v->first_missed, v->misses);
}

struct lost_sites *lost_sites_make(void)
{
    struct lost_sites *l = os_map(round_up(sizeof *l, OS_PAGE));
    if (!l) return NULL;
    if (!make_room(l)) {
        lost_sites_free(l);
        return NULL;
    }
    for (; l->count < LOST_KINDS; l->count++)
        l->records[l->count].is.kind = (enum lost_kind)l->count;
    lost_each(add_block, l);
    if (sampler_interval() > ESTIMATE_WORD) lost_share(l);
    return l;
}

void lost_sites_free(struct lost_sites *l)
{
    if (l->records_memory.at) os_unmap(l->records_memory.at, l->records_memory.bytes);
    if (l->index_memory.at) os_unmap(l->index_memory.at, l->index_memory.bytes);
    os_unmap(l, round_up(sizeof *l, OS_PAGE));
}

void lost_sites_each(const struct lost_sites *l, void (*each)(const struct lost_site *, void *),
                     void *user)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct lost_site s = l->records[i].is;
        if (!s.objects) continue;
        if (!s.estimated) {
            s.objects_limits = (struct lost_limits){s.objects, s.objects};
            s.bytes_limits = (struct lost_limits){s.bytes, s.bytes};
        }
        each(&s, user);
    }
}

uint64_t lost_sites_large_bytes(const struct lost_sites *l)
{
    return l->large_bytes;
}
