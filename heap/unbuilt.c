/* unbuilt.c: stand-ins for parts of the collector that land later; each yields to the real one.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/kernel_roots.h"
#include "heap/remember.h"
#include "heap/vet.h"

#define WEAK __attribute__((weak))

WEAK void present_start(struct present *p, enum present_way at_best) { p->way = PRESENT_NONE, p->fd = -1; }
WEAK void present_end(struct present *p) {}
WEAK bool present_each(struct present *p, uintptr_t from, uintptr_t to, bool copied, void (*each)(uintptr_t, uintptr_t, void *), void *user)
{
    each(from, to, user);
    return true;
}
WEAK void roots_find(struct roots *to, const struct cut *cut, const struct roots_options *o)
{
    *to = (struct roots){.complete = true};
}
WEAK void roots_free(struct roots *r) {}
WEAK void roots_each_words(struct roots *r, void (*words)(const uintptr_t *, const uintptr_t *, enum root_kind, void *), void *user) {}
WEAK size_t roots_unfrozen(const struct maps *m, struct cut_range *to, size_t room) { return 0; }
WEAK void kernel_roots(struct words *to, uint32_t thread) {}
WEAK void words_add(struct words *w, uintptr_t x) {}
WEAK bool groups_find(struct groups *to, const struct white *w, uintptr_t guard) { return false; }
WEAK void groups_free(struct groups *g) {}
WEAK bool vet(struct vet_result *to, const struct white *w, const struct groups *g, struct roots *r, const struct cut *c, bool f) { return true; }
WEAK void vet_free(struct vet_result *v) {}
WEAK void remember_start(enum remember_way forced) {}
WEAK bool remember_words(struct marker *m, struct white *y) { return true; }
WEAK void remember_arm(void) {}
WEAK void remember_fork_child(void) {}
