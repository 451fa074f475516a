/* holders.c: blocks whose only holder is known, for test-holders-programs.c.
     holders MODE...    makes what each MODE says, says "ready", and waits for the end of its input
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

extern void __lsan_ignore_object(const void *) __attribute__((weak));
void library_keep(void *), library_keep_in_table(void *);

struct node {
    void *data;
    struct node *next;
    long number[3];
};

/* One for each kind of block, so that call stacks tell them apart. */
#define MAKER(name, bytes) \
    NOINLINE static void *name##_new(void) { return calloc(1, bytes); }
MAKER(target, 777)
MAKER(middle, 333)
MAKER(outer, 111)
MAKER(item, 48)
MAKER(entry, 200)

void *volatile global_holder;
static struct {
    long before;
    void *volatile holder[4];
} static_holder;
static struct node *volatile list, *volatile list_end;
static void *volatile table[256];
static _Thread_local void *volatile thread_local_holder;
static pthread_key_t key;

static void in_global(void) { global_holder = target_new(); }
static void in_static(void) { static_holder.holder[2] = target_new(); }
static void in_library(void) { library_keep(target_new()); }
static void in_library_table(void) { library_keep_in_table(target_new()); }
static void interior(void) { global_holder = (char *)target_new() + 100; }
static void in_tls(void) { thread_local_holder = target_new(); }

/* global -> outer (+8) -> middle (+64) -> target */
static void chain(void)
{
    void **outer = outer_new(), **middle = middle_new();
    middle[8] = target_new();
    outer[1] = middle;
    global_holder = outer;
}

/* The items are held one by the other, and the target by the last; the list has a pointer to its end, too. */
static void in_list(void)
{
    struct node *last = NULL;
    for (int i = 0; i < 1000; i++) {
        struct node *n = item_new();
        n->next = last;
        if (i == 0) n->data = target_new();
        last = n;
    }
    list = last;
}

static void many(void)
{
    for (int i = 0; i < 256; i++) table[i] = entry_new();
}

/* The same blocks from two variables of this program. */
static void twice(void)
{
    struct node *n = item_new();
    n->data = target_new();
    list = n;
    list_end = n;
}

static void in_epoll(void)
{
    int set = epoll_create1(EPOLL_CLOEXEC), ends[2];
    if (set < 0 || pipe(ends)) abort();
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = target_new()};
    if (epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event)) abort();
    memset(&event, 0, sizeof event);
}

static void in_timer(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_ptr = target_new()};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) abort();
    memset(&event, 0, sizeof event);
}

static void map(int flags)
{
    void **page = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) abort();
    page[64] = target_new();
}
static void in_mapping(void) { map(MAP_PRIVATE); }
static void in_shared_mapping(void) { map(MAP_SHARED); }

static void in_memfd(void)
{
    int fd = memfd_create("cache-file", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 1 << 16)) abort();
    void **page = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) abort();
    page[64] = target_new();
}

static void ignored(void)
{
    void *block = target_new();
    if (__lsan_ignore_object) __lsan_ignore_object(block);
}

/* Held by a block that is ignored. */
static void by_ignored(void)
{
    void **outer = outer_new();
    outer[3] = target_new();
    if (__lsan_ignore_object) __lsan_ignore_object(outer);
}

static void lost(void) { target_new(); }

/* -- in threads -- */

static int ready[2];

static void say_ready(void)
{
    if (write(ready[1], "x", 1) != 1) abort();
}

NOINLINE static void hold_in_frame(void *volatile *slot)
{
    say_ready();
    while (slot) pause();
}

NOINLINE static void *frame_of_thread(void *unused)
{
    void *volatile mine = target_new();
    prctl(PR_SET_NAME, "frame-holder");
    hold_in_frame(&mine);
    return mine;
}

NOINLINE static void *tls_of_thread(void *unused)
{
    thread_local_holder = target_new();
    prctl(PR_SET_NAME, "tls-holder");
    hold_in_frame((void *volatile *)&unused);
    return NULL;
}

NOINLINE static void *key_of_thread(void *unused)
{
    pthread_key_create(&key, NULL);
    pthread_setspecific(key, target_new());
    hold_in_frame((void *volatile *)&unused);
    return NULL;
}

static void *idle(void *unused)
{
    say_ready();
    for (;;) pause();
    return unused;
}

static void start(void *(*run)(void *))
{
    pthread_t thread;
    char byte;
    if (pthread_create(&thread, NULL, run, NULL) || read(ready[0], &byte, 1) != 1) abort();
}
static void in_frame(void) { start(frame_of_thread); }
static void in_thread_tls(void) { start(tls_of_thread); }
static void in_key(void) { start(key_of_thread); }
static void threads(void)
{
    for (int i = 0; i < 50; i++) start(idle);
}

#define MODE(name) {#name, name}
static const struct {
    const char *name;
    void (*make)(void);
} modes[] = {MODE(in_global), MODE(in_static), MODE(in_library), MODE(in_library_table), MODE(interior), MODE(in_tls),
             MODE(chain), MODE(in_list), MODE(many), MODE(twice), MODE(in_epoll), MODE(in_timer), MODE(in_mapping),
             MODE(in_shared_mapping), MODE(in_memfd), MODE(ignored), MODE(by_ignored), MODE(lost), MODE(in_frame),
             MODE(in_thread_tls), MODE(in_key), MODE(threads)};

/* What the making left in registers and on the stack. */
NOINLINE static void clear(void)
{
    volatile char bytes[16384];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = 0;
}

NOINLINE static void make(const char *mode)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, mode)) {
            modes[i].make();
            return;
        }
    abort();
}

int main(int argc, char **argv)
{
    void *volatile mine = NULL;
    if (pipe(ready)) return 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "in_main")) mine = target_new();
        else make(argv[i]);
    }
    clear();
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) return 1;
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) continue;
    return mine == (void *)1;
}
