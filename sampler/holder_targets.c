/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/holder_targets.h"
#include "heap/os.h"
#include "sampler/site.h"
#include "sampler/stack.h"
#include "sampler/tracked.h"

struct choice {
    struct holder_targets *to;
    uint32_t *live; /* by stack: blocks; then its index in `stack` + 1 */
    uint32_t *seen; /* by index: blocks that came by */
    uint32_t limit; /* of stacks */
};

static uint32_t stack_of(const struct choice *c, const struct tracked_view *v)
{
    uint32_t stack = site_stack(v->site);
    return stack < c->limit ? stack : 0;
}

static void count(uint32_t entry, const struct tracked_view *v, void *user)
{
    struct choice *c = user;
    c->live[stack_of(c, v)]++;
}

/* The i-th of `live` blocks is taken when i * count / live steps on: `count` of them. */
static void choose(uint32_t entry, const struct tracked_view *v, void *user)
{
    struct choice *c = user;
    uint32_t index = c->live[stack_of(c, v)];
    if (index == 0) return;
    const struct holder_stack *s = &c->to->stack[index - 1];
    uint64_t i = c->seen[index - 1]++, before = i * s->count / s->live, after = (i + 1) * s->count / s->live;
    if (after != before && i < s->live) c->to->block[s->first + before] = (uintptr_t)v->block;
}

static void *map_items(size_t items, size_t bytes, size_t *mapped)
{
    *mapped = round_up(items * bytes + 1, OS_PAGE);
    return os_map(*mapped);
}

static bool share_out(struct choice *c, uint32_t stacks)
{
    struct holder_targets *to = c->to;
    uint32_t each = stacks ? TARGETS_WANTED / stacks : 0, first = 0;
    if (each > TARGETS_A_STACK) each = TARGETS_A_STACK;
    if (each < TARGETS_LEAST) each = TARGETS_LEAST;
    to->stack = map_items(stacks, sizeof *to->stack, &to->stack_bytes);
    if (!to->stack) return false;
    for (uint32_t stack = 0; stack < c->limit; stack++) {
        uint32_t live = c->live[stack], n = live < each ? live : each;
        if (live == 0) continue;
        if (n > TARGETS_MOST - first) n = TARGETS_MOST - first;
        to->stack[to->stacks++] = (struct holder_stack){stack, live, first, n};
        c->live[stack] = to->stacks;
        first += n;
    }
    to->block = map_items(first, sizeof *to->block, &to->block_bytes);
    return to->block != NULL;
}

bool holder_targets_find(struct holder_targets *to)
{
    *to = (struct holder_targets){0};
    struct choice c = {.to = to, .limit = stack_id_limit() + 1};
    size_t live_bytes, seen_bytes = 0;
    uint32_t stacks = 0;
    c.live = map_items(c.limit, sizeof *c.live, &live_bytes);
    bool ok = c.live != NULL;
    if (ok) {
        tracked_each(count, &c);
        for (uint32_t i = 0; i < c.limit; i++) stacks += c.live[i] != 0;
        c.seen = map_items(stacks, sizeof *c.seen, &seen_bytes);
        ok = c.seen && share_out(&c, stacks);
    }
    if (ok) tracked_each(choose, &c);
    if (c.live) os_unmap(c.live, live_bytes);
    if (c.seen) os_unmap(c.seen, seen_bytes);
    if (!ok) holder_targets_free(to);
    return ok;
}

void holder_targets_free(struct holder_targets *t)
{
    if (t->stack) os_unmap(t->stack, t->stack_bytes);
    if (t->block) os_unmap(t->block, t->block_bytes);
    *t = (struct holder_targets){0};
}
