/* take_cut.c: see take_cut.h.  Everything here is static or mapped outside the window and noted as our own; nothing is allocated in the pause but
   by mapping.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/take_cut.h"
#include "heap/collect.h"
#include "heap/kernel_roots.h"
#include "heap/mark.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/syscall.h"
#include "preload/own_memory.h"
#include "preload/own_tls.h"
#include "preload/pointer_guard.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#define ROOTS_ROOM 1024         /* ranges that the program names */
#define UNFROZEN_ROOM 64

static uintptr_t guard;
static uintptr_t main_tp; /* thread pointer of the thread in which we started */
static size_t tls_bytes;  /* static thread-local memory of a thread */
static struct cut_thread *threads; /* mapped; room for `thread_room` */
static size_t thread_room, thread_count;
static struct words held;  /* by the kernel */
static struct words words; /* all of the cut */
static struct cut_range *ours; /* mapped; room for `ours_room` */
static size_t ours_room;
static struct roots shared; /* its maps are the parent's: the child compares */
static struct cut_range unfrozen[UNFROZEN_ROOM];
static size_t n_unfrozen;
/* What a snapshot child has found to be missing, for the next cut; shared with it, and with nobody else: a forked program makes its own. */
static struct told {
    size_t n;
    struct cut_range range[UNFROZEN_ROOM];
} *told;

/* Written by any thread, read in the pause. */
static struct {
    _Atomic uintptr_t from, to;
} named[ROOTS_ROOM];
static struct cut_range named_now[ROOTS_ROOM];

/* Of the modules that are there from the start; what a dlopen adds later lies in blocks, or in what is left over here. */
static int add_tls(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_TLS) tls_bytes += round_up(p->p_memsz, p->p_align > 16 ? p->p_align : 16);
    }
    return 0;
}

void take_cut_start(void)
{
    guard = pointer_guard();
    main_tp = (uintptr_t)__builtin_thread_pointer();
    dl_iterate_phdr(add_tls, NULL);
    own_tls_start();
}

int take_cut_add_root(uintptr_t from, uintptr_t to)
{
    if (from == 0 || from >= to) return EINVAL;
    for (unsigned i = 0; i < ROOTS_ROOM; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&named[i].from, &none, 1)) continue;
        atomic_store(&named[i].to, to);
        atomic_store(&named[i].from, from);
        return 0;
    }
    return ENOMEM;
}

int take_cut_remove_root(uintptr_t from, uintptr_t to)
{
    for (unsigned i = 0; i < ROOTS_ROOM; i++) {
        uintptr_t is = from;
        if (atomic_load(&named[i].from) != from || atomic_load(&named[i].to) != to) continue;
        if (atomic_compare_exchange_strong(&named[i].from, &is, 0)) return 0;
    }
    return EINVAL;
}

void take_cut_note_stack(void)
{
    pthread_attr_t attr;
    void *low;
    size_t bytes, guard_bytes;
    struct thread_record *r = thread_enter((uint32_t)raw_syscall(SYS_gettid, 0));
    if (!r || r->stack_high != 0 || pthread_getattr_np(pthread_self(), &attr) != 0) return;
    if (pthread_attr_getstack(&attr, &low, &bytes) == 0 && pthread_attr_getguardsize(&attr, &guard_bytes) == 0 &&
        bytes > 0) {
        r->stack_low = (uintptr_t)low;
        r->stack_high = (uintptr_t)low + bytes;
    }
    pthread_attr_destroy(&attr);
}

static bool room_for_threads(size_t n)
{
    if (n <= thread_room) return true;
    size_t room = round_up(n + n / 2 + 64, OS_PAGE / sizeof *threads);
    struct cut_thread *more = own_map(round_up(room * sizeof *more, OS_PAGE));
    if (!more) return false;
    if (threads) own_unmap(threads, round_up(thread_room * sizeof *threads, OS_PAGE));
    threads = more;
    thread_room = room;
    return true;
}

static bool room_for_ours(size_t n)
{
    if (n <= ours_room) return true;
    size_t room = round_up(n + n / 2, OS_PAGE / sizeof *ours);
    struct cut_range *more = own_map(round_up(room * sizeof *more, OS_PAGE));
    if (!more) return false;
    if (ours) own_unmap(ours, round_up(ours_room * sizeof *ours, OS_PAGE));
    ours = more;
    ours_room = room;
    return true;
}

struct gather {
    uint32_t thread; /* one that lives */
    bool bad;
};

static void add_thread(struct thread_record *r, void *argument)
{
    struct gather *g = argument;
    if (r->state != THREAD_PARKED && r->state != THREAD_CALLER) return;
    if (r->state == THREAD_PARKED && !atomic_load(&r->context)) return; /* of an earlier stop */
    if (thread_count == thread_room) {
        g->bad = true;
        return;
    }
    uint32_t tid = atomic_load(&r->tid);
    if (r->state == THREAD_CALLER) g->thread = tid;
    threads[thread_count++] = (struct cut_thread){
        .context = atomic_load(&r->context), .sp = r->sp, .stack_low = r->stack_low, .stack_high = r->stack_high,
        .tid = tid, .tp = tid == (uint32_t)raw_syscall(SYS_getpid, 0) ? main_tp : 0};
}

static void keep_shared(const uintptr_t *from, const uintptr_t *to, enum root_kind kind, void *user)
{
    uintptr_t at = shared.at;
    for (; from < to; from++, at += sizeof *from) {
        uintptr_t plain = mark_plain(*from) - window_base, other = mark_demangled(*from, guard) - window_base;
        if (plain < WINDOW_TABLES_OFFSET || (guard && other < WINDOW_TABLES_OFFSET)) words_add(&words, *from, at);
    }
}

static uintptr_t pc_of(const void *context)
{
    const ucontext_t *c = context;
#if defined(__x86_64__)
    return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)c->uc_mcontext.pc;
#endif
}

bool take_cut_found_us_at_work(void)
{
    for (size_t i = 0; i < thread_count; i++)
        if (threads[i].context && own_text_holds(pc_of(threads[i].context))) return true;
    return own_tls_slot_in_hand();
}

static void hear(void)
{
    if (told) {
        take_cut_scan_unfrozen(told->range, told->n < UNFROZEN_ROOM ? told->n : UNFROZEN_ROOM);
        told->n = 0;
        return;
    }
    size_t bytes = round_up(sizeof *told, OS_PAGE);
    long at = raw_syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((unsigned long)at >= -4095UL) return;
    told = (struct told *)at;
    own_memory_add((uintptr_t)told, (uintptr_t)told + bytes);
}

const char *take_cut(struct cut *cut, const struct stop_result *result, bool frozen_follows)
{
    struct gather g = {0};
    thread_count = 0;
    if (frozen_follows) hear();
    if (!room_for_threads(result->threads + 16)) return "no memory for the list of threads";
    if (!room_for_ours(OWN_RANGES + 8 + own_tls_most() + 2)) return "no memory for the list of our own ranges";
    thread_each(add_thread, &g);
    if (g.bad) return "there are more threads than were counted";
    /* Mapped anew each time: what stands in the list of mappings that roots_find reads must not be unmapped by words_add afterwards. */
    words_free(&held);
    words_free(&words);
    held = words = (struct words){0};
    kernel_roots(&held, g.thread);
    size_t n_named = 0;
    for (unsigned i = 0; i < ROOTS_ROOM; i++) {
        uintptr_t from = atomic_load(&named[i].from);
        if (from > 1) named_now[n_named++] = (struct cut_range){from, atomic_load(&named[i].to)};
    }
    size_t n_ours = own_memory(ours, OWN_RANGES + 8);
    if (n_ours > OWN_RANGES + 8) return "too many ranges of our own";
    n_ours += own_tls(ours + n_ours, ours_room - n_ours - 2);
    if (n_ours > ours_room - 2) return "more threads have heaps than were counted";
    *cut = (struct cut){.thread = threads, .threads = thread_count, .ours = ours, .n_ours = n_ours,
                        .root = named_now, .n_root = n_named, .pointer_guard = guard, .tls_bytes = tls_bytes};
    /* What an earlier snapshot needed is no root either: its list of mappings names the window's beginning, where a block lies. */
    roots_free(&shared);
    if (frozen_follows) {
        const struct roots_options which = {.part = ROOTS_SHARED, .at_best = PRESENT_SCAN, .shared_most = COLLECT_SHARED_MOST,
                                            .unfrozen = unfrozen, .n_unfrozen = n_unfrozen};
        roots_find(&shared, cut, &which);
        roots_each_words(&shared, keep_shared, NULL);
        if (!shared.complete) return "shared memory could not be looked at";
    }
    for (size_t i = 0; i < held.count; i++) words_add(&words, held.word[i], held.at[i]);
    if (held.incomplete || words.incomplete) return "what the kernel holds could not be read";
    cut->word = words.word;
    cut->word_at = words.at;
    cut->words = words.count;
    /* Both are no roots of a collection in place, which reads the mappings after this. */
    const struct words *lists[] = {&held, &words};
    for (unsigned i = 0; i < 2; i++)
        if (lists[i]->word)
            ours[cut->n_ours++] = (struct cut_range){(uintptr_t)lists[i]->word, (uintptr_t)(lists[i]->word + 2 * lists[i]->room)};
    return NULL;
}

size_t take_cut_unfrozen(const struct cut *cut, struct cut_range *to, size_t room)
{
    size_t n = roots_unfrozen(&shared.maps, cut, to, room);
    if (n <= room && roots_unfrozen_known(unfrozen, n_unfrozen, to, n)) return 0;
    if (told) {
        size_t some = n < room ? n : room;
        if (some > UNFROZEN_ROOM) some = UNFROZEN_ROOM;
        for (size_t i = 0; i < some; i++) told->range[i] = to[i];
        told->n = some;
    }
    return n;
}

void take_cut_forked(void)
{
    if (told) own_unmap(told, round_up(sizeof *told, OS_PAGE));
    told = NULL;
}

struct maps *take_cut_maps(void) { return &shared.maps; }

const struct cut_range *take_cut_unfrozen_known(size_t *n)
{
    *n = n_unfrozen;
    return unfrozen;
}

void take_cut_scan_unfrozen(const struct cut_range *range, size_t n)
{
    /* Ranges that are not mapped any more cost nothing; the oldest make room. */
    for (size_t i = 0; i < n; i++) unfrozen[(n_unfrozen + i) % UNFROZEN_ROOM] = range[i];
    n_unfrozen = n_unfrozen + n < UNFROZEN_ROOM ? n_unfrozen + n : UNFROZEN_ROOM;
}
