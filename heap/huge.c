/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/huge.h"
#include "heap/os.h"
#include "heap/window.h"

#define PIECE_SHIFT 22

static _Atomic uint64_t asked[WINDOW_BYTES >> PIECE_SHIFT >> 6]; /* a bit for each piece; pages of it only where there is one */
static atomic_bool any;

void huge_prefer(void *at, size_t bytes)
{
    os_prefer_huge(at, bytes);
    size_t from = ((uintptr_t)at - window_base) >> PIECE_SHIFT, to = ((uintptr_t)at + bytes - 1 - window_base) >> PIECE_SHIFT;
    for (; from <= to; from++) atomic_fetch_or_explicit(&asked[from / 64], (uint64_t)1 << from % 64, memory_order_relaxed);
    atomic_store_explicit(&any, true, memory_order_relaxed);
}

bool huge_is_preferred(uintptr_t address)
{
    size_t piece = (address - window_base) >> PIECE_SHIFT;
    return atomic_load_explicit(&any, memory_order_relaxed) &&
           (atomic_load_explicit(&asked[piece / 64], memory_order_relaxed) >> piece % 64 & 1);
}
