/* annotated.c: a program that is annotated for LeakSanitizer.  Built as it is (the calls are weak: without any checker they are
   not there), and with -fsanitize=leak: both must say the same.  The argument is what to do.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WEAK __attribute__((weak))
WEAK extern void __lsan_do_leak_check(void);
WEAK extern int __lsan_do_recoverable_leak_check(void);
WEAK extern void __lsan_ignore_object(const void *);
WEAK extern void __lsan_disable(void);
WEAK extern void __lsan_enable(void);
WEAK extern void __lsan_register_root_region(const void *, size_t);
WEAK extern void __lsan_unregister_root_region(const void *, size_t);

/* The hooks, which say what the environment says. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    const char *s = getenv("HOOK_SUPPRESSIONS");
    return s ? s : "";
}
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    const char *s = getenv("HOOK_OPTIONS");
    return s ? s : "";
}
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return getenv("HOOK_OFF") != NULL;
}

struct node {
    struct node *next, *other;
    char ballast[];
};

/* Past stdio: LeakSanitizer's check at exit throws away what stdio holds. */
#define say(...) dprintf(1, __VA_ARGS__)

/* What a function leaves in its dead frame must not keep a block. */
static __attribute__((noinline)) void scrub(void)
{
    volatile char dead[50000];
    for (size_t i = 0; i < sizeof dead; i++) dead[i] = 0;
}

/* Each is called often enough that no register or stack word holds more than a trifle of what it leaks. */
__attribute__((noinline)) void leak_single(size_t bytes);
__attribute__((noinline)) void leak_list(unsigned nodes);
__attribute__((noinline)) void leak_pair(void);
__attribute__((noinline)) void known_leak(void *tail);
__attribute__((noinline)) void *library_helper(size_t bytes);

static struct node *volatile sink, *volatile kept;

/* The first blocks of each size have round addresses, which other words may look like: they are not the ones to lose. */
static void *volatile first[8];
static void allocate_first(void)
{
    static const size_t sizes[] = {40, 50, 100, 123, 200, 300, 1000, 3000};
    for (unsigned i = 0; i < 8; i++) first[i] = malloc(sizes[i]);
}

void leak_single(size_t bytes)
{
    sink = malloc(bytes);
    sink = NULL;
}

void leak_list(unsigned nodes)
{
    struct node *head = NULL;
    while (nodes-- > 0) {
        struct node *n = calloc(1, 40);
        n->next = head;
        head = n;
    }
    sink = head;
    sink = NULL;
}

void *library_helper(size_t bytes)
{
    void *p = calloc(1, bytes);
    sink = p;
    sink = NULL;
    return p;
}

void leak_pair(void)
{
    struct node *a = calloc(1, 200);
    a->next = library_helper(1000);
    sink = a;
    sink = NULL;
}

/* A head that leads to what was allocated elsewhere. */
void known_leak(void *tail)
{
    struct node *a = calloc(1, 300);
    a->next = tail;
    sink = a;
    sink = NULL;
}

static void bye(void)
{
    say("handler\n");
}

static void check(void)
{
    scrub();
    say("recoverable %d\n", __lsan_do_recoverable_leak_check());
}

static void *leak_in_thread(void *unused)
{
    leak_single(100);
    scrub();
    return NULL;
}

static void in_thread(void *(*f)(void *))
{
    pthread_t t;
    if (pthread_create(&t, NULL, f, NULL) != 0) abort();
    pthread_join(t, NULL);
}

static void *checker(void *unused)
{
    for (int i = 0; i < 20; i++) (void)__lsan_do_recoverable_leak_check();
    return NULL;
}

/* A pointer in a page of a file that nobody wrote to in memory: neither checker looks there by itself. */
static __attribute__((noinline)) void hide_in_file(int fd)
{
    void *p = library_helper(123);
    if (pwrite(fd, &p, sizeof p, 0) != sizeof p) abort();
}

static void roots(void)
{
    char name[] = "/tmp/annotated-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || unlink(name) != 0) abort();
    hide_in_file(fd);
    if (ftruncate(fd, 4096) != 0) abort();
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    if (page == MAP_FAILED || *(volatile char *)page == 1) abort(); /* present */
    __lsan_register_root_region(page, 4096);
    check();
    __lsan_unregister_root_region(page, 4096);
    check();
}

/* As long as its child lives nobody can stop this thread, so that no collection is complete: as long as the program does. */
static void *parent_of_vfork(void *ready)
{
    static const struct timespec a_while = {10, 0};
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int fd = 0; fd < 3; fd++) close(fd);
        *(volatile int *)ready = 1;
        for (;;) nanosleep(&a_while, NULL);
    }
    return NULL;
}

static void start_unstoppable(void)
{
    static volatile int ready;
    pthread_t t;
    if (pthread_create(&t, NULL, parent_of_vfork, (void *)&ready) != 0) abort();
    while (!ready) usleep(1000);
}

static int run(const char *how)
{
    if (strcmp(how, "shapes") == 0) {
        for (volatile int i = 0; i < 3; i++) leak_single(100);
        leak_list(50);
        for (volatile int i = 0; i < 5; i++) leak_pair();
        check();
    } else if (strcmp(how, "nothing") == 0) {
        struct node *n = calloc(1, 100);
        n->next = library_helper(200);
        kept = n;
        n = NULL;
        check();
    } else if (strcmp(how, "twice") == 0) {
        leak_single(100);
        check();
        leak_single(3000);
        check();
    } else if (strcmp(how, "fatal") == 0) {
        leak_single(100);
        scrub();
        __lsan_do_leak_check();
        say("went on\n");
    } else if (strcmp(how, "once") == 0) {
        scrub();
        __lsan_do_leak_check();
        leak_single(100);
        scrub();
        __lsan_do_leak_check();
        say("went on\n");
    } else if (strcmp(how, "unknown") == 0) {
        start_unstoppable();
        check();
    } else if (strcmp(how, "unknown-fatal") == 0) {
        start_unstoppable();
        __lsan_do_leak_check();
        say("went on\n");
    } else if (strcmp(how, "disable") == 0) {
        __lsan_disable();
        __lsan_disable();
        leak_pair();
        __lsan_enable();
        leak_list(7);
        __lsan_enable();
        check();
        leak_single(100);
        check();
    } else if (strcmp(how, "disable-here") == 0) {
        __lsan_disable();
        in_thread(leak_in_thread);
        __lsan_enable();
        check();
    } else if (strcmp(how, "unmatched") == 0) {
        __lsan_enable();
        say("went on\n");
    } else if (strcmp(how, "ignore") == 0) {
        struct node *a = calloc(1, 200);
        a->next = library_helper(1000);
        __lsan_ignore_object((char *)a + 100);
        a = NULL;
        check();
    } else if (strcmp(how, "roots") == 0) {
        roots();
    } else if (strcmp(how, "suppressed") == 0) {
        for (volatile int i = 0; i < 2; i++) known_leak(library_helper(50));
        leak_single(100);
        check();
    } else if (strcmp(how, "only-suppressed") == 0) {
        known_leak(library_helper(50));
        check();
    } else if (strcmp(how, "threads") == 0) {
        leak_single(100);
        scrub();
        pthread_t t[3];
        for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, checker, NULL);
        for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
        check();
    } else if (strcmp(how, "fork") == 0) {
        leak_single(100);
        scrub();
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            check();
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        check();
    } else if (strcmp(how, "exit") == 0) {
        leak_pair();
        scrub();
        exit(5);
    } else if (strcmp(how, "_exit") == 0) {
        leak_pair();
        scrub();
        fflush(stdout);
        _exit(5);
    } else if (strcmp(how, "quick_exit") == 0) {
        leak_pair();
        scrub();
        fflush(stdout);
        quick_exit(5);
    } else
        return 99;
    return 0;
}

int main(int count, char **arguments)
{
    atexit(bye);
    at_quick_exit(bye);
    if (!__lsan_do_leak_check) return 98;
    printf("buffered\n");
    allocate_first();
    int status = run(count > 1 ? arguments[1] : "");
    scrub();
    return status;
}
