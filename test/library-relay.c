/* library-relay.c: built twice, under two names: calls back, so that it is on the stack.
   SPDX-License-Identifier: LGPL-2.1-or-later */
__attribute__((visibility("default"))) void relay(void (*back)(void));

void relay(void (*back)(void))
{
    char frame[LIBRARY_FRAME]; /* the two differ in their unwind rules */
    __asm__ volatile("" : : "r"(frame) : "memory");
    back();
    __asm__ volatile("" : : "r"(frame) : "memory");
}
