/* caller.c: three segments of growing size, each mapped when the one before has no room for a key.  A key may lie in any of the
   eight places of one cache line a segment, so a search is bounded whatever is in the table; its place is its number.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/caller.h"
#include "heap/meta.h"

#define SEGMENTS 3
#define LINE 8u /* places in a cache line */

static const uint32_t places_of[SEGMENTS] = {1u << 12, 1u << 16, CALLER_MAX - (1u << 12) - (1u << 16)};
static _Atomic(_Atomic uintptr_t *) segments[SEGMENTS];

static _Atomic uintptr_t *segment(unsigned s, bool make)
{
    _Atomic uintptr_t *at = atomic_load_explicit(&segments[s], memory_order_acquire);
    if (at || !make) return at;
    _Atomic uintptr_t *made = meta_alloc(places_of[s] * sizeof *made);
    if (!made) return NULL;
    return atomic_compare_exchange_strong(&segments[s], &at, made) ? made : at;
}

uint32_t caller_intern(uintptr_t address)
{
    if (address == 0) return 0;
    uint32_t before = 0;
    for (unsigned s = 0; s < SEGMENTS; before += places_of[s++]) {
        _Atomic uintptr_t *at = segment(s, true);
        if (!at) return 0;
        uint64_t hash = address * 0x9e3779b97f4a7c15u;
        uint32_t line = (uint32_t)(((hash >> 32) * (places_of[s] / LINE)) >> 32) * LINE;
        for (uint32_t i = line; i < line + LINE; i++) {
            uintptr_t is = atomic_load_explicit(&at[i], memory_order_relaxed);
            if (is == 0 && atomic_compare_exchange_strong(&at[i], &is, address)) is = address;
            if (is == address) return before + i + 1;
        }
    }
    return 0;
}

uintptr_t caller_address(uint32_t number)
{
    if (number == 0) return 0;
    uint32_t place = number - 1;
    for (unsigned s = 0; s < SEGMENTS; place -= places_of[s++]) {
        if (place >= places_of[s]) continue;
        _Atomic uintptr_t *at = segment(s, false);
        return at ? atomic_load_explicit(&at[place], memory_order_relaxed) : 0;
    }
    return 0;
}

uint32_t caller_limit(void)
{
    uint32_t limit = 1;
    for (unsigned s = 0; s < SEGMENTS && segment(s, false); s++) limit += places_of[s];
    return limit;
}
