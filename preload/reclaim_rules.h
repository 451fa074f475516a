/* reclaim_rules.h: from the keys reclaim_* to the rules of heap/reclaim.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_RECLAIM_RULES_H
#define GLEANER_RECLAIM_RULES_H

#include "preload/config.h"

/* Starts reclaim, from start-up.  Nanoseconds between major collections, where `leaks` does not say. */
uint64_t reclaim_rules_start(const struct config *);

#endif
