/* roots.h: everything outside our blocks that may hold a pointer to one.  See DESIGN section 6.

   Every present page of every mapping that the process may ever have written, private or shared, whatever its
   protection now; threads' stacks from the red zone below the stack pointer up; registers, vectors included; what
   the kernel holds (the cut's words); never the window (blocks are scanned when they are reached), never our own
   memory, a device, or a page of a file that was not copied.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_ROOTS_H
#define GLEANER_ROOTS_H

#include "heap/cut.h"
#include "heap/maps.h"
#include "heap/present.h"

enum root_kind {
    ROOT_PRIVATE,  /* anonymous, or a copied page of a file: data, bss, TLS, arenas */
    ROOT_STACK,    /* part of a thread's own stack that is in use */
    ROOT_SHARED,   /* changes under a snapshot: to be scanned inside the pause */
    ROOT_REGISTERS,
    ROOT_KERNEL,
    ROOT_NAMED     /* by the program */
};

struct root {
    uintptr_t from, to; /* whole words; of present pages only */
    uint8_t kind;       /* enum root_kind */
    bool by_file;       /* not to be loaded from: unreadable, or backed by a file that may be cut short: by
                           /proc/self/mem, see roots_each_words */
};

struct roots {
    struct root *root;
    size_t count, room;
    struct maps maps;  /* as read for it */
    uint64_t bytes;    /* of all roots */
    bool complete;     /* false: something could not be looked at; nothing may be declared lost */
};

enum roots_part {
    ROOTS_ALL,    /* in a stopped process */
    ROOTS_SHARED, /* only what a snapshot does not freeze: shared mappings, and `unfrozen` below.  In the pause. */
    ROOTS_FROZEN  /* the rest.  In the snapshot child. */
};

struct roots_options {
    enum roots_part part;
    enum present_way at_best;
    size_t shared_most; /* bytes of shared memory to scan in the pause; what is over is left to ROOTS_FROZEN */
    /* Ranges that a fork does not copy (MADV_DONTFORK) or empties (MADV_WIPEONFORK), from roots_unfrozen of an earlier
       snapshot child. */
    const struct cut_range *unfrozen;
    size_t n_unfrozen;
};

/* Finds the roots of a cut.  Raw system calls and mappings of its own only. */
void roots_find(struct roots *to, const struct cut *, const struct roots_options *);
void roots_free(struct roots *);

/* Calls `words` with every root's words, in pieces where they must be copied first (by_file). */
void roots_each_words(struct roots *, void (*words)(const uintptr_t *from, const uintptr_t *to, enum root_kind,
                                                    void *user), void *user);

/* In a snapshot child: the ranges that the parent's maps (read in the pause) have and ours lack, or have as
   wiped: stores at most `room` of them and returns how many there are.  Where it is not 0, and they were not in
   `unfrozen` of the pause, this snapshot is incomplete. */
size_t roots_unfrozen(const struct maps *parents, struct cut_range *to, size_t room);

#endif
