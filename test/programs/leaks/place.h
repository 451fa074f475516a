/* place.h: one block whose only reference lies in one place.  A program defines

      static void put(void *block);   puts it there, and keeps it nowhere else
      static void *take(void);        takes it out: the place no longer holds it

   and may define before it includes this

      STATE            what the block must be while it lies there; GLEANER_OLD
      CANNOT_BE_KNOWN  no collector sees into the place: the block is called lost, and its free is the proof
      STAYS            what is taken out leaves a trace that nobody can wipe
      BYTES            of the block; 64
      BLOCK            makes the block, where malloc will not do

   The block is in its state after five major collections, is whole when it is taken out, and is lost when it is then dropped:
   so nothing else held it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef PLACE_H
#define PLACE_H

#include "leaks.h"

#ifndef BYTES
#define BYTES 64
#endif
#ifndef BLOCK
#define BLOCK block_make(BYTES)
#endif
#ifdef CANNOT_BE_KNOWN
#define STATE GLEANER_LOST
#endif
#ifndef STATE
#define STATE GLEANER_OLD
#endif

static void put(void *block);
static void *take(void);
#define SOME ((const char *)"") /* the variant where the program was given none */
static const char *variant = SOME;

static concealed placed;

NOINLINE static void place_put(void)
{
    struct block *b = BLOCK;
    placed = conceal(b);
    put(b);
}

NOINLINE static void place_take(void)
{
    struct block *b = take();
    if (b != reveal(placed)) FAIL("the place gave another pointer back");
    if (!block_is(b, placed)) FAIL("the block's contents have changed");
#ifdef CANNOT_BE_KNOWN
    free(b);
#endif
}

int main(int argc, char **argv)
{
    if (argc > 1) variant = argv[1];
    collections_are_there();
    place_put();
    controls_lose();
    scrub();
    majors(5);
    EXPECT_STATE(placed, STATE, "the block in its place");
    controls_are_lost();
    scrub();
    place_take();
    scrub();
#ifdef CANNOT_BE_KNOWN
    struct gleaner_leaks leaks = check_leaks();
    if (leaks.false_lost.blocks != 1) FAIL("%zu blocks were proven not to be lost, not 1", leaks.false_lost.blocks);
#elif !defined STAYS
    majors(3);
    if (!reclaiming()) EXPECT_LOST(placed, "the block that was taken out and dropped");
#endif
    controls_are_lost();
    return 0;
}

/* For places in a thread of its own: `body` holds the block that `held` names, waits by holder_wait, and gives the block back. */
static concealed held;
static sem_t held_ready, held_end;
static void *(*held_body)(void);
static pthread_t held_thread;
static concealed held_back;

UNUSED static void holder_wait(void)
{
    sem_post(&held_ready);
    while (sem_wait(&held_end) != 0) continue;
}

static void *holder_run(void *unused)
{
    held_back = conceal(held_body());
    scrub_stack(16384);
    scrub_registers();
    return NULL;
}

UNUSED static void holder_start(void *block, void *(*body)(void))
{
    held = conceal(block);
    held_body = body;
    sem_init(&held_ready, 0, 0);
    sem_init(&held_end, 0, 0);
    CHECK(pthread_create(&held_thread, NULL, holder_run, NULL) == 0);
    while (sem_wait(&held_ready) != 0) continue;
}

UNUSED static void *holder_end(void)
{
    sem_post(&held_end);
    CHECK(pthread_join(held_thread, NULL) == 0);
    return reveal(held_back);
}

#endif
