/* start.c: the library's constructor.  `-z initfirst` runs it before the constructors of all other
   libraries; malloc before that works, unsampled and with defaults.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/reclaim.h"
#include "heap/syscall.h"
#include "preload/blocking.h"
#include "preload/collect_log.h"
#include "preload/collection.h"
#include "preload/dump.h"
#include "preload/dump_signal.h"
#include "preload/exec.h"
#include "preload/exit.h"
#include "preload/face.h"
#include "preload/follow.h"
#include "preload/fork.h"
#include "preload/leak_check.h"
#include "preload/next_symbol.h"
#include "preload/output.h"
#include "preload/refuse.h"
#include "preload/scope.h"
#include "preload/starved.h"
#include "preload/start_folder.h"
#include "preload/thread_create.h"
#include "preload/wait.h"
#include "sampler/memprof.h"
#include "sampler/reclaim_sites.h"
#include "sampler/sampler.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>

#ifndef GLEANER_CONF_FILE
#define GLEANER_CONF_FILE "/etc/gleaner.conf"
#endif

struct config face_config = {.abort = true};

static void reclaim_is_off(const char *why)
{
    print_fd(2, "gleaner: reclaim is off: %s\n", why);
}

static struct heap_hooks hooks = {
    .foreign_free = scope_foreign_free,
    .foreign_realloc = scope_foreign_realloc,
    .foreign_size = scope_foreign_size,
    .misuse = misuse_found,
    .place = reclaim_sites_place,
    .vetoed = reclaim_sites_vetoed,
    .reclaim_off = reclaim_is_off,
    .thread_started = thread_exit_arm,
};

static void tick(struct heap_thread_hook *hook, uint64_t now)
{
    if (face_config.interval_ns) exit_tick(hook, now);
    collection_tick(now);
}

static void say(const char *line)
{
    print_fd(2, "%s\n", line);
}

static void read_config(char *const *environment)
{
    config_default(&face_config);
    if (getauxval(AT_SECURE)) { /* allocate, and nothing else */
        face_config.sample_bytes = 0;
        return;
    }
    config_read_file(&face_config, GLEANER_CONF_FILE, say);
    const char *text = config_environment(environment, "GLEANER_CONF");
    if (text) config_parse(&face_config, text, __builtin_strlen(text), "GLEANER_CONF", say);
}

static void start_sampler(void)
{
    const struct config *c = &face_config;
    const struct sampler_options options = {
        .interval = c->sample_bytes,
        .all = c->sample_all,
        .depth = c->depth,
        .unwinder = c->frame_pointers ? SAMPLER_FRAME_POINTERS : SAMPLER_LIBUNWIND,
        .fixed_seed = c->fixed_seed,
        .seed = c->seed,
        .warn = say,
    };
    memprof_configure(&options);
    if (c->sample_bytes == 0 && !c->sample_all) return;
    if (!c->follow && !output_first()) return;
    sampler_start(&options, &hooks);
}

/* As vdso(7) names it. */
#ifdef __x86_64__
#define VDSO_CLOCK "__vdso_clock_gettime"
#else
#define VDSO_CLOCK "__kernel_clock_gettime"
#endif

/* The wrappers look up what they pass on to, also where nothing else of ours works: without that
   they make system calls, past a sanitizer's interceptors and past pthread_cancel. */
static void start_wrappers(void)
{
    blocking_start();
    exec_start();
    wait_start();
    thread_create_start();
}

/* Live dumps and the `signal` key: last, with everything in place. */
static void start_dumps(char **environment)
{
    const struct config *c = &face_config;
    Dl_info own;
    if (dladdr(&face_config, &own)) {
        follow_start(c->follow, own.dli_fname);
        if (output_first()) follow_keep_in((int)raw_syscall(SYS_getpid, 0));
        follow_edit_own(environment);
    }
    if (!dump_start()) {
        if (c->collect == COLLECT_RECLAIM) reclaim_is_off("collections cannot run here");
        return;
    }
    collection_start(c);
    const char *refused = c->collect == COLLECT_RECLAIM && !c->reclaim_anyway ? refuse_at_start() : NULL;
    if (refused) reclaim_stop(refused);
    leak_check_start(c, environment);
    collect_log_start(c);
    if (c->signal && !dump_signal_start(c->signal, output_next))
        print_fd(2, "gleaner: signal %d is taken: it writes no profile\n", c->signal);
}

__attribute__((constructor)) static void start(int count, char **arguments, char **environment)
{
    int before = errno;
    os_clock_is((os_clock_function *)any_symbol(VDSO_CLOCK));
    start_wrappers();
    if (scope_find() == SCOPE_SANITIZER) {
        scope_start();
        exit_pass_on();
        hooks.elsewhere = scope_elsewhere;
        heap_set_hooks(&hooks);
        heap_thread_exit(); /* what came before us made this thread a heap */
        if (!getauxval(AT_SECURE))
            print_fd(2, "gleaner: the program carries %s: it allocates, Gleaner passes on\n",
                     scope_sanitizer());
        errno = before;
        return;
    }
    read_config(environment);
    const struct config *c = &face_config;
    const struct heap_options options = {.verify = c->verify, .watch = config_watches(c),
                                         .reclaim = c->collect == COLLECT_RECLAIM, .decay_ns = 10000000000ull};
    heap_start(&options);
    thread_exit_start();
    scope_start();
    start_folder_note();
    output_start(c, arguments, environment);
    fork_start();
    exit_start(c);
    if (c->interval_ns || config_watches(c)) hooks.tick = tick;
    if (c->collect == COLLECT_RECLAIM) hooks.starving = starved;
    start_sampler();
    heap_set_hooks(&hooks);
    if (!getauxval(AT_SECURE)) start_dumps(environment);
    errno = before;
}
