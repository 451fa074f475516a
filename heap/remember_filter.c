/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/remember_filter.h"
#include "heap/mark.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define TOP ((uint64_t)1 << 63)
#define MASK48 (((uintptr_t)1 << 48) - 1)

/* As mark_demangled, of vectors. */
#if defined(__x86_64__)
#define DEMANGLED(w, guard) (((w) >> 17 | (w) << 47) ^ (guard))
#else
#define DEMANGLED(w, guard) ((w) ^ (guard))
#endif

#define UNROLL _Pragma("GCC unroll 16")

/* Half a page ahead: the processor's own prefetching ends with each page. */
#define AHEAD(v)                                                                                   \
    UNROLL for (unsigned i_ = 0; i_ < FILTER_GROUP / 8; i_++)                                      \
        __builtin_prefetch((const char *)(v) + 2048 + i_ * 64)

void filter_add(struct filter *f, uintptr_t from, size_t bytes)
{
    uintptr_t first = (from - window_base) >> FILTER_UNIT_SHIFT;
    uintptr_t last = (from + bytes - 1 - window_base) >> FILTER_UNIT_SHIFT;
    for (uintptr_t u = first; u <= last; u++) f->unit[u / 64] |= (uint64_t)1 << u % 64;
    uintptr_t low = window_base + (first << FILTER_UNIT_SHIFT),
              end = window_base + ((last + 1) << FILTER_UNIT_SHIFT);
    if (f->bytes == 0) {
        f->low = low;
        f->bytes = end - low;
        return;
    }
    uintptr_t old_end = f->low + f->bytes;
    if (low < f->low) f->low = low;
    f->bytes = (end > old_end ? end : old_end) - f->low;
}

/* Where the address is known to lie in the areas, or less than a unit behind them. */
static ALWAYS_INLINE unsigned in_young(const uint64_t *unit, uintptr_t base, uintptr_t address)
{
    uintptr_t u = ((address - base) & MASK48) >> FILTER_UNIT_SHIFT;
    return (unsigned)(unit[u / 64] >> u % 64) & 1;
}

static unsigned is_young(const struct filter *f, uintptr_t address)
{
    return address - window_base < FILTER_AREAS && in_young(f->unit, window_base, address);
}

/* `mask` has a bit for each word of the group that may be young, lane by lane; those that are go to `found`. */
static ALWAYS_INLINE unsigned look_up(const struct filter *f, const uintptr_t *from, uint32_t mask,
                                      unsigned lanes, bool mangled, unsigned at, uint16_t *found)
{
    const uint64_t *unit = f->unit;
    uintptr_t base = window_base;
    unsigned n = 0, each = FILTER_GROUP / lanes;
    for (; mask != 0; mask &= mask - 1) {
        unsigned bit = (unsigned)__builtin_ctz(mask), i = bit % each * lanes + bit / each;
        uintptr_t w = from[at + i];
        found[n] = (uint16_t)(at + i);
        if (mangled) { /* the range was looked at in steps of 4 GiB; each word once */
            n += is_young(f, mark_demangled(w, f->guard)) & ~is_young(f, mark_plain(w));
        } else {
            n += in_young(unit, base, w);
        }
    }
    return n;
}

/* What the compiler turns into vector instructions.  Only signed comparisons of 32 bits are there on every processor: so what is
   compared is the high half of a lane, and 2^63 too much is in what is subtracted.  For the plain form the word is first shifted
   by 16, which leaves bits 16 to 47 in the high half. */
#define DEFINE_FILTER(NAME, TARGET, BYTES)                                                         \
    typedef uint64_t NAME##_words __attribute__((vector_size(BYTES)));                             \
    typedef int32_t NAME##_halves __attribute__((vector_size(BYTES)));                             \
                                                                                                   \
    static ALWAYS_INLINE TARGET unsigned NAME##_body(                                              \
        const struct filter *f, const uintptr_t *from, unsigned n, uint16_t *found, bool demangle) \
    {                                                                                              \
        enum { LANES = BYTES / 8, EACH = FILTER_GROUP / LANES };                                   \
        const NAME##_words *v = (const NAME##_words *)from, zero = {0};                            \
        const NAME##_words low = zero + (f->low - (TOP >> 16)), far_low = zero + (f->low - TOP),   \
                           guard = zero + f->guard;                                                \
        const NAME##_halves end =                                                                  \
            (NAME##_halves)(zero + ((((f->bytes + 0xffff) >> 16) ^ TOP >> 32) << 32));             \
        const NAME##_halves far_end =                                                              \
            (NAME##_halves)(zero + ((((f->bytes >> 32) + 1) ^ TOP >> 32) << 32));                  \
        unsigned count = 0;                                                                        \
        for (unsigned at = 0; at < n; at += FILTER_GROUP, v += EACH) {                             \
            AHEAD(v);                                                                              \
            NAME##_halves any = {0};                                                               \
            UNROLL for (unsigned i = 0; i < EACH; i++)                                             \
            {                                                                                      \
                NAME##_words w = v[i];                                                             \
                any |= (NAME##_halves)((w - low) << 16) < end;                                     \
                if (demangle) any |= (NAME##_halves)(DEMANGLED(w, guard) - far_low) < far_end;     \
            }                                                                                      \
            uint64_t hit = 0;                                                                      \
            for (unsigned i = 0; i < LANES; i++) hit |= ((NAME##_words)any)[i];                    \
            if (likely(hit >> 32 == 0)) continue;                                                  \
            NAME##_halves plain = {0}, mangled = {0};                                              \
            UNROLL for (unsigned i = 0; i < EACH; i++)                                             \
            {                                                                                      \
                NAME##_words w = v[i];                                                             \
                NAME##_halves bit = (NAME##_halves)(zero + ((uint64_t)1 << (32 + i)));             \
                plain |= ((NAME##_halves)((w - low) << 16) < end) & bit;                           \
                if (demangle)                                                                      \
                    mangled |= ((NAME##_halves)(DEMANGLED(w, guard) - far_low) < far_end) & bit;   \
            }                                                                                      \
            uint32_t mask = 0, mangled_mask = 0;                                                   \
            for (unsigned i = 0; i < LANES; i++)                                                   \
                mask |= (uint32_t)(((NAME##_words)plain)[i] >> 32) << i * EACH;                    \
            count += look_up(f, from, mask, LANES, false, at, found + count);                      \
            if (!demangle) continue;                                                               \
            for (unsigned i = 0; i < LANES; i++)                                                   \
                mangled_mask |= (uint32_t)(((NAME##_words)mangled)[i] >> 32) << i * EACH;          \
            count += look_up(f, from, mangled_mask, LANES, true, at, found + count);               \
        }                                                                                          \
        return count;                                                                              \
    }                                                                                              \
    static TARGET unsigned NAME(const struct filter *f, const uintptr_t *from, unsigned n,         \
                                uint16_t *found)                                                   \
    {                                                                                              \
        return f->guard ? NAME##_body(f, from, n, found, true)                                     \
                        : NAME##_body(f, from, n, found, false);                                   \
    }
DEFINE_FILTER(words_baseline, , 16)
#if defined(__x86_64__)
DEFINE_FILTER(words_avx2, __attribute__((target("avx2"))), 32)
#endif

#if defined(__x86_64__)
/* The processor has AVX2 and the system keeps its registers (Intel SDM volume 1, 14.7.1). */
static bool has_avx2(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX)) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#endif

static unsigned (*best)(const struct filter *, const uintptr_t *, unsigned, uint16_t *);

static void choose(bool baseline)
{
    best = words_baseline;
#if defined(__x86_64__)
    if (!baseline && has_avx2()) best = words_avx2;
#endif
}

void filter_baseline(bool baseline)
{
    choose(baseline);
}

unsigned filter_words(const struct filter *f, const uintptr_t *from, unsigned n, uint16_t *found)
{
    if (unlikely(!best)) choose(false);
    return best(f, from, n, found);
}
