/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/vet_narrow.h"
#include "heap/os.h"
#include "heap/rank.h"

#define BUCKETS 65536u
#define BUCKET_WORDS (65536u / 64)
#define FORMS 2u
#define VALUES 4294967296.0
#define ROUND_SHIFT 12u /* a round value is a multiple of 4096 whose odd factor is less than */
#define ROUND_ODD 16u
#define FLOAT_SHIFT 19u /* or a floating-point number, or the upper half of one, with so many zeros and of this size */
#define FLOAT_FROM (0x3d000000u >> FLOAT_SHIFT)
#define FLOAT_TO (0x48000000u >> FLOAT_SHIFT)
#define SIGN (0x80000000u >> FLOAT_SHIFT)
#define ROUND_VALUES (1u << (32 - ROUND_SHIFT))
#define ROUND_BYTES ((size_t)ROUND_VALUES / 8)

/* In 64 Ki of values. */
struct vet_densities {
    uint32_t
        others[FORMS]; /* distinct values seen where a form can lie, but of those of the blocks */
    uint32_t blocks[FORMS];
};

static uint32_t form_of(const struct group_block *b, unsigned form)
{
    return (uint32_t)(form == 0 ? b->block.start : b->block.start >> 3);
}

/* Which bits of 64 values in a row can be a form: starts are multiples of 16. */
static uint64_t lattice(unsigned form)
{
    return form == 0 ? 0x0001000100010001 : 0x5555555555555555;
}

/* Were all values looked at spread evenly, as many forms would be among them. */
static double even(const struct vet_narrow *n, uint64_t halves)
{
    return (double)halves / VALUES * (double)n->forms;
}

bool vet_narrow_start(struct vet_narrow *n, const struct groups *groups, uint64_t bytes)
{
    *n = (struct vet_narrow){.forms = FORMS * (uint64_t)groups->count};
    n->off = even(n, bytes / 4) >= VET_CHANCE_MOST;
    if (n->off) return true;
    n->slot_bytes = BUCKETS * sizeof *n->slot_of;
    n->slot_of = os_map(n->slot_bytes);
    if (!n->slot_of) goto none;
    for (size_t i = 0; i < groups->count; i++)
        for (unsigned form = 0; form < FORMS; form++) {
            uint16_t *slot = &n->slot_of[form_of(&groups->block[i], form) >> 16];
            if (*slot != 0) continue;
            if (n->slots == UINT16_MAX) {
                n->off =
                    true; /* of 65536 there is one without a form, or the evidence is worth nothing */
                return true;
            }
            *slot = (uint16_t)++n->slots;
        }
    n->seen_bytes = n->slots * BUCKET_WORDS * sizeof *n->seen;
    n->seen = os_map(n->seen_bytes);
    n->density_bytes = round_up(n->slots * sizeof *n->densities, OS_PAGE);
    n->densities = os_map(n->density_bytes);
    n->round = os_map(ROUND_BYTES);
    if (n->seen && n->densities && n->round) return true;
none:
    vet_narrow_end(n);
    return false;
}

void vet_narrow_end(struct vet_narrow *n)
{
    if (n->slot_of) os_unmap(n->slot_of, n->slot_bytes);
    if (n->seen) os_unmap(n->seen, n->seen_bytes);
    if (n->densities) os_unmap(n->densities, n->density_bytes);
    if (n->round) os_unmap(n->round, ROUND_BYTES);
    *n = (struct vet_narrow){0};
}

static inline void see(struct vet_narrow *n, uint32_t value)
{
    if (unlikely(value % (1u << ROUND_SHIFT) == 0)) n->round[value >> ROUND_SHIFT >> 6] |= (uint64_t)1 << (value >> ROUND_SHIFT) % 64;
    unsigned slot = n->slot_of[value >> 16];
    if (likely(slot == 0) || value >> 16 == 0) return;
    n->seen[(slot - 1) * (size_t)BUCKET_WORDS + (value & 0xffff) / 64] |= (uint64_t)1 << value % 64;
}

void vet_narrow_look(struct vet_narrow *n, const uint8_t *at, size_t bytes)
{
    n->halves += bytes / 4;
    if (n->off) return;
    if (even(n, n->halves) >= VET_CHANCE_MOST) {
        n->off = true;
        return;
    }
    const uint64_t *word = (const uint64_t *)(((uintptr_t)at + 7) & ~(uintptr_t)7);
    const uint64_t *end = (const uint64_t *)((uintptr_t)(at + bytes) & ~(uintptr_t)7);
    for (; word < end; word++) {
        if (*word == 0 || *word - window_base < WINDOW_BYTES) continue;
        see(n, (uint32_t)*word);
        see(n, (uint32_t)(*word >> 32));
    }
}

/* ---- what counts ---- */

static bool is_seen(const struct vet_narrow *n, uint32_t value)
{
    size_t slot = n->slot_of[value >> 16] - 1u;
    return n->seen[slot * BUCKET_WORDS + (value & 0xffff) / 64] >> value % 64 & 1;
}

static bool is_seen_round(const struct vet_narrow *n, uint32_t value)
{
    return n->round[value >> ROUND_SHIFT >> 6] >> (value >> ROUND_SHIFT) % 64 & 1;
}

static void count_densities(const struct vet_narrow *n, const struct groups *groups)
{
    for (size_t slot = 0; slot < n->slots; slot++)
        for (unsigned form = 0; form < FORMS; form++)
            for (unsigned i = 0; i < BUCKET_WORDS; i++)
                n->densities[slot].others[form] +=
                    rank_ones(n->seen[slot * BUCKET_WORDS + i] & lattice(form));
    for (size_t i = 0; i < groups->count; i++)
        for (unsigned form = 0; form < FORMS; form++) {
            uint32_t value = form_of(&groups->block[i], form);
            struct vet_densities *d = &n->densities[n->slot_of[value >> 16] - 1];
            d->blocks[form]++;
            if (is_seen(n, value) && d->others[form] > 0) d->others[form]--;
        }
}

static bool is_number(uint32_t value)
{
    uint32_t upper = (value >> FLOAT_SHIFT) & ~SIGN;
    return value % (1u << FLOAT_SHIFT) == 0 && upper >= FLOAT_FROM && upper < FLOAT_TO;
}

static bool is_product(uint32_t value)
{
    return value != 0 && value % (1u << ROUND_SHIFT) == 0 && value >> __builtin_ctz(value) < ROUND_ODD;
}

static bool is_round(uint32_t value) { return is_product(value) || is_number(value); }

/* As `densities`, the forms of the blocks apart. */
static void count_round(struct vet_narrow *n, const struct groups *groups)
{
    uint32_t places = 0, others = 0;
    for (uint32_t i = 1; i < ROUND_VALUES; i++) {
        uint32_t value = i << ROUND_SHIFT;
        if (!is_round(value)) continue;
        places++;
        others += is_seen_round(n, value);
    }
    for (size_t i = 0; i < groups->count; i++)
        for (unsigned form = 0; form < FORMS; form++) {
            uint32_t value = form_of(&groups->block[i], form);
            if (!is_round(value)) continue;
            if (places > 1) places--;
            if (is_seen(n, value) && others > 0) others--;
        }
    n->round_density = others < places ? (double)others / places : 1;
}

static double density(const struct vet_narrow *n, uint32_t value, unsigned form)
{
    const struct vet_densities *d = &n->densities[n->slot_of[value >> 16] - 1];
    uint32_t places = BUCKETS / (form == 0 ? 16 : 2);
    double least = (double)n->halves / VALUES;
    double seen =
        d->blocks[form] >= places ? 1 : (double)d->others[form] / (places - d->blocks[form]);
    if (is_round(value) && n->round_density > seen) seen = n->round_density;
    return seen > least ? seen : least;
}

/* Of all forms that are not denser than `most`. */
static double expected(const struct vet_narrow *n, const struct groups *groups, double most)
{
    double sum = 0;
    for (size_t i = 0; i < groups->count; i++)
        for (unsigned form = 0; form < FORMS; form++) {
            double d = density(n, form_of(&groups->block[i], form), form);
            if (d <= most) sum += d;
        }
    return sum;
}

double vet_narrow_found(struct vet_narrow *n, const struct groups *groups,
                        void (*found)(uint32_t block, void *user), void *user)
{
    if (n->off) return even(n, n->halves);
    count_densities(n, groups);
    count_round(n, groups);
    double chance = 1, most = -1, least = (double)n->halves / VALUES;
    for (unsigned step = 0; step <= VET_CHANCE_MOST * BUCKETS; step++) {
        double to = least + (double)step / BUCKETS, sum = expected(n, groups, to);
        if (step == 0) chance = sum;
        if (sum >= VET_CHANCE_MOST) break;
        most = to;
        chance = sum;
    }
    for (size_t i = 0; i < groups->count; i++)
        for (unsigned form = 0; form < FORMS; form++) {
            uint32_t value = form_of(&groups->block[i], form);
            if (is_seen(n, value) && density(n, value, form) <= most) found((uint32_t)i, user);
        }
    return chance;
}
