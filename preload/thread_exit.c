/* thread_exit.c: sets a thread's heap aside when the thread ends.

   By a thread-specific key, as every allocator does; its destructor runs among those of the program,
   which allocate and free.  So it puts itself back until the next to last of the rounds that POSIX
   promises.  What comes later still works without a heap of the thread's own, only slower.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "preload/face.h"
#include "preload/signal33.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

static pthread_key_t key;
static bool key_taken;
static THREAD_LOCAL unsigned char rounds;

static void thread_ends(void *unused)
{
    if (++rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1)
        pthread_setspecific(key, &rounds);
    else
        heap_thread_exit();
}

void thread_exit_start(void)
{
    key_taken = pthread_key_create(&key, thread_ends) == 0;
}

void thread_exit_arm(struct heap_thread_hook *unused)
{
    int before = errno;
    if (key_taken) pthread_setspecific(key, &rounds);
    signal33_check(); /* the first thread made inside libc brings glibc's handler, unseen (H84) */
    errno = before;
}
