/* site_record.h: what site.c and its inline parts share.  See site.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SITE_RECORD_H
#define GLEANER_SITE_RECORD_H

#include "sampler/count.h"
#include "sampler/site.h"

#define SITE_CHUNK_SHIFT 12
#define SITE_CHUNK ((uint32_t)1 << SITE_CHUNK_SHIFT)
#define SITE_CHUNKS 256
#define SITE_COUNT_BITS 48

struct site_counts {
    _Atomic uint64_t blocks, n;
};

struct site_record {
    _Atomic uint64_t key;   /* stack << 32 | shard << 8 | source + 1; 0: not claimed */
    _Atomic uint64_t given; /* bytes; 0 until the claimer has filled it */
    struct site_counts allocated, freed; /* see 3 for freed.n */
    _Atomic uint64_t base_blocks, base_n; /* generation << 48 | count; see 4 */
};

HIDDEN extern _Atomic(struct site_record *) site_chunks[SITE_CHUNKS];
HIDDEN extern _Atomic uint64_t site_generation; /* of the fork, modulo 2^16 */
HIDDEN extern _Atomic int64_t site_quantum_now;
HIDDEN extern bool site_exact;

static ALWAYS_INLINE unsigned site_record_shard(const struct site_record *r)
{
    return atomic_load_explicit(&r->key, memory_order_relaxed) >> 8 & 0xffffff;
}

/* NULL for the dropped site. */
static ALWAYS_INLINE struct site_record *site_record_at(uint32_t site)
{
    if (unlikely(site == SITE_DROPPED || site >= SITE_CHUNK * SITE_CHUNKS)) return NULL;
    struct site_record *c =
        atomic_load_explicit(&site_chunks[site >> SITE_CHUNK_SHIFT], memory_order_acquire);
    return likely(c) ? &c[site & (SITE_CHUNK - 1)] : NULL;
}

/* The record of a site at which the calling thread has allocated since the fork, or will now: its base is of this process (4). */
struct site_record *site_record_begun(uint32_t site);

#endif
