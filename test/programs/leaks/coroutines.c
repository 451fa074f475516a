/* coroutines.c: a thousand suspended coroutines on stacks of one page, each with a block that only its frame holds (T6,
   H25), `mmap`: stacks of their own mapping, half of them above a guard page; `malloc`: stacks that are blocks.  Then they run in random order
   while another thread collects; the thread that runs them has an alternate signal stack, as it must have
   for any signal.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <signal.h>
#include <ucontext.h>

#define COROUTINES 1000
#define STACK 4096
#define TURNS 20000

static ucontext_t outside;
static struct coroutine {
    ucontext_t context;
    void *stack;
    concealed block;
} coroutine[COROUTINES];
static volatile bool finish;

/* Runs on one page: calls nothing that needs more. */
static void run(int i)
{
    struct coroutine *c = &coroutine[i];
    struct block *volatile mine = reveal(c->block);
    while (!finish) {
        swapcontext(&c->context, &outside);
        if (!block_is(mine, c->block)) _exit(3);
    }
    mine = NULL;
    swapcontext(&c->context, &outside);
}

NOINLINE static void create(int i, bool on_heap)
{
    struct coroutine *c = &coroutine[i];
    if (on_heap) {
        c->stack = calloc(1, STACK);
        CHECK(c->stack);
    } else {
        char *both = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(both != MAP_FAILED);
        if (i % 2) CHECK(mprotect(both, STACK, PROT_NONE) == 0);
        c->stack = both + STACK;
    }
    c->block = conceal(block_make(32 + (size_t)i % 900));
    CHECK(getcontext(&c->context) == 0);
    c->context.uc_stack.ss_sp = c->stack;
    c->context.uc_stack.ss_size = STACK;
    makecontext(&c->context, (void (*)(void))run, 1, i);
    swapcontext(&outside, &c->context);
}

NOINLINE static void all_are(enum gleaner_state want)
{
    for (int i = 0; i < COROUTINES; i++) EXPECT_STATE(coroutine[i].block, want, "the block of a coroutine");
}

static volatile bool enough;

static void *collect_meanwhile(void *unused)
{
    for (int i = 0; i < 10; i++) majors(1);
    enough = true;
    return NULL;
}

int main(int argc, char **argv)
{
    static char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    bool on_heap = argc > 1 && strcmp(argv[1], "malloc") == 0;
    collections_are_there();
    CHECK(sigaltstack(&stack, NULL) == 0);
    for (int i = 0; i < COROUTINES; i++) create(i, on_heap);
    controls_lose();
    scrub();
    majors(3);
    all_are(GLEANER_OLD);
    controls_are_lost();

    pthread_t t;
    unsigned r = 1;
    CHECK(pthread_create(&t, NULL, collect_meanwhile, NULL) == 0);
    for (int turn = 0; turn < TURNS || !enough; turn++) {
        r = r * 1664525 + 1013904223;
        swapcontext(&outside, &coroutine[(r >> 8) % COROUTINES].context);
    }
    pthread_join(t, NULL);
    scrub();
    majors(1);
    all_are(GLEANER_OLD);

    finish = true;
    for (int i = 0; i < COROUTINES; i++) swapcontext(&outside, &coroutine[i].context);
    for (int i = 0; i < COROUTINES; i++) free(reveal(coroutine[i].block));
    struct gleaner_leaks leaks = check_leaks();
    if (leaks.false_lost.blocks) FAIL("%zu live blocks were called lost", leaks.false_lost.blocks);
    return 0;
}
