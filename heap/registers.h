/* registers.h: what a parked thread's signal frame holds.  Everything here reads the frame only.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REGISTERS_H
#define GLEANER_REGISTERS_H

#include "heap/base.h"

/* Bytes below the stack pointer that a function may use without moving it (x86-64 psABI, 3.2.2; none on aarch64). */
#ifdef __x86_64__
#define RED_ZONE ((uintptr_t)128)
#else
#define RED_ZONE ((uintptr_t)0)
#endif

/* Calls `each` with every range of whole words of the frame that holds registers: general and vector ones, and the
   address of the alternate stack.  `context` is the frame's ucontext_t.  The frame lies below the interrupted stack
   pointer, or on an alternate stack. */
void registers_each(const void *context,
                    void (*each)(const uintptr_t *from, const uintptr_t *to, void *user),
                    void *user);

/* The interrupted stack pointer, and the alternate stack in force (0, 0: none). */
uintptr_t registers_sp(const void *context);
void registers_alternate(const void *context, uintptr_t *low, uintptr_t *high);

#endif
