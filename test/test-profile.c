/* test-profile.c: the profile as gzip, `go tool pprof` and a JSON reader see it.  Sites and heap
   figures are made up here, so that every expected number follows from them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/caller.h"
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/reclaim.h"
#include "heap/reclaim_place.h"
#include "heap/syscall.h"
#include "heap/tag.h"
#include "heap/vet.h"
#include "heap/white.h"
#include "profile.pb-c.h"
#include "suite.h"
#include "sampler/deaths.h"
#include "sampler/false_lost.h"
#include "sampler/lifetime.h"
#include "sampler/module.h"
#include "sampler/profile.h"
#include "sampler/reclaim_sites.h"
#include "sampler/profile_writer.h"
#include "sampler/sampler.h"
#include "sampler/site.h"
#include "sampler/stack.h"
#include "sampler/tracked.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The faked neighbours. */
static struct site_view sites[8];
static unsigned site_count;
static uint64_t interval;

void site_each(void (*each)(const struct site_view *, void *), void *user)
{
    for (unsigned i = 0; i < site_count; i++) each(&sites[i], user);
}

static const struct site_view *site_at(uint32_t site)
{
    for (unsigned i = 0; i < site_count; i++)
        if (sites[i].site == site) return &sites[i];
    return NULL;
}

/* Of a running process; test-holders-programs.c. */
void profile_holders(struct writer *w, const struct profile_about *about)
{
    (void)w;
    (void)about;
    ck_abort_msg("nobody asked for holders");
}

uint32_t site_stack(uint32_t site)
{
    return site_at(site)->stack;
}

enum heap_source site_source(uint32_t site)
{
    return site_at(site)->source;
}

/* Lost blocks: entry n is that of site n. */
static struct lost_view blocks[16];
static unsigned block_count;
static struct collections made;
static uintptr_t a_caller;

void lost_each(void (*each)(const struct lost_view *, void *), void *user)
{
    for (unsigned i = 0; i < block_count; i++) each(&blocks[i], user);
}

bool lost_find(const void *block, struct lost_view *to)
{
    for (unsigned i = 0; i < block_count; i++)
        if (blocks[i].block == block) return *to = blocks[i], true;
    return false;
}

void lost_totals(struct lost_totals *to)
{
    *to = (struct lost_totals){0};
    if (block_count)
        *to = (struct lost_totals){.lost = 8,
                                   .lost_bytes = 65872,
                                   .direct = 6,
                                   .direct_bytes = 65776,
                                   .indirect = 2,
                                   .indirect_bytes = 96,
                                   .possible = 1,
                                   .possible_bytes = 48,
                                   .unrecorded = 3,
                                   .unrecorded_bytes = 144,
                                   .proofs = {1, 2, 3, 0, 4},
                                   .proof_bytes = {10, 20, 30, 0, 40}};
}

void lost_of_classes(uint64_t to[HEAP_CLASSES])
{
    for (unsigned i = 0; i < HEAP_CLASSES; i++) to[i] = block_count && (i == 1 || i == HEAP_CLASS_LARGE);
}

uint32_t (*tracked_below)(uint32_t);

bool tracked_get(uint32_t entry, struct tracked_view *to)
{
    *to = (struct tracked_view){
        .block = (void *)(uintptr_t)(entry << 4), .asked = 40, .site = entry, .n_samples = 1};
    return true;
}

/* Live blocks of lifetimes. */
static struct tracked_view live[8];
static unsigned live_count;
bool site_exact;

void tracked_each(void (*each)(uint32_t entry, const struct tracked_view *, void *user), void *user)
{
    for (unsigned i = 0; i < live_count; i++) each(i + 1, &live[i], user);
}

void deaths_pending(struct deaths_pending *to) { to->count = 0; }

bool heap_is_old(const void *block)
{
    return (uintptr_t)block & 16;
}

uintptr_t caller_address(uint32_t number)
{
    return number == 1 ? a_caller : 0;
}

uint32_t caller_limit(void)
{
    return a_caller ? 4097 : 1;
}

/* What reclaim did: nothing unless a test says so. */
static struct reclaim_figures reclaim;
static struct reclaim_place_view reclaimed_place;

void reclaim_figures(struct reclaim_figures *to)
{
    *to = reclaim;
}

void reclaim_of_class(unsigned class, uint64_t *blocks, uint64_t *bytes)
{
    *blocks = *bytes = class == 1 ? 3 : 0;
}

void reclaim_place_each(void (*each)(const struct reclaim_place_view *, void *), void *user)
{
    if (reclaimed_place.place) each(&reclaimed_place, user);
}

bool reclaim_sites_get(uint32_t place, struct reclaim_site *to)
{
    *to = (struct reclaim_site){LOST_AT_SITE, sites[0].stack, sites[1].stack};
    return place == 1;
}

void collections(struct collections *to)
{
    *to = made;
}

bool white_make(struct white *w, enum white_what what)
{
    ck_assert_int_eq(what, WHITE_YOUNG);
    return true;
}

void white_each(const struct white *w, void (*each)(const struct white_block *, void *), void *user)
{
    for (int i = 0; i < 3; i++) each(&(struct white_block){.class = 1, .bytes = 32}, user);
    each(&(struct white_block){.class = HEAP_CLASS_LARGE, .bytes = 65536}, user);
}

void white_free(struct white *w) {}

uint64_t sampler_interval(void)
{
    return interval;
}

void sampler_stats(struct sampler_stats *to)
{
    *to = (struct sampler_stats){.samples = 77, .dropped_entries = 3, .stacks = 2};
}

void heap_stats(struct heap_stats *to)
{
    memset(to, 0, sizeof *to);
    to->classes = 3;
    to->of[1] = (struct heap_class_stats){.size = 32,
                                          .allocated = 10,
                                          .freed = 4,
                                          .live = 6,
                                          .pools = 1,
                                          .allocated_bytes = 320,
                                          .freed_bytes = 128,
                                          .live_bytes = 192};
    to->of[HEAP_CLASS_LARGE] = (struct heap_class_stats){
        .allocated = 1, .live = 1, .pools = 1, .allocated_bytes = 65536, .live_bytes = 65536};
    to->allocated = 11;
    to->live = 7;
    to->freed = 4;
    to->allocated_bytes = 65856;
    to->live_bytes = 65728;
    to->peak_bytes = 70000;
    to->peak_time = 1700000000500000000u;
    to->pool_bytes = 32768;
    to->large_bytes = 65536;
}

static char folder[] = "/tmp/gleaner-profile-XXXXXX";
static char path[64];
static struct profile_about about;

static void set_up(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/p.pb.gz", folder);
    about = (struct profile_about){.pid = getpid(),
                                   .parent = getppid(),
                                   .command = "prog \"a\\b\" \xff\xc3\xa9\n",
                                   .executable = "/bin/prog",
                                   .start_time = 1600000000000000001u,
                                   .reason = "exit",
                                   .compress = true};
    interval = 524288;
    site_count = block_count = live_count = 0;
    a_caller = 0;
    made = (struct collections){0};
}

static void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static char *output_of(const char *format)
{
    char command[256];
    snprintf(command, sizeof command, format, path);
    FILE *p = popen(command, "r");
    ck_assert_ptr_nonnull(p);
    char *text = calloc(1, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, p);
    ck_assert_uint_gt(n, 0);
    ck_assert_int_eq(pclose(p), 0);
    return text;
}

static char *raw_text(void)
{
    return output_of("HOME=/tmp go tool pprof -symbolize=none -raw %s 2>/dev/null");
}

static unsigned entries_in_folder(void)
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2; /* . and .. */
}

NOINLINE static uint32_t two_stacks(uint32_t *other)
{
    *other = stack_capture(NULL);
    return stack_capture(NULL);
}

static void make_sites(void)
{
    static const struct sampler_options options = {.depth = 64};
    stack_start(&options);
    uint32_t other, stack = two_stacks(&other);
    ck_assert_uint_ne(stack, other);
    /* 3 sample points at 512 KiB: 1572864 bytes in blocks of 48: 32768 blocks.  2 live: 1048576
       bytes, 21845.33 blocks. */
    sites[0] = (struct site_view){.site = 1,
                                  .stack = stack,
                                  .source = HEAP_CALLOC,
                                  .given = 48,
                                  .allocated = {3, 3},
                                  .live = {2, 2},
                                  .peak = {3, 3}};
    /* One block of 1 MiB with 5 points in it. */
    sites[1] = (struct site_view){.site = 2,
                                  .stack = other,
                                  .source = HEAP_ALIGNED,
                                  .given = 1048576,
                                  .allocated = {5, 1},
                                  .live = {0, 0},
                                  .peak = {5, 1}};
    uintptr_t lone[1] = {(uintptr_t)&make_sites + 1};
    sites[2] = (struct site_view){.site = 3,
                                  .stack = stack_intern(lone, 1, STACK_EARLY),
                                  .source = HEAP_MALLOC,
                                  .given = 16,
                                  .allocated = {1, 1},
                                  .live = {1, 1}};
    sites[3] = (struct site_view){.site = SITE_DROPPED, .given = 64, .allocated = {1, 1}};
    site_count = 4;
}

/* The types in DESIGN's order, the values, the labels, the main program first. */
START_TEST(pprof_reads_it)
{
    make_sites();
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    ck_assert_uint_eq(entries_in_folder(), 1);
    free(output_of("gzip -tv %s 2>&1"));
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    char *text = raw_text();
    ck_assert_msg(strstr(text, "alloc_objects/count alloc_space/bytes inuse_objects/count "
                               "inuse_space/bytes[dflt] lost_objects/count lost_space/bytes "
                               "peak_objects/count peak_space/bytes"),
                  "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "PeriodType: space bytes"));
    ck_assert_ptr_nonnull(strstr(text, "Period: 524288"));
    ck_assert_ptr_nonnull(strstr(text, "Time: "));
    long v[8];
    char *at = strstr(text, "     32768    1572864");
    ck_assert_msg(at != NULL, "%s", text);
    ck_assert_int_eq(sscanf(at, "%ld %ld %ld %ld %ld %ld %ld %ld", &v[0], &v[1], &v[2], &v[3],
                            &v[4], &v[5], &v[6], &v[7]),
                     8);
    ck_assert_int_eq(v[2], 21845);
    ck_assert_int_eq(v[3], 1048576);
    ck_assert_int_eq(v[4] + v[5], 0);
    ck_assert_int_eq(v[6], 32768);
    ck_assert_int_eq(v[7], 1572864);
    ck_assert_ptr_nonnull(strstr(text, "bytes:[48 bytes]"));
    ck_assert_ptr_nonnull(strstr(text, "source:[calloc]"));
    ck_assert_ptr_nonnull(strstr(text, "source:[aligned]"));
    ck_assert_ptr_nonnull(strstr(text, "alloc_samples:[3 count]"));
    ck_assert_ptr_nonnull(strstr(text, "inuse_samples:[2 count]"));
    ck_assert_ptr_nonnull(strstr(text, "stack:[early]"));
    ck_assert_ptr_nonnull(strstr(text, "stack:[dropped]"));
    ck_assert_ptr_nonnull(strstr(text, " [dropped stacks]"));
    char self[256], line[300];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n] = 0;
    snprintf(line, sizeof line, " %s ", self);
    char *mappings = strstr(text, "Mappings\n1: ");
    ck_assert_msg(mappings && strstr(mappings, line), "%s", text);
    ck_assert(strstr(mappings, line) < strchr(mappings + 12, '\n'));
    ck_assert_ptr_nonnull(strstr(mappings, "libc.so"));
    free(text);
}
END_TEST

/* Every location's address lies in the bounds of its mapping. */
START_TEST(locations_in_mappings)
{
    make_sites();
    about.compress = false;
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    char *text = raw_text();
    struct {
        unsigned long from, to;
    } of[16] = {0};
    char *mappings = strstr(text, "Mappings\n") + 9;
    for (char *p = mappings; *p; p = strchr(p, '\n') + 1) {
        unsigned id;
        unsigned long from, to;
        if (sscanf(p, "%u: 0x%lx/0x%lx", &id, &from, &to) != 3) break;
        ck_assert_uint_lt(id, 16);
        of[id].from = from;
        of[id].to = to;
    }
    unsigned seen = 0;
    for (char *p = strstr(text, "Locations\n") + 10; p < mappings; p = strchr(p, '\n') + 1) {
        unsigned id, mapping;
        unsigned long address;
        if (sscanf(p, " %u: 0x%lx M=%u", &id, &address, &mapping) != 3) break;
        ck_assert_uint_ge(address, of[mapping].from);
        ck_assert_uint_lt(address, of[mapping].to);
        seen++;
    }
    ck_assert_uint_gt(seen, 4);
    free(text);
}
END_TEST

static json_t *comment(void)
{
    char *text = output_of("gzip -dcf %s | strings -n 20 -w -e S | grep -A3 -a 'gleaner:{'");
    char *at = strstr(text, "gleaner:{");
    ck_assert_ptr_nonnull(at);
    json_error_t error;
    json_t *j = json_loads(at + 8, JSON_DISABLE_EOF_CHECK, &error);
    ck_assert_msg(j != NULL, "%s at %d: %s", error.text, error.position, at);
    free(text);
    return j;
}

static json_int_t number(json_t *j, const char *a, const char *b, const char *c)
{
    j = json_object_get(j, a);
    if (b) j = json_object_get(j, b);
    if (c) j = json_object_get(j, c);
    ck_assert_msg(json_is_integer(j), "%s.%s.%s", a, b ? b : "", c ? c : "");
    return json_integer_value(j);
}

/* The exact figures are valid JSON, whatever the command line holds. */
START_TEST(json)
{
    make_sites();
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    json_t *j = comment();
    ck_assert_int_eq(number(j, "version", NULL, NULL), 1);
    ck_assert_int_eq(number(j, "pid", NULL, NULL), getpid());
    ck_assert_str_eq(json_string_value(json_object_get(j, "command")),
                     "prog \"a\\b\" \xef\xbf\xbd\xc3\xa9\n");
    ck_assert_str_eq(json_string_value(json_object_get(j, "reason")), "exit");
    ck_assert_int_eq(number(j, "sample_bytes", NULL, NULL), 524288);
    ck_assert_ptr_null(json_object_get(j, "lambda"));
    ck_assert_int_eq(number(j, "totals", "alloc", "bytes"), 65856);
    ck_assert_int_eq(number(j, "totals", "live", "objects"), 7);
    ck_assert_int_eq(number(j, "totals", "lost", "bytes"), 0);
    ck_assert_int_eq(number(j, "totals", "peak", "bytes"), 70000);
    json_t *peak = json_object_get(json_object_get(json_object_get(j, "totals"), "peak"), "time");
    ck_assert_double_eq(json_real_value(peak), 1700000000.5);
    json_t *classes = json_object_get(j, "classes");
    ck_assert_uint_eq(json_array_size(classes), 2);
    ck_assert_int_eq(number(json_array_get(classes, 0), "live", "bytes", NULL), 192);
    ck_assert_int_eq(number(json_array_get(classes, 1), "size", NULL, NULL), 0);
    ck_assert_int_eq(number(j, "memory", "pools", NULL),
                     0); /* this program has none: test-residency */
    ck_assert_int_gt(number(j, "memory", "rss", NULL), 1000000);
    ck_assert_int_eq(number(j, "sampler", "dropped_entries", NULL), 3);
    ck_assert_int_eq(number(j, "sampler", "dropped_modules", NULL), 0);
    ck_assert_int_eq(number(j, "collections", "major", NULL), 0);
    json_decref(j);
}
END_TEST

/* Every word sampled: counts of blocks are what was counted, not an estimate. */
START_TEST(exact)
{
    make_sites();
    interval = 8;
    sites[0].allocated = (struct site_count){.n = 7 * 6, .blocks = 7};
    sites[0].live = (struct site_count){.n = 2 * 6, .blocks = 2};
    site_count = 1;
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    char *text = raw_text();
    long v[4];
    char *at = strstr(text, "         7        336");
    ck_assert_msg(at != NULL, "%s", text);
    ck_assert_int_eq(sscanf(at, "%ld %ld %ld %ld", &v[0], &v[1], &v[2], &v[3]), 4);
    ck_assert_int_eq(v[2], 2);
    ck_assert_int_eq(v[3], 96);
    json_t *j = comment();
    ck_assert_int_eq(number(j, "lambda", NULL, NULL), 1);
    json_decref(j);
    free(text);
}
END_TEST

/* Lost blocks of each kind, with and without a stack. */
static void make_lost(void)
{
    make_sites();
    a_caller = (uintptr_t)&make_lost + 4;
    interval = 8;
    sites[0].allocated = sites[0].live = (struct site_count){.n = 60, .blocks = 10};
    struct lost_view common = {.given = 48,
                               .last_reached = 1700000000000000001,
                               .first_missed = 1700000001000000001,
                               .misses = 3};
    for (unsigned i = 0; i < 9; i++) {
        blocks[i] = common;
        blocks[i].block = (void *)(uintptr_t)(0x1000 + i);
    }
    blocks[0].block = (void *)(1 << 4), blocks[0].tag = 1;
    blocks[0].hangs = 2, blocks[0].hangs_bytes = 96;
    for (unsigned i = 1; i < 3; i++) {
        blocks[i].kind = LOST_INDIRECT;
        blocks[i].head = blocks[0].block;
        blocks[i].tag = TAG_CALLER | 1;
    }
    blocks[3].tag = TAG_CALLER | 1;
    blocks[4].given = 65536;
    blocks[5].kind = LOST_POSSIBLE;
    blocks[5].why = VET_PAST_END;
    block_count = 9;
    false_lost_note(NULL, TAG_LOST | TAG_CALLER | 1, 48, PROOF_FREED);
}

/* The line of a raw text with the values, and those after it with labels, of the sample in which `label` is; to be freed. */
static char *sample_with(const char *text, const char *label)
{
    const char *at = strstr(text, label);
    ck_assert_msg(at != NULL, "%s in %.2000s", label, text);
    while (at > text && !(at[-1] == '\n' && strspn(at, " 0123456789") > 70)) at--;
    const char *end = strchr(at, '\n') + 1;
    while (*end && strspn(end, " ") >= 16) end = strchr(end, '\n') + 1;
    return strndup(at, (size_t)(end - at));
}

static void expect(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "%s in %.2000s", part, text);
}

START_TEST(lost_samples)
{
    make_lost();
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    char *text = raw_text();
    char *one = sample_with(text, "hangs_objects:[2 count]");
    expect(one, "          0          0          0          0          1         48          0     "
                "     0:");
    expect(one, "lost:[direct]");
    expect(one, "source:[calloc]");
    expect(one, "bytes:[48 bytes]");
    expect(one, "asked_bytes:[40 bytes]");
    expect(one, "hangs_bytes:[96 bytes]");
    expect(one, "last_reached:[1700000000000000001 nanoseconds]");
    expect(one, "first_missed:[1700000001000000001 nanoseconds]");
    expect(one, "misses:[3 count]");
    unsigned long site, head;
    ck_assert_int_eq(sscanf(strstr(one, " site:["), " site:[%lu", &site), 1);
    free(one);
    one = sample_with(text, "lost:[indirect]");
    expect(one, "          0          0          0          0          2         96          0     "
                "     0:");
    expect(one, "stack:[caller]");
    ck_assert_int_eq(sscanf(strstr(one, "head:["), "head:[%lu", &head), 1);
    ck_assert_uint_eq(site, head);
    /* One frame, the caller's call, in this program. */
    unsigned location;
    char line[64];
    ck_assert_int_eq(sscanf(strchr(one, ':') + 1, "%u", &location), 1);
    snprintf(line, sizeof line, "%6u: 0x%lx M=1 ", location, (unsigned long)a_caller - 1);
    expect(text, line);
    free(one);
    expect(text, "          0          0          0          0          1      65536          0    "
                 "      0:");
    expect(text, " [no site recorded]");
    ck_assert_ptr_null(strstr(text, "objects_low"));
    free(text);
}
END_TEST

/* pprof leaves out samples whose values are all 0, as those of what is possibly or falsely lost: they are read here as they are. */
static const char *label_of(const Pprof__Profile *p, const Pprof__Sample *sample, const char *key,
                            int64_t *number)
{
    for (size_t i = 0; i < sample->n_label; i++) {
        if (strcmp(p->string_table[sample->label[i]->key], key)) continue;
        *number = sample->label[i]->num;
        return p->string_table[sample->label[i]->str];
    }
    return "";
}

START_TEST(samples_without_values)
{
    static const struct {
        const char *kind, *stack, *why;
        int bytes;
    } rows[] = {{"possible", "unrecorded", "past_end", 48}, {"false", "caller", "", 96}, {"reclaimed", "", "", 7 * 48}};
    make_lost();
    reclaimed_place = (struct reclaim_place_view){1, 7, 7 * 48, 5};
    false_lost_note(NULL, TAG_LOST | TAG_CALLER | 1, 48, PROOF_RESIZED);
    about.compress = false;
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    static uint8_t bytes[1 << 20];
    FILE *f = fopen(path, "r");
    size_t length = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    Pprof__Profile *p = pprof__profile__unpack(NULL, length, bytes);
    ck_assert_ptr_nonnull(p);
    for (int r = 0; r < 3; r++) {
        unsigned found = 0;
        for (size_t i = 0; i < p->n_sample; i++) {
            const Pprof__Sample *sample = p->sample[i];
            int64_t n;
            if (strcmp(label_of(p, sample, "lost", &n), rows[r].kind)) continue;
            found++;
            ck_assert_uint_eq(sample->n_value, 8);
            for (int v = 0; v < 8; v++) ck_assert_int_eq(sample->value[v], 0);
            label_of(p, sample, "lost_objects", &n);
            ck_assert_int_eq(n, rows[r].bytes / 48);
            label_of(p, sample, "lost_bytes", &n);
            ck_assert_int_eq(n, rows[r].bytes);
            ck_assert_str_eq(label_of(p, sample, "stack", &n), rows[r].stack);
            ck_assert_str_eq(label_of(p, sample, "why", &n), rows[r].why);
            ck_assert_uint_eq(sample->n_location_id, r < 2 ? 1 : sample->n_location_id);
        }
        ck_assert_uint_eq(found, 1);
    }
    /* The proof's stack is another, and it counts the vetoes. */
    const Pprof__Sample *of = NULL, *proof = NULL;
    for (size_t i = 0; i < p->n_sample; i++) {
        int64_t n;
        const char *kind = label_of(p, p->sample[i], "lost", &n);
        if (!strcmp(kind, "reclaimed")) of = p->sample[i];
        if (!strcmp(kind, "proof")) {
            proof = p->sample[i];
            label_of(p, proof, "lost_objects", &n);
            ck_assert_int_eq(n, 5);
        }
    }
    ck_assert(of && proof);
    ck_assert(of->n_location_id != proof->n_location_id ||
              memcmp(of->location_id, proof->location_id, of->n_location_id * sizeof of->location_id[0]) != 0);
    pprof__profile__free_unpacked(p, NULL);
}
END_TEST

/* Deaths and ages of what lives, in points, each in its step; a site that nothing is known of has no row. */
START_TEST(lifetimes)
{
    make_sites();
    made.major = 1;
    about.compress = false;
    lifetime_start();
    lifetime_allocated(NULL, 100 * LIFETIME_UNIT); /* the clock's hand */
    struct lifetime_birth now = lifetime_now(0);
    ck_assert_uint_eq(now.units, 100);
    struct lifetime_death d = {.birth = {91, 0}, .now = {100, 9}, .weight = 3};
    lifetime_died(1, &d); /* 9 units, 9 ticks: steps 4 and 8 */
    d = (struct lifetime_death){.birth = {100, 9}, .now = {100, 9}, .weight = 2, .old = true, .elsewhere = true};
    lifetime_died(1, &d);
    live[0] = (struct tracked_view){.block = (void *)16, .site = 1, .n_samples = 5, .clock = 99};
    live[1] = (struct tracked_view){.block = (void *)32, .site = 1, .n_samples = 1, .clock = 60};
    live[2] = (struct tracked_view){.block = (void *)48, .site = 3, .n_samples = 1, .clock = 60};
    live_count = 3;
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    static uint8_t bytes[1 << 16];
    FILE *f = fopen(path, "r");
    size_t length = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    Pprof__Profile *p = pprof__profile__unpack(NULL, length, bytes);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(p->n_comment, 2);
    const char *text = p->string_table[p->comment[0]], *mark = "#gleaner-lifetimes:";
    if (strncmp(text, mark, strlen(mark))) text = p->string_table[p->comment[1]];
    ck_assert(!strncmp(text, mark, strlen(mark)));
    json_error_t error;
    json_t *j = json_loads(text + strlen(mark), 0, &error), *rows = json_object_get(j, "sites");
    ck_assert_msg(j != NULL, "%s in %s", error.text, text);
    ck_assert_uint_eq(json_array_size(rows), 2);
    for (size_t i = 0; i < p->n_sample; i++) {
        int64_t number = 0;
        label_of(p, p->sample[i], "bytes", &number);
        bool first = number == 48, third = number == 16;
        label_of(p, p->sample[i], "site", &number);
        ck_assert_int_gt(number, 0);
        if (first || third)
            ck_assert_int_eq(number, json_integer_value(json_array_get(json_array_get(rows, third), 0)));
    }
    /* site, young, old, elsewhere, live and old, then the steps; ages in time are of this moment */
    json_t *row = json_array_get(rows, 0);
    static const int expected[] = {3, 2, 2, 5};
    for (int i = 0; i < 4; i++) ck_assert_int_eq(json_integer_value(json_array_get(row, 1 + (size_t)i)), expected[i]);
    json_t *died = json_loads("[[0,2,8,3],[0,2,4,3]]", 0, &error), *lives = json_loads("[[1,5,6,1],[6,1]]", 0, &error);
    ck_assert(json_equal(json_array_get(row, 5), json_array_get(died, 0)));
    ck_assert(json_equal(json_array_get(row, 6), json_array_get(died, 1)));
    ck_assert(json_equal(json_array_get(row, 8), json_array_get(lives, 0)));
    row = json_array_get(rows, 1);
    ck_assert_int_eq(json_integer_value(json_array_get(row, 4)), 1);
    ck_assert_uint_eq(json_array_size(json_array_get(row, 5)), 0);
    ck_assert(json_equal(json_array_get(row, 8), json_array_get(lives, 1)));
    json_decref(j);
    json_decref(died);
    json_decref(lives);
    pprof__profile__free_unpacked(p, NULL);
}
END_TEST

/* What is shared out carries its limits: one of three blocks of the caller was tracked. */
START_TEST(lost_estimates)
{
    make_lost();
    interval = 524288;
    struct stack_frame top;
    ck_assert(stack_frame(sites[0].stack, &top));
    a_caller = top.address;
    blocks[1] = blocks[2] = blocks[3];
    block_count = 4;
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    char *text = raw_text(), *one = sample_with(text, "lost:[direct]");
    expect(one, "          0          0          0          0          4        192          0     "
                "     0:");
    expect(one, "objects_low:[1 count]");
    expect(one, "objects_high:[4 count]");
    expect(one, "bytes_low:[48 bytes]");
    expect(one, "bytes_high:[192 bytes]");
    free(one);
    free(text);
}
END_TEST

START_TEST(lost_json)
{
    make_lost();
    made = (struct collections){.minor = 5,
                                .major = 2,
                                .incomplete = 1,
                                .promoted_bytes = 12345,
                                .pause = {1.5, 2.25, 1e-3},
                                .latest = {.kind = COLLECTION_MINOR, .complete = true, .number = 9},
                                .latest_major = {.kind = COLLECTION_MAJOR, .number = 8,
                                           .why_not = "a \"thread\"",
                                           .time = 1700000002000000003}};
    struct suppressions *known = NULL;
    static const char patterns[] = "leak:one\nleak:^two*$\n";
    suppressions_parse(&known, patterns, sizeof patterns - 1, "here", NULL);
    about.suppressions = known;
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    json_t *j = comment();
    static const struct {
        const char *key;
        int objects, bytes;
    } totals[] = {{"lost", 8, 65872},      {"direct", 6, 65776}, {"indirect", 2, 96},
                  {"possible", 1, 48},     {"unrecorded", 3, 144}, {"reclaimed", 0, 0},  {"false_lost", 6, 60},
                  {"reached_again", 4, 40}};
    for (unsigned i = 0; i < sizeof totals / sizeof *totals; i++) {
        ck_assert_int_eq(number(j, "totals", totals[i].key, "objects"), totals[i].objects);
        ck_assert_int_eq(number(j, "totals", totals[i].key, "bytes"), totals[i].bytes);
    }
    json_t *small = json_array_get(json_object_get(j, "classes"), 0),
           *large = json_array_get(json_object_get(j, "classes"), 1);
    ck_assert_int_eq(number(small, "lost", "bytes", NULL), 32);
    ck_assert_int_eq(number(small, "young", "objects", NULL), 3);
    ck_assert_int_eq(number(small, "young", "bytes", NULL), 96);
    ck_assert_int_eq(number(large, "lost", "objects", NULL), 1);
    ck_assert_int_eq(number(large, "lost", "bytes", NULL), 65536);
    ck_assert_int_eq(number(large, "young", "bytes", NULL), 65536);
    ck_assert_int_eq(number(j, "collections", "minor", NULL), 5);
    ck_assert_int_eq(number(j, "collections", "incomplete", NULL), 1);
    ck_assert_int_eq(number(j, "collections", "promoted_bytes", NULL), 12345);
    json_t *pause = json_object_get(json_object_get(j, "collections"), "pause_ms");
    ck_assert_double_eq(json_real_value(json_object_get(pause, "p50")), 1.5);
    ck_assert_double_eq(json_real_value(json_object_get(pause, "p99")), 2.25);
    ck_assert_double_eq(json_real_value(json_object_get(pause, "max")), 0.001);
    json_t *latest = json_object_get(json_object_get(j, "collections"), "latest");
    ck_assert(json_is_false(json_object_get(latest, "complete")));
    ck_assert_str_eq(json_string_value(json_object_get(latest, "why_not")), "a \"thread\"");
    json_t *listed = json_object_get(j, "suppressions");
    ck_assert_uint_eq(json_array_size(listed), 2);
    ck_assert_str_eq(json_string_value(json_array_get(listed, 1)), "^two*$");
    json_decref(j);
}
END_TEST

/* What was reclaimed, what is in quarantine, and what keeps the rest; the parts of memory add up. */
START_TEST(reclaim_json)
{
    make_lost();
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    json_t *j = comment();
    ck_assert_ptr_null(json_object_get(j, "reclaim"));
    json_decref(j);
    reclaim = (struct reclaim_figures){.started = true, .reclaimed = 7, .reclaimed_bytes = 700, .vetoes = 5, .vetoes_after = 2,
                                       .late = 1, .sealed_bytes = 8192, .sealed_ever = 5, .off_why = "a \"reason\""};
    reclaim.rule[ELIGIBLE].blocks = 2;
    reclaim.rule[ELIGIBLE].bytes = 64;
    reclaim.rule[RULE_AGE].blocks = 6;
    reclaim.rule[RULE_AGE].bytes = 600;
    reclaimed_place = (struct reclaim_place_view){1, 7, 700, 5};
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    j = comment();
    ck_assert_int_eq(number(j, "totals", "reclaimed", "objects"), 7);
    ck_assert_int_eq(number(j, "totals", "reclaimed", "bytes"), 700);
    ck_assert_int_eq(number(j, "reclaim", "vetoes", NULL), 5);
    ck_assert_int_eq(number(j, "reclaim", "vetoes_after", NULL), 2);
    ck_assert_int_eq(number(j, "reclaim", "late", NULL), 1);
    ck_assert_int_eq(number(j, "reclaim", "sealed", "bytes"), 8192);
    ck_assert_int_eq(number(j, "reclaim", "sealed", "pages_ever"), 5);
    json_t *of = json_object_get(j, "reclaim"), *kept = json_object_get(of, "kept");
    ck_assert(json_is_false(json_object_get(of, "on")));
    ck_assert_str_eq(json_string_value(json_object_get(of, "why_off")), "a \"reason\"");
    ck_assert_uint_eq(json_object_size(kept), 2);
    ck_assert_int_eq(number(kept, "quarantined", "bytes", NULL), 64);
    ck_assert_int_eq(number(kept, "age", "objects", NULL), 6);
    ck_assert_int_eq(number(json_array_get(json_object_get(j, "classes"), 0), "reclaimed", "objects", NULL), 3);
    json_int_t sum = 0;
    static const char *const parts[] = {"reachable", "lost", "quarantine", "free", "metadata", "other_mappings"};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) sum += number(j, "memory", parts[i], NULL);
    ck_assert_int_eq(sum, number(j, "memory", "rss", NULL));
    json_decref(j);
}
END_TEST

/* Without a collection everything is young. */
START_TEST(all_young)
{
    make_sites();
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    json_t *j = comment(), *small = json_array_get(json_object_get(j, "classes"), 0);
    ck_assert_int_eq(number(small, "young", "objects", NULL), 6);
    ck_assert_int_eq(number(small, "young", "bytes", NULL), 192);
    ck_assert_ptr_null(json_object_get(json_object_get(j, "collections"), "latest"));
    json_decref(j);
}
END_TEST

/* Faults: one positive errno, no file left, the old file untouched, the process alive. */
START_TEST(faults)
{
    char other[128], old[16];
    make_sites();
    ck_assert_int_eq(profile_write_file("/nonexistent/folder/p", &about), ENOENT);
    char name[5000];
    memset(name, 'x', sizeof name);
    name[4999] = 0;
    ck_assert_int_eq(profile_write_file(name, &about), ENAMETOOLONG);

    FILE *f = fopen(path, "w");
    fputs("old", f);
    fclose(f);
    struct rlimit before, small = {100, RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &small);
    int error = profile_write_file(path, &about); /* SIGXFSZ would end us */
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_int_eq(error, EFBIG);
    ck_assert_uint_eq(entries_in_folder(), 1);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(fgets(old, sizeof old, f));
    fclose(f);
    ck_assert_str_eq(old, "old");

    os_fail_mappings(0, 1000);
    error = profile_write_file(path, &about);
    os_fail_mappings(0, 0);
    ck_assert_int_eq(error, ENOMEM);
    for (unsigned skip = 0; skip < 8; skip++) {
        os_fail_mappings(skip, 1);
        error = profile_write_file(path, &about);
        os_fail_mappings(0, 0);
        ck_assert_int_eq(error, ENOMEM);
    }
    ck_assert_uint_eq(entries_in_folder(), 1);

    /* A link at the target is replaced, not followed. */
    snprintf(other, sizeof other, "%s/other", folder);
    unlink(path);
    ck_assert_int_eq(symlink(other, path), 0);
    ck_assert_int_eq(profile_write_file(path, &about), 0);
    ck_assert_int_eq(access(other, F_OK), -1);
    ck_assert_uint_eq(entries_in_folder(), 1);
}
END_TEST

START_TEST(full_disk)
{
    int fd = open("/dev/full", O_WRONLY);
    ck_assert_int_ge(fd, 0);
    make_sites();
    ck_assert_int_eq(profile_write(fd, &about), ENOSPC);
    about.compress = false;
    ck_assert_int_eq(profile_write(fd, &about), ENOSPC);
    close(fd);
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[0]);
    ck_assert_int_eq(profile_write(ends[1], &about), EPIPE); /* SIGPIPE would end us */
    sigset_t pending;
    sigpending(&pending);
    ck_assert(!sigismember(&pending, SIGPIPE));
}
END_TEST

/* As the snapshot child does it: a raw clone, no libc set up in the child. */
START_TEST(raw_clone)
{
    make_sites();
    fflush(NULL);
    long child = raw_syscall(SYS_clone, CLONE_FILES | CLONE_FS, 0L, 0L, 0L, 0L);
    if (child == 0) raw_syscall(SYS_exit_group, (long)profile_write_file(path, &about));
    int status;
    ck_assert_int_eq(waitpid((pid_t)child, &status, __WALL), child);
    ck_assert_int_eq(status, 0);
    char *text = raw_text();
    ck_assert_ptr_nonnull(strstr(text, "     32768    1572864"));
    free(text);
}
END_TEST

/* Where a filter lets nobody look what is there (it may be a device), nothing is put in its place; nor where it says that somebody has. */
START_TEST(nobody_may_look)
{
    const unsigned answer = _i ? 0 : EPERM;
    make_sites();
    FILE *f = fopen(path, "w");
    fputs("old", f);
    fclose(f);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 0, 1),
                                       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | answer), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(99);
        _exit(profile_write_file(path, &about));
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), _i ? EIO : EPERM);
    char old[16];
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(fgets(old, sizeof old, f));
    fclose(f);
    ck_assert_str_eq(old, "old");
    ck_assert_uint_eq(entries_in_folder(), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("profile");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, pprof_reads_it);
    tcase_add_test(t, locations_in_mappings);
    tcase_add_test(t, json);
    tcase_add_test(t, exact);
    tcase_add_test(t, lost_samples);
    tcase_add_test(t, samples_without_values);
    tcase_add_test(t, lost_estimates);
    tcase_add_test(t, lifetimes);
    tcase_add_test(t, lost_json);
    tcase_add_test(t, reclaim_json);
    tcase_add_test(t, all_young);
    tcase_add_test(t, faults);
    tcase_add_test(t, full_disk);
    tcase_add_test(t, raw_clone);
    tcase_add_loop_test(t, nobody_may_look, 0, 2);
    suite_add_tcase(s, t);
    return suite_run(s);
}
