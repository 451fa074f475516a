/* random_number.h: numbers at random, the same in every run, and a pointer as glibc mangles it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TEST_RANDOM_NUMBER_H
#define GLEANER_TEST_RANDOM_NUMBER_H

#include <stdint.h>

#define GUARD 0x5a5a1234cafe8765u /* the pointer guard of mangled pointers */

static uint64_t random_state = 88172645463325252u; /* anything but 0 */

static inline uint64_t random_number(void) /* xorshift64 (G. Marsaglia 2003) */
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static inline uintptr_t mangled(uintptr_t address)
{
#if defined(__x86_64__)
    address ^= GUARD;
    return address << 17 | address >> 47;
#else
    return address ^ GUARD;
#endif
}

#endif
