/* report.c: the text at the end, see report.h.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/report.h"
#include "heap/heap.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/shut_in.h"
#include "sampler/exported.h"
#include "sampler/module.h"
#include "sampler/sampler.h"
#include "sampler/site.h"
#include "sampler/stack.h"

#define CLASSES_SHOWN 5
#define SITES_SHOWN 5
#define EXACT_INTERVAL 8 /* every word is sampled: the figures of a site are exact */

struct size_text {
    char text[32];
};

static struct size_text size_text(uint64_t n)
{
    static const char units[] = "KMGT";
    struct size_text s;
    if (n < 1024) {
        print_to(s.text, sizeof s.text, "%lu B", (unsigned long)n);
        return s;
    }
    unsigned u = 0;
    while (n >= 1024 * 1024 && units[u + 1]) {
        n /= 1024;
        u++;
    }
    print_to(s.text, sizeof s.text, "%lu.%lu %ciB", (unsigned long)(n / 1024),
             (unsigned long)(n % 1024 * 10 / 1024), units[u]);
    return s;
}

static void print_classes(int fd, const struct heap_stats *s)
{
    bool shown[HEAP_CLASSES] = {false};
    for (unsigned line = 0; line < CLASSES_SHOWN; line++) {
        unsigned heaviest = HEAP_CLASSES;
        for (unsigned i = 0; i < HEAP_CLASSES; i++) {
            if (shown[i] || (i >= s->classes && i != HEAP_CLASS_LARGE)) continue;
            if (s->of[i].live_bytes > 0 &&
                (heaviest == HEAP_CLASSES || s->of[i].live_bytes > s->of[heaviest].live_bytes))
                heaviest = i;
        }
        if (heaviest == HEAP_CLASSES) break;
        shown[heaviest] = true;
        const struct heap_class_stats *c = &s->of[heaviest];
        if (c->size == 0)
            print_fd(fd, "    %s in %lu large blocks\n", size_text(c->live_bytes).text,
                     (unsigned long)c->live);
        else
            print_fd(fd, "    %s in %lu blocks of %zu bytes\n", size_text(c->live_bytes).text,
                     (unsigned long)c->live, c->size);
    }
}

/* The heaviest sites by what is live, heaviest first. */
struct heaviest {
    struct site_view site[SITES_SHOWN];
    unsigned count;
};

static void consider(const struct site_view *view, void *user)
{
    struct heaviest *h = user;
    if (view->site == SITE_DROPPED || view->live.n == 0) return;
    unsigned at = h->count;
    while (at > 0 && h->site[at - 1].live.n < view->live.n) at--;
    if (at >= SITES_SHOWN) return;
    if (h->count < SITES_SHOWN) h->count++;
    for (unsigned i = h->count - 1; i > at; i--) h->site[i] = h->site[i - 1];
    h->site[at] = *view;
}

/* As stack_print does, with names. */
static void print_stack(int fd, struct exported *names, uint32_t stack)
{
    char name[512]; /* a line has 1024 bytes */
    struct stack_frame f;
    for (unsigned i = 0; stack_frame(stack, &f); stack = f.parent, i++) {
        uintptr_t call = f.address - 1;
        const struct module *m = module_get(f.module);
        const char *in = exported_name(names, f.module, call, name, sizeof name) ? " in " : "";
        if (m)
            print_fd(fd, "    #%u 0x%lx%s%s (%s+0x%lx)\n", i, (unsigned long)call, in, name, m->path,
                     (unsigned long)(call - m->bias));
        else
            print_fd(fd, "    #%u 0x%lx\n", i, (unsigned long)call);
    }
}

static void print_sites(int fd)
{
    uint64_t interval = sampler_interval();
    if (interval == 0) return;
    struct heaviest h = {.count = 0};
    site_each(consider, &h);
    /* A filter may kill for how names are read, and spare the rest of this text. */
    struct exported *names = h.count == 0 || shut_in(SHUT_IN_COLLECT) ? NULL : exported_open();
    for (unsigned i = 0; i < h.count; i++) {
        const struct site_view *v = &h.site[i];
        uint64_t bytes = v->live.n * interval, blocks = bytes / (v->given ? v->given : 1);
        bool exact = interval == EXACT_INTERVAL;
        print_fd(fd, "%s %s in %lu blocks of %zu bytes%s allocated from:\n",
                 exact ? "Live:" : "Live: about", size_text(bytes).text,
                 (unsigned long)(blocks ? blocks : 1), v->given, exact ? "" : " (estimated)");
        print_stack(fd, names, v->stack);
    }
    exported_close(names);
}

void report_print(int fd, const char *file)
{
    struct heap_stats s;
    heap_stats(&s);
    print_fd(fd,
             "==%d== Gleaner: %s live in %lu blocks at exit; peak %s; %s allocated in %lu blocks\n",
             (int)raw_syscall(SYS_getpid, 0), size_text(s.live_bytes).text, (unsigned long)s.live,
             size_text(s.peak_bytes).text, size_text(s.allocated_bytes).text,
             (unsigned long)s.allocated);
    print_classes(fd, &s);
    print_sites(fd);
    if (file) print_fd(fd, "With names and lines: gleaner report %s\n", file);
}
