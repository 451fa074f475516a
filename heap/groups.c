/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/groups.h"
#include "heap/contents.h"
#include "heap/edges.h"
#include "heap/os.h"

/* 1. Data.  While the search runs a block is a node of 12 bytes, its index the rank of its bit (rank.h):

                      not seen  on the path or stack  assigned
        component     0         an index up to `left` number of the component: above `left`, from `count` down
        head          -         -                     lowest block of the component (| IN_CYCLE)
        from          -         -                     a block that points to it from another component, + 1; 0: none seen

      Beside the nodes there are the path (frames) and the stack of the blocks that are finished and wait for
      their component, both sequential, and together never longer than there are blocks.  A miss of the caches is
      what a block costs; so the blocks' state is small, and what can be known from the path is not asked of it.

      All lie in the memory of the result, which is filled in at the end, by ascending index.  A node is
      never overwritten before its block is, since the nodes end where the result does:

        0             16 n            24 n     28 n              44 n        56 n
        | path        | stack         | order  |                 | nodes     |
        | result: 56 bytes a block ->                                        |

      So a lost block costs sizeof(struct group_block) and nothing else, however deep the graph is.

   2. Algorithm.  Components by Tarjan, with the numbers that D. J. Pearce found enough (Information Processing
      Letters 116, 2016: "A space-efficient algorithm for finding strongly connected components"): an index while a
      block is not assigned, at most `left`, and above `left` once it is.  When the search has looked at an
      edge (and at all behind it) the target is either assigned, then the edge comes from outside of the target's
      component, or not, then both are in one.  So one pass over the words finds the components, and for each that
      is not a source one edge into it.  Components are finished before those that point to them; so in the opposite
      order (`order`) a component's head is its own lowest block, or that of the component where its edge comes from.  */

_Static_assert(sizeof(struct group_block) == 56, "bytes a lost block");

struct node {
    uint32_t component, head, from;
};
_Static_assert(sizeof(struct node) == 12, "bytes a lost block in the search");
#define IN_CYCLE 0x80000000u /* in `head` */
#define FOUND 0x80000000u /* in `from`, when heads are looked for: what is below it is the head */
_Static_assert(RANK_MOST < IN_CYCLE, "an index has 31 bits");

struct frame {
    uint64_t
        at; /* where to go on: the word's address + how many forms of it are done (edges.h), and flags */
    uint32_t block;
    uint32_t low; /* the lowest index that it is known to reach, its own at first */
};
#define AT_SELF ((uint64_t)1 << 63)    /* it points to itself */
#define AT_LOWERED ((uint64_t)1 << 62) /* `low` is below its own index */
#define AT_WORD(at) ((uintptr_t)(at)&0x0000fffffffffff8)

struct waiting {
    uint32_t block, low;
};

struct find {
    const struct white *white;
    uintptr_t guard;
    struct rank rank;
    uint32_t count;
    struct frame *path;
    uint32_t depth;
    struct waiting *stack;
    uint32_t stacked;
    uint32_t *order; /* each component's lowest block, as they are finished */
    struct node *node;
    uint32_t left, index; /* the next number of a component, and of a block */
    struct contents contents;
};

/* ---- components ---- */

static void enter(struct find *f, uint32_t v, uintptr_t start)
{
    f->node[v].component = f->index;
    f->path[f->depth++] = (struct frame){start, v, f->index++};
}

/* Looked at an edge, and at all behind it. */
static inline void account(struct find *f, struct frame *from, uint32_t t, uint32_t number)
{
    if (number > f->left) {
        f->node[t].from = from->block + 1;
    } else if (t == from->block) {
        from->at |= AT_SELF;
    } else if (number < from->low) {
        from->low = number;
        from->at |= AT_LOWERED;
    }
}

/* Looks at the words of the block on top of the path, until one points to a block that was not seen yet, which it puts
   on top of it.  False when there is none left. */
static bool advance(struct find *f)
{
    struct frame *top = &f->path[f->depth - 1];
    struct white_block b, next;
    uintptr_t at = AT_WORD(top->at), to;
    unsigned todo = ~0u << (top->at & 7);
    if (!white_find(f->white, at, &b)) return false; /* cannot be */
    for (; (to = contents_next(&f->contents, &b, &at)) != 0; at = to)
        for (const uintptr_t *p = (const uintptr_t *)at; p < (const uintptr_t *)to; p++, todo = ~0u)
            for (unsigned forms = edge_forms(*p, f->guard) & todo; forms != 0; forms &= forms - 1) {
                unsigned form = (unsigned)__builtin_ctz(forms);
                uint32_t t;
                if (!edge_target(&f->rank, *p, f->guard, form, &next, &t)) continue;
                uint32_t number = f->node[t].component;
                if (number != 0) {
                    account(f, top, t, number);
                    continue;
                }
                top->at = (top->at & (AT_SELF | AT_LOWERED)) | ((uintptr_t)p + form + 1);
                enter(f, t, next.start);
                return true;
            }
    return false;
}

/* The block of a finished frame reaches none that was seen before it, so it and what waits above are a component. */
static void assign(struct find *f, const struct frame *root)
{
    uint32_t lowest = root->block, first = f->stacked, cycle = root->at & AT_SELF ? IN_CYCLE : 0;
    for (; first > 0 && f->stack[first - 1].low >= root->low; first--) {
        if (f->stack[first - 1].block < lowest) lowest = f->stack[first - 1].block;
        cycle = IN_CYCLE;
    }
    for (uint32_t i = first; i < f->stacked; i++) {
        struct node *n = &f->node[f->stack[i].block];
        n->component = f->left;
        n->head = lowest | IN_CYCLE;
    }
    f->node[root->block].component = f->left;
    f->node[root->block].head = lowest | cycle;
    f->order[f->count - f->left] = lowest;
    f->index -= f->stacked - first + 1;
    f->stacked = first;
    f->left--;
}

#define AHEAD 6u

static void search(const struct white_block *b, void *user)
{
    struct find *f = user;
    uint32_t v = rank_of(&f->rank, b->area, b->granule);
    if (f->node[v].component != 0) return;
    enter(f, v, b->start);
    for (;;) {
        if (advance(f)) continue;
        const struct frame done = f->path[--f->depth];
        bool is_root = !(done.at & AT_LOWERED);
        uint32_t number = done.low;
        if (f->depth >= AHEAD)
            __builtin_prefetch((const void *)AT_WORD(f->path[f->depth - AHEAD].at));
        if (is_root) {
            number = f->left;
            assign(f, &done);
        } else {
            f->stack[f->stacked++] = (struct waiting){done.block, done.low};
        }
        if (f->depth == 0) return;
        account(f, &f->path[f->depth - 1], done.block, number);
    }
}

/* ---- heads ---- */

/* Stores in `from` of each component's lowest block the head that it counts to. */
static void find_heads(struct find *f)
{
    struct node *node = f->node;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t lowest = node[i].head & ~IN_CYCLE;
        if (node[i].from != 0 && lowest != i) node[lowest].from = node[i].from;
    }
    for (uint32_t i = f->count - f->left; i-- > 0;) {
        if (i >= 2 * AHEAD) __builtin_prefetch(&node[f->order[i - 2 * AHEAD]]);
        if (i >= AHEAD && node[f->order[i - AHEAD]].from != 0)
            __builtin_prefetch(&node[node[f->order[i - AHEAD]].from - 1]);
        struct node *lowest = &node[f->order[i]];
        lowest->from =
            FOUND |
            (lowest->from == 0 ? f->order[i] : node[node[lowest->from - 1].head & ~IN_CYCLE].from);
    }
}

/* ---- the result ---- */

struct filling {
    struct groups *to;
    const struct node *node;
    uint32_t count;
};

static void fill(const struct white_block *b, void *user)
{
    struct filling *f = user;
    struct group_block *block = f->to->block;
    uint32_t i = (uint32_t)f->to->count++;
    const struct node n = f->node[i]; /* overwritten now, or later */
    uint32_t stands = n.head & ~IN_CYCLE;
    block[i] = (struct group_block){
        .block = *b,
        .component = f->count - n.component,
        .head = stands == i ? n.from & ~FOUND : block[stands].head,
        .in_cycle = n.head & IN_CYCLE,
    };
}

static void count_hanging(struct groups *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        struct group_block *head = &g->block[g->block[i].head];
        if (g->block[i].head == i) continue;
        head->hangs++;
        head->hangs_bytes += g->block[i].block.bytes;
    }
}

static void all_alone(struct find *f)
{
    for (uint32_t i = 0; i < f->count; i++) f->node[i] = (struct node){f->count - i, i, FOUND | i};
}

bool groups_find(struct groups *to, const struct white *white, uintptr_t guard)
{
    *to = (struct groups){0};
    struct find f = {.white = white, .guard = guard, .index = 1};
    if (!rank_make(&f.rank, white)) return false;
    size_t n = f.left = f.count = f.rank.count;
    bool ok = true;
    if (n == 0) goto done;
    size_t bytes = round_up(n * sizeof *to->block, OS_PAGE);
    to->block = os_map(bytes);
    if (!to->block) {
        ok = false;
        goto done;
    }
    to->bytes_mapped = bytes;
    if (bytes >= 2 * MIB) os_prefer_huge(to->block, bytes);
    f.path = (struct frame *)(void *)to->block;
    f.stack = (struct waiting *)(void *)(f.path + n);
    f.order = (uint32_t *)(void *)(f.stack + n);
    f.node = (struct node *)(void *)(to->block + n) - n;
    ok = contents_make(&f.contents, white);
    if (ok) {
        white_each(white, search, &f);
        find_heads(&f);
    } else {
        all_alone(&f);
    }
    white_each(white, fill, &(struct filling){to, f.node, f.count});
    count_hanging(to);
done:
    contents_free(&f.contents);
    rank_free(&f.rank);
    return ok;
}

void groups_free(struct groups *g)
{
    if (g->block) os_unmap(g->block, g->bytes_mapped);
    *g = (struct groups){0};
}
