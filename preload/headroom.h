/* headroom.h: is there memory for a snapshot child, whose pages the parent's writes will copy?
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_HEADROOM_H
#define GLEANER_HEADROOM_H

#include "heap/base.h"

/* Bytes that may still be used before the machine (MemAvailable) or the process's control group (version 2) is out of memory;
   UINT64_MAX if neither can be read. Opens descriptors: in a thread with a table of its own. */
uint64_t headroom_bytes(void);

/* Bytes that RLIMIT_AS and RLIMIT_DATA leave; UINT64_MAX without limits.  As above. */
uint64_t headroom_limits(void);

#endif
