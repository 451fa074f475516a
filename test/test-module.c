/* test-module.c: the table of modules, over libraries that come and go at one place.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "sampler/module.h"
#include "sampler/sampler.h"
#include "sampler/stack.h"
#include "relay_library.h"
#include "suite.h"

#include <check.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

static void anchor(void) {}

/* The program is module 1, under its real path. */
START_TEST(main_program)
{
    char self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n] = 0;
    uint32_t libc = module_of((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
    ck_assert_uint_eq(module_of((uintptr_t)anchor), 1);
    ck_assert_uint_gt(libc, 1);
    const struct module *m = module_get(1);
    ck_assert_str_eq(m->path, self);
    ck_assert_uint_le(m->text, (uintptr_t)anchor);
    ck_assert_uint_gt(m->text_end, (uintptr_t)anchor);
    ck_assert_ptr_nonnull(strstr(module_get(libc)->path, "libc.so"));
    ck_assert_uint_eq(module_of((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_release")), libc);
    ck_assert_ptr_null(module_get(0));
    ck_assert_ptr_null(module_get(module_count() + 1));
    ck_assert_ptr_null(module_get(UINT32_MAX));
}
END_TEST

/* The kernel's maps file agrees on the bounds and the offset of the code. */
START_TEST(bounds_as_in_maps)
{
    unsigned checked = 0;
    module_of((uintptr_t)anchor);
    module_of((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
    FILE *f = fopen("/proc/self/maps", "r");
    char line[1024], perms[8], path[512];
    unsigned long from, to, offset;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %511s", &from, &to, perms, &offset, path) != 5)
            continue;
        if (perms[2] != 'x') continue;
        for (uint32_t i = 1; i <= module_count(); i++) {
            const struct module *m = module_get(i);
            if (m->text != from) continue;
            ck_assert_uint_eq(m->text_end, to);
            ck_assert_uint_eq(m->text_offset, offset);
            checked++;
        }
    }
    fclose(f);
    ck_assert_uint_ge(checked, 2);
}
END_TEST

/* The build id is what the linker wrote into the file. */
START_TEST(build_id)
{
    char command[600], hex[2 * MODULE_BUILD_ID + 2] = "", ours[2 * MODULE_BUILD_ID + 1] = "";
    const struct module *m =
        module_get(module_of((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version")));
    snprintf(command, sizeof command, "readelf -n %s | sed -n 's/.*Build ID: //p'", m->path);
    FILE *p = popen(command, "r");
    ck_assert_ptr_nonnull(fgets(hex, sizeof hex, p));
    pclose(p);
    hex[strcspn(hex, "\n")] = 0;
    for (unsigned i = 0; i < m->build_id_bytes; i++) sprintf(ours + 2 * i, "%02x", m->build_id[i]);
    ck_assert_str_eq(ours, hex);
}
END_TEST

START_TEST(no_module)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_uint_eq(module_of((uintptr_t)page), 0);
    ck_assert_uint_eq(module_of(0), 0);
    ck_assert_uint_eq(module_of(UINTPTR_MAX), 0);
    uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
    if (vdso) ck_assert_str_eq(module_get(module_of(vdso + 0x40))->path, "[vdso]");
}
END_TEST

/* The two libraries export a function that calls back and are of one size, so that the loader maps
   the second where the first was. */
static uint32_t taken;
static void take(void)
{
    taken = stack_capture(NULL);
}

static const struct module *module_in(uint32_t stack, const char *name)
{
    struct stack_frame f;
    for (; stack_frame(stack, &f); stack = f.parent) {
        const struct module *m = module_get(f.module);
        if (m && strstr(m->path, name)) return m;
    }
    return NULL;
}

static uint32_t stack_through(void *library)
{
    relay_fn *relay = (relay_fn *)(uintptr_t)dlsym(library, "relay");
    ck_assert_ptr_nonnull(relay);
    relay(take);
    ck_assert_uint_ne(taken, 0);
    return taken;
}

static void close_library(void *library)
{
    sampler_modules_changed();
    ck_assert_int_eq(dlclose(library), 0);
    sampler_modules_changed();
}

/* A stack keeps the names of the library that was mapped when it was taken.  The libraries are a,
   b, a again, all called from one place. */
START_TEST(reuse_of_addresses)
{
    static const char *const names[] = {"libtest_module_a.so", "libtest_module_b.so",
                                        "libtest_module_a.so"};
    uintptr_t starts[3];
    uint32_t stacks[3], modules[3];
    for (unsigned i = 0; i < 3; i++) {
        void *library = open_library(names[i], &starts[i]);
        stacks[i] = stack_through(library);
        modules[i] = module_count();
        close_library(library);
    }
    ck_assert_uint_eq(starts[0], starts[1]); /* the point of the test */
    ck_assert_uint_eq(starts[0], starts[2]);
    ck_assert_uint_ne(stacks[0], stacks[1]);
    ck_assert_uint_eq(stacks[0], stacks[2]); /* the same file at the same place */
    ck_assert_uint_eq(modules[1], modules[0] + 1);
    ck_assert_uint_eq(modules[2], modules[1]);
    ck_assert_ptr_nonnull(module_in(stacks[0], "module_a"));
    ck_assert_ptr_null(module_in(stacks[0], "module_b"));
    ck_assert_ptr_nonnull(module_in(stacks[1], "module_b"));
    ck_assert_ptr_null(module_in(stacks[1], "module_a"));
}
END_TEST

/* The loader keeps the path that it was given; we keep one that another process can open. */
START_TEST(relative_path)
{
    char expected[600];
    const char *folder = getenv("GLEANER_TEST_LIBRARIES");
    snprintf(expected, sizeof expected, "%s/libtest_module_a.so", folder);
    ck_assert_int_eq(chdir(folder), 0);
    module_start();
    uint32_t modules = 0;
    for (unsigned i = 0; i < 2; i++) {
        void *library = dlopen("././libtest_module_a.so", RTLD_NOW | RTLD_LOCAL);
        ck_assert_msg(library != NULL, "%s", dlerror());
        const struct module *m = module_in(stack_through(library), "module_a");
        ck_assert_ptr_nonnull(m);
        ck_assert_str_eq(m->path, expected);
        if (i > 0) ck_assert_uint_eq(module_count(), modules); /* the same one again */
        modules = module_count();
        close_library(library);
    }
}
END_TEST

/* A dlclose of something else changes no id, however often. */
START_TEST(epochs_keep_ids)
{
    take();
    uint32_t before = 0;
    for (unsigned i = 0; i < 70000; i++) { /* past the 16 bits that the rule cache keeps */
        sampler_modules_changed();
        if (i % 1000 != 0) continue;
        take();
        if (before) ck_assert_uint_eq(taken, before);
        before = taken;
    }
    ck_assert_uint_ge(module_epoch(), 70000);
}
END_TEST

static void *look_up_many(void *numbers)
{
    static const char *const names[] = {"gnu_get_libc_version", "pthread_create", "dlopen", "cos",
                                        "suite_create"};
    uint32_t *to = numbers;
    for (unsigned i = 0; i < 5; i++) to[i] = module_of((uintptr_t)dlsym(RTLD_DEFAULT, names[i]));
    return NULL;
}

START_TEST(threads_agree)
{
    enum { THREADS = 4 };
    pthread_t t[THREADS];
    uint32_t numbers[THREADS][5];
    for (unsigned i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, look_up_many, numbers[i]);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (unsigned i = 1; i < THREADS; i++)
        ck_assert_mem_eq(numbers[0], numbers[i], sizeof numbers[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("module");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, main_program);
    tcase_add_test(t, bounds_as_in_maps);
    tcase_add_test(t, build_id);
    tcase_add_test(t, no_module);
    tcase_add_test(t, reuse_of_addresses);
    tcase_add_test(t, relative_path);
    tcase_add_test(t, epochs_keep_ids);
    tcase_add_test(t, threads_agree);
    suite_add_tcase(s, t);
    return suite_run(s);
}
