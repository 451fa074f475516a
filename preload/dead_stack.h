/* dead_stack.h: what our own calls leave on a thread's stack.

   The frames that a collection is reached through, and those of the code that reads its results, lie on the stack of the thread that asked, where
   a later scan finds them: a word that no function has written to still holds what an earlier call had there, which may be
   the address of a lost block.  (LeakSanitizer takes the stack pointer as early as it can, against the same.)
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_DEAD_STACK_H
#define GLEANER_DEAD_STACK_H

#include "heap/base.h"

#define DEAD_STACK_BYTES 1536 /* more than the frames from collection_run to stop_world; stacks may be small */

/* Zeroes the stack below the caller's frame: before a collection, and after code that had addresses of lost blocks. */
static NOINLINE __attribute__((unused)) void dead_stack_clear(void)
{
    char dead[DEAD_STACK_BYTES];
    __builtin_memset(dead, 0, sizeof dead);
    __asm__ volatile("" : : "r"(dead) : "memory");
}

/* The same after a text was written, whose frames are deeper by its buffers: registers that still had such an address were saved there. */
#define DEAD_STACK_TEXT_BYTES 7168
static NOINLINE __attribute__((unused)) void dead_stack_clear_text(void)
{
    char dead[DEAD_STACK_TEXT_BYTES];
    __builtin_memset(dead, 0, sizeof dead);
    __asm__ volatile("" : : "r"(dead) : "memory");
}

#endif
