/* progress.c: one line on stderr that says how far long work is.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/progress.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
    const char *what;
    size_t total;
    uint64_t next; /* when to draw again, milliseconds */
    bool drawn;
} line;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void progress_begin(const char *what, size_t total)
{
    line.what = isatty(STDERR_FILENO) && total ? what : NULL;
    line.total = total;
    line.next = now_ms() + 400;
    line.drawn = false;
}

void progress_at(size_t done, const char *detail)
{
    if (!line.what) return;
    uint64_t now = now_ms();
    if (now < line.next) return;
    line.next = now + 100;
    line.drawn = true;
    fprintf(stderr, "\r\033[K%s: %zu of %zu  %.40s", line.what, done, line.total,
            detail ? detail : "");
    fflush(stderr);
}

void progress_end(void)
{
    if (line.drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    line.what = NULL;
    line.drawn = false;
}
