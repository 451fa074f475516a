// Linked structures built, walked and destroyed: lists of small nodes and treaps with keys and
// strings, as compilers and interpreters make them.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench.h"

enum { ROUNDS, NODES, KEYS, PARAMS };
static struct bench_param param[PARAMS] = {
    [ROUNDS] = {"rounds", 20, 2, "times that all is built", 0},
    [NODES] = {"nodes", 500000, 200000, "nodes of the list", 0},
    [KEYS] = {"keys", 60000, 20000, "keys of the tree", 0},
};

static uint64_t operations;

static void *node_new(size_t size)
{
    void *node = escape(malloc(size));
    if (node == NULL) bench_fail("out of memory");
    operations++;
    return node;
}

struct link {
    struct link *next;
    uint64_t value;
};

static void list_run(uint64_t *random)
{
    struct link *first = NULL;
    uint64_t expected = 0, sum = 0;
    for (long i = 0; i < param[NODES].value; i++) {
        struct link *link = node_new(sizeof *link);
        link->value = rng_next(random);
        link->next = first;
        first = link;
        expected += link->value;
    }
    for (struct link *link = first; link != NULL; link = link->next) sum += link->value;
    if (sum != expected) bench_fail("the list's nodes changed");
    for (struct link *next; first != NULL; first = next) {
        next = first->next;
        free(first);
    }
}

// A treap (Seidel and Aragon 1996): ordered by key, a heap by priority.
struct tree {
    struct tree *left, *right;
    uint64_t key, priority;
    char *name;
    size_t name_size;
};

static void tree_split(struct tree *tree, uint64_t key, struct tree **left, struct tree **right)
{
    while (tree != NULL) {
        if (tree->key < key) {
            *left = tree;
            left = &tree->right;
            tree = tree->right;
        } else {
            *right = tree;
            right = &tree->left;
            tree = tree->left;
        }
    }
    *left = *right = NULL;
}

static void tree_insert(struct tree **at, struct tree *node)
{
    while (*at != NULL && (*at)->priority >= node->priority)
        at = node->key < (*at)->key ? &(*at)->left : &(*at)->right;
    tree_split(*at, node->key, &node->left, &node->right);
    *at = node;
}

// Frees the tree in key order by rotating left children away, without a stack; the keys must
// ascend.
static long tree_delete(struct tree *tree)
{
    uint64_t last = 0;
    long count = 0;
    while (tree != NULL) {
        struct tree *left = tree->left;
        if (left != NULL) {
            tree->left = left->right;
            left->right = tree;
            tree = left;
            continue;
        }
        struct tree *right = tree->right;
        if (tree->key < last) bench_fail("the tree's order changed");
        last = tree->key;
        block_delete(tree->name, tree->name_size, tree->key);
        free(tree);
        tree = right;
        count++;
    }
    return count;
}

static void tree_run(uint64_t *random)
{
    struct tree *root = NULL;
    for (long i = 0; i < param[KEYS].value; i++) {
        struct tree *node = node_new(sizeof *node);
        node->key = rng_next(random);
        node->priority = rng_next(random);
        node->name_size = rng_range(random, 8, 80);
        node->name = block_new(node->name_size, node->key);
        operations++;
        tree_insert(&root, node);
    }
    if (tree_delete(root) != param[KEYS].value) bench_fail("the tree lost nodes");
}

int main(int argc, char **argv)
{
    bench_args(argc, argv, param, PARAMS);
    uint64_t random = 1;
    for (long round = 0; round < param[ROUNDS].value; round++) {
        list_run(&random);
        tree_run(&random);
    }
    return bench_done(operations);
}
