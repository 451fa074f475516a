/* graph.c: random graphs of blocks, changed between collections, against an oracle that the collector has no part in.

      graph plain|threads|fork|dlopen SEED [LIBRARY]

   1. Data.  A graph keeps, beside the blocks, a table of what it has allocated and of every pointer that it has stored:
      addresses in concealed form only.  The oracle walks this table, never the blocks.
   2. Pointers are stored in all forms that a marker must follow: to the start, inside, one past the end, with low and with
      high tags.  A freed block leaves pointers to its start behind, which come alive again with the next block there.
   3. After a collection every block that the oracle reaches is old; after a major one every other is lost, but for what hangs on at most a
      few stale words.  What was lost and is freed then is counted, to the block, as proof.
   4. Variants.  threads: each thread has a graph whose roots are in its own stack, and collects by itself while the others change
      theirs.  fork: children go on with the graph they were born with.  dlopen: roots are in the data of a library that comes and
      goes.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include <dlfcn.h>
#include <sys/wait.h>

#define NODES 700
#define OUT 6
#define ROOTS 24
#define STALE 4 /* words that may hold dead blocks alive */

struct node {
    concealed at; /* 0: no block here */
    size_t asked, usable;
    concealed to[OUT]; /* address that is stored, without tags; 0: none */
    unsigned where[OUT]; /* word of the block */
    bool starts[OUT];  /* it is the start of a block */
    bool reached;
};

struct graph {
    struct node node[NODES];
    unsigned order[NODES]; /* nodes with a block, by address */
    unsigned nodes;
    concealed root[ROOTS]; /* as stored, without tags; 0: none */
    void *volatile *cell;  /* where the roots are really stored */
    uint64_t random;
    size_t proofs; /* lost blocks that were freed */
    unsigned stale_most;
};

static uint64_t next(struct graph *g)
{
    g->random ^= g->random << 13;
    g->random ^= g->random >> 7;
    return g->random ^= g->random << 17;
}

static unsigned below(struct graph *g, unsigned n)
{
    return (unsigned)(next(g) >> 33) % n;
}

static uintptr_t address(concealed c)
{
    return (uintptr_t)reveal(c);
}

/* By the table: the node whose block an address lies in, or -1. */
static int node_at(const struct graph *g, uintptr_t a)
{
    unsigned low = 0, high = g->nodes;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (address(g->node[g->order[middle]].at) <= a) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) return -1;
    const struct node *n = &g->node[g->order[low - 1]];
    /* One past what was asked for is inside of what was given. */
    return a - address(n->at) <= n->asked || a - address(n->at) < n->usable ? (int)g->order[low - 1] : -1;
}

static void sort_in(struct graph *g, unsigned which)
{
    unsigned i = g->nodes++;
    for (; i > 0 && address(g->node[g->order[i - 1]].at) > address(g->node[which].at); i--) g->order[i] = g->order[i - 1];
    g->order[i] = which;
}

static void sort_out(struct graph *g, unsigned which)
{
    unsigned i = 0;
    while (g->order[i] != which) i++;
    memmove(&g->order[i], &g->order[i + 1], (--g->nodes - i) * sizeof g->order[0]);
}

/* The oracle. */
static void reach(struct graph *g)
{
    static _Thread_local unsigned stack[NODES];
    unsigned top = 0;
    for (unsigned i = 0; i < NODES; i++) g->node[i].reached = false;
    for (unsigned i = 0; i < ROOTS; i++) {
        int n = g->root[i] ? node_at(g, address(g->root[i])) : -1;
        if (n < 0 || g->node[n].reached) continue;
        g->node[n].reached = true;
        stack[top++] = (unsigned)n;
    }
    while (top) {
        const struct node *from = &g->node[stack[--top]];
        for (unsigned k = 0; k < OUT; k++) {
            int n = from->to[k] ? node_at(g, address(from->to[k])) : -1;
            if (n < 0 || g->node[n].reached) continue;
            g->node[n].reached = true;
            stack[top++] = (unsigned)n;
        }
    }
}

/* A pointer to a node's block in some form.  `plain` is told without its tags. */
static void *pointer_to(struct graph *g, const struct node *n, concealed *plain, bool *starts)
{
    uintptr_t p = address(n->at), tag = 0;
    unsigned form = below(g, 8);
    if (form == 0) p += 8 * below(g, (unsigned)(n->asked / 8));
    if (form == 1) p += n->asked;
    if (form == 2) tag = 1 + below(g, 7);
    if (form == 3) tag = (uintptr_t)(1 + below(g, 0xffff)) << 48;
    *plain = conceal((void *)p);
    *starts = p == address(n->at);
    return (void *)(p | tag);
}

static void store_root(struct graph *g, unsigned i, const struct node *n)
{
    bool starts;
    if (n) {
        g->cell[i] = pointer_to(g, n, &g->root[i], &starts);
    } else {
        g->cell[i] = NULL;
        g->root[i] = 0;
    }
}

static void store_edge(struct graph *g, struct node *from, unsigned k, const struct node *n)
{
    void **words = reveal(from->at);
    if (n) {
        words[from->where[k]] = pointer_to(g, n, &from->to[k], &from->starts[k]);
    } else {
        words[from->where[k]] = (void *)0x3;
        from->to[k] = 0;
    }
}

static size_t some_size(struct graph *g)
{
    unsigned kind = below(g, 100);
    if (kind < 70) return 64 + 8 * below(g, 40);
    if (kind < 95) return 64 + 8 * below(g, 500);
    return 64 + 8 * below(g, kind < 99 ? 8000 : 60000);
}

/* Fills a block that is new: no word in it is left from an earlier owner. */
static void describe(struct graph *g, struct node *n, void *block, size_t asked)
{
    n->at = conceal(block);
    n->asked = asked;
    n->usable = malloc_usable_size(block);
    memset(block, 0x33, n->usable);
    /* Distinct words: each edge in a part of its own. */
    unsigned part = (unsigned)(asked / 8 / OUT);
    for (unsigned k = 0; k < OUT; k++) {
        n->where[k] = k * part + below(g, part);
        n->to[k] = 0;
    }
}

static void link_from_somewhere(struct graph *g, const struct node *n)
{
    unsigned from = below(g, NODES);
    reach(g);
    if (g->node[from].at && g->node[from].reached && &g->node[from] != n) {
        store_edge(g, &g->node[from], below(g, OUT), n);
    } else {
        store_root(g, below(g, ROOTS), n);
    }
}

static void allocate(struct graph *g, unsigned which)
{
    size_t asked = some_size(g);
    void *p = NULL;
    switch (below(g, 4)) {
    case 0:
        p = calloc(1, asked);
        break;
    case 1:
        CHECK(posix_memalign(&p, (size_t)16 << below(g, 6), asked) == 0);
        break;
    default:
        p = malloc(asked);
    }
    CHECK(p);
    void *volatile held = p; /* until it is linked: another thread may collect, and the graph hides its addresses */
    describe(g, &g->node[which], p, asked);
    sort_in(g, which);
    reach(g);
    for (unsigned k = 0; k < OUT; k++) {
        unsigned to = below(g, NODES);
        if (below(g, 3) == 0 && g->node[to].at && g->node[to].reached) {
            store_edge(g, &g->node[which], k, &g->node[to]);
        }
    }
    link_from_somewhere(g, &g->node[which]);
    held = NULL;
    (void)held;
}

/* Only pointers to the start of a block that is given back are left where they are. */
static void forget_inside(struct graph *g, const struct node *n)
{
    int which = (int)(n - g->node);
    for (unsigned i = 0; i < ROOTS; i++) {
        if (g->root[i] && address(g->root[i]) != address(n->at) && node_at(g, address(g->root[i])) == which) {
            store_root(g, i, NULL);
        }
    }
    for (unsigned j = 0; j < g->nodes; j++) {
        struct node *from = &g->node[g->order[j]];
        for (unsigned k = 0; k < OUT && from->reached; k++) {
            if (from->to[k] && !from->starts[k] && node_at(g, address(from->to[k])) == which) {
                store_edge(g, from, k, NULL);
            }
        }
    }
}

static void give_back(struct graph *g, unsigned which)
{
    struct node *n = &g->node[which];
    if (n->reached) forget_inside(g, n);
    if (gleaner_state(reveal(n->at)) == GLEANER_LOST) g->proofs++;
    free(reveal(n->at));
    sort_out(g, which);
    n->at = 0;
}

static void resize(struct graph *g, unsigned which)
{
    struct node *n = &g->node[which];
    size_t asked = some_size(g);
    forget_inside(g, n);
    void *p = realloc(reveal(n->at), asked);
    CHECK(p);
    void *volatile held = p;
    sort_out(g, which);
    describe(g, n, p, asked);
    sort_in(g, which);
    link_from_somewhere(g, n);
    held = NULL;
    (void)held;
}

/* Some changes.  The program looks at, frees and resizes only what it can reach, and never makes a lost block reachable again. */
NOINLINE static void change(struct graph *g)
{
    for (int i = 0; i < 150; i++) {
        unsigned which = below(g, NODES), what = below(g, 100);
        struct node *n = &g->node[which];
        if (!n->at) {
            allocate(g, which);
            continue;
        }
        reach(g);
        if (!n->reached) continue;
        if (what < 30) {
            unsigned to = below(g, NODES);
            if (g->node[to].at && g->node[to].reached) store_edge(g, n, below(g, OUT), &g->node[to]);
        } else if (what < 55) {
            store_edge(g, n, below(g, OUT), NULL);
        } else if (what < 75) {
            store_root(g, below(g, ROOTS), NULL);
        } else if (what < 85) {
            give_back(g, which);
        } else if (what < 90) {
            resize(g, which);
        } else {
            store_root(g, below(g, ROOTS), n);
        }
    }
    reach(g);
}

/* On how many of them do the blocks hang that the oracle does not reach and the collector does? */
static unsigned heads_of(struct graph *g, const bool *kept)
{
    static _Thread_local bool seen[NODES];
    static _Thread_local unsigned stack[NODES];
    unsigned heads = 0;
    bool pointed[NODES] = {false};
    memset(seen, 0, sizeof seen);
    for (unsigned j = 0; j < g->nodes; j++) {
        unsigned from = g->order[j];
        if (!kept[from]) continue;
        for (unsigned k = 0; k < OUT; k++) {
            int n = g->node[from].to[k] ? node_at(g, address(g->node[from].to[k])) : -1;
            if (n >= 0 && n != (int)from && kept[n]) pointed[n] = true;
        }
    }
    /* First those that none points to, then one of each cycle that is left. */
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned j = 0; j < g->nodes; j++) {
            unsigned start = g->order[j], top = 0;
            if (!kept[start] || seen[start] || (pass == 0 && pointed[start])) continue;
            heads++;
            seen[start] = true;
            stack[top++] = start;
            while (top) {
                const struct node *from = &g->node[stack[--top]];
                for (unsigned k = 0; k < OUT; k++) {
                    int n = from->to[k] ? node_at(g, address(from->to[k])) : -1;
                    if (n < 0 || !kept[n] || seen[n]) continue;
                    seen[n] = true;
                    stack[top++] = (unsigned)n;
                }
            }
        }
    }
    return heads;
}

NOINLINE static void compare(struct graph *g, enum gleaner_collection kind)
{
    bool kept[NODES] = {false};
    for (unsigned i = 0; i < NODES; i++) {
        const struct node *n = &g->node[i];
        if (!n->at) continue;
        enum gleaner_state s = gleaner_state(reveal(n->at));
        if (n->reached && s != GLEANER_OLD) {
            FAIL("a block of %zu bytes that is reached is %s after a %s collection", n->asked, state_name(s),
                 kind == GLEANER_MAJOR ? "major" : "minor");
        }
        if (!n->reached && s != GLEANER_LOST && kind == GLEANER_MAJOR) kept[i] = true;
        if (!n->reached && s != GLEANER_LOST && s != GLEANER_OLD && s != GLEANER_POSSIBLY_LOST) {
            FAIL("a block that nothing reaches is %s", state_name(s));
        }
    }
    unsigned heads = kind == GLEANER_MAJOR ? heads_of(g, kept) : 0;
    if (heads > STALE) FAIL("%u blocks that nothing reaches, and what hangs on them, are not lost", heads);
    if (heads > g->stale_most) g->stale_most = heads;
}

/* Blocks that are lost are given back in the end: each one a proof. */
NOINLINE static void give_back_dead(struct graph *g)
{
    reach(g);
    for (unsigned i = 0; i < NODES; i++) {
        if (g->node[i].at && !g->node[i].reached) give_back(g, i);
    }
}

NOINLINE static void rounds(struct graph *g, int n)
{
    for (int i = 0; i < n; i++) {
        change(g);
        enum gleaner_collection kind = below(g, 3) ? GLEANER_MINOR : GLEANER_MAJOR;
        scrub();
        collect(kind);
        compare(g, kind);
        scrub();
        if (i % 8 == 7) {
            give_back_dead(g);
            scrub();
        }
    }
}

/* Tables beside the graph hold no address: they may lie anywhere. */
static struct graph *graph_new(uint64_t seed, void *volatile *cells)
{
    struct graph *g = mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(g != MAP_FAILED);
    g->random = seed * 0x9e3779b97f4a7c15 + 1;
    g->cell = cells;
    return g;
}

static void *volatile static_cells[ROOTS];

static void plain(uint64_t seed)
{
    struct graph *g = graph_new(seed, static_cells);
    rounds(g, 60);
    struct gleaner_leaks leaks = check_leaks();
    if (leaks.false_lost.blocks != g->proofs) {
        FAIL("%zu lost blocks were freed, %zu counted as proofs", g->proofs, leaks.false_lost.blocks);
    }
    if (g->proofs == 0) FAIL("nothing was ever lost");
}

/* Threads. */
#define THREADS 3
static size_t thread_proofs[THREADS];
static uint64_t thread_seed;

static void *thread_run(void *number)
{
    uintptr_t i = (uintptr_t)number;
    void *volatile cells[ROOTS] = {NULL};
    struct graph *g = graph_new(thread_seed + i, cells);
    rounds(g, 24);
    for (int k = 0; k < ROOTS; k++) cells[k] = NULL;
    thread_proofs[i] = g->proofs;
    return NULL;
}

static void threads(uint64_t seed)
{
    pthread_t t[THREADS];
    size_t proofs = 0;
    thread_seed = seed;
    for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&t[i], NULL, thread_run, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(t[i], NULL) == 0);
        proofs += thread_proofs[i];
    }
    struct gleaner_leaks leaks = check_leaks();
    if (leaks.false_lost.blocks != proofs) {
        FAIL("%zu lost blocks were freed, %zu counted as proofs", proofs, leaks.false_lost.blocks);
    }
}

static void forks(uint64_t seed)
{
    struct graph *g = graph_new(seed, static_cells);
    for (int i = 0; i < 6; i++) {
        rounds(g, 4);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(120);
            rounds(g, 6);
            pid = fork(); /* and a child's child */
            if (pid == 0) {
                alarm(120);
                rounds(g, 2);
                _exit(0);
            }
            int status;
            CHECK(waitpid(pid, &status, 0) == pid);
            _exit(status == 0 ? 0 : 1);
        }
        rounds(g, 3);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (status != 0) FAIL("a child ended with %x", status);
    }
}

static void loads(uint64_t seed, const char *path)
{
    struct graph *g = graph_new(seed, static_cells);
    for (int i = 0; i < 10; i++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) FAIL("%s", dlerror());
        void *volatile *cells = dlsym(library, "graph_lib_root");
        CHECK(cells);
        /* The roots move into the library, and vanish with it. */
        for (int k = 0; k < ROOTS; k++) {
            cells[k] = static_cells[k];
            static_cells[k] = NULL;
        }
        g->cell = cells;
        rounds(g, 3);
        g->cell = static_cells;
        for (int k = 0; k < ROOTS; k++) {
            if (k % 2) static_cells[k] = cells[k];
            if (k % 2 == 0) g->root[k] = 0;
        }
        CHECK(dlclose(library) == 0);
        rounds(g, 3);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) FAIL("usage: graph plain|threads|fork|dlopen SEED [LIBRARY]");
    uint64_t seed = strtoull(argv[2], NULL, 10);
    collections_are_there();
    if (strcmp(argv[1], "threads") == 0) {
        threads(seed);
    } else if (strcmp(argv[1], "fork") == 0) {
        forks(seed);
    } else if (strcmp(argv[1], "dlopen") == 0) {
        CHECK(argc > 3);
        loads(seed, argv[3]);
    } else {
        plain(seed);
    }
    return 0;
}
