/* putenv.c: the block is a string of the environment (H52).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

static void put(void *block)
{
    char *string = (char *)block + sizeof(struct block);
    strcpy(string, "A4_PLACE=here");
    CHECK(putenv(string) == 0);
}

static void *take(void)
{
    char *value = getenv("A4_PLACE");
    CHECK(value && strcmp(value, "here") == 0);
    CHECK(unsetenv("A4_PLACE") == 0);
    return value - strlen("A4_PLACE=") - sizeof(struct block);
}
