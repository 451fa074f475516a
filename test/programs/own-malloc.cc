// own-malloc.cc: an executable with an allocator of its own that it exports: malloc, free, new and
// delete, but neither the sized nor the aligned deletes, as firefox did.  Blocks of
// the library's new are freed here and the other way round.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

// A bump arena: blocks begin with their size; anything that is not in it is a fault.
alignas(16) static char arena[64 << 20];
static std::size_t used;
static long frees;

extern "C" void *malloc(std::size_t n)
{
    std::size_t bytes = (n + 31) & ~std::size_t{15};
    std::size_t at = __atomic_fetch_add(&used, bytes, __ATOMIC_RELAXED);
    if (n > sizeof arena || at + bytes > sizeof arena) {
        errno = ENOMEM;
        return nullptr;
    }
    *reinterpret_cast<std::size_t *>(arena + at) = n;
    return arena + at + 16;
}

extern "C" void free(void *p)
{
    if (!p) return;
    char *c = static_cast<char *>(p);
    if (c < arena || c >= arena + sizeof arena) std::abort();
    __atomic_fetch_add(&frees, 1, __ATOMIC_RELAXED);
}

extern "C" void *calloc(std::size_t a, std::size_t b)
{
    void *p = malloc(a * b);
    if (p) std::memset(p, 0, a * b);
    return p;
}

extern "C" void *realloc(void *p, std::size_t n)
{
    void *q = malloc(n);
    if (p && q) {
        std::size_t old = *reinterpret_cast<std::size_t *>(static_cast<char *>(p) - 16);
        std::memcpy(q, p, old < n ? old : n);
    }
    return q;
}

void *operator new(std::size_t n)
{
    void *p = malloc(n);
    if (!p) throw std::bad_alloc();
    return p;
}
void operator delete(void *p) noexcept
{
    free(p);
}

extern "C" void *library_new(std::size_t);
extern "C" void library_delete(void *);
extern "C" int library_work(void);

int main()
{
    long before = frees;
    for (std::size_t n = 1; n < 2000; n += 13) {
        void *p = library_new(n);
        ::operator delete(p);
        p = ::operator new(n);
        library_delete(p);
        free(library_new(n));
    }
    if (library_work() != 0) return 1;
    std::puts(frees - before > 400 ? "mixed" : "not mixed");
    return 0;
}
