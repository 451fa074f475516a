/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/large_gate.h"
#include "heap/os.h"

#define PAUSE 50000 /* ns */

THREAD_LOCAL struct large_thread large_thread;

static struct {
    _Alignas(64) _Atomic int inside;
} shards[LARGE_SHARDS];
static _Atomic int closed;           /* forks in progress */
static _Atomic bool broken;          /* a child left somebody inside */
static THREAD_LOCAL bool fork_empty; /* the forking thread's prepare saw nobody inside */

unsigned large_shard_slow(void)
{
    static _Atomic unsigned next;
    unsigned shard = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % LARGE_SHARDS;
    large_thread.shard = (uint8_t)(shard + 1);
    return shard;
}

bool large_gate_enter(void)
{
    if (unlikely(large_thread.inside)) return false;
    unsigned shard = large_shard();
    large_thread.inside = true;
    atomic_fetch_add(&shards[shard].inside, 1);
    if (likely(atomic_load(&closed) == 0 && !atomic_load_explicit(&broken, memory_order_relaxed)))
        return true;
    large_gate_leave();
    return false;
}

void large_gate_leave(void)
{
    atomic_fetch_sub(&shards[large_thread.shard - 1].inside, 1);
    large_thread.inside = false;
}

bool large_gate_broken(void)
{
    return atomic_load_explicit(&broken, memory_order_relaxed);
}

static bool somebody_inside(void)
{
    for (unsigned i = 0; i < LARGE_SHARDS; i++)
        if (atomic_load(&shards[i].inside) != 0) return true;
    return false;
}

void large_gate_prepare(void)
{
    atomic_fetch_add(&closed, 1);
    int waits = 0;
    while (somebody_inside() && waits++ < 200) os_sleep(PAUSE);
    fork_empty = !somebody_inside();
}

void large_gate_parent(void)
{
    atomic_fetch_sub(&closed, 1);
}

void large_gate_child(void)
{
    if (!fork_empty) atomic_store(&broken, true);
    for (unsigned i = 0; i < LARGE_SHARDS; i++) atomic_store(&shards[i].inside, 0);
    large_thread.inside = false;
    atomic_store(&closed, 0); /* other threads' forks are not ours */
}
