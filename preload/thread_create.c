/* thread_create.c: the wrapper around pthread_create: it gives the sampler the last moment with one thread, and looks
   after signal 33, since glibc's first thread installs a handler.  Otherwise it changes nothing, but where collection is on from the
   start: then a thread begins in a function of ours, which notes where its stack lies.  (At its first malloc it may be too late:
   pthread_getattr_np itself allocates, with the thread's lock held; the JVM and Ruby call it first of all.)
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/thread_create.h"
#include "heap/heap.h"
#include "preload/blocking.h"
#include "preload/shut_in.h"
#include "preload/signal33.h"
#include "preload/take_cut.h"
#include "sampler/sampler.h"

#include <pthread.h>

static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static atomic_bool prepared;

void thread_create_start(void)
{
    real_pthread_create = blocking_real("pthread_create");
}

struct begin {
    void *(*run)(void *);
    void *argument;
};

/* Its frame stays below the program's: exceptions and pthread_exit unwind through it. */
static void *begin(void *start)
{
    struct begin b = *(struct begin *)start;
    heap_free(start);
    int e = errno;
    if (!shut_in_already(SHUT_IN_COLLECT)) take_cut_note_stack(); /* asks the kernel */
    errno = e;
    return b.run(b.argument);
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    /* Until the thread runs, its argument is found through this block, which the new stack points to. */
    struct begin *b = heap_watches() && !shut_in_already(SHUT_IN_COLLECT) ? heap_malloc(sizeof *b) : NULL;
    if (!b) return real_pthread_create(thread, attributes, run, argument);
    *b = (struct begin){run, argument};
    int r = real_pthread_create(thread, attributes, begin, b);
    if (r != 0) heap_free(b);
    return r;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    if (unlikely(!real_pthread_create)) {
        thread_create_start();
        if (!real_pthread_create) return ENOSYS;
    }
    if (unlikely(!atomic_load_explicit(&prepared, memory_order_relaxed)) &&
        !atomic_exchange(&prepared, true)) {
        int e = errno;
        sampler_prepare_threads();
        errno = e;
    }
    heap_before_thread();
    int r = create(thread, attributes, run, argument);
    /* Its stack may be what a limit has no room for beside memory that we keep. */
    if (unlikely(r == EAGAIN) && heap_save_memory())
        r = create(thread, attributes, run, argument);
    signal33_check();
    return r;
}
