/* vet_narrow.h: pointers kept in 32 bits: the low half of an address, or of an address shifted right by three, as V8, the JVM and
   LuaJIT compress them.  Only exactly at a block's start, and aligned to four.

   1. Chance.  Memory is full of 32-bit values, so a form that is found says something only where it would hardly
      be found by chance.  A value counts as a chance hit with the density of other values near it: of the distinct values
      that were seen in the same 64 Ki, at multiples of 16 (of 2 for the shifted form), how many there are, but never less than
      if all values looked at were spread evenly.  A block in the first pools has a small number for
      its low half; numbers below 64 Ki are not looked at.  Forms are counted from the least dense on, as
      long as the expected number of chance hits of all of them stays below VET_CHANCE_MOST.
      Round values, a small number times a power of two, and those of short fractions, are far more frequent than their neighbours:
      flags, sizes, masks.  0x80000000 is in every process, and says nothing of a block at a multiple of a GiB.  So such a form
      is also measured by how many of all round values were seen.
   2. What is seen is a bit for each value, in 8 KiB for each 64 Ki that holds a form.  They answer the question for the forms, too.
   3. An aligned 64-bit word that points into the window is a pointer, and its halves are no values.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_VET_NARROW_H
#define GLEANER_VET_NARROW_H

#include "heap/groups.h"

#define VET_CHANCE_MOST 0.01

struct vet_densities;

struct vet_narrow {
    uint16_t *
        slot_of; /* of each 64 Ki of values: 1 + its number among those that hold a form, 0: none */
    uint64_t *seen; /* 8 KiB for each of them */
    struct vet_densities *densities;
    uint64_t *round;      /* a bit for each multiple of 4096 */
    double round_density; /* of round values */
    size_t slots, slot_bytes, seen_bytes, density_bytes;
    uint64_t forms, halves; /* of all blocks; values looked at */
    bool off;               /* so much was looked at that no form can count */
};

/* For all blocks of the groups, where some `bytes` at least will be looked at.  Mappings of its own; false without memory, then
   nothing is held. */
bool vet_narrow_start(struct vet_narrow *, const struct groups *, uint64_t bytes);
void vet_narrow_end(struct vet_narrow *);

/* Looks at the values in the bytes. */
void vet_narrow_look(struct vet_narrow *, const uint8_t *at, size_t bytes);

/* Calls `found` for every block of which a form was found that counts.  Returns the expected number of chance hits among the
   forms that count, or where none can count of all forms. */
double vet_narrow_found(struct vet_narrow *, const struct groups *,
                        void (*found)(uint32_t block, void *user), void *user);

#endif
