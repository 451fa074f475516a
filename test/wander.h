/* wander.h: a random walk over the depths of the stack, in which frames of many shapes (variable arrays, aligned variables) come and go at the same
   places, so that a trace of an earlier stack is good for some of them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TEST_WANDER_H
#define GLEANER_TEST_WANDER_H

/* Calls `visit` at places and depths that *state, at random but the same in every run, decides. */
__attribute__((noinline)) static void wander(unsigned *state, unsigned depth, void (*visit)(void))
{
    for (unsigned i = 0; i < 3; i++) {
        *state = *state * 1664525u + 1013904223u;
        if (*state >> 16 & 1) visit();
        if (*state >> 17 & 1) visit();
        if (depth == 0) continue;
        switch (*state >> 20 & 3) {
        case 0: {
            char room[16 + (*state >> 24) % 5 * 40];
            __asm__ volatile("" : : "r"(room) : "memory");
            wander(state, depth - 1, visit);
            __asm__ volatile("" : : "r"(room) : "memory");
            break;
        }
        case 1: {
            _Alignas(64) char room[64];
            __asm__ volatile("" : : "r"(room) : "memory");
            wander(state, depth - 1, visit);
            __asm__ volatile("" : : "r"(room) : "memory");
            break;
        }
        default:
            wander(state, depth - 1, visit);
        }
        __asm__ volatile("");
    }
}

#endif
