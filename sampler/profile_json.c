/* profile_json.c: the head of the report's JSON: DESIGN's version, totals, classes, collections,
   memory, and the sampler's own state.  The keys are those of the report, so that it can copy them.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/profile_json.h"
#include "heap/collect.h"
#include "heap/heap.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/reclaim.h"
#include "heap/syscall.h"
#include "heap/white.h"
#include "sampler/module.h"
#include "sampler/residency.h"
#include "sampler/sampler.h"
#include "sampler/site.h"

#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

#define NS 1000000000u
#define EXACT_BYTES 8 /* an interval of one word: every block is sampled */

static void text(struct protobuf *b, const char *s)
{
    protobuf_raw(b, s, strlen(s));
}

void profile_put(struct protobuf *b, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    size_t n = print_to_v(line, sizeof line, format, args);
    va_end(args);
    protobuf_raw(b, line, n < sizeof line ? n : sizeof line - 1);
}

/* Length of the well-formed UTF-8 sequence at `s`, 0 if there is none (Unicode 15, table 3-7). */
static unsigned utf8(const unsigned char *s)
{
    unsigned char low = 0x80, high = 0xbf;
    unsigned n;
    if (s[0] < 0x80) return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        n = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        n = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        n = 4;
    else
        return 0;
    if (s[0] == 0xe0) low = 0xa0;
    if (s[0] == 0xed) high = 0x9f;
    if (s[0] == 0xf0) low = 0x90;
    if (s[0] == 0xf4) high = 0x8f;
    if (s[1] < low || s[1] > high) return 0;
    for (unsigned i = 2; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xbf) return 0;
    return n;
}

/* Bytes that are no UTF-8 become U+FFFD: JSON, and protobuf's strings, are UTF-8. */
static void string(struct protobuf *b, const char *s)
{
    text(b, "\"");
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        unsigned n = utf8(p);
        if (n == 0)
            text(b, "\xef\xbf\xbd"), n = 1;
        else if (*p == '"' || *p == '\\')
            profile_put(b, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            profile_put(b, "\\u%04x", *p);
        else
            protobuf_raw(b, p, n);
        p += n;
    }
    text(b, "\"");
}

static void named(struct protobuf *b, const char *key, const char *value)
{
    if (!value) return;
    profile_put(b, ",\"%s\":", key);
    string(b, value);
}

static void seconds(struct protobuf *b, const char *key, uint64_t ns)
{
    profile_put(b, ",\"%s\":%lu.%09lu", key, (unsigned long)(ns / NS), (unsigned long)(ns % NS));
}

static void total(struct protobuf *b, const char *key, uint64_t objects, uint64_t bytes)
{
    profile_put(b, "\"%s\":{\"objects\":%lu,\"bytes\":%lu},", key, (unsigned long)objects,
        (unsigned long)bytes);
}

static void totals(struct protobuf *b, const struct heap_stats *s, const struct lost_totals *lost,
                   const struct reclaim_figures *reclaim)
{
    text(b, ",\"totals\":{");
    total(b, "alloc", s->allocated, s->allocated_bytes);
    total(b, "live", s->live, s->live_bytes);
    total(b, "lost", lost->lost, lost->lost_bytes);
    total(b, "direct", lost->direct, lost->direct_bytes);
    total(b, "indirect", lost->indirect, lost->indirect_bytes);
    total(b, "possible", lost->possible, lost->possible_bytes);
    total(b, "unrecorded", lost->unrecorded, lost->unrecorded_bytes);
    total(b, "reclaimed", reclaim->reclaimed, reclaim->reclaimed_bytes);
    total(b, "quarantined", lost->quarantined, lost->quarantined_bytes);
    total(b, "false_lost", lost_used(lost), lost_used_bytes(lost));
    total(b, "reached_again", lost->proofs[PROOF_REACHED], lost->proof_bytes[PROOF_REACHED]);
    profile_put(b, "\"peak\":{\"bytes\":%lu", (unsigned long)s->peak_bytes);
    seconds(b, "time", s->peak_time);
    text(b, "}}");
}

/* The exact counts of this moment, too big for a program's stack. */
struct facts {
    struct heap_stats heap;
    struct utsname host;
    struct lost_totals lost;
    struct reclaim_figures reclaim;
    struct collections collections;
    struct young {
        uint64_t blocks, bytes;
    } young[HEAP_CLASSES];
    bool young_known;
    uint64_t lost_of[HEAP_CLASSES], lost_large_bytes;
};

static void count_young(const struct white_block *block, void *user)
{
    struct young *y = &((struct young *)user)[block->class % HEAP_CLASSES];
    y->blocks++;
    y->bytes += block->bytes;
}

/* Young is what was allocated since the last collection, so everything where there was none. */
static void read_young(struct facts *f)
{
    f->young_known = true;
    if (f->collections.minor + f->collections.major == 0) {
        for (unsigned i = 0; i < HEAP_CLASSES; i++)
            f->young[i] = (struct young){f->heap.of[i].live, f->heap.of[i].live_bytes};
        return;
    }
    struct white white;
    f->young_known = white_make(&white, WHITE_YOUNG);
    if (!f->young_known) return;
    white_each(&white, count_young, f->young);
    white_free(&white);
}

static void class(struct protobuf *b, const struct facts *f, unsigned number, bool *first)
{
    const struct heap_class_stats *c = &f->heap.of[number];
    if (c->allocated == 0 && c->live == 0) return;
    uint64_t lost = f->lost_of[number];
    profile_put(b,
        "%s{\"size\":%lu,\"alloc\":{\"objects\":%lu,\"bytes\":%lu},\"live\":{\"objects\":%lu,"
        "\"bytes\":%lu},",
        *first ? "" : ",", (unsigned long)c->size, (unsigned long)c->allocated,
        (unsigned long)c->allocated_bytes, (unsigned long)c->live, (unsigned long)c->live_bytes);
    if (f->young_known)
        total(b, "young", f->young[number].blocks, f->young[number].bytes);
    else
        text(b, "\"young\":{\"objects\":null,\"bytes\":null},");
    total(b, "lost", lost, number == HEAP_CLASS_LARGE ? f->lost_large_bytes : lost * c->size);
    uint64_t reclaimed, reclaimed_bytes;
    reclaim_of_class(number, &reclaimed, &reclaimed_bytes);
    if (f->reclaim.started) total(b, "reclaimed", reclaimed, reclaimed_bytes);
    profile_put(b, "\"pools\":%lu}", (unsigned long)c->pools);
    *first = false;
}

static void classes(struct protobuf *b, const struct facts *f)
{
    bool first = true;
    text(b, ",\"classes\":[");
    for (unsigned i = 0; i < f->heap.classes && i < HEAP_CLASS_LARGE; i++) class(b, f, i, &first);
    class(b, f, HEAP_CLASS_LARGE, &first);
    text(b, "]");
}

static void milliseconds(struct protobuf *b, const char *key, double ms)
{
    uint64_t ns = ms > 0 && ms < 1e12 ? (uint64_t)(ms * 1e6 + 0.5) : 0;
    profile_put(b, "%s%lu.%06lu", key, (unsigned long)(ns / 1000000), (unsigned long)(ns % 1000000));
}

static void spread(struct protobuf *b, const char *key, const struct collection_spread *s)
{
    profile_put(b, ",\"%s\":{", key);
    milliseconds(b, "\"p50\":", s->p50);
    milliseconds(b, ",\"p99\":", s->p99);
    milliseconds(b, ",\"max\":", s->max);
    text(b, "}");
}

static void put_collections(struct protobuf *b, const struct collections *c)
{
    profile_put(b,
        ",\"collections\":{\"minor\":%lu,\"major\":%lu,\"incomplete\":%lu,\"promoted_bytes\":%lu",
        (unsigned long)c->minor, (unsigned long)c->major, (unsigned long)c->incomplete,
        (unsigned long)c->promoted_bytes);
    spread(b, "pause_ms", &c->pause);
    spread(b, "stop_ms", &c->stop);
    spread(b, "mark_ms", &c->mark);
    if (c->minor + c->major > 0) { /* of the latest major one, if there is any: what is known to be lost depends on it */
        const struct collection *latest = c->major > 0 ? &c->latest_major : &c->latest;
        profile_put(b, ",\"latest\":{\"major\":%s,\"complete\":%s", c->major > 0 ? "true" : "false", latest->complete ? "true" : "false");
        if (!latest->complete) named(b, "why_not", latest->why_not);
        seconds(b, "time", latest->time);
        text(b, "}");
    }
    text(b, "}");
}

/* So that the command can apply them with the names that it knows. */
static void put_suppressions(struct protobuf *b, const struct suppressions *s)
{
    unsigned n = s ? suppressions_total(s) : 0;
    if (n == 0) return;
    text(b, ",\"suppressions\":[");
    for (unsigned i = 0; i < n; i++) {
        uint64_t blocks, bytes;
        if (i) text(b, ",");
        string(b, suppressions_pattern(s, i, &blocks, &bytes));
    }
    text(b, "]");
}

/* Resident bytes of the process, 0 if unknown.  A snapshot child asks for its parent, as whose it
   speaks. */
static uint64_t resident(int pid)
{
    char path[48], line[128];
    if (raw_syscall(SYS_getpid, 0L) == pid)
        print_to(path, sizeof path, "/proc/self/statm");
    else
        print_to(path, sizeof path, "/proc/%d/statm", pid);
    long fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0L);
    if (fd < 0) return 0;
    long n = raw_syscall(SYS_read, fd, line, sizeof line - 1);
    raw_syscall(SYS_close, fd);
    uint64_t pages = 0;
    long i = 0;
    while (i < n && line[i] != ' ') i++;
    for (i++; i < n && line[i] >= '0' && line[i] <= '9'; i++)
        pages = pages * 10 + (uint64_t)(line[i] - '0');
    return pages * getauxval(AT_PAGESZ);
}

/* Lost blocks by what keeps each, as of the latest collection. */
static void put_reclaim(struct protobuf *b, const struct reclaim_figures *f)
{
    if (!f->started) return;
    profile_put(b, ",\"reclaim\":{\"on\":%s", f->off_why ? "false" : "true");
    named(b, "why_off", f->off_why);
    profile_put(b, ",\"vetoes\":%lu,\"vetoes_after\":%lu,\"late\":%lu,\"sealed\":{\"bytes\":%lu,\"pages_ever\":%lu},\"kept\":{",
        (unsigned long)f->vetoes, (unsigned long)f->vetoes_after, (unsigned long)f->late, (unsigned long)f->sealed_bytes,
        (unsigned long)f->sealed_ever);
    for (unsigned i = 0, n = 0; i < ELIGIBLE_RULES; i++) {
        if (f->rule[i].blocks == 0) continue;
        profile_put(b, "%s\"%s\":{\"objects\":%lu,\"bytes\":%lu}", n++ ? "," : "", eligible_names[i], (unsigned long)f->rule[i].blocks,
            (unsigned long)f->rule[i].bytes);
    }
    text(b, "}}");
}

/* Takes at most what is left. */
static uint64_t take(uint64_t *left, uint64_t bytes)
{
    uint64_t taken = bytes < *left ? bytes : *left;
    *left -= taken;
    return taken;
}

/* The resident pages of pools and large blocks are told apart by what they are given to: of blocks that were never written to, fewer
   bytes are resident than given, and the last kinds get what is left. */
static void memory(struct protobuf *b, const struct heap_stats *s, const struct lost_totals *lost, const struct reclaim_figures *reclaim,
                   int pid)
{
    struct residency here;
    uint64_t rss = resident(pid);
    if (!residency_read(&here)) /* no /proc: what is mapped */
        here = (struct residency){s->pool_bytes, s->large_bytes, s->metadata_bytes};
    uint64_t ours = here.pools + here.large + here.metadata, left = here.pools + here.large;
    /* Sealed pages are not resident until somebody breaks the seals. */
    uint64_t there = lost->quarantined_bytes > reclaim->sealed_bytes ? lost->quarantined_bytes - reclaim->sealed_bytes : 0;
    uint64_t quarantined = take(&left, there);
    uint64_t lost_bytes = take(&left, lost->lost_bytes - lost->quarantined_bytes);
    uint64_t reachable = take(&left, s->live_bytes > lost->lost_bytes ? s->live_bytes - lost->lost_bytes : 0);
    profile_put(b,
        ",\"memory\":{\"rss\":%lu,\"pools\":%lu,\"large\":%lu,\"free_slots\":%lu,\"metadata\":%lu,"
        "\"reachable\":%lu,\"lost\":%lu,\"quarantine\":%lu,\"free\":%lu,\"other_mappings\":%lu}",
        (unsigned long)rss, (unsigned long)here.pools, (unsigned long)here.large,
        (unsigned long)s->free_slot_bytes, (unsigned long)here.metadata, (unsigned long)reachable,
        (unsigned long)lost_bytes, (unsigned long)quarantined, (unsigned long)left,
        (unsigned long)(rss > ours ? rss - ours : 0));
}

static void sampler(struct protobuf *b)
{
    struct sampler_stats s;
    sampler_stats(&s);
    profile_put(b,
        ",\"sampler\":{\"samples\":%lu,\"samples_freed\":%lu,\"live_entries\":%lu,"
        "\"dropped_entries\":%lu,\"stacks\":%lu,\"dropped_stacks\":%lu,\"one_frame\":%lu,"
        "\"early\":%lu,\"dropped_modules\":%lu,\"memory\":%lu}",
        (unsigned long)s.samples, (unsigned long)s.samples_freed, (unsigned long)s.live_entries,
        (unsigned long)s.dropped_entries, (unsigned long)s.stacks, (unsigned long)s.dropped_stacks,
        (unsigned long)s.one_frame, (unsigned long)s.early, (unsigned long)module_dropped(),
        (unsigned long)s.memory_bytes);
}

void profile_json(struct protobuf *b, const struct profile_about *about, uint64_t now,
                  uint64_t lost_large_bytes)
{
    struct facts *facts = os_map(round_up(sizeof *facts, OS_PAGE));
    if (!facts) {
        b->failed = true;
        return;
    }
    heap_stats(&facts->heap);
    lost_totals(&facts->lost);
    lost_of_classes(facts->lost_of);
    reclaim_figures(&facts->reclaim);
    collections(&facts->collections);
    read_young(facts);
    facts->lost_large_bytes = lost_large_bytes;
    profile_put(b, "{\"version\":1,\"pid\":%d,\"parent\":%d", about->pid, about->parent);
    named(b, "command", about->command);
    named(b, "executable", about->executable);
    if (raw_syscall(SYS_uname, &facts->host) == 0) named(b, "host", facts->host.nodename);
    named(b, "reason", about->reason);
    seconds(b, "time", now);
    seconds(b, "start_time", about->start_time);
    profile_put(b, ",\"sample_bytes\":%lu", (unsigned long)sampler_interval());
    if (sampler_interval() == EXACT_BYTES) text(b, ",\"lambda\":1");
    totals(b, &facts->heap, &facts->lost, &facts->reclaim);
    classes(b, facts);
    put_collections(b, &facts->collections);
    put_reclaim(b, &facts->reclaim);
    memory(b, &facts->heap, &facts->lost, &facts->reclaim, about->pid);
    sampler(b);
    put_suppressions(b, about->suppressions);
    text(b, "}");
    os_unmap(facts, round_up(sizeof *facts, OS_PAGE));
}

void profile_json_string(struct protobuf *b, const char *s)
{
    string(b, s);
}
