/* lifetime.h: how long sampled blocks lived, by site.

   1. Clocks.  An age is counted twice: in time (ticks of CLOCK_MONOTONIC_COARSE, lifetime_buckets.h), and in bytes that the process
      allocated meanwhile.  The second clock is the sampler's own: each sample point stands for an interval's bytes, so with every
      word sampled it is exact, else an unbiased estimate with a standard error of sqrt(bytes * interval).  A thread keeps up to
      LIFETIME_KEPT bytes back, so that threads do not meet at one word: among T threads the clock is late by less than T - 1 times that.
   2. Data.  A site gets a record of 1 KiB at its first death: deaths by age in steps, and counts.  Weights are sample points, or
      blocks where every word is one (n then follows from them).  A directory finds the record by the site's number.  At most
      LIFETIME_MOST records: beyond, deaths are only counted as dropped.  What lives needs no record: its ages are taken from the
      table of tracked blocks when a profile is written (lifetime_live.h).
   3. Synchronisation.  Counters only grow, by count_add.  Where a site's shard belongs to one thread (site.h) it has a second record, at its
      first death by another thread, so that its owner's additions need not be atomic (count_own).  Of two threads that make the same
      record the slower one's is lost.
   4. Forks.  A child counts its deaths from zero: it starts with an empty directory.  Blocks from before the fork (*inherited*) are known
      by their birth; those that die are counted but are in no histogram, since of those that were born with them and died before the fork the child knows
      nothing: together they would say that blocks live longer than they do.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_LIFETIME_H
#define GLEANER_LIFETIME_H

#include "heap/os.h"
#include "sampler/count.h"
#include "sampler/lifetime_buckets.h"
#include "sampler/site_record.h"

#define LIFETIME_MOST 65536u
#define LIFETIME_KEPT (64 * KIB)
#define LIFETIME_CLOCK_BITS 40 /* of a birth, in units: ages are right up to 2^39 units, 2 PiB */

struct lifetime {
    _Atomic uint64_t time[LIFETIME_TIMES], span[LIFETIME_SPANS]; /* deaths by age; both add up to the same */
    _Atomic uint64_t old, elsewhere; /* of them: of old blocks; by another thread than the one that allocated */
    _Atomic uint64_t inherited_young, inherited_old; /* in no histogram, see 4 */
};
_Static_assert(sizeof(struct lifetime) == 1024, "LIFETIME_MOST of them are 64 MiB");

/* An age begins here: at a block's birth, and again where it is resized to another size. */
struct lifetime_birth {
    uint64_t units; /* bytes allocated by then / LIFETIME_UNIT; the lower LIFETIME_CLOCK_BITS count */
    uint32_t ticks;
};

/* Whose deaths a record counts: those of all threads, or of the one to which the site's shard belongs; of others. */
enum lifetime_part { LIFETIME_SELF, LIFETIME_OTHERS, LIFETIME_PARTS };

struct lifetime_death {
    struct lifetime_birth birth, now;
    uint64_t weight;
    bool old, elsewhere;
    enum lifetime_part part;
};

HIDDEN extern _Atomic(_Atomic(struct lifetime *) *) lifetime_chunks[LIFETIME_PARTS][SITE_CHUNKS];
HIDDEN extern _Atomic uint64_t lifetime_clock; /* bytes, but for what threads keep back */
HIDDEN extern _Atomic uint32_t lifetime_since; /* ticks: blocks born before are inherited */
HIDDEN extern uint64_t lifetime_start_ticks;   /* os_ticks */

/* Before the first sample. */
void lifetime_start(void);

/* Ticks since lifetime_start. */
static ALWAYS_INLINE uint32_t lifetime_ticks(void)
{
    return (uint32_t)(os_ticks() - lifetime_start_ticks);
}

/* `bytes` were allocated by a thread that keeps back *kept (NULL: a thread that keeps nothing). */
static ALWAYS_INLINE void lifetime_allocated(uint64_t *kept, uint64_t bytes)
{
    uint64_t now = bytes;
    if (likely(kept)) {
        now = *kept += bytes;
        if (likely(now < LIFETIME_KEPT)) return;
        *kept = 0;
    }
    atomic_fetch_add_explicit(&lifetime_clock, now, memory_order_relaxed);
}

static ALWAYS_INLINE struct lifetime_birth lifetime_now(uint64_t kept)
{
    uint64_t bytes = atomic_load_explicit(&lifetime_clock, memory_order_relaxed) + kept;
    return (struct lifetime_birth){bytes / LIFETIME_UNIT, lifetime_ticks()};
}

#define LIFETIME_CLOCK_SHIFT (64 - LIFETIME_CLOCK_BITS)

/* Units from a birth to now, as clocks of that many bits count; 0 where the clocks of two threads differ by so much. */
static ALWAYS_INLINE uint64_t lifetime_units(uint64_t birth, uint64_t now)
{
    int64_t age = (int64_t)((now - birth) << LIFETIME_CLOCK_SHIFT);
    return age > 0 ? (uint64_t)age >> LIFETIME_CLOCK_SHIFT : 0;
}

/* lifetime_span_bucket of that. */
static ALWAYS_INLINE unsigned lifetime_span_of(uint64_t birth, uint64_t now)
{
    int64_t age = (int64_t)((now - birth) << LIFETIME_CLOCK_SHIFT);
    if (unlikely(age < 0)) return 0;
    return LIFETIME_CLOCK_BITS - (unsigned)__builtin_clzll((uint64_t)age | (uint64_t)1 << (LIFETIME_CLOCK_SHIFT - 1));
}
_Static_assert(LIFETIME_SPANS == LIFETIME_CLOCK_BITS, "an age has one bit less");

/* What a death of the site, with n sample points, counts. */
static ALWAYS_INLINE uint64_t lifetime_weight(uint64_t n)
{
    return site_exact ? 1 : n;
}

static ALWAYS_INLINE struct lifetime *lifetime_of(uint32_t site, enum lifetime_part part)
{
    _Atomic(struct lifetime *) *chunk =
        atomic_load_explicit(&lifetime_chunks[part][site >> SITE_CHUNK_SHIFT], memory_order_acquire);
    return likely(chunk) ? atomic_load_explicit(&chunk[site & (SITE_CHUNK - 1)], memory_order_acquire) : NULL;
}

/* A sampled block of the site died.  Any thread, lock-free. */
void lifetime_died(uint32_t site, const struct lifetime_death *);

/* What the site's records and pending deaths (deaths.h) say together; false where it has none.  `to` holds plain figures then. */
struct deaths_pending;
bool lifetime_sum(uint32_t site, const struct deaths_pending *, struct lifetime *to);

struct lifetime_stats {
    uint64_t records, memory_bytes;
    uint64_t dropped;              /* deaths that found no record, since the fork */
    uint64_t observed_ticks;       /* since the start, or the fork */
    uint64_t observed_units;       /* allocated since; less what other threads keep back */
    struct lifetime_birth now;
    uint32_t since;                /* ticks: blocks born before are inherited */
};
void lifetime_stats(struct lifetime_stats *to);

/* In a forked child, while it has one thread. */
void lifetime_fork_child(void);

#endif
