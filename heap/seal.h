/* seal.h: whole pages of quarantined blocks, sealed: whoever reads or writes them, the kernel for him included, goes on undisturbed and is found
   out.

   1. Technique.  The page's contents go to a memfd, a private mapping of which takes the page's place: the same memory for everybody, but
      without an entry in the page tables until somebody touches it.  Pagemap tells.  So nobody gets SIGSEGV, which a program may have
      its own use for, and no system call EFAULT (HAZARDS H56, H58), as they would on a page without access (M. Bond and K. McKinley, "Tolerating memory
      leaks", OOPSLA 2008, and Y. Tang et al., LeakSurvivor, USENIX 2008, put such memory on disk).  Kernels map up to 16 pages around one that is
      read (fault-around), so an access may break its neighbours' seals, too: they are kept as well.
   2. Life.  A collection that has quarantined blocks seals their pages (seal_plan, seal_renew).  The next complete one looks (seal_look), ends the
      records of blocks whose seals are broken (seal_prove), reclaims others, and then dissolves all: pages become plain memory again.
   3. Synchronisation.  The table is changed within a stopped world only; any thread that is about to give pages back reads it (seal_discard), and
      reads again if the world was stopped meanwhile.  All else: the holder of the gate.
   4. Not tried: without pagemap, under a seccomp filter, with a limit on sizes of files, with pages larger than 4 KiB.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_SEAL_H
#define GLEANER_SEAL_H

#include "heap/present.h"

#define SEAL_MOST (64 * MIB) /* of sealed pages at a time */

/* From start-up, where pages are to be sealed.  False without memory. */
bool seal_start(void);

/* ---- the holder of the gate, while the program runs ---- */

/* Is anything sealed? */
bool seal_any(void);

/* What seal_renew has to do: to dissolve all seals, and with `make` to seal the pages that the quarantined blocks fill.  True if there is anything.
   Until seal_plan_end,
   which must follow in any case: the list names blocks. */
bool seal_plan(bool make);
void seal_plan_end(void);

/* Ends the records of the blocks that were used, as seal_look has found. */
void seal_prove(void);

/* Nothing is known of the seals, by a stop that failed or a fork: until they are dissolved no block under them is reclaimed. */
void seal_doubt(void);
bool seal_is_doubtful(void);

/* A slot on such pages goes back to its pool. */
void seal_returned(uintptr_t block, size_t bytes);

/* ---- in the pause; raw system calls, a descriptor table of the caller's own ---- */

/* Which seals are broken?  Where that cannot be told they are in doubt. */
void seal_look(enum present_way at_best);

/* collect_major, which may read all pages between these two, and of which the marker passes over those that are absent; in place after seal_look.  What
   a snapshot child reads is its own, and needs no seal_lower. */
void seal_lift(void);
void seal_lower(enum present_way at_best);

/* The next step of what was planned: dissolves the old seals, then makes new ones, some MiB at a time.  True if there is more. */
bool seal_renew(struct present *);

/* ---- any thread ---- */

/* As os_discard, for memory in which blocks were. */
void seal_discard(void *address, size_t bytes);

/* The program frees a block: its whole pages become plain memory, empty, so that an advice of the program to the system for what comes to lie
   there (MADV_DONTNEED) does what it says. */
void seal_break(uintptr_t block, size_t bytes);

/* Does any page of the range have a seal? */
bool seal_meets(uintptr_t from, size_t bytes);

/* Have all of them? */
bool seal_covers(uintptr_t from, uintptr_t to);

struct seal_figures {
    uint64_t bytes;  /* sealed now */
    uint64_t sealed; /* pages so far */
};
void seal_figures(struct seal_figures *);

#endif
