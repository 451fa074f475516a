/* one_thread.h: whether the process has one thread, as far as libc knows.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_ONE_THREAD_H
#define GLEANER_ONE_THREAD_H

#include <stdbool.h>

/* True only while there is no other thread; false when that is not known. */
#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define ONE_THREAD() (__libc_single_threaded)
#endif
#endif
#ifndef ONE_THREAD
#define ONE_THREAD() false
#endif

#endif
