/* socketpair.c: only a pair of sockets holds it: the kernel shows nobody what it holds (H42).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define CANNOT_BE_KNOWN
#include "place.h"

#include <sys/socket.h>

static int ends_of_it[2];

static void put(void *block)
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_of_it) == 0);
    CHECK(write(ends_of_it[1], &block, sizeof block) == sizeof block);
}

static void *take(void)
{
    void *block;
    CHECK(read(ends_of_it[0], &block, sizeof block) == sizeof block);
    return block;
}
