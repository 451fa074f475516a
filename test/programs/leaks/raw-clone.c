/* raw-clone.c: of a thread that clone made, not libc, with neither a record nor TLS of its own (T11, H8), `argument`: in a register of
   the function that was given it; `stack`: on the stack that was mapped for it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define STAYS /* the mapped stack keeps what its last frames held */
#include "place.h"

#include <linux/futex.h>
#include <sched.h>

#define STACK ((size_t)262144)
#define RUNNING 1
#define LEAVE 2
static int state, alive; /* futexes */
static void *volatile result;

#if defined __x86_64__
/* Not libc's syscall(): errno is not this thread's. */
static long futex(int *word, int op, int value)
{
    long r;
    register long timeout __asm__("r10") = 0;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(SYS_futex), "D"(word), "S"(op), "d"(value), "r"(timeout)
                     : "rcx", "r11", "memory");
    return r;
}

static void say_and_wait(void)
{
    __atomic_store_n(&state, RUNNING, __ATOMIC_SEQ_CST);
    futex(&state, FUTEX_WAKE, 1);
    while (__atomic_load_n(&state, __ATOMIC_SEQ_CST) != LEAVE) futex(&state, FUTEX_WAIT, RUNNING);
}

static int has_argument(void *argument)
{
    say_and_wait();
    result = argument;
    return 0;
}

static int has_stack(void *unused)
{
    void *volatile mine = reveal(held);
    say_and_wait();
    result = mine;
    mine = NULL;
    return 0;
}

static void put(void *block)
{
    bool on_stack = strcmp(variant, "stack") == 0;
    held = conceal(block);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    alive = 1;
    CHECK(clone(on_stack ? has_stack : has_argument, stack + STACK,
                CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID,
                on_stack ? NULL : block, NULL, NULL, &alive) > 0);
    while (__atomic_load_n(&state, __ATOMIC_SEQ_CST) != RUNNING) short_sleep();
}

static void *take(void)
{
    __atomic_store_n(&state, LEAVE, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &state, FUTEX_WAKE, 1, NULL, NULL, 0);
    while (__atomic_load_n(&alive, __ATOMIC_SEQ_CST)) short_sleep();
    void *block = result;
    result = NULL;
    return block;
}
#else
static void put(void *block)
{
    SKIP("x86-64 assembler");
}
static void *take(void)
{
    return NULL;
}
#endif
