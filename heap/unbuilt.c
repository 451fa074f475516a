/* unbuilt.c: stand-ins for parts of the collector that land later; each yields to the real one.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/remember.h"
#include "heap/vet.h"

#define WEAK __attribute__((weak))

WEAK bool groups_find(struct groups *to, const struct white *w, uintptr_t guard) { return false; }
WEAK void groups_free(struct groups *g) {}
WEAK bool vet(struct vet_result *to, const struct white *w, const struct groups *g, struct roots *r, const struct cut *c, bool f) { return true; }
WEAK void vet_free(struct vet_result *v) {}
WEAK void remember_start(enum remember_way forced) {}
WEAK bool remember_words(struct marker *m, struct white *y) { return true; }
WEAK void remember_arm(void) {}
WEAK void remember_fork_child(void) {}
