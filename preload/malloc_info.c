/* malloc_info.c: glibc's reporting and tuning calls, answered from our own figures.  Left to glibc
   they would start its allocator, in several threads at once even.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/print.h"
#include "preload/face.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>

EXPORT struct mallinfo2 mallinfo2(void)
{
    struct heap_stats s;
    heap_stats(&s);
    return (struct mallinfo2){
        .arena = s.pool_bytes,
        .ordblks = 1,
        .hblks = s.of[HEAP_CLASS_LARGE].live,
        .hblkhd = s.large_bytes,
        .uordblks = s.live_bytes,
        .fordblks = s.pool_bytes + s.large_bytes > s.live_bytes
                        ? s.pool_bytes + s.large_bytes - s.live_bytes
                        : 0,
    };
}

static int clamp(size_t n)
{
    return n < INT_MAX ? (int)n : INT_MAX;
}

EXPORT struct mallinfo mallinfo(void)
{
    struct mallinfo2 m = mallinfo2();
    return (struct mallinfo){
        .arena = clamp(m.arena),
        .ordblks = clamp(m.ordblks),
        .hblks = clamp(m.hblks),
        .hblkhd = clamp(m.hblkhd),
        .uordblks = clamp(m.uordblks),
        .fordblks = clamp(m.fordblks),
    };
}

/* Every parameter tunes an allocator that does not run: taken, and without effect, as the programs
   that set one check only that it was taken. */
EXPORT int mallopt(int parameter, int value)
{
    return 1;
}

EXPORT int malloc_trim(size_t pad)
{
    int before = errno;
    bool released = heap_trim();
    errno = before;
    return released;
}

EXPORT void malloc_stats(void)
{
    struct heap_stats s;
    heap_stats(&s);
    print_fd(2,
             "gleaner: %lu blocks live, %lu bytes (peak %lu); %lu allocated, %lu freed\n"
             "gleaner: %lu bytes mapped for pools, %lu for large blocks, %lu free in pools, "
             "%lu metadata\n",
             s.live, s.live_bytes, s.peak_bytes, s.allocated, s.freed, s.pool_bytes, s.large_bytes,
             s.free_slot_bytes, s.metadata_bytes);
}

/* The element names are glibc's where the meaning is the same. */
EXPORT int malloc_info(int options, FILE *to)
{
    if (options != 0) return EINVAL;
    struct heap_stats s;
    heap_stats(&s);
    fputs("<malloc version=\"gleaner-1\">\n<heap nr=\"0\">\n<sizes>\n", to);
    for (unsigned i = 0; i < HEAP_CLASSES; i++) {
        const struct heap_class_stats *c = &s.of[i];
        if ((i >= s.classes && i != HEAP_CLASS_LARGE) || c->allocated == 0) continue;
        fprintf(to,
                "  <class size=\"%zu\" allocated=\"%lu\" freed=\"%lu\" live=\"%lu\" bytes=\"%lu\" "
                "pools=\"%lu\"/>\n",
                c->size, (unsigned long)c->allocated, (unsigned long)c->freed,
                (unsigned long)c->live, (unsigned long)c->live_bytes, (unsigned long)c->pools);
    }
    fprintf(to,
            "</sizes>\n</heap>\n"
            "<total type=\"rest\" count=\"%lu\" size=\"%lu\"/>\n"
            "<total type=\"mmap\" count=\"%lu\" size=\"%lu\"/>\n"
            "<system type=\"current\" size=\"%lu\"/>\n"
            "<system type=\"max\" size=\"%lu\"/>\n"
            "</malloc>\n",
            (unsigned long)s.live, (unsigned long)s.free_slot_bytes,
            (unsigned long)s.of[HEAP_CLASS_LARGE].live, (unsigned long)s.large_bytes,
            (unsigned long)(s.pool_bytes + s.large_bytes + s.metadata_bytes),
            (unsigned long)s.peak_bytes);
    return 0;
}
