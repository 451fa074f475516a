/* static.c: linked statically: nothing is preloaded into it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    free(malloc(100));
    puts("static");
    return 0;
}
