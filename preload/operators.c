/* operators.c: C++'s operators new and delete in all twenty forms, in C and without a C++ runtime.

   1. A block that can be had costs no more than malloc.  Sizes given to delete are not looked at:
      they are wrong in too many programs (gperftools#1617).
   2. When there is none, the program's own C++ runtime decides, by its operator of the same name,
      which lies after ours in the scope: it calls malloc (ours: there is none), asks the new handler
      again and again, throws std::bad_alloc; its nothrow form catches that and returns a null
      pointer.  So handlers, the exception's type and its unwinding are the runtime's, whichever it
      is.  (libstdc++'s and libc++'s are written so, for their users' replacement of malloc.)
      A runtime that came with a dlopen'd plugin is not in our scope: it is found by the caller's
      module, or by its file's name if it is loaded.
   3. Where a sanitizer serves, its operator of the same name does: it tells new from malloc, and what it is called by must be the program's
      frame (scope.h).
   4. Where an executable brings its own malloc the operators use that: other
      libraries bind `malloc` to it and may free what they got from new.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/fast.h"
#include "heap/heap.h"
#include "heap/print.h"
#include "preload/face.h"
#include "preload/next_symbol.h"
#include "preload/scope.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

/* Mangled for size_t = unsigned long: both machines'. */
#define NEW "_Znwm"
#define NEW_ARRAY "_Znam"
#define NOTHROW "RKSt9nothrow_t"
#define ALIGNED "St11align_val_t"

typedef void *new_plain(size_t);
typedef void *new_nothrow(size_t, const void *);
typedef void *new_aligned(size_t, size_t);
typedef void *new_aligned_nothrow(size_t, size_t, const void *);
typedef void delete_plain(void *);
typedef void delete_sized(void *, size_t); /* or aligned */
typedef void delete_nothrow(void *, const void *);
typedef void delete_sized_aligned(void *, size_t, size_t);
typedef void delete_aligned_nothrow(void *, size_t, const void *);

extern INTERNAL void *own_new(size_t);

/* Is this definition in another object than we are? */
static void *if_not_ours(void *f)
{
    Dl_info that, own;
    if (f && dladdr(f, &that) && dladdr((void *)(uintptr_t)own_new, &own) &&
        that.dli_fbase == own.dli_fbase)
        return NULL;
    return f;
}

static void *in_loaded(const char *file, const char *name)
{
    void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) return NULL;
    void *f = if_not_ours(dlsym(handle, name));
    dlclose(handle); /* only the count that dlopen added: the caller is still in it */
    return f;
}

static COLD void *runtimes_own(const char *name, void *caller)
{
    static const char *const runtimes[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
    Dl_info module;
    void *f = scope_next(name);
    if (!f && dladdr(caller, &module) && module.dli_fname) f = in_loaded(module.dli_fname, name);
    for (unsigned i = 0; !f && i < sizeof runtimes / sizeof *runtimes; i++)
        f = in_loaded(runtimes[i], name);
    return f;
}

static COLD _Noreturn void nobody_throws(size_t size)
{
    print_fd(2,
             "gleaner: operator new: out of memory (%zu bytes), and no C++ runtime to throw with\n",
             size);
    abort();
}

static ALWAYS_INLINE void *get(size_t size)
{
    if (unlikely(scope_mode_now != SCOPE_OURS)) return scope_malloc(size);
    return heap_malloc_fast(size, HEAP_MALLOC);
}

static ALWAYS_INLINE void *get_aligned(size_t size, size_t alignment)
{
    if (unlikely(alignment == 0 || (alignment & (alignment - 1)) != 0)) return NULL;
    if (unlikely(scope_mode_now != SCOPE_OURS)) return scope_aligned(alignment, size);
    return heap_aligned(alignment, size);
}

static COLD void *fail(const char *name, size_t size, void *caller)
{
    new_plain *f = (new_plain *)runtimes_own(name, caller);
    if (!f) nobody_throws(size);
    return f(size);
}

static COLD void *fail_nothrow(const char *name, size_t size, const void *tag, void *caller)
{
    new_nothrow *f = (new_nothrow *)runtimes_own(name, caller);
    return f ? f(size, tag) : NULL;
}

static COLD void *fail_aligned(const char *name, size_t size, size_t alignment, void *caller)
{
    new_aligned *f = (new_aligned *)runtimes_own(name, caller);
    if (!f) nobody_throws(size);
    return f(size, alignment);
}

static COLD void *fail_aligned_nothrow(const char *name, size_t size, size_t alignment,
                                       const void *tag, void *caller)
{
    new_aligned_nothrow *f = (new_aligned_nothrow *)runtimes_own(name, caller);
    return f ? f(size, alignment, tag) : NULL;
}

/* A sanitizer's operator; NULL: none serves, or it has no such one. */
static COLD void *sanitizers(const char *name, _Atomic(void *) *kept)
{
    static char none;
    if (scope_find() != SCOPE_SANITIZER) return NULL;
    void *f = atomic_load_explicit(kept, memory_order_relaxed);
    if (!f) atomic_store_explicit(kept, f = next_symbol(name), memory_order_relaxed);
    if (!f) atomic_store_explicit(kept, &none, memory_order_relaxed);
    return f == &none ? NULL : f;
}

#define SANITIZERS(type, name)                                                                     \
    ({                                                                                             \
        static _Atomic(void *) kept_;                                                              \
        (type *)(unlikely(scope_mode_now != SCOPE_OURS) ? sanitizers(name, &kept_) : NULL);        \
    })
#define PASS_NEW(type, name, ...)                                                                  \
    do {                                                                                           \
        type *f_ = SANITIZERS(type, name);                                                         \
        if (unlikely(f_)) return f_(__VA_ARGS__);                                                  \
    } while (0)

/* A sanitizer's block lies in no pool of ours, so that delete pays nothing: heap_free_fast asks the same. */
static ALWAYS_INLINE bool is_in_small_pool(const void *p)
{
    return rotate_right((uintptr_t)p - pool_tables.small_base, SMALL_GRANULE_SHIFT) < pool_tables.small_granules;
}

#define HERE __builtin_return_address(0)
#define DECLARE(type, name, ...)                                                                   \
    EXPORT type name(__VA_ARGS__);                                                                 \
    EXPORT type name(__VA_ARGS__)

DECLARE(void *, _Znwm, size_t size)
{
    PASS_NEW(new_plain, "_Znwm", size);
    void *p = get(size);
    return likely(p) ? p : fail(NEW, size, HERE);
}
INTERNAL void *own_new(size_t) __attribute__((alias("_Znwm")));

DECLARE(void *, _Znam, size_t size)
{
    PASS_NEW(new_plain, "_Znam", size);
    void *p = get(size);
    return likely(p) ? p : fail(NEW_ARRAY, size, HERE);
}

DECLARE(void *, _ZnwmRKSt9nothrow_t, size_t size, const void *tag)
{
    PASS_NEW(new_nothrow, "_ZnwmRKSt9nothrow_t", size, tag);
    void *p = get(size);
    return likely(p) ? p : fail_nothrow(NEW NOTHROW, size, tag, HERE);
}

DECLARE(void *, _ZnamRKSt9nothrow_t, size_t size, const void *tag)
{
    PASS_NEW(new_nothrow, "_ZnamRKSt9nothrow_t", size, tag);
    void *p = get(size);
    return likely(p) ? p : fail_nothrow(NEW_ARRAY NOTHROW, size, tag, HERE);
}

DECLARE(void *, _ZnwmSt11align_val_t, size_t size, size_t alignment)
{
    PASS_NEW(new_aligned, "_ZnwmSt11align_val_t", size, alignment);
    void *p = get_aligned(size, alignment);
    return likely(p) ? p : fail_aligned(NEW ALIGNED, size, alignment, HERE);
}

DECLARE(void *, _ZnamSt11align_val_t, size_t size, size_t alignment)
{
    PASS_NEW(new_aligned, "_ZnamSt11align_val_t", size, alignment);
    void *p = get_aligned(size, alignment);
    return likely(p) ? p : fail_aligned(NEW_ARRAY ALIGNED, size, alignment, HERE);
}

DECLARE(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment, const void *tag)
{
    PASS_NEW(new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", size, alignment, tag);
    void *p = get_aligned(size, alignment);
    return likely(p) ? p : fail_aligned_nothrow(NEW ALIGNED NOTHROW, size, alignment, tag, HERE);
}

DECLARE(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment, const void *tag)
{
    PASS_NEW(new_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", size, alignment, tag);
    void *p = get_aligned(size, alignment);
    return likely(p) ? p
                     : fail_aligned_nothrow(NEW_ARRAY ALIGNED NOTHROW, size, alignment, tag, HERE);
}

/* A block of another allocator comes back by the foreign hooks, whoever's it is; but a sanitizer's by the operator that it came by. */
#define DEFINE_DELETE(name, type, parameters, ...)                                                 \
    static NOINLINE void name##_elsewhere parameters                                               \
    {                                                                                              \
        type *f = SANITIZERS(type, #name);                                                         \
        if (unlikely(f)) f(__VA_ARGS__);                                                           \
        else heap_free_fast(p);                                                                    \
    }                                                                                              \
    EXPORT void name parameters;                                                                   \
    EXPORT void name parameters                                                                    \
    {                                                                                              \
        if (unlikely(!is_in_small_pool(p))) name##_elsewhere(__VA_ARGS__);                         \
        else heap_free_fast(p);                                                                    \
    }
DEFINE_DELETE(_ZdlPv, delete_plain, (void *p), p)
DEFINE_DELETE(_ZdaPv, delete_plain, (void *p), p)
DEFINE_DELETE(_ZdlPvm, delete_sized, (void *p, size_t size), p, size)
DEFINE_DELETE(_ZdaPvm, delete_sized, (void *p, size_t size), p, size)
DEFINE_DELETE(_ZdlPvRKSt9nothrow_t, delete_nothrow, (void *p, const void *tag), p, tag)
DEFINE_DELETE(_ZdaPvRKSt9nothrow_t, delete_nothrow, (void *p, const void *tag), p, tag)
DEFINE_DELETE(_ZdlPvSt11align_val_t, delete_sized, (void *p, size_t alignment), p, alignment)
DEFINE_DELETE(_ZdaPvSt11align_val_t, delete_sized, (void *p, size_t alignment), p, alignment)
DEFINE_DELETE(_ZdlPvmSt11align_val_t, delete_sized_aligned, (void *p, size_t size, size_t alignment), p, size, alignment)
DEFINE_DELETE(_ZdaPvmSt11align_val_t, delete_sized_aligned, (void *p, size_t size, size_t alignment), p, size, alignment)
DEFINE_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, delete_aligned_nothrow, (void *p, size_t alignment, const void *tag), p, alignment, tag)
DEFINE_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, delete_aligned_nothrow, (void *p, size_t alignment, const void *tag), p, alignment, tag)
