/* alternate-arguments.c: sigaltstack with arguments that the kernel refuses, each with its error; and with one stack_t for both.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void refused(const stack_t *stack, stack_t *old, int error)
{
    errno = 0;
    if (sigaltstack(stack, old) == -1 && errno == error) return;
    printf("error %d for %d\n", errno, error);
    exit(1);
}

static void is(int holds, const char *what)
{
    if (holds) return;
    printf("not so: %s\n", what);
    exit(1);
}

int main(void)
{
    void *volatile nowhere = (void *)8;
    stack_t stack = {.ss_sp = malloc(100000), .ss_size = 100};
    void *memory = stack.ss_sp;
    refused(nowhere, NULL, EFAULT);
    refused(NULL, nowhere, EFAULT);
    refused(&stack, NULL, ENOMEM);
    stack.ss_size = 100000;
    stack.ss_flags = 77;
    refused(&stack, NULL, EINVAL);
    stack.ss_flags = 0;
    stack_t *volatile both = &stack;
    is(sigaltstack(both, both) == 0 && (stack.ss_flags & SS_DISABLE), "there was none before");
    stack.ss_flags = SS_DISABLE;
    is(sigaltstack(both, both) == 0 && stack.ss_sp == memory && stack.ss_size == 100000, "the former comes back");
    sigset_t mask;
    is(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGTERM), "the mask is as before");
    puts("as the kernel says");
    return 0;
}
