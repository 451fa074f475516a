/* api_memprof.c: the functions of gleaner.h for the program's own heap profile, weak handles and arenas.  errno stays as it was.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#define GLEANER_API __attribute__((visibility("default")))
#include "gleaner.h"
#include "heap/print.h"
#include "preload/scope.h"
#include "sampler/memprof.h"
#include "sampler/stack.h"

#include <dlfcn.h>
#include <errno.h>

#define KEEPING_ERRNO(type, call)                                                                  \
    do {                                                                                           \
        int before_ = errno;                                                                       \
        type result_ = (call);                                                                     \
        errno = before_;                                                                           \
        return result_;                                                                            \
    } while (0)

/* Another allocator serves the process: there is nothing to be seen. */
static bool elsewhere(void) { return scope_find() == SCOPE_SANITIZER; }

int gleaner_memprof_start(const struct gleaner_memprof_options *options, unsigned long *profile)
{
    if (!options) return EINVAL;
    if (elsewhere()) return ENOTSUP;
    KEEPING_ERRNO(int, memprof_start(options, profile));
}

int gleaner_memprof_stop(void) { KEEPING_ERRNO(int, memprof_stop()); }
int gleaner_memprof_discard(unsigned long profile) { KEEPING_ERRNO(int, memprof_discard(profile)); }
size_t gleaner_memprof_poll(void) { KEEPING_ERRNO(size_t, memprof_poll()); }

int gleaner_memprof_counts(unsigned long profile, struct gleaner_memprof_counts *to)
{
    return to ? memprof_counts(profile, to) : EINVAL;
}

int gleaner_memprof_custom(void *block, size_t bytes)
{
    if (elsewhere() || bytes > PTRDIFF_MAX) return EINVAL;
    KEEPING_ERRNO(int, memprof_custom(block, bytes));
}

unsigned gleaner_stack_get(unsigned stack, void **frames, unsigned room)
{
    return stack_get(stack, (uintptr_t *)frames, room, NULL);
}

void gleaner_stack_print(int descriptor, unsigned stack) { stack_print(descriptor, stack); }

int gleaner_stack_name(const void *frame, char *to, size_t room)
{
    Dl_info info;
    char unused[1];
    int before = errno, n;
    if (!to || room == 0) to = unused, room = 1;
    bool known = dladdr((const char *)frame - 1, &info) != 0; /* the call lies before its return address */
    const char *file = known && info.dli_fname ? __builtin_strrchr(info.dli_fname, '/') : NULL;
    file = file ? file + 1 : known ? info.dli_fname : NULL;
    unsigned long at = (unsigned long)frame - 1;
    if (known && info.dli_sname)
        n = (int)print_to(to, room, "%s+0x%lx (%s)", info.dli_sname, at - (unsigned long)info.dli_saddr, file);
    else if (known) n = (int)print_to(to, room, "0x%lx (%s+0x%lx)", at, file, at - (unsigned long)info.dli_fbase);
    else n = (int)print_to(to, room, "0x%lx", at);
    errno = before;
    return n;
}

unsigned long gleaner_weak_make(void *block, void (*cleared)(void *, enum gleaner_end, void *), void *user)
{
    if (elsewhere()) return 0;
    KEEPING_ERRNO(unsigned long, memprof_weak_make(block, cleared, user));
}

void *gleaner_weak_get(unsigned long handle) { return memprof_weak_get(handle); }
int gleaner_weak_drop(unsigned long handle) { KEEPING_ERRNO(int, memprof_weak_drop(handle)); }

struct gleaner_arena *gleaner_arena_begin(void *memory, size_t bytes, int flags)
{
    if ((uintptr_t)memory + bytes < bytes) return NULL; /* around the end of all addresses */
    KEEPING_ERRNO(struct gleaner_arena *, memprof_arena_begin(memory, bytes, flags));
}

int gleaner_arena_alloc(struct gleaner_arena *arena, void *block, size_t bytes)
{
    if (!arena) return EINVAL;
    KEEPING_ERRNO(int, memprof_arena_alloc(arena, block, bytes));
}

int gleaner_arena_free(struct gleaner_arena *arena, void *block)
{
    if (!arena) return EINVAL;
    KEEPING_ERRNO(int, memprof_arena_free(arena, block));
}

int gleaner_arena_bulk(struct gleaner_arena *arena, const struct gleaner_piece *pieces, size_t count)
{
    if (!arena) return EINVAL;
    KEEPING_ERRNO(int, memprof_arena_bulk(arena, pieces, count));
}

void gleaner_arena_reset(struct gleaner_arena *arena)
{
    int before = errno;
    if (arena) memprof_arena_reset(arena);
    errno = before;
}

void gleaner_arena_end(struct gleaner_arena *arena)
{
    int before = errno;
    if (arena) memprof_arena_end(arena);
    errno = before;
}

enum gleaner_state gleaner_arena_state(struct gleaner_arena *arena, const void *block)
{
    return arena ? (enum gleaner_state)memprof_arena_state(arena, block) : GLEANER_NO_BLOCK;
}

void gleaner_arena_lost(struct gleaner_arena *arena, struct gleaner_count *to)
{
    *to = (struct gleaner_count){0};
    if (arena) memprof_arena_lost(arena, to);
}
