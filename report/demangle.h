/* demangle.h: readable names of C++ and Rust functions.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_DEMANGLE_H
#define GLEANER_REPORT_DEMANGLE_H

/* The readable form of a linker symbol, or NULL when it is not mangled.  To be freed. Bounded in
   depth and length, so that names out of an untrusted file do no harm. */
char *demangle(const char *symbol);

#endif
