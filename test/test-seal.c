/* test-seal.c: pages of quarantined blocks: sealed, used by the program or by the kernel for it, dissolved; in the heap alone, with verdicts that
   are made up here.  There is one thread, so that what must happen in a pause does.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/heap.h"
#include "heap/lost_hash.h"
#include "heap/maps.h"
#include "heap/os.h"
#include "heap/reclaim.h"
#include "heap/seal.h"
#include "heap/white.h"
#include "suite.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 4096

static unsigned vetoes;
static int proof;

static uint32_t place(uint32_t tag, const void *block, uint32_t *caller, bool *library)
{
    *caller = 0;
    *library = false;
    return 1;
}

static void vetoed(struct heap_thread_hook *hook, uint32_t of, int how)
{
    vetoes++;
    proof = how;
}

static const struct heap_hooks hooks = {.place = place, .vetoed = vetoed};
static struct verdict *verdict;
static uint64_t time_now;
static uint32_t number;
static struct reclaim_did did;

static void complain(const char *line) { fprintf(stderr, "%s\n", line); }

static void begin(void)
{
    heap_start(&(struct heap_options){.watch = true, .reclaim = true, .decay_ns = 10000000000u});
    heap_set_hooks(&hooks);
    reclaim_start(&(struct reclaim_options){.share = 10, .seal = true});
    time_now = os_realtime();
    verdict = calloc(1, sizeof *verdict + MOST * sizeof verdict->block[0]);
    verdict->room = MOST;
}

static void end(void)
{
    if (verdict) ck_assert(heap_verify(complain));
}

static void *lose(size_t bytes)
{
    unsigned char *b = heap_malloc(bytes);
    ck_assert_ptr_nonnull(b);
    size_t given = heap_usable_size(b);
    for (size_t i = 0; i < given; i++) b[i] = (unsigned char)(i * 7 + i / 251 + 1);
    return b;
}

static bool is_whole(const void *block)
{
    const unsigned char *b = block;
    size_t given = heap_usable_size((void *)block);
    for (size_t i = 0; i < given; i++)
        if (b[i] != (unsigned char)(i * 7 + i / 251 + 1)) return false;
    return given > 0;
}

static bool holds_only(const void *block, size_t bytes, unsigned char byte)
{
    const unsigned char *b = block;
    for (size_t i = 0; i < bytes; i++)
        if (b[i] != byte) return false;
    return true;
}

/* The hashes that a snapshot child would find: `hash[i]`, of the time before the seals. */
static uint64_t hash[MOST];

static void hash_now(void *const *block, unsigned n)
{
    struct present present;
    present_start(&present, PRESENT_SCAN);
    for (unsigned i = 0; i < n; i++) hash[i] = lost_hash_of(&present, (uintptr_t)block[i], heap_usable_size(block[i]));
    present_end(&present);
}

/* One complete collection that misses these blocks. */
static void apply(void *const *block, unsigned n)
{
    struct white_young young;
    uint64_t bytes;
    white_make_old(&young, NULL);
    *verdict = (struct verdict){.room = MOST, .complete = true, .islands = true, .stacks = number, .count = n};
    for (unsigned i = 0; i < n; i++)
        verdict->block[i] = (struct verdict_block){.block = (uintptr_t)block[i] | (uint64_t)LOST_DIRECT << 48, .hash = hash[i],
                                                   .head = i, .island = i, .island_blocks = 1};
    time_now += 1000000000u;
    lost_apply(verdict, time_now, time_now - 1000000000u, ++number, &bytes);
    reclaim_cycle(verdict, time_now, number, false, &did);
}

static void look(void)
{
    seal_look(PRESENT_SCAN);
}

static void renew_by(bool make, enum present_way at_best)
{
    struct present present;
    present_start(&present, at_best);
    if (seal_plan(make))
        while (seal_renew(&present)) continue;
    seal_plan_end();
    present_end(&present);
}

static void renew(bool make) { renew_by(make, PRESENT_SCAN); }

static uint64_t sealed(void)
{
    struct seal_figures f;
    seal_figures(&f);
    return f.bytes;
}

/* In the window. */
static unsigned mappings_of_files(void)
{
    struct maps maps;
    unsigned n = 0;
    ck_assert(maps_read(&maps, "/proc/self/maps"));
    for (size_t i = 0; i < maps.count; i++) n += window_holds((void *)maps.map[i].from) && maps.map[i].cut_short;
    maps_free(&maps);
    return n;
}

/* Blocks of so many bytes, quarantined and sealed. */
static void quarantine(void **block, unsigned n, size_t bytes)
{
    for (unsigned i = 0; i < n; i++) block[i] = lose(bytes);
    hash_now(block, n);
    apply(block, n);
    ck_assert_uint_eq(did.quarantined, n);
    renew(true);
}

static const size_t sizes[] = {256, 1024, 4096, 20000, 32768, 100000, 1 << 20, 5000000};

START_TEST(untouched_is_reclaimed)
{
    begin();
    enum { N = 12 };
    void *block[256];
    size_t size = sizes[_i];
    unsigned n = size < 4096 ? 256 : N;
    quarantine(block, n, size);
    /* Of the slots' pages all are filled but those at the ends of pools. */
    ck_assert_uint_ge(sealed(), n * size * 8 / 10);
    ck_assert_uint_le(sealed(), n * heap_usable_size(block[0]));
    ck_assert_uint_gt(mappings_of_files(), 0);
    look();
    apply(block, n);
    ck_assert_uint_eq(did.reclaimed, n);
    renew(true);
    ck_assert_uint_eq(sealed(), 0);
    ck_assert_uint_eq(mappings_of_files(), 0);
    ck_assert_uint_eq(vetoes, 0);
    for (unsigned i = 0; i < n; i++) {
        unsigned char *again = heap_calloc(1, size);
        ck_assert(holds_only(again, size, 0));
        memset(again, 0xff, size);
    }
}
END_TEST

enum use { USE_READ, USE_WRITE, KERNEL_READS, KERNEL_WRITES, USES };

static void use(unsigned char *at, enum use how)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe(ends), 0);
    if (how == USE_READ) ck_assert_int_ne(*(volatile unsigned char *)at, 1000);
    if (how == USE_WRITE) *(volatile unsigned char *)at = *(volatile unsigned char *)at;
    if (how == KERNEL_READS) {
        ck_assert_int_eq(write(ends[1], at, 1), 1);
        ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    }
    if (how == KERNEL_WRITES) {
        byte = (char)*at;
        seal_plan(false); /* looked at, and sealed again */
        seal_plan_end();
        renew(false);
        renew(true);
        ck_assert_int_eq(write(ends[1], &byte, 1), 1);
        ck_assert_int_eq(read(ends[0], at, 1), 1);
    }
    close(ends[0]);
    close(ends[1]);
}

/* Nobody is disturbed, the block stays, its place is vetoed, and the page is plain memory again. */
START_TEST(used_is_kept)
{
    begin();
    void *block[40];
    size_t size = sizes[2 + _i / USES];
    quarantine(block, 40, size);
    uint64_t before = sealed();
    ck_assert_uint_gt(before, 0);
    use((unsigned char *)block[20] + size / 2, _i % USES);
    if (_i % USES != KERNEL_WRITES) ck_assert_uint_eq(sealed(), before);
    look();
    apply(block, 40);
    ck_assert_uint_ge(vetoes, 1);
    ck_assert_uint_le(vetoes, 1 + 64 * KIB / 4096); /* what the kernel maps around a page that is read */
    ck_assert_int_eq(proof, PROOF_READ);
    ck_assert_uint_eq(did.reclaimed, 0); /* all are of that place */
    struct lost_view v;
    ck_assert(!lost_find(block[20], &v));
    renew(true);
    ck_assert_uint_eq(sealed(), 0);
    ck_assert_uint_eq(mappings_of_files(), 0);
    for (unsigned i = 0; i < 40; i++) ck_assert(is_whole(block[i]));
    struct lost_totals totals;
    lost_totals(&totals);
    ck_assert_uint_eq(totals.proofs[PROOF_READ], vetoes);
    heap_free(block[20]);
}
END_TEST

/* Written where the block had no page when it was sealed. */
START_TEST(written_elsewhere)
{
    begin();
    enum { BYTES = 8 << 20 };
    unsigned char *block = heap_calloc(1, BYTES);
    for (unsigned i = 0; i < BYTES / 2; i += 4096) block[i] = 1;
    ck_assert_uint_gt(heap_usable_size(block), BYTES - 1);
    hash_now((void **)&block, 1);
    apply((void **)&block, 1);
    ck_assert_uint_eq(did.quarantined, 1);
    renew(true);
    if (_i != 1) block[BYTES - 5000] = 1;
    if (_i == 2) ck_assert_int_eq(mprotect((void *)((uintptr_t)(block + BYTES - 5000) & ~(uintptr_t)4095), 4096, PROT_NONE), 0);
    if (_i == 1) ck_assert_int_eq(((volatile unsigned char *)block)[BYTES - 5000], 0); /* reads nothing that was ever there */
    look();
    apply((void **)&block, 1);
    ck_assert_uint_eq(vetoes, _i != 1);
    if (_i != 1) ck_assert_int_eq(proof, PROOF_WRITTEN);
    ck_assert_uint_eq(did.reclaimed, _i == 1);
    if (_i == 2) ck_assert_int_eq(mprotect((void *)((uintptr_t)(block + BYTES - 5000) & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE), 0);
    if (_i != 1) {
        renew(true);
        for (unsigned i = 0; i < BYTES / 2; i += 4096) ck_assert_int_eq(block[i], 1);
        ck_assert_int_eq(block[BYTES - 5000], 1);
    }
}
END_TEST

/* What a collection in place reads between seal_lift and seal_lower is nobody's use. */
START_TEST(collector_reads)
{
    begin();
    void *block[40];
    quarantine(block, 40, 16384);
    look();
    seal_lift();
    for (unsigned i = 0; i < 40; i++) ck_assert(is_whole(block[i]));
    seal_lower(PRESENT_SCAN);
    look();
    apply(block, 40);
    ck_assert_uint_eq(did.reclaimed, 40);
    ck_assert_uint_eq(vetoes, 0);
}
END_TEST

/* Freed by the program while their pages are sealed: a proof, and the memory is as any other afterwards. */
START_TEST(freed)
{
    begin();
    void *block[200];
    size_t size = sizes[_i];
    unsigned n = size < 100000 ? 200 : 20;
    quarantine(block, n, size);
    for (unsigned i = 0; i < n; i++) {
        ck_assert(is_whole(block[i]));
        heap_free(block[i]);
    }
    ck_assert_uint_eq(vetoes, n);
    heap_trim();
    for (unsigned i = 0; i < n; i++) {
        unsigned char *again = heap_calloc(1, size);
        ck_assert(holds_only(again, size, 0));
        memset(again, 0xaa, size);
        block[i] = again;
    }
    renew(true);
    ck_assert_uint_eq(mappings_of_files(), 0);
    for (unsigned i = 0; i < n; i++) ck_assert(holds_only(block[i], size, 0xaa));
}
END_TEST

/* Large blocks, some of which are moved by their pages (mremap) otherwise. */
START_TEST(resized)
{
    begin();
    size_t size = (size_t[]){40000, 3000000, 300 << 20}[_i % 3], to = _i < 3 ? size * 2 : size / 2;
    unsigned char *block = heap_malloc(size);
    size_t used = size < 50 * MIB ? size : 50 * MIB;
    for (size_t i = 0; i < used; i++) block[i] = (unsigned char)(i / 11);
    hash_now((void **)&block, 1);
    apply((void **)&block, 1);
    ck_assert_uint_eq(did.quarantined, 1);
    renew(true);
    ck_assert_uint_ge(sealed(), used / 4096 * 4096 - 4096);
    unsigned char *again = heap_realloc(block, to);
    ck_assert_ptr_nonnull(again);
    ck_assert_uint_eq(vetoes, 1);
    bool whole = true;
    for (size_t i = 0; i < used && i < to; i++) whole &= again[i] == (unsigned char)(i / 11);
    ck_assert(whole);
    memset(again, 3, to < 60 * MIB ? to : 60 * MIB);
    renew(true);
    ck_assert_uint_eq(mappings_of_files(), 0);
    ck_assert(holds_only(again, to < 60 * MIB ? to : 60 * MIB, 3));
    heap_free(again);
}
END_TEST

/* A child has the contents and not the knowledge; what it writes is its own. */
START_TEST(forked)
{
    begin();
    void *block[20];
    quarantine(block, 20, 1 << 18);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        reclaim_fork_child();
        bool good = true;
        memset(block[3], 9, 100);
        look();
        apply(block, 20);
        good &= did.reclaimed == 0 && vetoes == 0;
        renew(true);
        for (unsigned i = 0; i < 20; i++) good &= i == 3 || is_whole(block[i]);
        hash_now(block, 20);
        _exit(good ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    look();
    apply(block, 20);
    ck_assert_uint_eq(did.reclaimed, 20);
    ck_assert_uint_eq(vetoes, 0);
}
END_TEST

/* Where a page that is locked would look used, or a write past a limit raise a signal. */
START_TEST(not_tried)
{
    begin();
    void *block[20];
    if (_i == 0) ck_assert_int_eq(mlockall(MCL_FUTURE), 0);
    if (_i == 1) ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, RLIM_INFINITY}), 0);
    quarantine(block, 20, 1 << 18);
    if (_i == 1) ck_assert_uint_eq(sealed(), 0);
    if (_i == 2) ck_assert_int_eq(mlockall(MCL_CURRENT), 0); /* after they were sealed */
    look();
    apply(block, 20);
    ck_assert_uint_eq(vetoes, 0);
    if (_i == 2) ck_assert_uint_eq(did.reclaimed, 0);
    if (_i == 1) ck_assert_uint_eq(did.reclaimed, 20);
    munlockall();
    renew(true);
    if (_i == 2)
        for (unsigned i = 0; i < 20; i++) ck_assert(is_whole(block[i]));
}
END_TEST

/* The program has made them executable, or read-only, meanwhile: they keep that, and what they hold. */
START_TEST(protection_stays)
{
    begin();
    void *block[4];
    static const int protections[] = {PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE | PROT_EXEC};
    int protection = protections[_i % 3];
    bool before = _i < 3;
    for (unsigned i = 0; i < 4; i++) block[i] = lose(1 << 18);
    if (before) ck_assert_int_eq(mprotect(block[2], 1 << 18, protection), 0);
    for (unsigned i = 0; i < 4; i++) hash[i] = 77 + i;
    apply(block, 4);
    ck_assert_uint_eq(did.quarantined, 4);
    renew(true);
    if (before) ck_assert_uint_eq(sealed(), 4 * heap_usable_size(block[0]) - (1 << 18));
    if (!before) ck_assert_int_eq(mprotect(block[2], 1 << 18, protection), 0);
    look();
    seal_lift();
    seal_lower(PRESENT_SCAN);
    renew(false);
    struct maps maps;
    ck_assert(maps_read(&maps, "/proc/self/maps"));
    const struct map *m = maps_find(&maps, (uintptr_t)block[2]);
    ck_assert(m->readable == !!(protection & PROT_READ) && m->writable == !!(protection & PROT_WRITE) &&
              m->executable == !!(protection & PROT_EXEC));
    maps_free(&maps);
    ck_assert_int_eq(mprotect(block[2], 1 << 18, PROT_READ | PROT_WRITE), 0);
    for (unsigned i = 0; i < 4; i++) ck_assert(is_whole(block[i]));
    ck_assert_uint_eq(mappings_of_files(), 0);
}
END_TEST

/* What was sealed is one mapping with its neighbours again, whatever the system was advised of. */
START_TEST(mappings_stay)
{
    begin();
    static void *block[2000], *between[2000];
    unsigned first = 0;
    if (_i == 1) /* from where on huge pages are asked for */
        for (unsigned i = 0; i < 20000; i++) ck_assert_ptr_nonnull(heap_malloc(16384));
    for (unsigned round = 0; round < 6; round++) {
        for (unsigned i = 0; i < 500; i++) {
            block[i] = lose(16384);
            between[i] = lose(16384);
        }
        hash_now(block, 500);
        apply(block, 500);
        renew(true);
        for (unsigned i = 0; i < 500; i += 2) use(block[i], USE_READ);
        seal_doubt(); /* so that all are kept */
        apply(block, 500);
        renew(false);
        struct maps maps;
        ck_assert(maps_read(&maps, "/proc/self/maps"));
        if (round == 0) first = (unsigned)maps.count;
        ck_assert_uint_le(maps.count, first + 20);
        maps_free(&maps);
    }
    for (unsigned i = 0; i < 500; i++) ck_assert(is_whole(block[i]) && is_whole(between[i]));
}
END_TEST

/* The program's own advice to the system for a block that has come to lie where a sealed one was freed. */
START_TEST(discarded_by_the_program)
{
    begin();
    void *block[20];
    size_t size = sizes[_i];
    quarantine(block, 20, size);
    for (unsigned i = 0; i < 20; i++) heap_free(block[i]);
    for (unsigned i = 0; i < 20; i++) {
        unsigned char *again = heap_malloc(size);
        memset(again, 7, size);
        uintptr_t from = round_up((uintptr_t)again, 4096), to = ((uintptr_t)again + size) & ~(uintptr_t)4095;
        if (from >= to) continue;
        ck_assert_int_eq(madvise((void *)from, to - from, MADV_DONTNEED), 0);
        ck_assert(holds_only((void *)from, to - from, 0));
    }
}
END_TEST

/* What is locked in memory stays so. */
START_TEST(locked)
{
    begin();
    void *block[4];
    for (unsigned i = 0; i < 4; i++) block[i] = lose(1 << 18);
    ck_assert_int_eq(mlock(block[1], 1 << 18), 0);
    hash_now(block, 4);
    apply(block, 4);
    renew(true);
    ck_assert_uint_eq(sealed(), 4 * heap_usable_size(block[0]) - (1 << 18));
    ck_assert_int_eq(madvise(block[1], 1 << 18, MADV_DONTNEED), -1); /* as for locked memory */
    look();
    apply(block, 4);
    ck_assert_uint_eq(vetoes, 0);
}
END_TEST

/* More than may be sealed, in pages and in ranges: the rest is taken by its contents alone. */
START_TEST(too_much)
{
    begin();
    unsigned n = _i == 0 ? 100 : 3000;
    static void *block[3000], *between[3000];
    for (unsigned i = 0; i < n; i++) {
        block[i] = lose(_i == 0 ? 1 << 20 : 8192);
        if (_i == 1) between[i] = heap_malloc(8192);
    }
    hash_now(block, n);
    apply(block, n);
    ck_assert_uint_eq(did.quarantined, n);
    renew(true);
    ck_assert_uint_le(sealed(), SEAL_MOST);
    ck_assert_uint_ge(sealed(), _i == 0 ? SEAL_MOST - MIB : 2000 * 4096);
    look();
    apply(block, n);
    ck_assert_uint_eq(did.reclaimed, n);
    renew(true);
    ck_assert_uint_eq(mappings_of_files(), 0);
    for (unsigned i = 0; i < n && _i == 1; i++) heap_free(between[i]);
}
END_TEST

/* More runs of pages than one step makes mappings of: none is passed over. */
START_TEST(with_holes)
{
    begin();
    enum { N = 4, BYTES = 3 << 19 };
    void *block[N];
    for (unsigned i = 0; i < N; i++) {
        block[i] = heap_malloc(BYTES);
        for (size_t at = 0; at < BYTES; at += 8192) ((unsigned char *)block[i])[at] = 1;
    }
    hash_now(block, N);
    apply(block, N);
    renew(true);
    ck_assert_uint_eq(sealed(), N * BYTES / 2);
    look();
    apply(block, N);
    ck_assert_uint_eq(did.reclaimed, N);
    ck_assert_uint_eq(vetoes, 0);
}
END_TEST

/* Pagemap cannot be read any more (the process has given up its privileges) when a collection in place comes, or could not at its beginning. */
START_TEST(written_and_not_looked_at)
{
    static const enum present_way ways[] = {PRESENT_SCAN, PRESENT_PAGEMAP, PRESENT_MINCORE, PRESENT_NONE};
    begin();
    void *block[8];
    quarantine(block, 8, 1 << 16);
    for (unsigned i = 0; i < 8; i++) memset(block[i], 0x77, 1 << 16);
    seal_doubt();
    seal_lift();
    seal_lower(ways[_i]);
    renew_by(false, ways[_i]);
    ck_assert_uint_eq(mappings_of_files(), 0);
    ck_assert_uint_eq(sealed(), 0);
    for (unsigned i = 0; i < 8; i++) ck_assert(holds_only(block[i], 1 << 16, 0x77));
}
END_TEST

/* What a child has that was forked (by _Fork) between two pauses of its parent's. */
START_TEST(plan_of_the_parent)
{
    begin();
    static void *block[400];
    quarantine(block, 400, 40000);
    ck_assert(seal_plan(true));
    look();
    apply(block, 400);
    ck_assert_uint_eq(did.reclaimed, 400);
    quarantine(block, 1, 40000);
    ck_assert_uint_eq(sealed(), heap_usable_size(block[0]));
    look();
    apply(block, 1);
    ck_assert_uint_eq(did.reclaimed, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("seal");
    TCase *c = tcase_create("seal");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, NULL, end);
    tcase_add_loop_test(c, untouched_is_reclaimed, 0, sizeof sizes / sizeof *sizes);
    tcase_add_loop_test(c, used_is_kept, 0, 5 * USES);
    tcase_add_loop_test(c, written_elsewhere, 0, 3);
    tcase_add_test(c, collector_reads);
    tcase_add_loop_test(c, freed, 0, sizeof sizes / sizeof *sizes);
    tcase_add_loop_test(c, resized, 0, 6);
    tcase_add_test(c, forked);
    tcase_add_loop_test(c, not_tried, 0, 3);
    tcase_add_loop_test(c, protection_stays, 0, 6);
    tcase_add_loop_test(c, mappings_stay, 0, 2);
    tcase_add_loop_test(c, discarded_by_the_program, 3, sizeof sizes / sizeof *sizes);
    tcase_add_test(c, locked);
    tcase_add_loop_test(c, too_much, 0, 2);
    tcase_add_test(c, with_holes);
    tcase_add_loop_test(c, written_and_not_looked_at, 0, 4);
    tcase_add_test(c, plan_of_the_parent);
    suite_add_tcase(s, c);
    return suite_run(s);
}
