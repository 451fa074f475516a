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
#include "heap/ranges.h"

enum root_kind {
    ROOT_PRIVATE, /* anonymous, or a copied page of a file: data, bss, TLS, arenas */
    ROOT_STACK,   /* part of a thread's own stack that is in use */
    ROOT_SHARED,  /* changes under a snapshot: to be scanned inside the pause */
    ROOT_REGISTERS,
    ROOT_KERNEL,
    ROOT_NAMED /* by the program */
};

struct root {
    uintptr_t from, to; /* whole words; of present pages only */
    uint8_t kind;       /* enum root_kind */
    bool by_file;       /* not to be loaded from: unreadable, swapped out, or backed by a file that may be cut short:
                           by /proc/self/mem, see roots_each_words */
};

struct roots {
    struct root *root;
    size_t count, room;
    struct maps maps; /* as read for it, or lent by the options */
    bool maps_lent;
    /* Parts of the window that must not be loaded from, since the program has changed their protection, mapped
       something else there, or (ROOTS_FROZEN) a fork does not copy them.  What they hold is among the roots. */
    struct ranges blind;
    uint64_t bytes; /* of all roots */
    uintptr_t at;   /* while roots_each_words calls: the address of the first word, which may have been copied */
    bool complete;  /* false: something could not be looked at; nothing may be declared lost */
    bool no_memory; /* that is so for want of memory for our own lists */
};

/* Something is missing among them for want of memory. */
static inline void roots_lack_memory(struct roots *r)
{
    r->complete = false;
    r->no_memory = true;
}

enum roots_part {
    ROOTS_ALL,    /* in a stopped process */
    ROOTS_SHARED, /* only what a snapshot does not freeze: shared mappings, and `unfrozen` below.  In the pause. */
    ROOTS_FROZEN  /* the rest.  In the snapshot child. */
};

struct roots_options {
    enum roots_part part;
    enum present_way at_best;
    /* Bytes of shared memory to scan in the pause; what is over is left to ROOTS_FROZEN (with the same number), which
       also finds pages of shared memory that no page table shows.  It takes no part of a regular file of more than
       64 GiB. */
    size_t shared_most;
    /* Ranges that a fork does not copy (MADV_DONTFORK) or empties (MADV_WIPEONFORK), from roots_unfrozen of an earlier
       snapshot child. */
    const struct cut_range *unfrozen;
    size_t n_unfrozen;
    /* NULL: the mappings are read now, and memory that the collector has mapped before and not named in cut->ours
       would be a root.  Else those of an earlier call; in a snapshot child, of the pause's: what it has mapped itself
       does not matter then.  They must live as long as the roots. */
    struct maps *maps;
    struct pieces *pieces; /* the blocks of these arenas are no roots (arenas_mark.h); NULL: none */
};

/* Finds the roots of a cut.  Raw system calls and mappings of its own only; opens descriptors and closes them. */
void roots_find(struct roots *to, const struct cut *, const struct roots_options *);
void roots_free(struct roots *);

/* Calls `words` with every root's words, in pieces of a copy where they must not be loaded (by_file).  Protection keys
   (x86-64) and memory tags (aarch64) are out of force for the calling thread meanwhile.  Clears `complete` if
   something that nobody can load could not be copied. */
void roots_each_words(struct roots *, void (*words)(const uintptr_t *from, const uintptr_t *to, enum root_kind kind,
                                                    void *user), void *user);

/* Must a part of [from, to), in the window, not be loaded from? */
static inline bool roots_is_blind(const struct roots *r, uintptr_t from, uintptr_t to)
{
    return r->blind.count != 0 && ranges_meet(&r->blind, from, to);
}

/* In a snapshot child, before it maps anything (which might fill a hole): the ranges that the parent's maps (read in
   the pause) have and ours lack, or have as wiped; but for those of the cut that are ours.  Stores at most `room` of
   them, by ascending address, and returns how many there are, SIZE_MAX if that cannot be told.  Where
   roots_unfrozen_known does not say that the pause has scanned them, this snapshot is incomplete, and must not be
   marked nor its roots be read: blocks and roots may lie there.  Maps nothing; 16 KiB of stack. */
size_t roots_unfrozen(const struct maps *parents, const struct cut *, struct cut_range *to, size_t room);

/* Does `known` (as given to roots_find in the pause) cover all `n` ranges? */
bool roots_unfrozen_known(const struct cut_range *known, size_t n_known, const struct cut_range *ranges, size_t n);

#endif
