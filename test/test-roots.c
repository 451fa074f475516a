/* test-roots.c: every kind of memory in which a program may keep a pointer, and those in which it cannot.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/os.h"
#include "heap/window.h"
#include "test/roots_support.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

/* The shadow memory of AddressSanitizer, 14 TiB, takes the other ways too long. */
#ifdef __SANITIZE_ADDRESS__
#define WAYS PRESENT_PAGEMAP
#else
#define WAYS PRESENT_NONE
#endif

static char *map(size_t bytes, int flags)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

static char *map_fd(int fd, size_t bytes, int protection, int flags)
{
    void *p = mmap(NULL, bytes, protection, flags, fd, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

/* A file of `pages` pages full of zeroes, without a name. */
static int file_of(size_t pages)
{
    char name[] = "/tmp/gleaner-roots-XXXXXX";
    int fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    unlink(name);
    ck_assert_int_eq(ftruncate(fd, (off_t)(pages * PAGE)), 0);
    return fd;
}

static uint64_t in_data[2] = {1, 1}, in_bss[2];
static _Thread_local uint64_t in_tls[2];
static _Alignas(4096) char page_of_data[4096] = {1};

/* Whatever the protection is now. */
START_TEST(test_private)
{
    static const int protections[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE,
                                      PROT_READ | PROT_EXEC};
    char *at[4], *sparse;
    uint64_t *volatile on_heap = malloc(16), on_stack[2];
    for (int i = 0; i < 4; i++) {
        at[i] = map(4 * PAGE, MAP_PRIVATE);
        hide(at[i] + PAGE + 8, (uint64_t)i);
        ck_assert_int_eq(mprotect(at[i], 4 * PAGE, protections[i]), 0);
    }
    sparse = map(_i == PRESENT_SCAN ? 1024 * GIB : 4 * GIB, MAP_PRIVATE | MAP_NORESERVE);
    hide(sparse + 3 * GIB, 4);
    hide(in_data, 5);
    hide(in_bss, 6);
    hide(in_tls, 7);
    hide(on_heap, 8);
    hide(on_stack, 9);
    hide(page_of_data, 10);
    ck_assert_int_eq(mprotect(page_of_data, sizeof page_of_data, PROT_READ), 0); /* as RELRO */
    char *broken = sbrk((intptr_t)PAGE);
    hide(broken, 11);
    struct roots r;
    find_all(&r, ROOTS_ALL, (enum present_way)_i);
    for (int i = 0; i < 4; i++) {
        ck_found(&r, (uint64_t)i, at[i] + PAGE + 8, ROOT_PRIVATE);
        ck_assert_int_eq(root_at(&r, at[i] + PAGE)->by_file, protections[i] == PROT_NONE);
        ck_assert_ptr_null(root_at(&r, at[i]));
        ck_assert_ptr_null(root_at(&r, at[i] + 2 * PAGE));
    }
    ck_found(&r, 4, sparse + 3 * GIB, ROOT_PRIVATE);
    ck_assert_ptr_null(root_at(&r, sparse + 2 * GIB));
    ck_found(&r, 5, in_data, ROOT_PRIVATE);
    ck_found(&r, 6, in_bss, ROOT_PRIVATE);
    ck_found(&r, 7, in_tls, ROOT_PRIVATE);
    ck_found(&r, 8, on_heap, ROOT_PRIVATE);
    ck_found(&r, 9, on_stack, ROOT_STACK);
    ck_found(&r, 10, page_of_data, ROOT_PRIVATE);
    ck_found(&r, 11, broken, ROOT_PRIVATE);
    uint64_t bytes = 0;
    for (size_t i = 0; i < r.count; i++) bytes += r.root[i].to - r.root[i].from;
    ck_assert_uint_eq(r.bytes, bytes);
    roots_free(&r);
}
END_TEST

/* Copied pages of files count, those of the file do not, unless the file is memory itself. */
START_TEST(test_private_of_files)
{
    int fd = file_of(4), memory = memfd_create("roots", 0);
    ck_assert_int_eq(ftruncate(memory, 4 * PAGE), 0);
    char *shared = map_fd(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    hide(shared, 1);
    hide(shared + PAGE, 2);
    munmap(shared, 4 * PAGE);
    shared = map_fd(memory, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    hide(shared, 5);
    munmap(shared, 4 * PAGE);
    volatile char *of_file = map_fd(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    volatile char *of_memory = map_fd(memory, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    (void)of_file[0];
    (void)of_memory[0];
    of_file[PAGE + 64] = 1;
    hide(of_file + 2 * PAGE, 3);
    hide(of_memory + 2 * PAGE, 6);
    ck_assert_int_eq(mprotect((void *)(of_file + 2 * PAGE), PAGE, PROT_NONE), 0);
    struct roots r;
    find_all(&r, ROOTS_ALL, (enum present_way)_i);
    if (_i != PRESENT_MINCORE) ck_not_found(&r, 1, of_file);
    ck_found(&r, 2, of_file + PAGE, ROOT_PRIVATE);
    ck_found(&r, 3, of_file + 2 * PAGE, ROOT_PRIVATE);
    ck_found(&r, 5, of_memory, ROOT_SHARED);
    ck_found(&r, 6, of_memory + 2 * PAGE, ROOT_SHARED);
    roots_free(&r);
    close(fd);
    close(memory);
}
END_TEST

START_TEST(test_shared)
{
    struct {
        const char *what;
        volatile char *at;
    } m[9] = {{0}};
    char name[64];
    snprintf(name, sizeof name, "/gleaner-roots-test.%d", (int)getpid());
    int shm = shm_open(name, O_CREAT | O_RDWR, 0600), memory = memfd_create("roots", 0),
        file = file_of(2);
    shm_unlink(name);
    ck_assert(ftruncate(shm, 2 * PAGE) == 0 && ftruncate(memory, 2 * PAGE) == 0);
    int sysv = shmget(IPC_PRIVATE, 2 * PAGE, 0600);
    int rw = PROT_READ | PROT_WRITE;
    m[0].what = "anonymous", m[0].at = map(2 * PAGE, MAP_SHARED);
    m[1].what = "memfd", m[1].at = map_fd(memory, 2 * PAGE, rw, MAP_SHARED);
    m[2].what = "shm", m[2].at = map_fd(shm, 2 * PAGE, rw, MAP_SHARED);
    m[3].what = "file", m[3].at = map_fd(file, 2 * PAGE, rw, MAP_SHARED);
    int n = 4;
    if (sysv >= 0) m[n].what = "System V", m[n++].at = shmat(sysv, NULL, 0);
    if (sysv >= 0) shmctl(sysv, IPC_RMID, NULL);
    int file2 = file_of(2), file3 = file_of(2);
    m[n].what = "file, now read only", m[n++].at = map_fd(file2, 2 * PAGE, rw, MAP_SHARED);
    m[n].what = "file, now not readable", m[n++].at = map_fd(file3, 2 * PAGE, rw, MAP_SHARED);
    m[n].what = "anonymous, now not readable", m[n++].at = map(2 * PAGE, MAP_SHARED);
    int secret = (int)syscall(447, 0);
    if (secret >= 0 && ftruncate(secret, 2 * PAGE) == 0) {
        m[n].what = "secret", m[n++].at = map_fd(secret, 2 * PAGE, rw, MAP_SHARED);
    }
    for (int i = 0; i < n; i++) {
        hide(m[i].at + 16, 100 + (uint64_t)i);
        if (strstr(m[i].what, "now")) {
            mprotect((void *)m[i].at, 2 * PAGE,
                     strstr(m[i].what, "read only") ? PROT_READ : PROT_NONE);
        }
    }
    for (enum roots_part part = ROOTS_ALL; part <= ROOTS_SHARED; part++) {
        struct roots r;
        find_all(&r, part, (enum present_way)_i);
        for (int i = 0; i < n; i++) {
            enum root_kind kind;
            ck_assert_msg(delivered(&r, 100 + (uint64_t)i, &kind) == 1 && kind == ROOT_SHARED, "%s",
                          m[i].what);
            ck_assert_msg(root_at(&r, m[i].at + 16) != NULL, "%s", m[i].what);
        }
        ck_assert(r.complete);
        roots_free(&r);
    }
    close(file);
}
END_TEST

/* A shared file that was opened to read only cannot have got a pointer from us. */
START_TEST(test_foreign_files)
{
    char name[] = "/tmp/gleaner-roots-XXXXXX";
    int fd = mkstemp(name), reading = open(name, O_RDONLY);
    unlink(name);
    ck_assert_int_eq(ftruncate(fd, 2 * PAGE), 0);
    char *write = map_fd(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    hide(write, 1);
    munmap(write, PAGE);
    volatile char *at = map_fd(reading, PAGE, PROT_READ, MAP_SHARED);
    (void)at[0];
    struct roots r;
    find_all(&r, ROOTS_ALL, (enum present_way)_i);
    ck_not_found(&r, 1, at);
    /* A device's or the kernel's mapping is not even asked for. */
    ck_assert_ptr_null(root_at(&r, (void *)(uintptr_t)0xffffffffff600000));
    roots_free(&r);
}
END_TEST

/* Mappings that this machine may not have are shown by a list that says so. */
START_TEST(test_devices)
{
    char *at = map(4 * PAGE, MAP_SHARED);
    for (int i = 0; i < 4; i++) hide(at + (size_t)i * PAGE, (uint64_t)i);
    struct map list[4];
    static const enum map_kind kinds[] = {MAP_KIND_DEVICE, MAP_KIND_KERNEL, MAP_KIND_RING,
                                          MAP_KIND_ANONYMOUS};
    for (int i = 0; i < 4; i++) {
        uintptr_t from = (uintptr_t)at + (uintptr_t)i * PAGE;
        list[i] = (struct map){from, from + PAGE, kinds[i], true, true, false, true, false, 0};
    }
    struct maps maps = {.map = list, .count = 4, .room = 4};
    struct cut cut = {0};
    struct roots_options options = {.part = ROOTS_ALL, .maps = &maps};
    struct roots r;
    find(&r, &cut, &options);
    ck_assert(r.complete);
    ck_not_found(&r, 0, at);
    ck_not_found(&r, 1, at + PAGE);
    ck_found(&r, 2, at + 2 * PAGE, ROOT_SHARED);
    ck_found(&r, 3, at + 3 * PAGE, ROOT_SHARED);
    roots_free(&r);
    ck_assert_ptr_eq(maps.map, list);
}
END_TEST

/* user_data of a submission that nobody has taken yet. */
START_TEST(test_io_uring)
{
    struct {
        uint32_t entries, cq, flags, cpu, idle, features, wq, none[3];
        uint32_t sq_off[10], cq_off[10];
    } parameters = {0};
    int fd = (int)syscall(425, 8, &parameters);
    if (fd < 0) return; /* not there, or not allowed */
    char *entries =
        mmap(NULL, 8 * 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0x10000000);
    ck_assert_ptr_ne(entries, MAP_FAILED);
    hide(entries + 32, 1);
    struct roots r;
    find_all(&r, ROOTS_ALL, PRESENT_SCAN);
    ck_found(&r, 1, entries + 32, ROOT_SHARED);
    roots_free(&r);
    close(fd);
}
END_TEST

START_TEST(test_guard_regions)
{
    char *at = map(8 * PAGE, MAP_PRIVATE);
    for (size_t i = 0; i < 8; i++) hide(at + i * PAGE, i);
    if (madvise(at + PAGE, 2 * PAGE, MADV_GUARD_INSTALL) != 0) return;
    struct roots r;
    find_all(&r, ROOTS_ALL, (enum present_way)_i);
    ck_found(&r, 0, at, ROOT_PRIVATE);
    ck_found(&r, 3, at + 3 * PAGE, ROOT_PRIVATE);
    ck_assert_uint_eq(delivered(&r, 1, NULL), 0);
    ck_assert(r.complete);
    roots_free(&r);
}
END_TEST

START_TEST(test_swapped)
{
    char *at = map(8 * PAGE, MAP_PRIVATE);
    hide(at + PAGE, 1);
    madvise(at, 8 * PAGE, MADV_PAGEOUT); /* does nothing without swap */
    struct roots r;
    find_all(&r, ROOTS_ALL, (enum present_way)_i);
    ck_found(&r, 1, at + PAGE, ROOT_PRIVATE);
    roots_free(&r);
}
END_TEST

/* Huge pages from the pool, where the system has any. */
START_TEST(test_huge_pages)
{
    char *private = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    char *shared = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (private == MAP_FAILED || shared == MAP_FAILED) return;
    hide(private + MIB, 1);
    hide(shared + MIB, 2);
    struct roots r;
    find_all(&r, ROOTS_ALL, (enum present_way)_i);
    ck_found(&r, 1, private + MIB, ROOT_PRIVATE);
    ck_found(&r, 2, shared + MIB, ROOT_SHARED);
    roots_free(&r);
}
END_TEST

/* The file is cut short, and a mapping is gone, between the look and the reading. */
START_TEST(test_cut_short)
{
    int fd = file_of(4), memory = memfd_create("roots", 0);
    ck_assert_int_eq(ftruncate(memory, 4 * PAGE), 0);
    char *of_file = map_fd(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    char *of_memory = map_fd(memory, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
    char *copied = map_fd(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    for (size_t i = 0; i < 4; i++) {
        hide(of_file + i * PAGE, 10 + i);
        hide(of_memory + i * PAGE, 20 + i);
        hide(copied + i * PAGE, 30 + i);
    }
    struct roots r;
    find_all(&r, ROOTS_ALL, PRESENT_SCAN);
    ck_assert(ftruncate(fd, PAGE) == 0 && ftruncate(memory, PAGE) == 0);
    for (uint64_t k = 10; k <= 30; k += 10) {
        ck_assert_uint_eq(delivered(&r, k, NULL), 1);
        ck_assert_uint_eq(delivered(&r, k + 1, NULL), 0);
        ck_assert_uint_eq(delivered(&r, k + 3, NULL), 0);
    }
    ck_assert(r.complete);
    roots_free(&r);
}
END_TEST

/* What nobody can load and the file does not give is unknown. */
START_TEST(test_gone)
{
    char *at = map(2 * PAGE, MAP_PRIVATE);
    hide(at, 1);
    mprotect(at, 2 * PAGE, PROT_NONE);
    struct roots r;
    find_all(&r, ROOTS_ALL, PRESENT_SCAN);
    munmap(at, 2 * PAGE);
    ck_assert_uint_eq(delivered(&r, 1, NULL), 0);
    ck_assert(!r.complete);
    roots_free(&r);
}
END_TEST

START_TEST(test_shared_most)
{
    int fd = file_of(8);
    char *file = map_fd(fd, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED),
         *anonymous = map(8 * PAGE, MAP_SHARED);
    for (size_t i = 0; i < 8; i++) {
        hide(file + i * PAGE, 10 + i);
        hide(anonymous + i * PAGE, 20 + i);
    }
    struct cut cut = {0};
    static const size_t most[] = {0, 3 * PAGE, 8 * PAGE, 11 * PAGE, SIZE_MAX};
    for (size_t k = 0; k < sizeof most / sizeof *most; k++) {
        struct roots_options options = {.part = ROOTS_SHARED, .shared_most = most[k]};
        struct roots r;
        find(&r, &cut, &options);
        size_t pages = most[k] / PAGE < 16 ? most[k] / PAGE : 16, of_files = 0, unnamed = 0;
        for (size_t i = 0; i < 8; i++) {
            unnamed += delivered(&r, 20 + i, NULL);
            of_files += delivered(&r, 10 + i, NULL);
        }
        ck_assert_uint_eq(unnamed + of_files, pages); /* unnamed memory comes first */
        ck_assert_uint_eq(unnamed, pages < 8 ? pages : 8);
        ck_assert(r.complete);
        roots_free(&r);
        /* A snapshot child finds the rest, and unnamed memory in any case. */
        pid_t child = fork();
        if (child == 0) {
            options.part = ROOTS_FROZEN;
            find(&r, &cut, &options);
            bool all = r.complete;
            for (size_t i = 0; i < 8; i++) {
                all = all && delivered(&r, 20 + i, NULL) == 1;
                if (pages < 16) all = all && delivered(&r, 10 + i, NULL) == 1;
            }
            _exit(all ? 0 : 1);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(status == 0, "%zu pages: %x", pages, status);
    }
    close(fd);
}
END_TEST

/* Nothing is missing from both parts together, and nothing that is frozen is read in the pause. */
START_TEST(test_parts)
{
    char *private = map(PAGE, MAP_PRIVATE), *shared = map(PAGE, MAP_SHARED);
    hide(private, 1);
    hide(shared, 2);
    struct roots r;
    find_all(&r, ROOTS_SHARED, PRESENT_SCAN);
    ck_not_found(&r, 1, private);
    ck_found(&r, 2, shared, ROOT_SHARED);
    struct maps *maps = &r.maps;
    pid_t child = fork();
    if (child == 0) {
        char *own = map(PAGE, MAP_PRIVATE);
        hide(own, 3);
        struct cut cut = {0};
        struct roots_options options = {
            .part = ROOTS_FROZEN, .shared_most = SIZE_MAX, .maps = maps};
        struct roots frozen;
        find(&frozen, &cut, &options);
        bool good = frozen.complete && delivered(&frozen, 1, NULL) == 1;
        _exit(good && delivered(&frozen, 3, NULL) == 0
                  ? 0
                  : 1); /* what the child has mapped is not there */
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    roots_free(&r);
}
END_TEST

/* Memory of ours is left out: what the cut names, its arrays, the window, and all that the search itself maps. */
START_TEST(test_left_out)
{
    char *ours = map(4 * PAGE, MAP_PRIVATE);
    hide(ours, 1);
    hide(ours + PAGE + 8, 2);
    hide(ours + PAGE + 16, 3);
    uint64_t *word = (uint64_t *)(ours + 2 * PAGE);
    hide(word, 4);
    window_start();
    char *heap = (char *)window_base + WINDOW_SMALL_OFFSET;
    ck_assert(os_map_at(heap, 64 * KIB, NULL));
    hide(heap, 5);
    struct cut_range range[] = {{(uintptr_t)ours, (uintptr_t)ours + PAGE + 16}};
    struct cut cut = {.ours = range, .n_ours = 1, .word = word, .words = 1};
    struct roots_options options = {.part = ROOTS_ALL};
    struct roots r;
    find(&r, &cut, &options);
    ck_assert(r.complete);
    ck_not_found(&r, 1, ours);
    ck_not_found(&r, 2, ours + PAGE + 8);
    ck_found(&r, 3, ours + PAGE + 16, ROOT_PRIVATE);
    enum root_kind kind;
    ck_assert_uint_eq(delivered(&r, 4, &kind), 1); /* not a second time as part of a page */
    ck_assert_int_eq(kind, ROOT_KERNEL);
    ck_not_found(&r, 5, heap);
    ck_assert_ptr_null(root_at(&r, r.root));
    ck_assert_ptr_null(root_at(&r, r.maps.map));
    ck_assert(!roots_is_blind(&r, (uintptr_t)heap, (uintptr_t)heap + 64 * KIB));
    roots_free(&r);
}
END_TEST

/* Neighbours at the window's ends make one mapping with what is in it. */
START_TEST(test_window_ends)
{
    window_start();
    char *low = (char *)window_base, *high = low + WINDOW_BYTES;
    ck_assert(os_map_at(low, 64 * KIB, NULL) && os_map_at(low - 64 * KIB, 64 * KIB, NULL));
    ck_assert(os_map_at(high - 64 * KIB, 128 * KIB, NULL));
    hide(low - 8, 1);
    hide(low, 2);
    hide(high - 8, 3);
    hide(high, 4);
    struct roots r;
    find_all(&r, ROOTS_ALL, (enum present_way)_i);
    ck_found(&r, 1, low - 8, ROOT_PRIVATE);
    ck_not_found(&r, 2, low);
    ck_not_found(&r, 3, high - 8);
    ck_found(&r, 4, high, ROOT_PRIVATE);
    roots_free(&r);
}
END_TEST

/* In the window, memory that is not as the heap made it: a root, and nothing for the marker to load from. */
START_TEST(test_blind)
{
    window_start();
    char *heap = (char *)window_base + WINDOW_LARGE_OFFSET;
    ck_assert(os_map_at(heap, 64 * KIB, NULL));
    uintptr_t at = (uintptr_t)heap;
    for (size_t i = 0; i < 16; i++) hide(heap + i * PAGE, i);
    ck_assert_int_eq(mprotect(heap + 2 * PAGE, 2 * PAGE, PROT_NONE), 0);
    ck_assert_int_eq(mprotect(heap + 5 * PAGE, PAGE, PROT_READ), 0);
    char *shared = mmap(heap + 7 * PAGE, PAGE, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    hide(shared, 50);
    struct roots r;
    find_all(&r, ROOTS_ALL, (enum present_way)_i);
    ck_found(&r, 2, heap + 2 * PAGE, ROOT_PRIVATE);
    ck_found(&r, 3, heap + 3 * PAGE, ROOT_PRIVATE);
    ck_found(&r, 50, shared, ROOT_SHARED);
    ck_not_found(&r, 1, heap + PAGE);
    ck_not_found(&r, 5, heap + 5 * PAGE);
    ck_assert(!roots_is_blind(&r, at, at + 2 * PAGE));
    ck_assert(roots_is_blind(&r, at + PAGE, at + 2 * PAGE + 1));
    ck_assert(!roots_is_blind(&r, at + 4 * PAGE, at + 7 * PAGE));
    ck_assert(roots_is_blind(&r, at + 7 * PAGE + 100, at + 7 * PAGE + 108));
    roots_free(&r);
}
END_TEST

START_TEST(test_named)
{
    int fd = file_of(2);
    volatile char *file = map_fd(fd, 2 * PAGE, PROT_READ, MAP_PRIVATE);
    char *write = map_fd(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED),
         *anonymous = map(PAGE, MAP_PRIVATE);
    hide(write + 64, 1);
    hide(write + 128, 2);
    munmap(write, 2 * PAGE);
    (void)file[0];
    window_start();
    char *heap = (char *)window_base + WINDOW_MEDIUM_OFFSET;
    ck_assert(os_map_at(heap, 64 * KIB, NULL));
    hide(heap + 8 * PAGE + 16, 3);
    hide(heap + 8 * PAGE + 24, 4);
    hide(anonymous, 5);
    struct cut_range named[] = {
        {(uintptr_t)file + 60, (uintptr_t)file + 72}, /* whole words count */
        {(uintptr_t)heap, (uintptr_t)heap + 8 * PAGE + 24},
        {(uintptr_t)anonymous, (uintptr_t)anonymous + PAGE},
        {4096, 8192},
    };
    struct cut cut = {.root = named, .n_root = 4};
    for (int part = ROOTS_ALL; part <= ROOTS_FROZEN; part++) {
        struct roots_options options = {.part = (enum roots_part)part, .shared_most = SIZE_MAX};
        struct roots r;
        find(&r, &cut, &options);
        ck_assert(r.complete);
        if (part != ROOTS_FROZEN) ck_found(&r, 1, file + 64, ROOT_NAMED);
        ck_not_found(&r, 2, file + 128);
        if (part == ROOTS_SHARED) {
            ck_assert_uint_eq(delivered(&r, 3, NULL) + delivered(&r, 5, NULL), 0);
        } else {
            ck_found(&r, 3, heap + 8 * PAGE + 16, ROOT_NAMED);
            ck_not_found(&r, 4, heap + 8 * PAGE + 24);
            ck_assert_uint_eq(delivered(&r, 5, NULL), 1);
        }
        roots_free(&r);
    }
}
END_TEST

/* Whichever mapping is refused: all is found, or it is said that something is missing. */
START_TEST(test_out_of_memory)
{
    char *at = map(2 * PAGE, MAP_PRIVATE);
    hide(at, 1);
    mprotect(at, PAGE, PROT_NONE);
    /* More roots than the list has room for at first, when it comes to the shared ones. */
    enum { SHARED = 10001 };
    char *shared = map(SHARED * PAGE, MAP_SHARED);
    for (size_t i = 0; i < SHARED; i += 2) shared[i * PAGE] = 1;
    hide(shared + (SHARED - 1) * PAGE + 16, 2);
    static const enum roots_part parts[] = {ROOTS_ALL, ROOTS_FROZEN};
    static const unsigned times[] = {1, 1000};
    for (unsigned p = 0; p < 4; p++) {
        bool said = false, done = false;
        for (unsigned n = 0; n < 24; n++) {
            struct cut cut = {0};
            struct roots_options options = {.part = parts[p / 2]};
            struct roots r;
            os_fail_mappings(n, times[p % 2]);
            find(&r, &cut, &options);
            size_t hits = delivered(&r, 1, NULL) == 1 && delivered(&r, 2, NULL) == 1;
            os_fail_mappings(0, 0);
            ck_assert_msg(!r.complete || hits, "mapping %u", n);
            ck_assert_msg(r.complete != r.no_memory, "mapping %u", n);
            said = said || !r.complete;
            done = r.complete;
            roots_free(&r);
        }
        ck_assert(said && done);
    }
    munmap(shared, SHARED * PAGE);
}
END_TEST

/* As many mappings as the system allows, or nearly: none is missed. */
START_TEST(test_very_many)
{
    enum { N = 20000 };
    static char *at[N];
    char *area = map(2 * N * PAGE, MAP_PRIVATE);
    size_t n = 0;
    while (n < N && munmap(area + (2 * n + 1) * PAGE, PAGE) == 0) {
        at[n] = area + 2 * n * PAGE;
        hide(at[n], 1);
        if (n % 3 == 0) mprotect(at[n], PAGE, PROT_READ);
        n++;
    }
    ck_assert_uint_gt(n, 1000);
    struct roots r;
    find_all(&r, ROOTS_ALL, (enum present_way)_i);
    ck_assert_uint_eq(delivered(&r, 1, NULL), n);
    roots_free(&r);
}
END_TEST

static void *find_alone(void *main_thread)
{
    pthread_join(*(pthread_t *)main_thread, NULL);
    uint64_t here[2];
    hide(here, 1);
    char *hidden = map(PAGE, MAP_PRIVATE);
    hide(hidden, 2);
    mprotect(hidden, PAGE, PROT_NONE);
    struct roots r;
    find_all(&r, ROOTS_ALL, PRESENT_SCAN);
    _exit(delivered(&r, 1, NULL) >= 1 && root_at(&r, here) && delivered(&r, 2, NULL) >= 1 &&
                  r.complete
              ? 0
              : 1);
}

START_TEST(test_after_the_main_thread)
{
    pid_t child = fork();
    if (child == 0) {
        static pthread_t self;
        pthread_t other;
        self = pthread_self();
        pthread_create(&other, NULL, find_alone, &self);
        pthread_exit(NULL);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* A page with a protection key that the thread has no right to. */
START_TEST(test_protection_keys)
{
#ifdef __x86_64__
    int key = pkey_alloc(0, 0);
    if (key < 0) return; /* not on this processor */
    char *at = map(PAGE, MAP_PRIVATE);
    hide(at, 1);
    ck_assert_int_eq(pkey_mprotect(at, PAGE, PROT_READ | PROT_WRITE, key), 0);
    pkey_set(key, PKEY_DISABLE_ACCESS);
    struct roots r;
    find_all(&r, ROOTS_ALL, PRESENT_SCAN);
    ck_found(&r, 1, at, ROOT_PRIVATE);
    ck_assert_int_eq(pkey_get(key), PKEY_DISABLE_ACCESS);
    roots_free(&r);
#endif
}
END_TEST

int main(void)
{
    Suite *s = suite_create("roots");
    TCase *t = tcase_create("roots");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, test_private, PRESENT_SCAN, WAYS);
    tcase_add_loop_test(t, test_private_of_files, PRESENT_SCAN, WAYS);
    tcase_add_loop_test(t, test_shared, PRESENT_SCAN, WAYS);
    tcase_add_loop_test(t, test_foreign_files, PRESENT_SCAN, WAYS);
    tcase_add_test(t, test_devices);
    tcase_add_test(t, test_io_uring);
    tcase_add_loop_test(t, test_guard_regions, PRESENT_SCAN, WAYS);
    tcase_add_loop_test(t, test_swapped, PRESENT_SCAN,
                        WAYS < PRESENT_MINCORE ? WAYS : PRESENT_MINCORE);
    tcase_add_loop_test(t, test_huge_pages, PRESENT_SCAN, WAYS);
    tcase_add_test(t, test_cut_short);
    tcase_add_test(t, test_gone);
    tcase_add_test(t, test_shared_most);
    tcase_add_test(t, test_parts);
    tcase_add_test(t, test_left_out);
    tcase_add_loop_test(t, test_window_ends, PRESENT_SCAN, WAYS);
    tcase_add_loop_test(t, test_blind, PRESENT_SCAN, WAYS);
    tcase_add_test(t, test_named);
    tcase_add_test(t, test_out_of_memory);
    tcase_add_loop_test(t, test_very_many, PRESENT_SCAN, WAYS);
    tcase_add_test(t, test_after_the_main_thread);
    tcase_add_test(t, test_protection_keys);
    suite_add_tcase(s, t);
    return suite_run(s);
}
