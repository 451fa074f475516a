/* profile.c: the process's profile in pprof's format.

   1. Data.  Samples are written while site_each runs over the sites; they go through one buffer,
   which is handed on (to gzip or straight to the descriptor) whenever it is full.  Strings and the
   table of locations grow meanwhile and are written after them: in profile.proto the order of
   fields does not matter, only the order within each repeated field.
   2. Values are estimates already (profile.proto: "measurements should be stored in unsampled
   form"): a sample point stands for `period` bytes.  The raw numbers of sample points are labels,
   so that a reader can compute intervals, estimate.h.
   3. Addresses are return addresses minus one: within the call, so that symbol look-up finds the
      caller's line; profile.proto allows the middle of a call instruction.
   4. Everything runs in a snapshot child without libc as well: raw system calls, own mappings.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/profile.h"
#include "heap/caller.h"
#include "heap/os.h"
#include "heap/quiet_write.h"
#include "heap/syscall.h"
#include "sampler/estimate.h"
#include "sampler/holder_targets.h"
#include "sampler/module.h"
#include "sampler/profile_json.h"
#include "sampler/profile_writer.h"
#include "sampler/sampler.h"
#include "sampler/site.h"
#include "sampler/stack.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define FLUSH_BYTES (64 * KIB)

static const char *const fixed[S_RULES] = {
    "",
    "alloc_objects",
    "alloc_space",
    "inuse_objects",
    "inuse_space",
    "lost_objects",
    "lost_space",
    "peak_objects",
    "peak_space",
    "count",
    "bytes",
    "space",
    "source",
    "malloc",
    "calloc",
    "realloc",
    "aligned",
    "alloc_samples",
    "inuse_samples",
    "stack",
    "early",
    "dropped",
    "[dropped stacks]",
    /* pprof anchors the expression at both ends.  The names are those of our entry points. */
    ("malloc|calloc|realloc|reallocarray|memalign|aligned_alloc|posix_memalign|valloc|pvalloc|"
     "__libc_(malloc|calloc|realloc|memalign|valloc|pvalloc)|operator new(\\[\\])?.*|_Zn[wa].*"),
    "unrecorded",
    "[no site recorded]",
    "caller",
    "lost",
    "direct",
    "indirect",
    "possible",
    "false",
    "lost_bytes",
    "objects_low",
    "objects_high",
    "bytes_low",
    "bytes_high",
    "asked_bytes",
    "hangs_objects",
    "hangs_bytes",
    "last_reached",
    "first_missed",
    "last_missed",
    "nanoseconds",
    "misses",
    "site",
    "head",
    "why",
    "narrow",
    "before",
    "past_end",
    "misaligned",
    "reclaimed",
    "proof",
    "not_reclaimed",
};

static int write_all(void *user, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        long n = raw_syscall(SYS_write, *(int *)user, at, length);
        if (n == -EINTR) continue;
        if (n <= 0) return n ? (int)-n : EIO;
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

static void hand_on(struct writer *w, struct protobuf *from)
{
    if (from->failed && !w->error) w->error = ENOMEM;
    if (!w->error)
        w->error = w->gzip ? gzip_write(w->gzip, from->data, from->used)
                           : write_all(&w->fd, from->data, from->used);
    protobuf_reset(from);
}

static uint64_t add_string(struct writer *w, const char *s)
{
    protobuf_bytes(&w->strings, PROFILE_STRING, s, strlen(s));
    return w->string_count++;
}

static void value_type(struct writer *w, unsigned field, unsigned type, unsigned unit)
{
    size_t begun = protobuf_begin(&w->out, field);
    protobuf_uint(&w->out, VALUE_TYPE, type);
    protobuf_uint(&w->out, VALUE_UNIT, unit);
    protobuf_end(&w->out, begun);
}

static void head(struct writer *w, const struct profile_about *about, uint64_t now)
{
    for (unsigned i = 0; i < S_RULES; i++) add_string(w, fixed[i]);
    for (unsigned i = 0; i < ELIGIBLE_RULES; i++) add_string(w, eligible_names[i]);
    for (unsigned s = S_ALLOC_OBJECTS; s <= S_PEAK_SPACE; s += 2) {
        value_type(w, PROFILE_SAMPLE_TYPE, s, S_COUNT);
        value_type(w, PROFILE_SAMPLE_TYPE, s + 1, S_BYTES);
    }
    value_type(w, PROFILE_PERIOD_TYPE, S_SPACE, S_BYTES);
    protobuf_uint(&w->out, PROFILE_PERIOD, w->interval);
    protobuf_uint(&w->out, PROFILE_DEFAULT_TYPE, S_INUSE_SPACE);
    protobuf_uint(&w->out, PROFILE_DROP_FRAMES, S_DROP_FRAMES);
    protobuf_uint(&w->out, PROFILE_TIME, now);
    if (now > about->start_time && about->start_time != 0)
        protobuf_uint(&w->out, PROFILE_DURATION, now - about->start_time);
}

void profile_number_label(struct writer *w, unsigned key, uint64_t value, unsigned unit)
{
    size_t begun = protobuf_begin(&w->out, SAMPLE_LABEL);
    protobuf_uint(&w->out, LABEL_KEY, key);
    protobuf_uint(&w->out, LABEL_NUMBER, value);
    protobuf_uint(&w->out, LABEL_UNIT, unit);
    protobuf_end(&w->out, begun);
}

void profile_string_label(struct writer *w, unsigned key, unsigned value)
{
    size_t begun = protobuf_begin(&w->out, SAMPLE_LABEL);
    protobuf_uint(&w->out, LABEL_KEY, key);
    protobuf_uint(&w->out, LABEL_STRING, value);
    protobuf_end(&w->out, begun);
}

static uint64_t nearest(double v)
{
    return v < 1.8e19 ? (uint64_t)(v + 0.5) : UINT64_MAX / 2;
}

/* Objects, then bytes. */
static void estimates(struct writer *w, const struct site_view *v, const struct site_count *c)
{
    uint64_t objects = c->blocks, bytes = c->blocks * v->given;
    if (!w->exact || v->site == SITE_DROPPED) {
        bytes = nearest(estimate_bytes(c->n, w->interval).value);
        if (!w->exact && v->given)
            objects = nearest(estimate_objects(c->n, w->interval, v->given).value);
    }
    protobuf_varint(&w->out, objects);
    protobuf_varint(&w->out, bytes);
}

bool profile_stack(struct writer *w, uint32_t stack)
{
    size_t part = protobuf_begin(&w->out, SAMPLE_LOCATION);
    bool any = false;
    for (uint32_t frame = stack, next; frame; frame = next) {
        uint32_t location = profile_table_location(&w->table, frame, &next);
        if (location) protobuf_varint(&w->out, location);
        any |= location != 0;
    }
    if (!any) { /* dropped, or newer than our tables: another thread goes on allocating */
        protobuf_varint(&w->out, DROPPED_LOCATION);
        w->lacks_stack = true;
    }
    protobuf_end(&w->out, part);
    return any;
}

void profile_stack_labels(struct writer *w, uint32_t stack, bool any, enum heap_source source)
{
    static const unsigned sources[HEAP_SOURCES] = {S_MALLOC, S_CALLOC, S_REALLOC, S_ALIGNED};
    struct stack_frame top = {0};
    if ((unsigned)source < HEAP_SOURCES) profile_string_label(w, S_SOURCE, sources[source]);
    if (!any || !stack_frame(stack, &top))
        profile_string_label(w, S_STACK, S_DROPPED);
    else if (top.flags & STACK_EARLY)
        profile_string_label(w, S_STACK, S_EARLY);
}

void profile_flush(struct writer *w)
{
    if (w->out.used >= FLUSH_BYTES) hand_on(w, &w->out);
}

void profile_flush_strings(struct writer *w)
{
    if (w->strings.used >= FLUSH_BYTES) hand_on(w, &w->strings);
}

uint64_t profile_site_number(uint32_t site)
{
    return (uint64_t)LOST_AT_SITE << 32 | site;
}

static void sample(const struct site_view *v, void *user)
{
    struct writer *w = user;
    if (w->error) return;
    size_t begun = protobuf_begin(&w->out, PROFILE_SAMPLE);
    bool any = profile_stack(w, v->stack);
    size_t part = protobuf_begin(&w->out, SAMPLE_VALUE);
    estimates(w, v, &v->allocated);
    estimates(w, v, &v->live);
    protobuf_varint(&w->out, 0); /* lost blocks have samples of their own, profile_lost.c */
    protobuf_varint(&w->out, 0);
    estimates(w, v, &v->peak);
    protobuf_end(&w->out, part);

    profile_number_label(w, S_BYTES, v->given, S_BYTES);
    profile_number_label(w, S_ALLOC_SAMPLES, v->allocated.n, S_COUNT);
    profile_number_label(w, S_INUSE_SAMPLES, v->live.n, S_COUNT);
    profile_number_label(w, S_SITE, profile_site_number(v->site), S_EMPTY);
    profile_stack_labels(w, v->stack, any, v->source);
    protobuf_end(&w->out, begun);
    profile_flush(w);
}

static void mapping(struct writer *w, uint32_t number)
{
    const struct module *m = module_get(number);
    if (!m) return;
    char hex[2 * MODULE_BUILD_ID + 1];
    for (unsigned i = 0; i < m->build_id_bytes; i++) {
        hex[2 * i] = "0123456789abcdef"[m->build_id[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[m->build_id[i] & 15];
    }
    hex[2 * m->build_id_bytes] = 0;
    size_t begun = protobuf_begin(&w->out, PROFILE_MAPPING);
    protobuf_uint(&w->out, MAPPING_ID, number);
    protobuf_uint(&w->out, MAPPING_START, m->text);
    protobuf_uint(&w->out, MAPPING_LIMIT, m->text_end);
    protobuf_uint(&w->out, MAPPING_OFFSET, m->text_offset);
    protobuf_uint(&w->out, MAPPING_FILE, add_string(w, m->path));
    if (hex[0]) protobuf_uint(&w->out, MAPPING_BUILD_ID, add_string(w, hex));
    protobuf_end(&w->out, begun);
    profile_flush(w);
}

static void locations(struct writer *w)
{
    for (uint32_t i = 0; i < w->table.count && !w->error; i++) {
        size_t begun = protobuf_begin(&w->out, PROFILE_LOCATION);
        protobuf_uint(&w->out, LOCATION_ID, i + 1);
        protobuf_uint(&w->out, LOCATION_MAPPING, w->table.of[i].module);
        protobuf_uint(&w->out, LOCATION_ADDRESS, w->table.of[i].address);
        protobuf_end(&w->out, begun);
        profile_flush(w);
    }
}

/* A location that is a name. */
static void named_location(struct writer *w, uint64_t id, uint64_t function, unsigned name)
{
    size_t begun = protobuf_begin(&w->out, PROFILE_LOCATION);
    protobuf_uint(&w->out, LOCATION_ID, id);
    size_t line = protobuf_begin(&w->out, LOCATION_LINE);
    protobuf_uint(&w->out, LINE_FUNCTION, function);
    protobuf_end(&w->out, line);
    protobuf_end(&w->out, begun);
    begun = protobuf_begin(&w->out, PROFILE_FUNCTION);
    protobuf_uint(&w->out, FUNCTION_ID, function);
    protobuf_uint(&w->out, FUNCTION_NAME, name);
    protobuf_end(&w->out, begun);
}

static void tail(struct writer *w, const struct profile_about *about, uint64_t now)
{
    static const char mark[] = "#gleaner:"; /* pprof shows comments that begin otherwise */
    uint32_t modules = module_count();
    for (uint32_t m = 1; m <= modules && !w->error; m++) /* the main program first, in any case */
        if (m == 1 || profile_table_uses(&w->table, m)) mapping(w, m);
    locations(w);
    if (w->lacks_stack) named_location(w, DROPPED_LOCATION, 1, S_DROPPED_STACKS);
    if (w->lacks_record) named_location(w, UNRECORDED_LOCATION, 2, S_NOT_RECORDED);
    protobuf_uint(&w->out, PROFILE_COMMENT, w->string_count);
    if (w->holders.used) protobuf_uint(&w->out, PROFILE_COMMENT, w->string_count + 1);
    hand_on(w, &w->out);
    size_t begun = protobuf_begin(&w->strings, PROFILE_STRING);
    protobuf_raw(&w->strings, mark, sizeof mark - 1);
    profile_json(&w->strings, about, now, w->lost ? lost_sites_large_bytes(w->lost) : 0);
    protobuf_end(&w->strings, begun);
    w->string_count++;
    if (w->holders.used) {
        if (w->holders.failed && !w->error) w->error = ENOMEM;
        protobuf_bytes(&w->strings, PROFILE_STRING, w->holders.data, w->holders.used);
        w->string_count++;
    }
    hand_on(w, &w->strings);
}

static int write_profile(struct writer *w, const struct profile_about *about)
{
    uint64_t now = os_realtime();
    if (!profile_table_start(&w->table, caller_limit() + (about->holders ? TARGETS_MOST : 0))) return ENOMEM;
    w->lost = lost_sites_make();
    if (!w->lost) w->error = ENOMEM;
    if (about->compress && !(w->gzip = gzip_start(write_all, &w->fd))) w->error = ENOMEM;
    head(w, about, now);
    site_each(sample, w);
    profile_lost(w);
    profile_lifetime(w);
    if (about->holders || about->no_holders) profile_holders(w, about);
    tail(w, about, now);
    if (w->gzip) {
        int error = gzip_end(w->gzip);
        if (!w->error) w->error = error;
    }
    protobuf_free(&w->out);
    protobuf_free(&w->strings);
    protobuf_free(&w->holders);
    profile_table_end(&w->table);
    if (w->lost) lost_sites_free(w->lost);
    return w->error;
}

int profile_write(int fd, const struct profile_about *about)
{
    struct writer w = {.fd = fd, .interval = sampler_interval()};
    w.exact = w.interval <= ESTIMATE_WORD;
    module_start();
    struct quiet quiet = quiet_begin();
    int error = write_profile(&w, about);
    quiet_end(quiet);
    return error;
}
