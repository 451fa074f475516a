/* unwind.c: which way a stack is taken.

   1. The walker (walk.h) first: it needs nothing but the unwind tables.  Where it meets a rule that
      it does not know, libunwind takes the whole stack.
   2. When libunwind is opened.  dlopen takes the loader's lock and allocates.  In a malloc of a
      process with several threads another thread may hold that lock and wait for a lock of the
      program that our caller holds (it called malloc under it): a deadlock.  So it is opened only
      while the process has one thread, outside the loader, once it has been needed; or in
      pthread_create, before a second thread exists, if it was needed by then.  By default most
      processes never open it (2-11 ms).  It must not be a dependency: it exports _Unwind_* and
   would take over the program's C++ exceptions; RTLD_LOCAL keeps its names to itself.
   3. What it does (1.6.2, from its source): a look-up of an unknown function calls dl_iterate_phdr
      with all signals blocked by sigprocmask; a thread's first trace maps 256 KiB, takes a mutex
   and calls pthread_setspecific, which may call calloc; initialisation opens a pipe.  Its trace
   cache is never flushed, so after a dlclose it is asked no more.
   4. Fork.  A child hangs in libunwind if at the fork another thread was inside
   it, or inside the loader: dlopen and dlclose hold the lock that dl_iterate_phdr takes, and nobody
   can wait for them to end.  (A gate around our own calls was tried: 1 child of some 50 still hung
   beside a thread that calls dlopen.)  So a child of a process with threads never calls libunwind;
   the walker, which takes no lock, goes on. SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/unwind.h"
#include "heap/one_thread.h"
#include "sampler/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>

static enum sampler_unwinder mode = SAMPLER_LIBUNWIND;
static bool started;
static void (*warn)(const char *);

static int (*_Atomic backtrace_of_libunwind)(void **, int);
enum opening { UNTRIED, OPENING, OPENED, ABSENT };
static _Atomic int opening = UNTRIED;
static atomic_bool needed;
static _Atomic uint32_t opened_epoch;
static _Atomic uint64_t fallbacks, refused;
static THREAD_LOCAL bool inside, threads_at_fork;
uintptr_t unwind_own_from, unwind_own_bytes;

static void say(const char *line)
{
    if (warn) warn(line);
}

/* Only where note 2 allows it. */
static void open_libunwind(void)
{
    int untried = UNTRIED;
    if (!atomic_compare_exchange_strong(&opening, &untried, OPENING)) return;
    int saved = errno;
    void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    void *take = library ? dlsym(library, "unw_backtrace") : NULL;
    if (take) {
        /* The per-thread policy keeps its rule cache out of a process-wide lock; the name carries
           the machine (libunwind.h makes it with a macro). */
#if defined(__x86_64__)
        void *policy = dlsym(library, "_ULx86_64_set_caching_policy");
        void **space = dlsym(library, "_ULx86_64_local_addr_space");
#else
        void *policy = dlsym(library, "_ULaarch64_set_caching_policy");
        void **space = dlsym(library, "_ULaarch64_local_addr_space");
#endif
        enum { PER_THREAD = 2 }; /* UNW_CACHE_PER_THREAD */
        if (policy && space) ((int (*)(void *, int))policy)(*space, PER_THREAD);
        void *first[4]; /* everything it does only once happens here */
        ((int (*)(void **, int))take)(first, 4);
        atomic_store(&opened_epoch, module_epoch());
        atomic_store(&backtrace_of_libunwind, (int (*)(void **, int))take);
    } else {
        say("libunwind.so.8 was not found: some stacks will be taken by frame pointers");
    }
    atomic_store(&opening, take ? OPENED : ABSENT);
    errno = saved;
}

bool unwind_has_libunwind(void)
{
    return atomic_load(&opening) == OPENED;
}

void unwind_start(const struct sampler_options *options)
{
    mode = options->unwinder;
    warn = options->warn;
    started = true;
    if (mode == SAMPLER_LIBUNWIND && !module_lock_free()) atomic_store(&needed, true);
}

void unwind_prepare_threads(void)
{
    if (started && mode == SAMPLER_LIBUNWIND && atomic_load(&needed) && ONE_THREAD())
        open_libunwind();
}

/* Is the loader among the frames?  Then it is at work and must not be entered again. */
static bool in_loader(const uintptr_t *frames, unsigned n)
{
    struct module_object loader;
    uintptr_t base = getauxval(AT_BASE);
    if (!base || !module_object(base, &loader)) return true;
    for (unsigned i = 0; i < n; i++)
        if (frames[i] - loader.start < loader.end - loader.start) return true;
    return false;
}

/* The whole stack by libunwind; 0 if that cannot be, with the `n` frames of the walker untouched.
 */
static COLD unsigned by_libunwind(uintptr_t *frames, unsigned n, unsigned max)
{
    atomic_fetch_add_explicit(&fallbacks, 1, memory_order_relaxed);
    atomic_store_explicit(&needed, true, memory_order_relaxed);
    if (!inside && atomic_load(&opening) == UNTRIED && !in_loader(frames, n))
        unwind_prepare_threads();
    n = 0;
    int (*take)(void **, int) = atomic_load(&backtrace_of_libunwind);
    if (take && !inside && atomic_load(&opening) == OPENED &&
        atomic_load(&opened_epoch) == module_epoch()) {
        int saved = errno;
        inside = true;
        int got = take((void **)frames, (int)max);
        inside = false;
        errno = saved;
        if (got > 0) n = (unsigned)got;
    }
    if (n == 0) atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
    return n;
}

/* One-frame stacks mean code without tables and without frame pointers: the user should know. */
static COLD void judge(unsigned depth)
{
    static _Atomic uint32_t seen, shallow;
    uint32_t n = atomic_fetch_add(&seen, 1) + 1;
    if (depth <= 1) atomic_fetch_add(&shallow, 1);
    if (n == UNWIND_JUDGED && atomic_load(&shallow) == UNWIND_JUDGED)
        say(mode == SAMPLER_FRAME_POINTERS
                ? "call stacks are one frame deep: the program has no frame pointers; "
                  "unwind:libunwind "
                  "needs none"
                : "call stacks are one frame deep: the program has no unwind tables");
}

_Atomic uint32_t unwind_judged;

COLD void unwind_judge_one(unsigned depth)
{
    atomic_fetch_add_explicit(&unwind_judged, 1, memory_order_relaxed);
    judge(depth);
}

NOINLINE unsigned unwind_here(uintptr_t *frames, unsigned max)
{
    struct walk_state here = {0};
    enum walk_end end;
    WALK_HERE(&here);
    if (unlikely(mode == SAMPLER_FRAME_POINTERS)) {
        /* Our own code keeps no frame pointers: walk out of it by its tables, then go on by fp. */
        if (max == 0 || !walk_out(&here, unwind_own_from, unwind_own_bytes)) return 0;
        frames[0] = here.pc;
        return 1 + walk_frame_pointers(&here, frames + 1, max - 1);
    }
    unsigned n = walk_stack(&here, frames, max, &end);
    if (likely(end != WALK_STUCK)) return n;
    unsigned more = by_libunwind(frames, n, max);
    return more ? more : n;
}

bool unwind_by_walking(void)
{
    return mode != SAMPLER_FRAME_POINTERS;
}

void unwind_fork_prepare(void)
{
    threads_at_fork = !ONE_THREAD();
}
void unwind_fork_parent(void) {}

void unwind_fork_child(void)
{
    if (threads_at_fork) atomic_store(&opening, ABSENT);
}

void unwind_stats(struct unwind_stats *to)
{
    to->fallbacks = atomic_load(&fallbacks);
    to->refused = atomic_load(&refused);
}
