/* api.c: the functions of gleaner.h; argument `there` or `absent`: is the library preloaded?
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gleaner.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "absent") == 0) {
        puts(gleaner_version || gleaner_dump || gleaner_live ? "there" : "absent");
        return 0;
    }
    size_t bytes, blocks, bytes_now, blocks_now;
    if (!gleaner_version || strlen(gleaner_version()) < 5) return 1;
    gleaner_live(&bytes, &blocks);
    char *p = malloc(4 << 20);
    memset(p, 1, 4 << 20);
    gleaner_live(&bytes_now, &blocks_now);
    if (blocks_now != blocks + 1 || bytes_now < bytes + (4 << 20)) return 2;
    free(p);
    gleaner_live(&bytes_now, NULL);
    gleaner_live(NULL, &blocks_now);
    if (blocks_now != blocks || bytes_now != bytes) return 3;
    struct stat file;
    errno = 77;
    if (gleaner_dump("profile") != 0 || stat("profile", &file) != 0 || file.st_size == 0) return 4;
    if (gleaner_dump("no/such/folder/profile") != ENOENT) return 5;
    if (errno != 77) return 6;
    puts("live");
    return 0;
}
