/* limited-service.c: a service with a leak and a limit: it forgets what it has parsed of each request that it refuses, and may have so many
   megabytes (the first argument, 128 unless it is given), as in a container.  Without help it dies of its leak.
   Requests are lines on stdin, `GET PATH` or `PUT PATH BYTES`; each gets one line on stdout.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BODY 16000

struct request {
    char path[64];
    char *body;
};

static struct request *parse_request(const char *line)
{
    struct request *r = calloc(1, sizeof *r);
    if (!r || !(r->body = malloc(BODY))) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    memset(r->body, 'x', BODY);
    if (sscanf(line, "GET %63s", r->path) == 1 || sscanf(line, "PUT %63s", r->path) == 1) return r;
    return NULL; /* the leak: neither is freed */
}

static void serve(const char *line)
{
    struct request *r = parse_request(line);
    if (!r) {
        puts("400");
        return;
    }
    printf("200 %s\n", r->path);
    free(r->body);
    free(r);
}

int main(int argc, char **argv)
{
    rlim_t most = (argc > 1 ? strtoul(argv[1], NULL, 10) : 128) << 20;
    char line[256];
    setrlimit(RLIMIT_DATA, &(struct rlimit){most, most});
    while (fgets(line, sizeof line, stdin)) {
        serve(line);
        fflush(stdout);
    }
    return 0;
}
