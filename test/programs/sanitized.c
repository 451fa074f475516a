/* sanitized.c: built with a sanitizer, which must find the fault that the argument names.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared;
static char *volatile sink;

static void *race(void *argument)
{
    for (int i = 0; i < 1000; i++) shared++;
    return NULL;
}

int main(int count, char **arguments)
{
    const char *how = count > 1 ? arguments[1] : "";
    char *p = malloc(100);
    memset(p, 1, 100);
    if (strcmp(how, "use-after-free") == 0) {
        sink = p;
        free(p);
        return sink[5];
    }
    if (strcmp(how, "race") == 0) {
        pthread_t t;
        pthread_create(&t, NULL, race, NULL);
        race(NULL);
        pthread_join(t, NULL);
    }
    if (strcmp(how, "leak") == 0) {
        sink = malloc(1234);
        sink = NULL;
    }
    p = realloc(p, 5000);
    free(p);
    puts("done");
    return 0;
}
