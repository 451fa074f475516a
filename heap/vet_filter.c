/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/vet_filter.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define SIXTH_AT 5u
#define FIFTH_AT 4u

static inline bool fifth_fits(const struct vet_filter *f, uint8_t fifth)
{
    for (unsigned i = 0; i < VET_FILTER_RANGES; i++)
        if ((uint8_t)(fifth - f->fifth_from[i]) <= f->fifth_width[i]) return true;
    return false;
}

static inline size_t pass_one(const struct vet_filter *f, const uint8_t *at, size_t i,
                              uint32_t *passed, size_t n)
{
    const uint8_t *w = at + i;
    if ((w[SIXTH_AT] == f->sixth[0] || w[SIXTH_AT] == f->sixth[1]) && fifth_fits(f, w[FIFTH_AT]))
        passed[n++] = (uint32_t)i << 1;
    if (f->guard && w[VET_GUARDED_AT] == f->guarded[0] && w[VET_GUARDED_AT + 1] == f->guarded[1])
        passed[n++] = (uint32_t)i << 1 | VET_MANGLED;
    return n;
}

/* ---- plain C, eight windows at a time ---- */

#define EACH_BYTE 0x0101010101010101u
#define LOW_BITS 0x7f7f7f7f7f7f7f7fu

/* 0x80 in the bytes of x that are 0, exactly (Hacker's Delight, 6-1). */
static inline uint64_t zero_bytes(uint64_t x)
{
    return ~(((x & LOW_BITS) + LOW_BITS) | x | LOW_BITS);
}

static inline uint64_t load(const uint8_t *at)
{
    uint64_t x;
    __builtin_memcpy(&x, at, sizeof x);
    return x;
}

static size_t filter_plain_c(const struct vet_filter *f, const uint8_t *at, size_t bytes,
                             uint32_t *passed)
{
    size_t n = 0, i = 0;
    uint64_t a = f->sixth[0] * EACH_BYTE, b = f->sixth[1] * EACH_BYTE;
    uint64_t c = f->guarded[0] * EACH_BYTE, d = f->guarded[1] * EACH_BYTE;
    for (; i + 8 + VET_WINDOW - 1 <= bytes; i += 8) {
        uint64_t sixth = load(at + i + SIXTH_AT);
        uint64_t marks = zero_bytes(sixth ^ a) | zero_bytes(sixth ^ b);
        for (; marks != 0; marks &= marks - 1) {
            unsigned byte = (unsigned)__builtin_ctzll(marks) / 8;
            if (fifth_fits(f, at[i + byte + FIFTH_AT])) passed[n++] = ((uint32_t)i + byte) << 1;
        }
        if (!f->guard) continue;
        marks = zero_bytes(load(at + i + VET_GUARDED_AT) ^ c) &
                zero_bytes(load(at + i + VET_GUARDED_AT + 1) ^ d);
        for (; marks != 0; marks &= marks - 1)
            passed[n++] = ((uint32_t)i + (uint32_t)__builtin_ctzll(marks) / 8) << 1 | VET_MANGLED;
    }
    for (; i + VET_WINDOW <= bytes; i++) n = pass_one(f, at, i, passed, n);
    return n;
}

/* ---- vectors ---- */

#if defined(__x86_64__)
static inline size_t store_bits(uint32_t bits, size_t i, uint32_t kind, uint32_t *passed, size_t n)
{
    for (; bits != 0; bits &= bits - 1)
        passed[n++] = ((uint32_t)i + (uint32_t)__builtin_ctz(bits)) << 1 | kind;
    return n;
}

static size_t filter_sse2(const struct vet_filter *f, const uint8_t *at, size_t bytes,
                          uint32_t *passed)
{
    size_t n = 0, i = 0;
    const __m128i a = _mm_set1_epi8((char)f->sixth[0]), b = _mm_set1_epi8((char)f->sixth[1]);
    const __m128i c = _mm_set1_epi8((char)f->guarded[0]), d = _mm_set1_epi8((char)f->guarded[1]);
    const uint32_t guard = f->guard ? 0xffff : 0;
#define LOAD(from) _mm_loadu_si128((const __m128i *)(const void *)(from))
    for (; i + 16 + VET_WINDOW - 1 <= bytes; i += 16) {
        __m128i sixth = LOAD(at + i + SIXTH_AT);
        __m128i plain = _mm_or_si128(_mm_cmpeq_epi8(sixth, a), _mm_cmpeq_epi8(sixth, b));
        __m128i mangled = _mm_and_si128(_mm_cmpeq_epi8(LOAD(at + i + VET_GUARDED_AT), c),
                                        _mm_cmpeq_epi8(LOAD(at + i + VET_GUARDED_AT + 1), d));
        uint32_t p = (uint32_t)_mm_movemask_epi8(plain),
                 m = (uint32_t)_mm_movemask_epi8(mangled) & guard;
        if (likely((p | m) == 0)) continue;
        if (p) {
            __m128i fifth = LOAD(at + i + FIFTH_AT), fits = _mm_setzero_si128();
            for (unsigned k = 0; k < VET_FILTER_RANGES; k++) {
                __m128i from = _mm_sub_epi8(fifth, _mm_set1_epi8((char)f->fifth_from[k]));
                fits = _mm_or_si128(
                    fits, _mm_cmpeq_epi8(_mm_min_epu8(from, _mm_set1_epi8((char)f->fifth_width[k])),
                                         from));
            }
            n = store_bits(p & (uint32_t)_mm_movemask_epi8(fits), i, 0, passed, n);
        }
        n = store_bits(m, i, VET_MANGLED, passed, n);
    }
#undef LOAD
    for (; i + VET_WINDOW <= bytes; i++) n = pass_one(f, at, i, passed, n);
    return n;
}

__attribute__((target("avx2"))) static size_t
filter_avx2(const struct vet_filter *f, const uint8_t *at, size_t bytes, uint32_t *passed)
{
    size_t n = 0, i = 0;
    const __m256i a = _mm256_set1_epi8((char)f->sixth[0]), b = _mm256_set1_epi8((char)f->sixth[1]);
    const __m256i c = _mm256_set1_epi8((char)f->guarded[0]),
                  d = _mm256_set1_epi8((char)f->guarded[1]);
    const uint32_t guard = f->guard ? ~0u : 0;
#define LOAD(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
    for (; i + 32 + VET_WINDOW - 1 <= bytes; i += 32) {
        __m256i sixth = LOAD(at + i + SIXTH_AT);
        __m256i plain = _mm256_or_si256(_mm256_cmpeq_epi8(sixth, a), _mm256_cmpeq_epi8(sixth, b));
        __m256i mangled = _mm256_and_si256(_mm256_cmpeq_epi8(LOAD(at + i + VET_GUARDED_AT), c),
                                           _mm256_cmpeq_epi8(LOAD(at + i + VET_GUARDED_AT + 1), d));
        uint32_t p = (uint32_t)_mm256_movemask_epi8(plain),
                 m = (uint32_t)_mm256_movemask_epi8(mangled) & guard;
        if (likely((p | m) == 0)) continue;
        if (p) {
            __m256i fifth = LOAD(at + i + FIFTH_AT), fits = _mm256_setzero_si256();
            for (unsigned k = 0; k < VET_FILTER_RANGES; k++) {
                __m256i from = _mm256_sub_epi8(fifth, _mm256_set1_epi8((char)f->fifth_from[k]));
                fits = _mm256_or_si256(
                    fits,
                    _mm256_cmpeq_epi8(
                        _mm256_min_epu8(from, _mm256_set1_epi8((char)f->fifth_width[k])), from));
            }
            n = store_bits(p & (uint32_t)_mm256_movemask_epi8(fits), i, 0, passed, n);
        }
        n = store_bits(m, i, VET_MANGLED, passed, n);
    }
#undef LOAD
    for (; i + VET_WINDOW <= bytes; i++) n = pass_one(f, at, i, passed, n);
    return n;
}

/* Does the processor have AVX2, and the system keep its registers?  (Intel's manual, vol. 1, 14.7.1) */
static bool has_avx2(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#endif

void vet_filter_start(struct vet_filter *f, const struct vet_filter_range range[VET_FILTER_RANGES],
                      uintptr_t guard, enum vet_filter_way at_best)
{
    unsigned guarded_shift =
        VET_GUARDED_AT == 0 ? 47 : 48; /* the rotation puts bit 47 of the pointer in bit 0 */
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (unsigned i = 0; i < VET_FILTER_RANGES; i++) {
        if (range[i].from == range[i].to) continue;
        if (range[i].from < from) from = range[i].from;
        if (range[i].to > to) to = range[i].to;
    }
    *f = (struct vet_filter){
        .sixth = {(uint8_t)(from >> 40), (uint8_t)((to - 1) >> 40)},
        .guarded = {(uint8_t)(guard >> guarded_shift), (uint8_t)(guard >> (guarded_shift + 8))},
        .guard = guard != 0,
    };
    for (unsigned i = 0; i < VET_FILTER_RANGES; i++) {
        uintptr_t low = range[i].from, high = range[i].to - 1;
        if (range[i].from == range[i].to) low = from, high = from; /* one that fits anyway */
        f->fifth_from[i] = (uint8_t)(low >> 32);
        f->fifth_width[i] = (uint8_t)((high >> 32) - (low >> 32));
    }
#if defined(__x86_64__)
    f->way = at_best >= VET_FILTER_AVX2 && has_avx2() ? VET_FILTER_AVX2
             : at_best >= VET_FILTER_SSE2             ? VET_FILTER_SSE2
                                                      : VET_FILTER_PLAIN_C;
#else
    f->way = VET_FILTER_PLAIN_C;
#endif
}

size_t vet_filter(const struct vet_filter *f, const uint8_t *at, size_t bytes, uint32_t *passed)
{
#if defined(__x86_64__)
    if (f->way == VET_FILTER_AVX2) return filter_avx2(f, at, bytes, passed);
    if (f->way == VET_FILTER_SSE2) return filter_sse2(f, at, bytes, passed);
#endif
    return filter_plain_c(f, at, bytes, passed);
}
