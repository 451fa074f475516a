/* test-exported.c: names of exported functions, against what nm finds in the files.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "sampler/exported.h"
#include "sampler/module.h"
#include "suite.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct known {
    unsigned long value, size;
    char name[128];
};
static struct known *known;
static size_t count;

/* The functions that `nm` lists of a module. */
static void ask_nm(const char *path)
{
    char command[600], line[600], type;
    snprintf(command, sizeof command, "nm -D -S --defined-only %s", path);
    FILE *p = popen(command, "r");
    size_t room = 0;
    count = 0;
    ck_assert_ptr_nonnull(p);
    while (fgets(line, sizeof line, p)) {
        struct known k;
        if (sscanf(line, "%lx %lx %c %127[^@\n]", &k.value, &k.size, &type, k.name) != 4) continue;
        if (!strchr("TtWwi", type)) continue;
        if (count == room) known = realloc(known, (room = 2 * room + 64) * sizeof *known);
        known[count++] = k;
    }
    ck_assert_int_eq(pclose(p), 0);
}

static bool covers(const struct known *k, unsigned long value)
{
    return value >= k->value && value - k->value < k->size;
}

/* Every name that is given is one of nm's for this address; where none is given the nearest function below does not reach so far. */
static void check_addresses(struct exported *e, uint32_t module, unsigned step)
{
    const struct module *m = module_get(module);
    unsigned named = 0, unnamed = 0;
    for (uintptr_t a = m->text; a < m->text_end; a += step) {
        char name[128];
        bool right = false;
        size_t n = exported_name(e, module, a, name, sizeof name), best = count;
        ck_assert_uint_eq(n, strlen(name));
        for (size_t i = 0; i < count; i++) {
            if (n > 0) right |= covers(&known[i], a - m->bias) && strcmp(known[i].name, name) == 0;
            if (known[i].value <= a - m->bias &&
                (best == count || known[i].value > known[best].value))
                best = i;
        }
        if (n == 0) right = best == count || !covers(&known[best], a - m->bias);
        if (!right) ck_abort_msg("%s+0x%lx: '%s'", m->path, (long)(a - m->bias), name);
        named += n > 0;
        unnamed += n == 0;
    }
    ck_assert_uint_gt(named, 0);
    ck_assert_uint_gt(unnamed, 0);
}

START_TEST(libc)
{
    uintptr_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    uint32_t module = module_of(address);
    char name[64];
    struct exported *e = exported_open();
    ck_assert_ptr_nonnull(e);
    ck_assert_uint_eq(exported_name(e, module, address, name, sizeof name), 20);
    ck_assert_str_eq(name, "gnu_get_libc_version");
    ck_assert_uint_eq(exported_name(e, module, address, name, 4), 20); /* cut */
    ck_assert_str_eq(name, "gnu");
    ask_nm(module_get(module)->path);
    ck_assert_uint_gt(count, 1000);
    check_addresses(e, module, 997);
    exported_close(e);
}
END_TEST

/* Of aliases the one that people write. */
START_TEST(aliases)
{
    uintptr_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "sigaction");
    char name[64];
    struct exported *e = exported_open();
#ifndef __SANITIZE_ADDRESS__ /* which has a sigaction of its own, and not the alias */
    ck_assert_ptr_eq((void *)address, dlsym(RTLD_DEFAULT, "__sigaction"));
#endif
    exported_name(e, module_of(address), address, name, sizeof name);
    ck_assert_str_eq(name, "sigaction");
    exported_close(e);
}
END_TEST

/* The executable exports nothing: its functions have no names here. */
START_TEST(what_has_no_name)
{
    char name[64] = "x";
    struct exported *e = exported_open();
    ck_assert_uint_eq(
        exported_name(e, module_of((uintptr_t)ask_nm), (uintptr_t)ask_nm, name, sizeof name), 0);
    ck_assert_str_eq(name, "");
    ck_assert_uint_eq(exported_name(e, 0, (uintptr_t)ask_nm, name, sizeof name), 0);
    ck_assert_uint_eq(exported_name(e, MODULE_MAX + 1, (uintptr_t)ask_nm, name, sizeof name), 0);
    ck_assert_uint_eq(exported_name(NULL, 1, (uintptr_t)ask_nm, name, sizeof name), 0);
    exported_close(e);
    exported_close(NULL);
}
END_TEST

/* A module that comes and goes: what was copied while it was there stays, afterwards there is nothing to copy, and nothing faults. */
START_TEST(module_that_goes)
{
    char path[600], name[64];
    snprintf(path, sizeof path, "%s/libtest_module_a.so", getenv("GLEANER_TEST_LIBRARIES"));
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle) ck_abort_msg("%s", dlerror());
    uintptr_t relay = (uintptr_t)dlsym(handle, "relay");
    uint32_t module = module_of(relay);
    struct exported *early = exported_open(), *late = exported_open();
    ck_assert_uint_eq(exported_name(early, module, relay + 1, name, sizeof name), 5);
    ck_assert_str_eq(name, "relay");
    ask_nm(path);
    check_addresses(early, module, 1);
    dlclose(handle);
    ck_assert_uint_eq(exported_name(late, module, relay + 1, name, sizeof name), 0);
    ck_assert_uint_eq(exported_name(early, module, relay + 1, name, sizeof name), 5);
    exported_close(early);
    exported_close(late);
}
END_TEST

/* The vdso, whose dynamic section is as the kernel left it. */
START_TEST(vdso)
{
    void *handle = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!handle) return; /* valgrind hides it */
    uintptr_t address = (uintptr_t)dlsym(handle, "__vdso_clock_gettime");
    if (!address) address = (uintptr_t)dlsym(handle, "__kernel_clock_gettime"); /* aarch64 */
    ck_assert_uint_ne(address, 0);
    char name[64];
    struct exported *e = exported_open();
    exported_name(e, module_of(address), address, name, sizeof name);
    ck_assert_ptr_nonnull(strstr(name, "clock_gettime"));
    exported_close(e);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exported");
    TCase *c = tcase_create("exported");
    tcase_set_timeout(c, 120);
    if (module_lock_free()) {
        tcase_add_test(c, libc);
        tcase_add_test(c, aliases);
        tcase_add_test(c, module_that_goes);
        tcase_add_test(c, vdso);
    }
    tcase_add_test(c, what_has_no_name);
    suite_add_tcase(suite, c);
    return suite_run(suite);
}
