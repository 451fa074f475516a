/* tls-zoo.c: every kind of thread-local storage at once, in the main thread and in another (T19, H26, H27, H31, H51).
   The argument is the library with thread-local variables that is loaded late.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <dlfcn.h>

extern int __cxa_atexit(void (*function)(void *), void *argument, void *module);

enum { STATIC_TLS, LOADED_TLS, OBJECT_TLS, KEY, PER_THREAD, RESULT = 2 * PER_THREAD, ATEXIT, PLACES };
static concealed hidden[PLACES];
static const char *const name[] = {"a thread-local variable", "a thread-local variable of a loaded library",
                                   "a thread_local object with a destructor", "the value of a key above 31"};

static _Thread_local void *volatile own;
static void (*loaded_set)(void *), (*object_set)(void *);
static void *(*loaded_get)(void), *(*object_get)(void);
static pthread_key_t key;

NOINLINE static void *fresh(int place)
{
    struct block *b = block_make(72);
    hidden[place] = conceal(b);
    return b;
}

NOINLINE static void fill(int from)
{
    own = fresh(from + STATIC_TLS);
    loaded_set(fresh(from + LOADED_TLS));
    object_set(fresh(from + OBJECT_TLS));
    CHECK(pthread_setspecific(key, fresh(from + KEY)) == 0);
}

NOINLINE static void look(int from)
{
    CHECK(block_is(own, hidden[from + STATIC_TLS]));
    CHECK(block_is(loaded_get(), hidden[from + LOADED_TLS]));
    CHECK(block_is(object_get(), hidden[from + OBJECT_TLS]));
    CHECK(block_is(pthread_getspecific(key), hidden[from + KEY]));
}

static sem_t ready, leave;

static void *other(void *unused)
{
    fill(PER_THREAD);
    scrub();
    sem_post(&ready);
    while (sem_wait(&leave) != 0) continue;
    look(PER_THREAD);
    return NULL;
}

static volatile pid_t ended;

static void *gives_result(void *unused)
{
    ended = (pid_t)syscall(SYS_gettid);
    return fresh(RESULT);
}

static bool called;

static void at_exit(void *argument)
{
    CHECK(block_is(argument, hidden[ATEXIT]));
    called = true;
}

__attribute__((destructor)) static void at_the_end(void)
{
    if (!called) _exit(9);
}

static void *symbol(void *library, const char *which)
{
    void *s = dlsym(library, which);
    if (!s) FAIL("%s", dlerror());
    return s;
}

NOINLINE static void note_at_exit(void)
{
    CHECK(__cxa_atexit(at_exit, fresh(ATEXIT), NULL) == 0);
}

int main(int argc, char **argv)
{
    pthread_t t, u;
    void *library, *result;
    CHECK(argc > 1);
    collections_are_there();
    if (!(library = dlopen(argv[1], RTLD_NOW))) FAIL("%s", dlerror());
    loaded_set = (void (*)(void *))symbol(library, "loaded_set");
    loaded_get = (void *(*)(void))symbol(library, "loaded_get");
    object_set = (void (*)(void *))symbol(library, "object_set");
    object_get = (void *(*)(void))symbol(library, "object_get");
    do CHECK(pthread_key_create(&key, NULL) == 0);
    while (key < 40);
    sem_init(&ready, 0, 0);
    sem_init(&leave, 0, 0);
    fill(0);
    note_at_exit();
    CHECK(pthread_create(&t, NULL, other, NULL) == 0);
    while (sem_wait(&ready) != 0) continue;
    CHECK(pthread_create(&u, NULL, gives_result, NULL) == 0);
    while (!ended) short_sleep();
    wait_until_gone(ended);
    controls_lose();
    scrub();
    majors(5);
    for (int i = 0; i < RESULT; i++) {
        char what[128];
        snprintf(what, sizeof what, "the block in %s of the %s thread", name[i % PER_THREAD], i < PER_THREAD ? "main" : "other");
        EXPECT_STATE(hidden[i], GLEANER_OLD, what);
    }
    EXPECT_STATE(hidden[RESULT], GLEANER_OLD, "the result of a thread that was not joined");
    EXPECT_STATE(hidden[ATEXIT], GLEANER_OLD, "the argument of a function for the end");
    controls_are_lost();
    look(0);
    sem_post(&leave);
    pthread_join(t, NULL);
    CHECK(pthread_join(u, &result) == 0 && block_is(result, hidden[RESULT]));
    return 0;
}
