/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/mark_team.h"
#include "heap/marker.h"
#include "heap/os.h"
#include "heap/syscall.h"

#include <linux/futex.h>

#define CHUNK 256u
#define CHUNKS 64u

struct mark_team {
    _Atomic uint32_t lock;  /* of the chunks */
    _Atomic uint32_t turn;  /* changes when there is something to take, or nothing more to do; helpers sleep on it */
    _Atomic uint32_t idle, members, left; /* `left`: helpers that have ended */
    atomic_bool roots_done, over;
    uint32_t chunks;
    uint32_t used[CHUNKS];
    struct marker *member[TEAM_MOST];
    uint64_t entry[CHUNKS][CHUNK];
};
#define TEAM_BYTES round_up(sizeof(struct mark_team), OS_PAGE)

static void wake(struct mark_team *t)
{
    atomic_fetch_add(&t->turn, 1);
    raw_syscall(SYS_futex, &t->turn, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Held for some hundred instructions; its holder runs or is preempted, never stopped. */
static void lock(struct mark_team *t)
{
    while (atomic_exchange_explicit(&t->lock, 1, memory_order_acquire)) os_yield();
}

static void unlock(struct mark_team *t) { atomic_store_explicit(&t->lock, 0, memory_order_release); }

void mark_team_share(struct marker *m)
{
    struct mark_team *t = m->team;
    if (atomic_load_explicit(&t->idle, memory_order_relaxed) == 0) return;
    uint32_t n = m->depth / 2 < CHUNK ? (uint32_t)(m->depth / 2) : CHUNK;
    lock(t);
    bool room = t->chunks < CHUNKS;
    if (room) {
        __builtin_memcpy(t->entry[t->chunks], m->stack, n * sizeof m->stack[0]);
        t->used[t->chunks++] = n;
    }
    unlock(t);
    if (!room) return;
    __builtin_memmove(m->stack, m->stack + n, (m->depth - n) * sizeof m->stack[0]);
    m->depth -= n;
    wake(t);
}

static bool take_chunk(struct mark_team *t, struct marker *m)
{
    uint64_t entry[CHUNK];
    uint32_t n = 0;
    lock(t);
    if (t->chunks > 0) {
        n = t->used[--t->chunks];
        __builtin_memcpy(entry, t->entry[t->chunks], n * sizeof entry[0]);
    }
    unlock(t);
    for (uint32_t i = 0; i < n; i++) marker_push(m, entry[i]);
    return n > 0;
}

/* Works until there is nothing more: no chunk, and nobody who could make one. */
static void work(struct mark_team *t, struct marker *m)
{
    while (!atomic_load(&t->over)) {
        uint32_t turn = atomic_load(&t->turn);
        if (take_chunk(t, m)) {
            marker_drain(m);
            continue;
        }
        uint32_t idle = atomic_fetch_add(&t->idle, 1) + 1;
        if (idle == atomic_load(&t->members) && atomic_load(&t->roots_done)) {
            /* Everybody was idle at once, and only who is not idle adds chunks. */
            lock(t);
            bool none = t->chunks == 0;
            unlock(t);
            if (none) {
                atomic_store(&t->over, true);
                wake(t);
            }
        } else {
            raw_syscall(SYS_futex, &t->turn, FUTEX_WAIT, turn, NULL, NULL, 0);
        }
        atomic_fetch_sub(&t->idle, 1);
    }
}

static void helper(void *argument)
{
    struct marker *m = argument;
    struct mark_team *t = m->team;
    work(t, m);
    atomic_fetch_add(&t->left, 1);
    raw_syscall(SYS_futex, &t->left, FUTEX_WAKE, 1, NULL, NULL, 0);
}

struct mark_team *mark_team_start(struct marker *leader, unsigned helpers, mark_start_helper *start)
{
    struct mark_team *t = helpers > 0 && start ? os_map(TEAM_BYTES) : NULL;
    if (!t) return NULL;
    t->member[0] = leader;
    atomic_store(&t->members, 1);
    leader->team = t;
    for (unsigned i = 1; i <= helpers && i < TEAM_MOST; i++) {
        struct marker *m = mark_start(leader->white, leader->guard, leader->may_look ? &leader->present : NULL);
        if (!m) break;
        m->team = t;
        t->member[i] = m;
        atomic_fetch_add(&t->members, 1);
        if (start(helper, m)) continue;
        atomic_fetch_sub(&t->members, 1);
        t->member[i] = NULL;
        mark_end(m);
        break;
    }
    if (atomic_load(&t->members) > 1) return t;
    leader->team = NULL;
    os_unmap(t, TEAM_BYTES);
    return NULL;
}

static void take_over(struct marker *leader, const struct marker *m)
{
    leader->stats.blocks += m->stats.blocks;
    leader->stats.bytes += m->stats.bytes;
    leader->stats.words += m->stats.words;
    leader->incomplete |= m->incomplete;
    if (!m->any_flagged) return;
    leader->any_flagged = true;
    leader->large_flagged |= m->large_flagged;
    for (unsigned medium = 0; medium < 2; medium++)
        for (size_t i = 0; i < m->flagged_bytes[medium] / 8; i++) leader->flagged[medium][i] |= m->flagged[medium][i];
}

void mark_team_end(struct mark_team *t)
{
    if (!t) return;
    struct marker *leader = t->member[0];
    marker_drain(leader);
    atomic_store(&t->roots_done, true);
    work(t, leader);
    uint32_t helpers = atomic_load(&t->members) - 1;
    for (uint32_t left; (left = atomic_load(&t->left)) < helpers;)
        raw_syscall(SYS_futex, &t->left, FUTEX_WAIT, left, NULL, NULL, 0);
    leader->team = NULL;
    for (unsigned i = 1; i < TEAM_MOST && t->member[i]; i++) {
        take_over(leader, t->member[i]);
        mark_end(t->member[i]);
    }
    os_unmap(t, TEAM_BYTES);
    mark_drain(leader);
}
