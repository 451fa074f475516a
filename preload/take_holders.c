/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/take_holders.h"
#include "heap/stats.h"
#include "heap/thread_heap.h"
#include "preload/collection.h"
#include "preload/headroom.h"
#include "preload/take_cut.h"

/* Bytes that the child takes for each live block, at most: tables (holders_graph.h, holders_retained.h), and four pointers. */
#define BYTES_A_BLOCK 64u

static struct cut cut;
static const char *why_not_cut;
static struct holders found;
static enum present_way at_best;

void take_holders_prepare(const struct stop_result *result)
{
    if (!collection_possible(&at_best)) why_not_cut = "collection is off here (collect:off)";
    else if (!result->complete) why_not_cut = result->no_proc ? "/proc cannot be read" : "a thread could not be stopped";
    else why_not_cut = take_cut(&cut, result, true);
}

struct holders *take_holders(const char **why_not)
{
    static struct cut_range unfrozen[64];
    struct heap_stats stats;
    *why_not = why_not_cut;
    if (!*why_not && take_cut_unfrozen(&cut, unfrozen, 64) > 0) *why_not = "the process keeps memory that a fork does not copy";
    if (*why_not) return NULL;
    heap_stats(&stats);
    if (headroom_bytes() / BYTES_A_BLOCK < stats.live) *why_not = "there is not enough free memory for the tables";
    if (*why_not) return NULL;
    struct collect_options options = {.frozen = true, .at_best = at_best, .maps = take_cut_maps()};
    options.unfrozen = take_cut_unfrozen_known(&options.n_unfrozen);
    *why_not = holders_make(&found, &cut, &options);
    return *why_not ? NULL : &found;
}
