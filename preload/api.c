/* api.c: the functions of gleaner.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define GLEANER_API __attribute__((visibility("default")))
#include "gleaner.h"
#include "heap/heap.h"
#include "preload/output.h"

#include <errno.h>

const char *gleaner_version(void)
{
    return GLEANER_VERSION;
}

int gleaner_dump(const char *path)
{
    int before = errno, error = output_profile(path, "api", -1, NULL);
    errno = before;
    return error;
}

void gleaner_live(size_t *bytes, size_t *blocks)
{
    struct heap_stats s;
    heap_stats(&s);
    if (bytes) *bytes = s.live_bytes;
    if (blocks) *blocks = s.live;
}
