/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/starved.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/reclaim.h"
#include "heap/syscall.h"
#include "heap/thread_heap.h"
#include "preload/headroom.h"
#include "preload/own_memory.h"
#include "preload/process.h"
#include "preload/stop.h"

#include <errno.h>
#include <sys/resource.h>

#define RESERVE_LEAST (4 * MIB)
#define RESERVE_MOST (256 * MIB)
#define TRIES 4u
#define AGAIN 200000000u /* ns: until it is tried again where nothing came of it */

static int (*collect_now)(void);
static uint64_t room = UINT64_MAX;
static bool limited;                    /* by a limit on addresses */
static _Atomic uint64_t not_before;     /* os_now_coarse */
static void *reserve;
static size_t reserve_bytes;

void starved_start(int (*collect)(void)) { collect_now = collect; }

void starved_look(void)
{
    uint64_t limits = headroom_limits(), all = headroom_bytes();
    limited = limits != UINT64_MAX;
    room = limits < all ? limits : all;
}

uint64_t starved_room(void) { return room; }

bool starved_is_tight(void) { return room < (uint64_t)atomic_load(&heap_taken_bytes) / 2; }

void starved_in_child(void)
{
    static const int limits[] = {RLIMIT_AS, RLIMIT_DATA};
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit r;
        if (raw_syscall(SYS_prlimit64, 0, limits[i], NULL, &r) != 0) continue;
        r.rlim_cur = r.rlim_max;
        raw_syscall(SYS_prlimit64, 0, limits[i], &r, NULL);
    }
}

void starved_give_reserve_up(void)
{
    if (reserve) own_unmap(reserve, reserve_bytes);
    reserve = NULL;
}

/* The child's lists take some 80 bytes a lost block, the tables a hundredth of the heap; where so much is not to be had, what there is. */
bool starved_take_reserve(void)
{
    size_t want = round_up(RESERVE_LEAST + (size_t)atomic_load(&heap_taken_bytes) / 16 + 96 * (size_t)lost_records_end(), OS_PAGE);
    if (want > RESERVE_MOST) want = RESERVE_MOST;
    if (!limited) return true;
    for (; want >= RESERVE_LEAST / 4; want = round_up(want / 2, OS_PAGE)) {
        if (reserve && reserve_bytes >= want) return true;
        void *more = own_map(want);
        if (!more) continue;
        starved_give_reserve_up();
        reserve = more;
        reserve_bytes = want;
        return true;
    }
    return reserve != NULL;
}

static bool with_gate(bool take)
{
    if (!stop_gate_try()) return !take;
    bool done = !take || starved_take_reserve();
    if (!take) starved_give_reserve_up();
    stop_gate_leave();
    return done;
}

static uint64_t reclaimed_bytes(void)
{
    struct reclaim_figures f;
    reclaim_figures(&f);
    return f.reclaimed_bytes;
}

bool starved(struct heap_thread_hook *unused)
{
    uint64_t until = atomic_load(&not_before);
    if (!collect_now || !reclaim_is_on() || os_now_coarse() < until || process_is_borrowed()) return false;
    if (!atomic_compare_exchange_strong(&not_before, &until, UINT64_MAX)) return false;
    uint64_t before = reclaimed_bytes();
    /* Until there is something, and first of all what the next time needs. */
    for (unsigned i = 0; i < TRIES; i++) {
        with_gate(false);
        if (collect_now() == ENOTSUP) break;
        heap_save_memory();
        if (with_gate(true) && reclaimed_bytes() > before) break;
    }
    /* To stand still is better than to die; but not for nothing. */
    bool some = reclaimed_bytes() > before;
    atomic_store(&not_before, some ? 0 : os_now_coarse() + AGAIN);
    return some;
}

void starved_end(void)
{
    if (!reserve) return;
    with_gate(false);
    heap_save_memory();
}

void starved_forked(void)
{
    starved_give_reserve_up();
    atomic_store(&not_before, 0);
}
