/* thread_create.c: the wrapper around pthread_create, which changes nothing: it gives the sampler
   the last moment with one thread, and looks after signal 33, since glibc's first thread installs a
   handler.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/thread_create.h"
#include "heap/heap.h"
#include "preload/blocking.h"
#include "preload/signal33.h"
#include "sampler/sampler.h"

#include <pthread.h>

static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static atomic_bool prepared;

void thread_create_start(void)
{
    real_pthread_create = blocking_real("pthread_create");
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
    int r = real_pthread_create(thread, attributes, run, argument);
    /* Its stack may be what a limit has no room for beside memory that we keep. */
    if (unlikely(r == EAGAIN) && heap_save_memory())
        r = real_pthread_create(thread, attributes, run, argument);
    signal33_check();
    return r;
}
