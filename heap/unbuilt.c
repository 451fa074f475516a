/* unbuilt.c: stand-ins for parts of the collector that land later; each yields to the real one.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/os.h"
#include "heap/vet.h"

#define WEAK __attribute__((weak))

static void one(const struct white_block *b, void *user)
{
    struct groups *g = user;
    g->block[g->count] = (struct group_block){.block = *b, .component = (uint32_t)g->count, .head = (uint32_t)g->count};
    g->count++;
}

WEAK bool groups_find(struct groups *to, const struct white *w, uintptr_t guard)
{
    to->count = 0;
    to->bytes_mapped = round_up(w->blocks * sizeof to->block[0] + OS_PAGE, OS_PAGE);
    to->block = os_map(to->bytes_mapped);
    if (!to->block) return false;
    white_each(w, one, to);
    return true;
}
WEAK void groups_free(struct groups *g) { if (g->block) os_unmap(g->block, g->bytes_mapped); }
WEAK bool vet(struct vet_result *to, const struct white *w, const struct groups *g, struct roots *r, const struct cut *c, bool f) { return true; }
WEAK void vet_free(struct vet_result *v) {}
