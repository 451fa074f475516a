// Arithmetic on small heap-allocated numbers: every operation makes a new block of some 8 to 48
// bytes and drops its operands, so nearly all blocks die at once. Stands for number-theory and
// symbolic programs such as cfrac in Grunwald and Zorn's set.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

enum { STEPS, LIMBS, PARAMS };
static struct bench_param param[PARAMS] = {
    [STEPS] = {"steps", 20000000, 2000000, "convergents computed", 0},
    [LIMBS] = {"limbs", 10, 10, "length at which the numbers start again", 0},
};

struct number {
    uint32_t length; // limbs in use; the top one is not zero
    uint32_t limb[]; // base 2^32, least significant first
};

// Mersenne prime 2^31 - 1: the check's own arithmetic, independent of the heap's numbers.
#define MODULUS UINT64_C(2147483647)

static uint64_t operations;

static struct number *number_new(uint32_t length)
{
    struct number *n = escape(malloc(sizeof *n + length * sizeof n->limb[0]));
    if (n == NULL) bench_fail("out of memory");
    n->length = length;
    operations++;
    return n;
}

static struct number *number_small(uint32_t value)
{
    struct number *n = number_new(1);
    n->limb[0] = value;
    return n;
}

static struct number *number_scale(const struct number *a, uint32_t factor)
{
    uint64_t carry = 0;
    struct number *n = number_new(a->length + 1);
    for (uint32_t i = 0; i < a->length; i++) {
        carry += (uint64_t)a->limb[i] * factor;
        n->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    n->limb[a->length] = (uint32_t)carry;
    if (carry == 0) n->length--;
    return n;
}

static struct number *number_add(const struct number *a, const struct number *b)
{
    if (a->length < b->length) {
        const struct number *swap = a;
        a = b;
        b = swap;
    }
    uint64_t carry = 0;
    struct number *n = number_new(a->length + 1);
    for (uint32_t i = 0; i < a->length; i++) {
        carry += (uint64_t)a->limb[i] + (i < b->length ? b->limb[i] : 0);
        n->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    n->limb[a->length] = (uint32_t)carry;
    if (carry == 0) n->length--;
    return n;
}

static uint64_t number_residue(const struct number *a)
{
    uint64_t r = 0;
    for (uint32_t i = a->length; i-- > 0;) r = ((r << 32) % MODULUS + a->limb[i]) % MODULUS;
    return r;
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    uint64_t random = 1;
    struct number *before = number_small(1), *now = number_small(1);
    uint64_t residue_before = 1, residue_now = 1;
    // p' = a p + p_before, the recurrence of a continued fraction's convergents.
    for (long step = 0; step < param[STEPS].value; step++) {
        uint32_t quotient = (uint32_t)rng_range(&random, 1, 1000);
        struct number *scaled = number_scale(now, quotient);
        struct number *next = number_add(scaled, before);
        uint64_t residue = (residue_now * quotient + residue_before) % MODULUS;
        free(scaled);
        free(before);
        before = now;
        residue_before = residue_now;
        now = next;
        residue_now = residue;
        if (now->length < (uint32_t)param[LIMBS].value) continue;
        if (number_residue(now) != residue_now) bench_fail("a number changed while it was live");
        free(before);
        free(now);
        before = number_small(1);
        now = number_small(quotient);
        residue_before = 1;
        residue_now = quotient;
    }
    if (number_residue(now) != residue_now) bench_fail("a number changed while it was live");
    free(before);
    free(now);
    return bench_done(operations);
}
