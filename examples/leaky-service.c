/* leaky-service.c: a service with a leak: it forgets the requests that it refuses.
   Requests are lines on stdin, `GET PATH` or `PUT PATH BYTES`; each gets one line on stdout.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 4096

struct request {
    char *path, *body;
    size_t bytes;
};

static bool parse_request(struct request *r, const char *line)
{
    char path[128];
    size_t bytes = 0;
    if (sscanf(line, "GET %127s", path) != 1 &&
        sscanf(line, "PUT %127s %zu", path, &bytes) != 2)
        return false;
    r->path = strdup(path);
    r->body = malloc(256 + (bytes < MOST_BYTES ? bytes : MOST_BYTES));
    r->bytes = bytes;
    strcpy(r->body, bytes ? "stored" : "here it is");
    return bytes <= MOST_BYTES; /* the leak: the caller drops what it refuses */
}

static void answer(const struct request *r)
{
    printf("200 %s %zu: %s\n", r->path, r->bytes, r->body);
}

static void serve(const char *line)
{
    struct request r;
    if (!parse_request(&r, line)) {
        puts("400");
        return;
    }
    answer(&r);
    free(r.path);
    free(r.body);
}

int main(void)
{
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        serve(line);
        fflush(stdout);
    }
    return 0;
}
