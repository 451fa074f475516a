/* semantics.c: what glibc promises of malloc and its family, one check a promise (after glibc's own
   tests malloc-too-large, free-errno, aligned-alloc, mallocalign1, calloc, realloc, memalign, pvalloc).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;
#define CHECK(c)                                                                                   \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #c);                           \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)
#define FAILS(call, code)                                                                          \
    do {                                                                                           \
        errno = 0;                                                                                 \
        void *p_ = (call);                                                                         \
        CHECK(p_ == NULL);                                                                         \
        CHECK(errno == (code));                                                                    \
    } while (0)

/* The compiler must neither know the sizes nor drop what is unused. */
static void *volatile sink;
static void *hide(void *p)
{
    sink = p;
    return sink;
}
static size_t hidden(size_t n)
{
    volatile size_t v = n;
    return v;
}

static void too_large(void)
{
    void *block = malloc(16);
    for (unsigned i = 0; i < 64; i++) {
        size_t from[] = {(size_t)PTRDIFF_MAX + 1 + i * 4099, SIZE_MAX - i, SIZE_MAX / 2 + 1 + i};
        for (unsigned j = 0; j < 3; j++) {
            size_t n = hidden(from[j]);
            FAILS(hide(malloc(n)), ENOMEM);
            FAILS(hide(realloc(block, n)), ENOMEM);
            FAILS(hide(realloc(NULL, n)), ENOMEM);
            FAILS(hide(calloc(1, n)), ENOMEM);
            FAILS(hide(calloc(n, 1)), ENOMEM);
            FAILS(hide(calloc(n / 2, 4)), ENOMEM);
            FAILS(hide(reallocarray(block, n / 2, 4)), ENOMEM);
            FAILS(hide(reallocarray(NULL, n, 1)), ENOMEM);
            FAILS(hide(valloc(n)), ENOMEM);
            FAILS(hide(pvalloc(n)), ENOMEM);
            for (size_t a = 8; a <= 65536; a *= 4) {
                void *to = &failures;
                FAILS(hide(memalign(a, n)), ENOMEM);
                FAILS(hide(aligned_alloc(a, n)), ENOMEM);
                errno = 77;
                CHECK(posix_memalign(&to, a, n) == ENOMEM);
                CHECK(errno == 77 && to == &failures);
            }
        }
    }
    free(block);
}

static void errno_kept(void)
{
    for (size_t n = 1; n < (64u << 20); n = n * 3 + 1) {
        void *p = hide(malloc(n));
        CHECK(p != NULL);
        errno = 1234;
        free(p);
        CHECK(errno == 1234);
    }
    errno = 1234;
    free(hide(NULL));
    CHECK(errno == 1234);
    void *p = hide(malloc(100));
    CHECK(errno == 1234);
    free(p);
}

static void alignment(void)
{
    for (size_t n = 0; n < 5000; n++) {
        char *p = hide(malloc(n)), *q = hide(calloc(1, n)), *r = hide(realloc(NULL, n));
        CHECK(p && (uintptr_t)p % 16 == 0);
        CHECK(q && (uintptr_t)q % 16 == 0);
        CHECK(r && (uintptr_t)r % 16 == 0);
        CHECK(malloc_usable_size(p) >= n);
        memset(p, 1, n);
        free(p);
        free(q);
        free(r);
    }
    for (size_t a = 1; a <= (1u << 22); a *= 2)
        for (size_t n = 1; n < 300000; n = n * 7 + 3) {
            char *p = hide(aligned_alloc(a, n)), *q = hide(memalign(a, n));
            void *r = NULL;
            CHECK(p && (uintptr_t)p % a == 0 && malloc_usable_size(p) >= n);
            CHECK(q && (uintptr_t)q % a == 0 && malloc_usable_size(q) >= n);
            int error = posix_memalign(&r, a, n);
            CHECK(error == (a < sizeof(void *) ? EINVAL : 0));
            if (error == 0) CHECK((uintptr_t)r % a == 0);
            memset(p, 2, n);
            memset(q, 3, n);
            CHECK(p[n - 1] == 2 && q[0] == 3);
            q = realloc(q, n + 100);
            CHECK(q && q[0] == 3 && q[n - 1] == 3);
            free(p);
            free(q);
            free(r);
        }
    /* Powers of two only, but for memalign, which takes the next one. */
    size_t odd[] = {0, 3, 24, 48, 100, 4097, SIZE_MAX};
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        void *to = &failures;
        FAILS(hide(aligned_alloc(hidden(odd[i]), 64)), EINVAL);
        errno = 77;
        CHECK(posix_memalign(&to, hidden(odd[i]), 64) == EINVAL);
        CHECK(errno == 77 && to == &failures);
    }
    void *p = hide(memalign(hidden(3000), 10)), *q = hide(memalign(hidden(0), 10));
    CHECK(p && (uintptr_t)p % 4096 == 0);
    CHECK(q && (uintptr_t)q % 16 == 0);
    free(p);
    free(q);
    FAILS(hide(memalign(hidden(SIZE_MAX / 2 + 2), 10)), EINVAL);
    FAILS(hide(memalign(hidden(SIZE_MAX / 2 + 1), 10)), ENOMEM);
}

static void pages(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t n = 0; n < 4 * page; n += 511) {
        char *p = hide(valloc(n)), *q = hide(pvalloc(n));
        CHECK(p && (uintptr_t)p % page == 0 && malloc_usable_size(p) >= n);
        CHECK(q && (uintptr_t)q % page == 0 &&
              malloc_usable_size(q) >= (n + page - 1) / page * page);
        free(p);
        free(q);
    }
    FAILS(hide(pvalloc(hidden(SIZE_MAX))), ENOMEM);
    FAILS(hide(pvalloc(hidden(SIZE_MAX - page))), ENOMEM);
}

static void zeroed(void)
{
    for (size_t n = 1; n < 3000000; n = n * 3 + 1) {
        for (int round = 0; round < 3; round++) {
            unsigned char *p = hide(malloc(n));
            CHECK(p);
            memset(p, 0xa5, malloc_usable_size(p));
            free(p);
            p = hide(calloc(1, n));
            CHECK(p);
            size_t i = 0;
            while (i < n && p[i] == 0) i++;
            CHECK(i == n);
            memset(p, 0x5a, n);
            free(p);
        }
    }
    FAILS(hide(calloc(hidden((size_t)1 << 33), (size_t)1 << 31)), ENOMEM);
    void *p = hide(calloc(hidden(0), 8)), *q = hide(calloc(8, hidden(0)));
    CHECK(p && q && p != q);
    free(p);
    free(q);
}

static void resized(void)
{
    unsigned char *p = hide(malloc(1));
    size_t n = 1;
    *p = 0;
    for (unsigned i = 1; i < 300; i++) {
        size_t next = i % 5 == 4 ? n / 3 + 1 : n + n / 2 + i;
        if (next > (8u << 20)) next = 17;
        p = hide(realloc(p, next));
        CHECK(p);
        for (size_t j = 0; j < n && j < next; j++)
            if (p[j] != (unsigned char)j) {
                CHECK(!"contents kept");
                break;
            }
        for (size_t j = n; j < next; j++) p[j] = (unsigned char)j;
        n = next;
    }
    void *none = hide(realloc(p, hidden(0)));
    CHECK(none == NULL);
    for (size_t bytes = 1; bytes < 100000; bytes = bytes * 2 + 5) { /* the slack is the program's */
        p = hide(malloc(bytes));
        size_t usable = malloc_usable_size(p);
        unsigned char *q = hide(realloc(p, usable));
        CHECK(q == p);
        CHECK(malloc_usable_size(q) == usable);
        free(q);
    }
    void *a = hide(malloc(0)), *b = hide(malloc(0));
    CHECK(a && b && a != b);
    free(a);
    free(b);
    CHECK(malloc_usable_size(hide(NULL)) == 0);
    void *array = hide(reallocarray(NULL, 10, 10));
    CHECK(array && malloc_usable_size(array) >= 100);
    free(array);
}

static void reports(void)
{
    struct mallinfo2 before = mallinfo2();
    char *p = hide(malloc(10u << 20));
    memset(p, 1, 10u << 20);
    struct mallinfo2 with = mallinfo2();
    CHECK(with.uordblks >= before.uordblks + (10u << 20));
    free(p);
    CHECK(mallinfo2().uordblks < with.uordblks);
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    int trimmed = malloc_trim(0);
    CHECK(trimmed == 0 || trimmed == 1);
    char *text = NULL;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    CHECK(malloc_info(1, f) == EINVAL);
    CHECK(malloc_info(0, f) == 0);
    fclose(f);
    CHECK(strncmp(text, "<malloc version=", 16) == 0);
    CHECK(length > 20 && strcmp(text + length - 10, "</malloc>\n") == 0);
    free(text);
}

static void other_names(void)
{
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "__libc_malloc");
    void *(*libc_memalign)(size_t, size_t) =
        (void *(*)(size_t, size_t))dlsym(RTLD_DEFAULT, "__libc_memalign");
    void (*libc_free)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "__libc_free");
    CHECK(libc_malloc && libc_memalign && libc_free);
    free(libc_malloc(100));
    libc_free(malloc(100));
    libc_free(libc_memalign(64, 100));
    void (*sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void (*aligned)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CHECK(sized && aligned);
    sized(malloc(24), 24);
    sized(NULL, 0);
    aligned(aligned_alloc(64, 128), 64, 128);
    void (*old)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "cfree");
    CHECK(old != NULL);
    old(malloc(5));
}

int main(void)
{
    too_large();
    errno_kept();
    alignment();
    pages();
    zeroed();
    resized();
    reports();
    other_names();
    if (failures == 0) puts("all hold");
    return failures != 0;
}
