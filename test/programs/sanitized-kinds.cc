/* sanitized-kinds.cc: loses blocks by every function that allocates, each from a place of its own: built with a sanitizer, whose report must name
   the same places with the library in front of it as without; and gives blocks back by every operator delete.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <cstdlib>
#include <malloc.h>
#include <new>

#define PLACE extern "C" __attribute__((noinline)) void *

struct alignas(64) wide {
    char bytes[128];
};

PLACE by_malloc() { return malloc(100); }
PLACE by_malloc_large() { return malloc(100000); }
PLACE by_calloc() { return calloc(3, 40); }
PLACE by_realloc() { return realloc(nullptr, 140); }
PLACE by_realloc_again() { return realloc(malloc(20), 160); }
PLACE by_reallocarray() { return reallocarray(nullptr, 9, 20); }
PLACE by_memalign() { return memalign(64, 200); }
PLACE by_aligned_alloc() { return aligned_alloc(64, 256); }
PLACE by_posix_memalign()
{
    void *p = nullptr;
    return posix_memalign(&p, 64, 240) == 0 ? p : nullptr;
}
PLACE by_new() { return new char; }
PLACE by_new_array() { return new int[70]; }
PLACE by_new_nothrow() { return new (std::nothrow) double; }
PLACE by_new_array_nothrow() { return new (std::nothrow) char[300]; }
PLACE by_new_aligned() { return new wide; }
PLACE by_new_array_aligned() { return new wide[5]; }
PLACE by_new_aligned_nothrow() { return new (std::nothrow) wide; }

static void *(*const places[])() = {by_malloc, by_malloc_large, by_calloc, by_realloc, by_realloc_again, by_reallocarray, by_memalign,
                                    by_aligned_alloc, by_posix_memalign, by_new, by_new_array, by_new_nothrow, by_new_array_nothrow,
                                    by_new_aligned, by_new_array_aligned, by_new_aligned_nothrow};

extern "C" __attribute__((noinline)) void *from(void *(*place)())
{
    void *volatile p = place();
    void *q = p;
    p = nullptr;
    return q;
}

/* What one lost call left of an address the next takes over: of each place most are really lost. */
static void lose()
{
    for (void *(*place)() : places)
        for (volatile int i = 0; i < 10; i++) (void)from(place);
}

static void give_back()
{
    delete static_cast<char *>(by_new());
    delete[] static_cast<int *>(by_new_array());
    operator delete(by_new_nothrow(), std::nothrow);
    operator delete[](by_new_array_nothrow(), std::nothrow);
    delete static_cast<wide *>(by_new_aligned());
    delete[] static_cast<wide *>(by_new_array_aligned());
    operator delete(by_new_aligned_nothrow(), std::align_val_t(64), std::nothrow);
    free(by_malloc());
    free(by_posix_memalign());
    delete static_cast<char *>(nullptr);
}

int main()
{
    give_back();
    lose();
    return 0;
}
