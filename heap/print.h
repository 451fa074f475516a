/* print.h: messages that neither allocate, lock nor use stdio (mimalloc's src/libc.c and
   jemalloc's malloc_io.c do the same).
   Conversions: %s %c %d %i %u %x %lx %p %% with the length modifiers l, ll, z, a width and 0 for padding.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PRINT_H
#define GLEANER_PRINT_H

#include "heap/base.h"
#include <stdarg.h>

/* Formats into `to` (`bytes` with the terminating zero, always written); returns the length that the
   whole text would have had, as snprintf. */
size_t print_to(char *to, size_t bytes, const char *format, ...) PRINTF_LIKE(3, 4);
size_t print_to_v(char *to, size_t bytes, const char *format, va_list);

/* Writes one message to a descriptor by a raw write, at most 1023 bytes of it. */
void print_fd(int fd, const char *format, ...) PRINTF_LIKE(2, 3);

/* What errno says, as strerror: a table of libc's, no locale and no lock. */
const char *print_error(int error);

#endif
