/* pointer_guard.h: the value with which glibc mangles stack and instruction pointers in jmp_buf and elsewhere (PTR_MANGLE).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_POINTER_GUARD_H
#define GLEANER_POINTER_GUARD_H

#include "heap/base.h"

/* 0 where it cannot be told for sure.  From start-up. */
uintptr_t pointer_guard(void);

#endif
