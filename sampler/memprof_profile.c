/* memprof_profile.c: starting, stopping and forgetting profiles, and what their counts say.
One profile samples at a time.  A stopped one goes on hearing of its blocks, as in OCaml 5.3, until it is discarded; its
struct is used again when the last of its entries has gone.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/memprof_profile.h"
#include "heap/heap.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "sampler/random.h"

#include <errno.h>

_Atomic(struct memprof_profile *) memprof_active;
_Atomic(struct memprof_profile *) memprof_profiles;

static _Atomic unsigned long profiles; /* started so far */
static struct sampler_options configured = {.depth = 64};
static atomic_bool stacks_started;

void memprof_configure(const struct sampler_options *options) { configured = *options; }

void memprof_add(struct memprof_profile *p, enum memprof_count which, uint64_t samples)
{
    atomic_fetch_add_explicit(&p->count[which].blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->count[which].samples, samples, memory_order_relaxed);
}

/* One that is over, or a new one; it is the caller's until it runs: `phase` says stopped. */
static struct memprof_profile *get_profile(void)
{
    for (struct memprof_profile *p = atomic_load(&memprof_profiles); p; p = p->next) {
        uint32_t over = MEMPROF_DISCARDED;
        if (atomic_load(&p->phase) != over || atomic_load(&p->entries) != 0) continue;
        if (!atomic_compare_exchange_strong(&p->phase, &over, MEMPROF_DISCARDING)) continue;
        if (atomic_load(&p->entries) == 0) return p;
        atomic_store(&p->phase, MEMPROF_DISCARDED); /* an allocation that began long ago */
    }
    struct memprof_profile *p = meta_alloc(sizeof *p);
    if (!p) return NULL;
    atomic_store(&p->phase, MEMPROF_DISCARDING);
    p->next = atomic_load(&memprof_profiles);
    while (!atomic_compare_exchange_weak(&memprof_profiles, &p->next, p)) {}
    return p;
}

static void set_up(struct memprof_profile *p, const struct gleaner_memprof_options *o)
{
    unsigned long id = atomic_fetch_add(&profiles, 1) + 1;
    p->options = *o;
    if (p->options.depth == 0 || p->options.depth > configured.depth) p->options.depth = configured.depth;
    p->every_word = o->lambda >= 1;
    geometric_set(&p->distribution, o->lambda);
    p->huge_words = o->lambda > 0 && o->lambda > 0x1p-40 ? (uint64_t)((double)GEOMETRIC_MANY / o->lambda) : UINT64_MAX;
    uint64_t state = configured.seed + id;
    if (!configured.fixed_seed) os_random(&state, sizeof state);
    p->seed = random_split_mix(&state);
    for (unsigned i = 0; i < MEMPROF_NS; i++) {
        atomic_store(&p->count[i].blocks, 0);
        atomic_store(&p->count[i].samples, 0);
    }
    atomic_store(&p->id, id);
}

int memprof_start(const struct gleaner_memprof_options *o, unsigned long *profile)
{
    if (!(o->lambda >= 0 && o->lambda <= 1)) return EINVAL; /* NaN neither */
    if (atomic_load(&memprof_active)) return EALREADY;
    if (!atomic_exchange(&stacks_started, true)) stack_start(&configured);
    struct memprof_profile *p = get_profile(), *none = NULL;
    if (!p) return ENOMEM;
    set_up(p, o);
    unsigned long id = atomic_load(&p->id);
    atomic_store(&p->phase, MEMPROF_RUNNING);
    if (!atomic_compare_exchange_strong(&memprof_active, &none, p)) {
        atomic_store(&p->phase, MEMPROF_DISCARDED);
        return EALREADY;
    }
    if (profile) *profile = id;
    memprof_install(true);
    return 0;
}

int memprof_stop(void)
{
    struct memprof_profile *p = atomic_load(&memprof_active);
    if (!p) return EINVAL;
    uint32_t running = MEMPROF_RUNNING;
    if (!atomic_compare_exchange_strong(&p->phase, &running, MEMPROF_STOPPED)) return EINVAL; /* another thread stops it */
    atomic_store(&memprof_active, NULL);
    return 0;
}

static struct memprof_profile *find(unsigned long id)
{
    for (struct memprof_profile *p = atomic_load(&memprof_profiles); p; p = p->next)
        if (atomic_load(&p->id) == id && atomic_load(&p->phase) < MEMPROF_DISCARDING) return p;
    return NULL;
}

int memprof_discard(unsigned long id)
{
    struct memprof_profile *p = find(id);
    if (!p) return EINVAL;
    uint32_t stopped = MEMPROF_STOPPED;
    if (!atomic_compare_exchange_strong(&p->phase, &stopped, MEMPROF_DISCARDING))
        return stopped == MEMPROF_RUNNING ? EBUSY : EINVAL;
    for (uint32_t n = MEMPROF_FIRST, end = memprof_end(); n < end && atomic_load(&p->entries) > 0; n++) {
        struct memprof_entry *e = memprof_at(n);
        uint64_t state = e ? atomic_load(&e->state) : 0;
        while ((state & MEMPROF_USED) && memprof_kind(e) != MEMPROF_WEAK &&
               atomic_load(&e->owner) == p && !memprof_silence(n, state))
            state = atomic_load(&e->state);
    }
    atomic_store(&p->phase, MEMPROF_DISCARDED);
    return 0;
}

static struct gleaner_samples count_of(const struct memprof_profile *p, enum memprof_count which)
{
    return (struct gleaner_samples){atomic_load(&p->count[which].blocks), atomic_load(&p->count[which].samples)};
}

static void add_live(struct gleaner_memprof_counts *to, const struct memprof_entry *e)
{
    uint64_t state = atomic_load(&e->state);
    if (state & (MEMPROF_ENDED | MEMPROF_SILENT)) return;
    struct gleaner_samples *s = state & MEMPROF_LOST ? &to->lost : &to->live;
    s->blocks++;
    s->samples += e->n_samples;
}

int memprof_counts(unsigned long id, struct gleaner_memprof_counts *to)
{
    struct memprof_profile *p = find(id);
    if (!p) return EINVAL;
    *to = (struct gleaner_memprof_counts){
        .allocated = count_of(p, MEMPROF_N_ALLOCATED),
        .freed_young = count_of(p, MEMPROF_N_FREED_YOUNG),
        .freed_old = count_of(p, MEMPROF_N_FREED_OLD),
        .reclaimed = count_of(p, MEMPROF_N_RECLAIMED),
        .promoted = count_of(p, MEMPROF_N_PROMOTED),
        .declined = count_of(p, MEMPROF_N_DECLINED),
        .dropped = count_of(p, MEMPROF_N_DROPPED),
    };
    for (uint32_t n = MEMPROF_FIRST, end = memprof_end(); n < end; n++) {
        const struct memprof_entry *e = memprof_at(n);
        if (!e || !(atomic_load(&e->state) & MEMPROF_USED) || memprof_kind(e) == MEMPROF_WEAK) continue;
        if (atomic_load(&e->owner) == p) add_live(to, e);
    }
    return 0;
}
