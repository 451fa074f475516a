/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/window.h"
#include "heap/os.h"

uintptr_t window_base;
bool (*window_is_used)(uintptr_t from, uintptr_t to);
bool (*window_is_sealed)(uintptr_t from, uintptr_t to);

/* The range keeps clear of the kernel's own choices (top of the address space, the executable at
   0x55…) and of words that data likes: small integers and doubles lie elsewhere, and no text has 0x10-0x1f in the sixth byte of a word
   (control characters; a word may have a tag above it, and ", " was an address while the range went on to 0x28…).  Nor do the areas, which begin at whole GiB from the base, begin where the low half of a word is a small
   number of either sign: two of those in one word (a port and a count) would be an address. */
#define LOWEST ((uintptr_t)0x100000000000)
#define HIGHEST ((uintptr_t)0x200000000000)
#define STEP (4 * GIB)
/* In units of STEP of which 64 make up a quarter of the window: none where an area would begin with, or soon reach, addresses whose fifth byte is 0,
   since one byte among zeros makes those. */
#define UNITS 64
#define UNITS_GOOD 55
#define UNIT(random) ((random) / UNITS_GOOD * UNITS + 1 + (random) % UNITS_GOOD)
/* 0x54000000, 0x5c…, 0x64…, 0x6c…: multiples of 64 MiB, which alignment inside the large area relies on, and neither a round number (0x80000000
   is in every program) nor a single-precision number of daily use. */
#define LOW_HALF(random) (0x54000000 + (random) % 4 * 0x8000000)

void window_start(void)
{
    if (__atomic_load_n(&window_base, __ATOMIC_ACQUIRE) != 0) return;
    uint64_t random;
    os_random(&random, sizeof random);
    uintptr_t places = (HIGHEST - LOWEST - WINDOW_BYTES) / STEP / UNITS * UNITS_GOOD;
    uintptr_t base = LOWEST + UNIT((uintptr_t)(random % places)) * STEP + LOW_HALF(random >> 40), none = 0;
    __atomic_compare_exchange_n(&window_base, &none, base, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
