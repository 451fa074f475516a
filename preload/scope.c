/* scope.c: other allocators in the process, see scope.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/scope.h"
#include "heap/heap.h"
#include "heap/syscall.h"
#include "preload/face.h"
#include "preload/next_symbol.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

unsigned char scope_mode_now;

/* Every allocating runtime defines one of these; UndefinedBehaviorSanitizer alone does not matter.
 */
extern __attribute__((weak, visibility("default"))) void __asan_init(void);
extern __attribute__((weak, visibility("default"))) void __hwasan_init(void);
extern __attribute__((weak, visibility("default"))) void __tsan_init(void);
extern __attribute__((weak, visibility("default"))) void __msan_init(void);
extern __attribute__((weak, visibility("default"))) void __lsan_init(void);

const char *scope_sanitizer(void)
{
    if (__asan_init) return "AddressSanitizer";
    if (__hwasan_init) return "HWAddressSanitizer";
    if (__tsan_init) return "ThreadSanitizer";
    if (__msan_init) return "MemorySanitizer";
    if (__lsan_init) return "LeakSanitizer";
    return NULL;
}

static const struct heap_hooks early_hooks = {
    .foreign_free = scope_foreign_free,
    .foreign_realloc = scope_foreign_realloc,
    .foreign_size = scope_foreign_size,
};

enum scope_mode scope_find(void)
{
    if (scope_mode_now == SCOPE_UNKNOWN) {
        /* `malloc` here is what the loader bound it to, the scope's first; own_malloc is ours.  An executable with a fixed address that
           takes malloc's address has an entry in its linkage table for it, which is the function's address for everybody ("Function
           Addresses", System V ABI for x86-64, 5.2; so on aarch64): that leads to the first definition, which may be ours. */
        void *(*volatile first)(size_t) = malloc;
        scope_mode_now = scope_sanitizer()                                      ? SCOPE_SANITIZER
                         : first == own_malloc || !defined_before_us("malloc") ? SCOPE_OURS
                                                                                : SCOPE_OTHER;
        /* Others' pointers come before our start, too. */
        if (scope_mode_now != SCOPE_OURS) heap_set_hooks(&early_hooks);
    }
    return scope_mode_now;
}

/* Next functions. */

enum next { NEXT_MALLOC, NEXT_CALLOC, NEXT_REALLOC, NEXT_FREE, NEXT_MEMALIGN, NEXT_ALIGNED_ALLOC, NEXT_POSIX_MEMALIGN, NEXT_REALLOCARRAY, NEXT_SIZE, NEXTS };
static const char *const next_names[NEXTS] = {"malloc",   "calloc",        "realloc",        "free",
                                              "memalign", "aligned_alloc", "posix_memalign", "reallocarray", "malloc_usable_size"};
static _Atomic(void *) next_functions[NEXTS];
static THREAD_LOCAL bool looking; /* dlsym may allocate: our own heap serves it then */
static THREAD_LOCAL bool passing; /* the scope's first function has this pointer already */

void *scope_next(const char *name)
{
    bool before = looking;
    looking = true;
    void *found = dlsym(RTLD_NEXT, name);
    looking = before;
    return found;
}

static void *next(enum next n)
{
    void *f = atomic_load_explicit(&next_functions[n], memory_order_relaxed);
    if (!f && !looking) {
        f = scope_next(next_names[n]);
        atomic_store_explicit(&next_functions[n], f, memory_order_relaxed);
    }
    return f;
}

void scope_start(void)
{
    enum scope_mode mode = scope_find();
    for (unsigned i = 0; i < NEXTS; i++)
        if (mode == SCOPE_SANITIZER || i == NEXT_REALLOC || i == NEXT_FREE || i == NEXT_SIZE)
            next((enum next)i);
    /* A library that is opened with RTLD_DEEPBIND (PHP opens its extensions so) looks for malloc and free in libc first, and would
       free blocks of ours there. */
    static const char *const taken[] = {
        "malloc",   "calloc", "realloc", "free",   "cfree",          "reallocarray",  "posix_memalign", "aligned_alloc",
        "memalign", "valloc", "pvalloc", "malloc_usable_size", "__libc_malloc", "__libc_calloc", "__libc_realloc", "__libc_free",
        "__libc_memalign", "mallinfo", "mallinfo2", "mallopt", "malloc_trim", "malloc_stats", "malloc_info"};
    if (mode == SCOPE_OURS) next_symbols_redirect("gnu_get_libc_version", taken, sizeof taken / sizeof *taken);
}

/* Foreign pointers. */

extern void *__libc_stack_end; /* the loader's: where the first thread's stack begins */

static bool on_own_stack(uintptr_t p)
{
    uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
    /* Nothing else lies within the kernel's guard gap below a stack, and few blocks just above. */
    if (p + MIB < sp || p > sp + 64 * MIB) return false;
    if (getpid() == gettid()) return p <= (uintptr_t)__libc_stack_end;
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
    int failed = pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    return failed == 0 && p - (uintptr_t)low < bytes;
}

static bool no_allocators(const void *address)
{
    uintptr_t p = (uintptr_t)address;
    if (p % 8 != 0 || p < 64 * KIB) return true;
    struct dl_find_object object; /* lock-free, since glibc 2.35 */
    if (_dl_find_object((void *)p, &object) == 0) return true;
    return on_own_stack(p);
}

static void invalid(void *p)
{
    misuse_found(HEAP_INVALID_FREE, p, NULL, 0, 0);
}

void scope_foreign_free(void *p)
{
    int before = errno;
    if (scope_find() == SCOPE_OTHER && !passing) {
        void (*volatile first)(void *) = free;
        if (first != own_free) {
            passing = true;
            first(p);
            passing = false;
            errno = before;
            return;
        }
    }
    if (scope_mode_now != SCOPE_SANITIZER && no_allocators(p))
        invalid(p);
    else {
        void (*f)(void *) = (void (*)(void *))next(NEXT_FREE);
        if (f && f != own_free) f(p);
    }
    errno = before;
}

void *scope_foreign_realloc(void *p, size_t size)
{
    if (scope_find() == SCOPE_OTHER && !passing) {
        void *(*volatile first)(void *, size_t) = realloc;
        if (first != own_realloc) {
            passing = true;
            void *moved = first(p, size);
            passing = false;
            return moved;
        }
    }
    if (scope_mode_now != SCOPE_SANITIZER && no_allocators(p)) {
        invalid(p);
        errno = ENOMEM;
        return NULL;
    }
    void *(*f)(void *, size_t) = (void *(*)(void *, size_t))next(NEXT_REALLOC);
    if (f) return f(p, size);
    errno = ENOMEM;
    return NULL;
}

size_t scope_foreign_size(const void *p)
{
    if (scope_find() == SCOPE_OTHER && !passing) {
        size_t (*volatile first)(void *) = malloc_usable_size;
        if (first != own_usable_size) {
            passing = true;
            size_t n = first((void *)(uintptr_t)p);
            passing = false;
            return n;
        }
    }
    if (scope_mode_now != SCOPE_SANITIZER && no_allocators(p)) return 0;
    size_t (*f)(void *) = (size_t(*)(void *))next(NEXT_SIZE);
    return f ? f((void *)(uintptr_t)p) : 0;
}

/* Allocation by another. */

static bool first_serves(void)
{
    return scope_find() == SCOPE_OTHER && !passing;
}

heap_malloc_of *scope_elsewhere(void) { return (heap_malloc_of *)next(NEXT_MALLOC); }

void *scope_malloc(size_t size)
{
    if (first_serves()) return malloc(size);
    void *(*f)(size_t) =
        scope_mode_now == SCOPE_SANITIZER ? (void *(*)(size_t))next(NEXT_MALLOC) : NULL;
    return f ? f(size) : heap_malloc(size);
}

void *scope_calloc(size_t count, size_t size)
{
    void *(*f)(size_t, size_t) =
        scope_find() == SCOPE_SANITIZER ? (void *(*)(size_t, size_t))next(NEXT_CALLOC) : NULL;
    return f ? f(count, size) : heap_calloc(count, size);
}

void *scope_aligned(size_t alignment, size_t size)
{
    if (first_serves()) { /* aligned_alloc's own rule: a multiple of the alignment */
        size_t bytes = round_up(size, alignment);
        if (bytes >= size) return aligned_alloc(alignment, bytes);
        errno = ENOMEM;
        return NULL;
    }
    void *(*f)(size_t, size_t) = scope_mode_now == SCOPE_SANITIZER ? (void *(*)(size_t, size_t))next(NEXT_MEMALIGN) : NULL;
    return f ? f(alignment, size) : heap_aligned(alignment, size);
}

void *scope_aligned_alloc(size_t alignment, size_t size)
{
    void *(*f)(size_t, size_t) = (void *(*)(size_t, size_t))next(NEXT_ALIGNED_ALLOC);
    return f ? f(alignment, size) : heap_aligned(alignment, size);
}

void *scope_reallocarray(void *block, size_t count, size_t size)
{
    void *(*f)(void *, size_t, size_t) = (void *(*)(void *, size_t, size_t))next(NEXT_REALLOCARRAY);
    size_t bytes;
    if (f) return f(block, count, size);
    if (!__builtin_mul_overflow(count, size, &bytes)) return own_realloc(block, bytes);
    errno = ENOMEM;
    return NULL;
}

int scope_posix_memalign(void **to, size_t alignment, size_t size)
{
    int (*f)(void **, size_t, size_t) = (int (*)(void **, size_t, size_t))next(NEXT_POSIX_MEMALIGN);
    if (f) return f(to, alignment, size);
    *to = heap_aligned(alignment, size);
    return *to ? 0 : ENOMEM;
}
