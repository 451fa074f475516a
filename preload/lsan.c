/* lsan.c: LeakSanitizer's interface (compiler-rt's sanitizer/lsan_interface.h), so that annotated programs and test harnesses
   work as they are.  Where the program carries a sanitizer, each call is passed on to its own.

   One thing differs on purpose: an unmatched __lsan_enable and a root region that was never registered are errors of the
   program that end it there; here they get the same line, and the program goes on.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/heap.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/collection.h"
#include "preload/face.h"
#include "preload/leak_check.h"
#include "preload/next_symbol.h"
#include "preload/scope.h"

#include <errno.h>
#include <unistd.h>

EXPORT void __lsan_do_leak_check(void);
EXPORT int __lsan_do_recoverable_leak_check(void);
EXPORT void __lsan_ignore_object(const void *address);
EXPORT void __lsan_disable(void);
EXPORT void __lsan_enable(void);
EXPORT void __lsan_register_root_region(const void *from, size_t bytes);
EXPORT void __lsan_unregister_root_region(const void *from, size_t bytes);

static THREAD_LOCAL unsigned disabled; /* __lsan_disable less __lsan_enable */

static bool passes_on(void)
{
    return scope_find() == SCOPE_SANITIZER;
}

/* A sanitizer's own function; NULL where it has none (ThreadSanitizer has no such interface).  Not by dlsym: LeakSanitizer's run-time calls
   its own interface by its public names, i.e. ours, from the allocator that dlsym uses. */
static void *sanitizers(const char *name, _Atomic(void *) *kept)
{
    void *f = atomic_load_explicit(kept, memory_order_relaxed);
    if (!f) atomic_store_explicit(kept, f = next_symbol(name), memory_order_relaxed);
    return f;
}

typedef void call_nothing(void);
typedef int call_answer(void);
typedef void call_address(const void *);
typedef void call_range(const void *, size_t);
#define SANITIZERS(type, name)                                                                     \
    ({                                                                                             \
        static _Atomic(void *) kept;                                                               \
        (type *)sanitizers(name, &kept);                                                           \
    })

static int pid(void)
{
    return (int)raw_syscall(SYS_getpid, 0);
}

void __lsan_do_leak_check(void)
{
    if (passes_on()) {
        call_nothing *f = SANITIZERS(call_nothing, "__lsan_do_leak_check");
        if (f) f();
        return;
    }
    if (!leak_check_is_on() || !leak_check_once()) return;
    int status = leak_check_status(leak_check(TRIGGER_API, 2));
    if (status) _exit(status); /* as LeakSanitizer: without exit handlers */
}

int __lsan_do_recoverable_leak_check(void)
{
    if (passes_on()) {
        call_answer *f = SANITIZERS(call_answer, "__lsan_do_recoverable_leak_check");
        return f ? f() : 0;
    }
    enum leak_verdict verdict = leak_check_is_on() ? leak_check(TRIGGER_API, 2) : LEAK_NONE;
    return verdict == LEAK_FOUND || leak_check_status(verdict) != 0;
}

void __lsan_ignore_object(const void *address)
{
    if (passes_on()) {
        call_address *f = SANITIZERS(call_address, "__lsan_ignore_object");
        if (f) f(address);
        return;
    }
    void *block;
    size_t size;
    uint32_t entry;
    if (heap_find(address, &block, &size, &entry)) heap_ignore(block);
}

void __lsan_disable(void)
{
    if (passes_on()) {
        call_nothing *f = SANITIZERS(call_nothing, "__lsan_disable");
        if (f) f();
        return;
    }
    disabled++;
    heap_ignore_begin();
}

void __lsan_enable(void)
{
    if (passes_on()) {
        call_nothing *f = SANITIZERS(call_nothing, "__lsan_enable");
        if (f) f();
        return;
    }
    if (disabled == 0) {
        print_fd(2, "==%d==Unmatched call to __lsan_enable().\n", pid());
        return;
    }
    disabled--;
    heap_ignore_end();
}

void __lsan_register_root_region(const void *from, size_t bytes)
{
    if (passes_on()) {
        call_range *f = SANITIZERS(call_range, "__lsan_register_root_region");
        if (f) f(from, bytes);
        return;
    }
    int error = collection_add_root((uintptr_t)from, (uintptr_t)from + bytes);
    if (error)
        print_fd(2, "==%d==__lsan_register_root_region(): region at %p of size %zu: error %d\n",
                 pid(), from, bytes, error);
}

void __lsan_unregister_root_region(const void *from, size_t bytes)
{
    if (passes_on()) {
        call_range *f = SANITIZERS(call_range, "__lsan_unregister_root_region");
        if (f) f(from, bytes);
        return;
    }
    if (collection_remove_root((uintptr_t)from, (uintptr_t)from + bytes) == EINVAL)
        print_fd(2,
                 "==%d==__lsan_unregister_root_region(): region at %p of size %zu has not been "
                 "registered.\n",
                 pid(), from, bytes);
}
