/* test-maps.c: what the lines of /proc/…/maps mean, and sets of ranges.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/maps.h"
#include "heap/os.h"
#include "heap/proc_text.h"
#include "heap/ranges.h"
#include "suite.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char *file_with(const char *text)
{
    static char name[64];
    strcpy(name, "/tmp/gleaner-maps-XXXXXX");
    int fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return name;
}

static struct map only_mapping(const char *line)
{
    struct maps m;
    char *name = file_with(line);
    ck_assert_msg(maps_read(&m, name), "%s", line);
    unlink(name);
    ck_assert_uint_eq(m.count, 1);
    struct map map = m.map[0];
    maps_free(&m);
    return map;
}

START_TEST(test_fields)
{
    struct map m = only_mapping("7f98cdcd4000-7f98cdcd6000 rw-p 001d3000 fe:00 332835              "
                                "       /usr/lib/libc.so.6\n");
    ck_assert_uint_eq(m.from, 0x7f98cdcd4000);
    ck_assert_uint_eq(m.to, 0x7f98cdcd6000);
    ck_assert(m.readable && m.writable && !m.executable && !m.shared);
    ck_assert_int_eq(m.kind, MAP_KIND_FILE);
    ck_assert(m.cut_short);
    m = only_mapping(
        "ffffffffff600000-ffffffffff601000 --xs 00000000 00:00 0                  [vsyscall]\n");
    ck_assert_uint_eq(m.to, 0xffffffffff601000);
    ck_assert(!m.readable && !m.writable && m.executable && m.shared);
    m = only_mapping("00400000-00401000 ---p 00000000 00:00 0 \n");
    ck_assert(!m.readable && !m.writable && !m.executable && !m.shared);
    ck_assert_int_eq(m.kind, MAP_KIND_ANONYMOUS);
    /* Without an end of line, and with a name that has blanks and a line's end, as the kernel writes it. */
    m = only_mapping("00400000-00401000 r--p 00000000 fe:00 12 /home/a b\\012c");
    ck_assert_int_eq(m.kind, MAP_KIND_FILE);
}
END_TEST

static const struct {
    const char *name;
    enum map_kind kind;
    bool cut_short;
} names[] = {
    {"", MAP_KIND_ANONYMOUS, false},
    {"[heap]", MAP_KIND_ANONYMOUS, false},
    {"[anon:glibc: malloc]", MAP_KIND_ANONYMOUS, false},
    {"[anon_shmem:ring]", MAP_KIND_ANONYMOUS, false},
    {"[stack:1234]", MAP_KIND_ANONYMOUS, false},
    {"[stack]", MAP_KIND_MAIN_STACK, false},
    {"[vdso]", MAP_KIND_KERNEL, false},
    {"[vvar]", MAP_KIND_KERNEL, false},
    {"[vvar_vclock]", MAP_KIND_KERNEL, false},
    {"[vsyscall]", MAP_KIND_KERNEL, false},
    {"[uprobes]", MAP_KIND_KERNEL, false},
    {"[something new]", MAP_KIND_KERNEL, false},
    {"/dev/zero (deleted)", MAP_KIND_ANONYMOUS, false},
    {"/dev/zero", MAP_KIND_ANONYMOUS, false},
    {"/SYSV00000000 (deleted)", MAP_KIND_ANONYMOUS, false},
    {"/anon_hugepage (deleted)", MAP_KIND_ANONYMOUS, false},
    {"/secretmem (deleted)", MAP_KIND_ANONYMOUS, false},
    {"/memfd:buffers (deleted)", MAP_KIND_ANONYMOUS, true},
    {"/dev/shm/sem.x", MAP_KIND_ANONYMOUS, true},
    {"/dev/shm/gone (deleted)", MAP_KIND_ANONYMOUS, true},
    {"/dev/hugepages/pool", MAP_KIND_ANONYMOUS, true},
    {"/[aio] (deleted)", MAP_KIND_RING, false},
    {"anon_inode:[io_uring]", MAP_KIND_RING, false},
    {"anon_inode:[perf_event]", MAP_KIND_DEVICE, false},
    {"anon_inode:kvm-vcpu:0", MAP_KIND_DEVICE, false},
    {"socket:[19041]", MAP_KIND_DEVICE, false},
    {"/dmabuf: (deleted)", MAP_KIND_DEVICE, false},
    {"/dev/dri/card0", MAP_KIND_DEVICE, false},
    {"/dev/mem", MAP_KIND_DEVICE, false},
    {"/dev/nvidia-uvm", MAP_KIND_DEVICE, false},
    {"/sys/devices/pci0000:00/0000:00:02.0/resource0", MAP_KIND_DEVICE, false},
    {"/proc/bus/pci/00/02.0", MAP_KIND_DEVICE, false},
    {"/device/file", MAP_KIND_FILE, true},
    {"/usr/bin/cat", MAP_KIND_FILE, true},
    {"/tmp/gone (deleted)", MAP_KIND_FILE, true},
};

START_TEST(test_kinds)
{
    char line[256];
    snprintf(line, sizeof line, "00400000-00401000 rw-s 00000000 00:05 1 %s\n", names[_i].name);
    struct map m = only_mapping(line);
    ck_assert_msg(m.kind == names[_i].kind, "%s is %d", names[_i].name, m.kind);
    ck_assert_msg(m.cut_short == names[_i].cut_short, "%s", names[_i].name);
}
END_TEST

START_TEST(test_looking_up)
{
    char *name =
        file_with("1000-2000 rw-p 0 00:00 0\n2000-5000 rw-p 0 00:00 0\n9000-a000 rw-p 0 00:00 0\n");
    struct maps m;
    ck_assert(maps_read(&m, name));
    unlink(name);
    ck_assert_uint_eq(m.count, 3);
    ck_assert_ptr_null(maps_find(&m, 0xfff));
    ck_assert_ptr_eq(maps_find(&m, 0x1000), &m.map[0]);
    ck_assert_ptr_eq(maps_find(&m, 0x1fff), &m.map[0]);
    ck_assert_ptr_eq(maps_find(&m, 0x2000), &m.map[1]);
    ck_assert_ptr_null(maps_find(&m, 0x5000));
    ck_assert_ptr_eq(maps_find(&m, 0x9fff), &m.map[2]);
    ck_assert_ptr_null(maps_find(&m, 0xa000));
    ck_assert_uint_eq(maps_from(&m, 0), 0);
    ck_assert_uint_eq(maps_from(&m, 0x5000), 2);
    ck_assert_uint_eq(maps_from(&m, 0xa000), 3);
    maps_free(&m);
}
END_TEST

/* More than the list has room for at first, so that it is read again; each is found. */
START_TEST(test_very_many)
{
    enum { N = 70000 };
    char name[] = "/tmp/gleaner-maps-XXXXXX";
    FILE *f = fdopen(mkstemp(name), "w");
    ck_assert_ptr_nonnull(f);
    for (unsigned long i = 1; i <= N; i++) {
        fprintf(f,
                "%lx-%lx rw-p 00000000 fe:00 4711                 "
                "/usr/share/a/long/name/of/a/file/number/%lu\n",
                i * 0x3000, i * 0x3000 + 0x2000, i);
    }
    fclose(f);
    struct maps m;
    ck_assert(maps_read(&m, name));
    unlink(name);
    ck_assert_uint_eq(m.count, N);
    for (unsigned long i = 1; i <= N; i++) {
        const struct map *at = maps_find(&m, i * 0x3000 + 0x1fff);
        ck_assert_ptr_nonnull(at);
        ck_assert_uint_eq(at->from, i * 0x3000);
        ck_assert_ptr_null(maps_find(&m, i * 0x3000 + 0x2000));
    }
    maps_free(&m);
}
END_TEST

START_TEST(test_own_process)
{
    int on_stack = 0;
    static int in_data = 1;
    struct maps m;
    ck_assert(maps_read(&m, "/proc/self/maps"));
    const struct map *stack = maps_find(&m, (uintptr_t)&on_stack),
                     *data = maps_find(&m, (uintptr_t)&in_data);
    ck_assert_ptr_nonnull(stack);
    ck_assert_int_eq(stack->kind, MAP_KIND_MAIN_STACK);
    ck_assert_ptr_nonnull(data);
    ck_assert(data->writable);
    const struct map *code = maps_find(&m, (uintptr_t)&maps_read);
    ck_assert_ptr_nonnull(code);
    ck_assert(code->executable && code->kind == MAP_KIND_FILE);
    for (size_t i = 1; i < m.count; i++) ck_assert_uint_le(m.map[i - 1].to, m.map[i].from);
    maps_free(&m);
}
END_TEST

/* The list must not show the memory that it lies in, though that neighbours other mappings, and nothing else may
   be missing with it. */
START_TEST(test_without_itself)
{
    struct maps m;
    ck_assert(maps_read(&m, "/proc/self/maps"));
    ck_assert_ptr_null(maps_find(&m, (uintptr_t)m.map));
    ck_assert_ptr_null(maps_find(&m, (uintptr_t)(m.map + m.count)));
    uintptr_t own = (uintptr_t)m.map;
    FILE *f = fopen("/proc/self/maps", "r");
    char line[8192];
    uintptr_t from, to;
    size_t missing = 0;
    while (fgets(line, sizeof line, f)) {
        ck_assert_int_eq(sscanf(line, "%lx-%lx", &from, &to), 2);
        for (uintptr_t page = from; page < to && to - from < GIB; page += 4096) {
            if (maps_find(&m, page)) continue;
            missing++;
            ck_assert_msg(page - own < MIB, "%lx is missing, the list is at %lx", page, own);
        }
    }
    ck_assert_uint_gt(missing, 0);
    fclose(f);
    maps_free(&m);
}
END_TEST

START_TEST(test_refusals)
{
    struct maps m;
    ck_assert(!maps_read(&m, "/nonexistent/maps"));
    ck_assert_ptr_null(m.map);
    ck_assert_uint_eq(m.count, 0);
    ck_assert(!maps_read(&m, "/dev/null"));
    os_fail_mappings(0, 1);
    ck_assert(!maps_read(&m, "/proc/self/maps"));
    ck_assert_ptr_null(m.map);
    maps_free(&m);
}
END_TEST

static void *reader(void *main_thread)
{
    pthread_join(*(pthread_t *)main_thread, NULL);
    struct maps m;
    _exit(maps_read(&m, "/proc/thread-self/maps") && maps_find(&m, (uintptr_t)&m) ? 0 : 1);
}

/* /proc/self/maps is empty then. */
START_TEST(test_after_the_main_thread)
{
    pid_t child = fork();
    if (child == 0) {
        static pthread_t self;
        pthread_t other;
        self = pthread_self();
        pthread_create(&other, NULL, reader, &self);
        pthread_exit(NULL);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* Lines that are longer than the buffer, of its very length, empty, and without an end. */
START_TEST(test_lines)
{
    char *name =
        file_with("short\n\n0123456789abcdef0123456789abcdef\n0123456\n01234567\n012345678\nlast");
    static const char *const expected[] = {"short",   "",        "0123456", "0123456",
                                           "0123456", "0123456", "last"};
    char buffer[8];
    struct proc_text t;
    ck_assert_int_eq(proc_open(&t, AT_FDCWD, name, buffer, sizeof buffer), 0);
    unlink(name);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const char *line = proc_line(&t);
        ck_assert_ptr_nonnull(line);
        ck_assert_str_eq(line, expected[i]);
    }
    ck_assert_ptr_null(proc_line(&t));
    ck_assert(!t.failed);
    proc_close(&t);
    ck_assert_int_eq(proc_open(&t, AT_FDCWD, "/tmp", buffer, sizeof buffer), 0);
    ck_assert_ptr_null(proc_line(&t));
    ck_assert(t.failed);
    proc_close(&t);
}
END_TEST

struct seen {
    struct cut_range gap[8];
    int n;
};

static void see(uintptr_t from, uintptr_t to, void *user)
{
    struct seen *s = user;
    s->gap[s->n++] = (struct cut_range){from, to};
}

START_TEST(test_ranges)
{
    struct ranges r = {0};
    ranges_settle(&r);
    ck_assert_ptr_null(ranges_from(&r, 0));
    struct seen none = {0};
    ranges_each_gap(&r, 5, 9, see, &none);
    ck_assert_int_eq(none.n, 1);
    ranges_add(&r, 50, 60);
    ranges_add(&r, 10, 20);
    ranges_add(&r, 15, 17);
    ranges_add(&r, 20, 25); /* touches */
    ranges_add(&r, 58, 70); /* overlaps */
    ranges_add(&r, 90, 90); /* empty */
    ranges_settle(&r);
    ck_assert_uint_eq(r.count, 2);
    ck_assert_uint_eq(ranges_from(&r, 24)->from, 10);
    ck_assert_uint_eq(ranges_from(&r, 25)->from, 50);
    ck_assert_ptr_null(ranges_from(&r, 70));
    ck_assert(ranges_meet(&r, 24, 26) && !ranges_meet(&r, 25, 50) && ranges_meet(&r, 0, 100));
    ck_assert(ranges_hold(&r, 10, 25) && !ranges_hold(&r, 10, 26) && !ranges_hold(&r, 0, 1));
    struct seen s = {0};
    ranges_each_gap(&r, 5, 100, see, &s);
    ck_assert_int_eq(s.n, 3);
    ck_assert(s.gap[0].from == 5 && s.gap[0].to == 10);
    ck_assert(s.gap[1].from == 25 && s.gap[1].to == 50);
    ck_assert(s.gap[2].from == 70 && s.gap[2].to == 100);
    s.n = 0;
    ranges_each_gap(&r, 12, 20, see, &s);
    ck_assert_int_eq(s.n, 0);
    ranges_each_gap(&r, 12, 55, see, &s);
    ck_assert_int_eq(s.n, 1);
    ck_assert(s.gap[0].from == 25 && s.gap[0].to == 50);
    ranges_free(&r);
}
END_TEST

/* In an order that is neither ascending nor descending; more than there is room for at first. */
START_TEST(test_many_ranges)
{
    enum { N = 10007 };
    struct ranges r = {0};
    for (uintptr_t i = 0; i < N; i++) ranges_add(&r, i * 5003 % N * 10, i * 5003 % N * 10 + 5);
    ranges_settle(&r);
    ck_assert(!r.incomplete);
    ck_assert_uint_eq(r.count, N);
    for (uintptr_t i = 0; i < N; i++) {
        ck_assert_uint_eq(r.range[i].from, i * 10);
        ck_assert_uint_eq(r.range[i].to, i * 10 + 5);
    }
    ranges_free(&r);
    os_fail_mappings(0, 1);
    ranges_add(&r, 1, 2);
    ck_assert(r.incomplete && r.count == 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("maps");
    TCase *t = tcase_create("maps");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_fields);
    tcase_add_loop_test(t, test_kinds, 0, sizeof names / sizeof *names);
    tcase_add_test(t, test_looking_up);
    tcase_add_test(t, test_very_many);
    tcase_add_test(t, test_own_process);
    tcase_add_test(t, test_without_itself);
    tcase_add_test(t, test_refusals);
    tcase_add_test(t, test_after_the_main_thread);
    tcase_add_test(t, test_lines);
    tcase_add_test(t, test_ranges);
    tcase_add_test(t, test_many_ranges);
    suite_add_tcase(s, t);
    return suite_run(s);
}
