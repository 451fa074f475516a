/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/holders_threads.h"
#include "heap/os.h"
#include "heap/registers.h"
#include "heap/sort.h"

#define MOST_FRAMES (8 * MIB)
#define THREAD_DATA ((uintptr_t)2304) /* libc's of a thread (sizeof(struct pthread) of glibc 2.36) */

/* The run of present pages around an address. */
static const struct root *run_around(const struct roots *roots, uintptr_t address)
{
    for (size_t i = 0; i < roots->count; i++) {
        const struct root *r = &roots->root[i];
        if (r->from <= address && address < r->to && !r->by_file && (r->kind == ROOT_PRIVATE || r->kind == ROOT_STACK)) return r;
    }
    return NULL;
}

/* Where the present memory ends that the run is part of: our own thread-local memory lies in it, below the thread's control block, and
   is left out of the roots. */
static uintptr_t end_around(const struct roots *roots, const struct root *run, const struct cut *cut)
{
    uintptr_t end = run->to;
    for (size_t i = 0; i < cut->n_ours; i++) {
        const struct cut_range *o = &cut->ours[i];
        if (o->from != end) continue;
        const struct root *next = run_around(roots, o->to);
        return next ? next->to : o->to;
    }
    return end;
}

static uintptr_t control_block(uintptr_t from, uintptr_t to)
{
#if defined(__x86_64__)
    for (uintptr_t at = (from + 15) & ~(uintptr_t)15; at + 24 <= to; at += 16)
        if (*(const uintptr_t *)at == at && *(const uintptr_t *)(at + 16) == at) return at;
#endif
    return 0;
}

/* Below the thread pointer lies what the loader gives it, behind it libc's own data (U. Drepper, "ELF Handling For Thread-Local
   Storage", variant II), or the other way round (variant I). */
static void set_tls(struct holders_thread *t, uintptr_t tp, size_t tls_bytes)
{
    t->tp = tp;
#if defined(__x86_64__)
    t->tls = tp - tls_bytes;
    t->tls_end = tp + THREAD_DATA;
#else
    t->tls = tp - THREAD_DATA;
    t->tls_end = tp + tls_bytes + 16;
#endif
}

static struct holders_thread describe(const struct cut_thread *thread, const struct cut *cut, const struct roots *roots)
{
    struct holders_thread t = {.thread = thread};
    uintptr_t sp = thread->context ? registers_sp(thread->context) : thread->sp;
    const struct root *run = sp ? run_around(roots, sp & ~(uintptr_t)7) : NULL;
    uintptr_t run_end = run ? end_around(roots, run, cut) : 0;
    if (run) {
        bool known = thread->stack_low < thread->stack_high;
        const struct map *map = maps_find(&roots->maps, sp);
        t.frames = known ? thread->stack_low : sp - run->from > MOST_FRAMES ? sp - MOST_FRAMES : run->from;
        t.frames_end = known ? thread->stack_high : run_end - sp > MOST_FRAMES ? sp + MOST_FRAMES : run_end;
        t.used = t.frames <= sp && sp < t.frames_end ? (sp - RED_ZONE) & ~(uintptr_t)7 : t.frames;
        if (t.used < t.frames) t.used = t.frames;
        uintptr_t tp = map && map->kind == MAP_KIND_MAIN_STACK ? 0 : control_block(sp, run_end);
        if (tp && tp < t.frames_end) set_tls(&t, tp, cut->tls_bytes);
        else if (tp && !known && tp - sp < 1024 * MIB) { /* a large stack, deeply used */
            set_tls(&t, tp, cut->tls_bytes);
            t.frames_end = tp;
        }
        if (t.tls > sp && t.tls < t.frames_end) t.frames_end = t.tls;
    }
    if (run && t.tls_end > run_end) t.tls_end = run_end;
    if (t.tp == 0 && thread->tp) set_tls(&t, thread->tp, cut->tls_bytes);
    return t;
}

static bool less_frames(const void *a, const void *b)
{
    return ((const struct holders_thread *)a)->frames < ((const struct holders_thread *)b)->frames;
}

static bool less_tls(const void *a, const void *b)
{
    return ((const struct holders_thread *)a)->tls < ((const struct holders_thread *)b)->tls;
}

bool holders_threads_find(struct holders_threads *to, const struct cut *cut, const struct roots *roots)
{
    *to = (struct holders_threads){.bytes = round_up((2 * cut->threads + 1) * sizeof *to->by_tls, OS_PAGE)};
    to->by_frames = os_map(to->bytes);
    if (!to->by_frames) return false;
    to->by_tls = to->by_frames + cut->threads;
    for (size_t i = 0; i < cut->threads; i++) to->by_frames[i] = to->by_tls[i] = describe(&cut->thread[i], cut, roots);
    to->count = cut->threads;
    sort_in_place(to->by_frames, to->count, sizeof *to->by_frames, less_frames);
    sort_in_place(to->by_tls, to->count, sizeof *to->by_tls, less_tls);
    return true;
}

void holders_threads_free(struct holders_threads *t)
{
    if (t->by_frames) os_unmap(t->by_frames, t->bytes);
    *t = (struct holders_threads){0};
}

size_t holders_frames_from(const struct holders_threads *t, uintptr_t address)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->by_frames[middle].frames_end > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

const struct holders_thread *holders_frames_at(const struct holders_threads *t, uintptr_t address)
{
    size_t i = holders_frames_from(t, address);
    return i < t->count && t->by_frames[i].frames <= address ? &t->by_frames[i] : NULL;
}

const struct holders_thread *holders_tls_at(const struct holders_threads *t, uintptr_t address)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->by_tls[middle].tls_end > address) high = middle;
        else low = middle + 1;
    }
    return low < t->count && t->by_tls[low].tls <= address ? &t->by_tls[low] : NULL;
}
