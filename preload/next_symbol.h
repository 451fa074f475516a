/* next_symbol.h: what dlsym(RTLD_NEXT) finds, without dlsym.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_NEXT_SYMBOL_H
#define GLEANER_NEXT_SYMBOL_H

#include <stdbool.h>

/* The address of the function `name` in the first object after this library, in the order of loading, that defines it; NULL
   if none does. Versions are not looked at.  No lock, no allocation, no call into libc: for functions that the next object may call
   while it allocates for dlsym. Objects that were there at the program's start only may follow us, or nobody may unload one
   meanwhile. */
void *next_symbol(const char *name);

/* The same in any object but this library. */
void *any_symbol(const char *name);

/* Whether an object that comes before this library in the order of loading, which is the scope's for the program's start, defines it. */
bool defined_before_us(const char *name);

/* From now on the loader finds our functions where it would find those of the first library after us that defines `of`: what it
   looks up there is changed in this process's memory, where that can be.  What was bound or looked up before stays. */
void next_symbols_redirect(const char *of, const char *const *names, unsigned count);

#endif
