/* malloc.c: the C family, as the glibc manual's "Replacing malloc" wants it.  Each function is hidden
   and named own_*, which is what this library itself calls and compares with: the exported names are
   aliases, and what the loader binds those to may be another's definition that comes first.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/fast.h"
#include "heap/heap.h"
#include "preload/face.h"
#include "preload/scope.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/auxv.h>

#define EXPORT_AS(type, name, own, ...)                                                            \
    EXPORT type name(__VA_ARGS__);                                                                 \
    EXPORT type name(__VA_ARGS__) __attribute__((alias(#own)))

/* True where a sanitizer must serve; the first call of the process looks. */
static NOINLINE bool elsewhere(void)
{
    return scope_find() == SCOPE_SANITIZER;
}
static ALWAYS_INLINE bool passes_on(void)
{
    return unlikely(scope_mode_now != SCOPE_OURS) && elsewhere();
}

void *own_malloc(size_t size)
{
    return heap_malloc_fast(size, HEAP_MALLOC); /* a sanitizer serves by the `elsewhere` hook */
}

void own_free(void *block)
{
    heap_free_fast(block); /* a pointer that is not ours comes back by the foreign hooks */
}

void *own_calloc(size_t count, size_t size)
{
    if (passes_on()) return scope_calloc(count, size);
    return heap_calloc(count, size);
}

void *own_realloc(void *block, size_t size)
{
    if (passes_on() && !heap_owns(block)) return scope_foreign_realloc(block, size);
    return heap_realloc(block, size);
}

static void *own_reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (passes_on()) return scope_reallocarray(block, count, size);
    if (unlikely(__builtin_mul_overflow(count, size, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    return own_realloc(block, bytes);
}

static void own_free_sized(void *block, size_t size)
{
    own_free(block);
}
static void own_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    own_free(block);
}

size_t own_usable_size(void *block)
{
    return heap_usable_size_fast(block);
}

/* Alignment. */

static bool power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

static void *aligned(size_t alignment, size_t size)
{
    if (passes_on()) return scope_aligned(alignment, size);
    return heap_aligned(alignment, size);
}

static void *own_memalign(size_t alignment, size_t size)
{
    if (passes_on()) return scope_aligned(alignment, size);
    if (unlikely(alignment > SIZE_MAX / 2 + 1)) { /* no power of two is as large */
        errno = EINVAL;
        return NULL;
    }
    size_t power = 16; /* glibc rounds up where others refuse, 0 too */
    while (power < alignment) power <<= 1;
    return aligned(power, size);
}

static void *own_aligned_alloc(size_t alignment, size_t size)
{
    if (passes_on()) return scope_aligned_alloc(alignment, size);
    if (unlikely(!power_of_two(alignment))) { /* as glibc since 2.38 */
        errno = EINVAL;
        return NULL;
    }
    return aligned(alignment, size);
}

static int own_posix_memalign(void **to, size_t alignment, size_t size)
{
    if (passes_on()) return scope_posix_memalign(to, alignment, size);
    if (unlikely(!power_of_two(alignment) || alignment % sizeof(void *) != 0)) return EINVAL;
    int before = errno;
    void *p = aligned(alignment, size);
    errno = before;
    if (!p) return ENOMEM;
    *to = p;
    return 0;
}

static void *own_valloc(size_t size)
{
    return aligned(getauxval(AT_PAGESZ), size);
}

static void *own_pvalloc(size_t size)
{
    size_t page = getauxval(AT_PAGESZ);
    if (unlikely(size > (size_t)PTRDIFF_MAX - page)) {
        errno = ENOMEM;
        return NULL;
    }
    return aligned(page, round_up(size, page));
}

/* The exported names. */

EXPORT_AS(void *, malloc, own_malloc, size_t);
EXPORT_AS(void, free, own_free, void *);
EXPORT_AS(void *, calloc, own_calloc, size_t, size_t);
EXPORT_AS(void *, realloc, own_realloc, void *, size_t);
EXPORT_AS(void *, reallocarray, own_reallocarray, void *, size_t, size_t);
EXPORT_AS(size_t, malloc_usable_size, own_usable_size, void *);
EXPORT_AS(void *, memalign, own_memalign, size_t, size_t);
EXPORT_AS(void *, aligned_alloc, own_aligned_alloc, size_t, size_t);
EXPORT_AS(int, posix_memalign, own_posix_memalign, void **, size_t, size_t);
EXPORT_AS(void *, valloc, own_valloc, size_t);
EXPORT_AS(void *, pvalloc, own_pvalloc, size_t);
EXPORT_AS(void, free_sized, own_free_sized, void *, size_t);
EXPORT_AS(void, free_aligned_sized, own_free_aligned_sized, void *, size_t, size_t);
EXPORT_AS(void, cfree, own_free, void *);
EXPORT_AS(void *, __libc_malloc, own_malloc, size_t);
EXPORT_AS(void *, __libc_calloc, own_calloc, size_t, size_t);
EXPORT_AS(void *, __libc_realloc, own_realloc, void *, size_t);
EXPORT_AS(void, __libc_free, own_free, void *);
EXPORT_AS(void, __libc_cfree, own_free, void *);
EXPORT_AS(void *, __libc_memalign, own_memalign, size_t, size_t);
EXPORT_AS(void *, __libc_valloc, own_valloc, size_t);
EXPORT_AS(void *, __libc_pvalloc, own_pvalloc, size_t);
EXPORT_AS(int, __posix_memalign, own_posix_memalign, void **, size_t, size_t);
