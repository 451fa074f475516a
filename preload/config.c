/* config.c: reads the library's configuration without libc's help.

   1. Data.  One table of keys; each key has a reader that checks the value and stores it, and a
      sentence that says what would have been right.
   2. Synchronisation.  None: start-up, one thread.
   3. Bounds.  A text is read once from front to back; an item longer than ITEM is named and skipped;
      after 8 complaints one line says that there are more, so that junk cannot flood stderr.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/config.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#define ITEM (CONFIG_PATH + 64)
#define FILE_LIMIT (64 * KIB)
#define COMPLAINTS 8
#define SECOND 1000000000ull

struct reader {
    const char *where;
    void (*complain)(const char *);
    unsigned complaints;
};

struct key {
    const char *name;
    bool (*read)(struct config *, const char *value);
    const char *right;
};

/* Values. */

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool read_number(const char **at, uint64_t *to)
{
    const char *s = *at;
    uint64_t n = 0;
    if (*s < '0' || *s > '9') return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (__builtin_mul_overflow(n, (uint64_t)10, &n)) return false;
        if (__builtin_add_overflow(n, (uint64_t)(*s - '0'), &n)) return false;
    }
    *at = s;
    *to = n;
    return true;
}

static bool read_plain(const char *value, uint64_t most, uint64_t *to)
{
    uint64_t n;
    if (!read_number(&value, &n) || *value != 0 || n > most) return false;
    *to = n;
    return true;
}

static bool read_bytes(const char *value, uint64_t *to)
{
    uint64_t n;
    unsigned shift = 0;
    if (!read_number(&value, &n)) return false;
    switch (*value) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    case 't':
    case 'T':
        shift = 40;
        break;
    }
    if (shift) {
        value++;
        if (*value == 'i' && value[1] == 'B')
            value += 2;
        else if (*value == 'B')
            value++;
    }
    if (*value != 0 || n > (uint64_t)PTRDIFF_MAX >> shift) return false;
    *to = n << shift;
    return true;
}

static bool read_duration(const char *value, uint64_t *to)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ms", SECOND / 1000}, {"s", SECOND}, {"m", 60 * SECOND}, {"h", 3600 * SECOND}};
    uint64_t n, scale = 0;
    if (!read_number(&value, &n)) return false;
    for (unsigned i = 0; i < sizeof units / sizeof *units; i++)
        if (is(value, units[i].unit)) scale = units[i].ns;
    if (scale == 0 && (*value != 0 || n != 0)) return false; /* only nothing needs no unit */
    if (__builtin_mul_overflow(n, scale, &n) || n > (uint64_t)INT64_MAX) return false;
    *to = n;
    return true;
}

static bool read_yes(const char *value, bool *to)
{
    bool yes = is(value, "yes") || is(value, "true") || is(value, "on") || is(value, "1");
    if (!yes && !is(value, "no") && !is(value, "false") && !is(value, "off") && !is(value, "0"))
        return false;
    *to = yes;
    return true;
}

static bool read_path(const char *value, char *to)
{
    size_t n = strlen(value);
    if (n == 0 || n >= CONFIG_PATH) return false;
    memcpy(to, value, n + 1);
    return true;
}

/* Keys. */

static bool key_sample(struct config *c, const char *v)
{
    if (is(v, "all")) {
        c->sample_all = true;
        c->sample_bytes = 0;
        return true;
    }
    uint64_t n;
    if (!(is(v, "off") ? (n = 0, true) : read_bytes(v, &n))) return false;
    c->sample_all = false;
    c->sample_bytes = n;
    return true;
}

static bool key_depth(struct config *c, const char *v)
{
    uint64_t n;
    if (!read_plain(v, 256, &n) || n == 0) return false;
    c->depth = (unsigned)n;
    return true;
}

static bool key_leaks(struct config *c, const char *v)
{
    uint64_t ns = 0;
    enum config_leaks leaks;
    if (is(v, "off"))
        leaks = LEAKS_OFF;
    else if (is(v, "exit"))
        leaks = LEAKS_EXIT;
    else if (strncmp(v, "every=", 6) == 0 && read_duration(v + 6, &ns) && ns > 0)
        leaks = LEAKS_EVERY;
    else
        return false;
    c->leaks = leaks;
    c->leaks_every_ns = ns;
    return true;
}

static bool key_collect(struct config *c, const char *v)
{
    if (is(v, "off"))
        c->collect = COLLECT_OFF;
    else if (is(v, "report"))
        c->collect = COLLECT_REPORT;
    else if (is(v, "reclaim"))
        c->collect = COLLECT_RECLAIM;
    else
        return false;
    return true;
}

static bool key_nursery(struct config *c, const char *v)
{
    uint64_t n;
    if (is(v, "adaptive"))
        n = 0;
    else if (!read_bytes(v, &n) || n == 0)
        return false;
    c->nursery_bytes = n;
    return true;
}

static bool key_reclaim_delay(struct config *c, const char *v)
{
    return read_duration(v, &c->reclaim_delay_ns);
}

static bool key_reclaim_age(struct config *c, const char *v)
{
    return read_duration(v, &c->reclaim_age_ns);
}

static bool read_some(const char *v, uint64_t least, uint64_t most, unsigned *to)
{
    uint64_t n;
    if (!read_plain(v, most, &n) || n < least) return false;
    *to = (unsigned)n;
    return true;
}

static bool key_reclaim_confirmations(struct config *c, const char *v)
{
    return read_some(v, 1, 255, &c->reclaim_confirmations);
}
static bool key_reclaim_trial(struct config *c, const char *v)
{
    return read_some(v, 0, 1000000, &c->reclaim_trial);
}
static bool key_reclaim_share(struct config *c, const char *v)
{
    return read_some(v, 1, 100, &c->reclaim_share);
}
static bool key_reclaim_stacks(struct config *c, const char *v)
{
    return read_yes(v, &c->reclaim_stacks);
}
static bool key_reclaim_contents(struct config *c, const char *v)
{
    return read_yes(v, &c->reclaim_contents);
}
static bool key_reclaim_libraries(struct config *c, const char *v)
{
    return read_yes(v, &c->reclaim_libraries);
}
static bool key_reclaim_seal(struct config *c, const char *v)
{
    return read_yes(v, &c->reclaim_seal);
}
static bool key_reclaim_anyway(struct config *c, const char *v)
{
    return read_yes(v, &c->reclaim_anyway);
}

static bool key_interval(struct config *c, const char *v)
{
    uint64_t ns;
    if (is(v, "none"))
        ns = 0;
    else if (!read_duration(v, &ns))
        return false;
    c->interval_ns = ns;
    return true;
}

static bool key_output(struct config *c, const char *v)
{
    return read_path(v, c->output);
}

static bool key_exit(struct config *c, const char *v)
{
    bool both = is(v, "both"), report = both || is(v, "report"), profile = both || is(v, "profile");
    if (!report && !profile && !is(v, "none")) return false;
    c->exit_report = report;
    c->exit_profile = profile;
    return true;
}

static bool key_exit_code(struct config *c, const char *v)
{
    uint64_t n;
    if (!read_plain(v, 255, &n)) return false;
    c->exit_code = (int)n;
    return true;
}

static bool key_signal(struct config *c, const char *v)
{
    uint64_t n = 0;
    if (is(v, "none")) {
        c->signal = 0;
        return true;
    }
    if (!read_plain(v, 64, &n)) {
        const char *name = strncmp(v, "SIG", 3) == 0 ? v + 3 : v, *known;
        for (n = 1; n < 32; n++)
            if ((known = sigabbrev_np((int)n)) != NULL && is(known, name)) break;
    }
    /* 32 and 33 are glibc's own; a fault's signal means a fault. */
    if (n == 0 || n == 32 || n == 33 || n == SIGKILL || n == SIGSTOP || n == SIGSEGV ||
        n == SIGBUS || n == SIGILL || n == SIGFPE || n == SIGABRT)
        return false;
    c->signal = (int)n;
    return true;
}

static bool key_suppressions(struct config *c, const char *v)
{
    if (is(v, "none")) {
        c->suppressions[0] = 0;
        return true;
    }
    return read_path(v, c->suppressions);
}

static bool key_log(struct config *c, const char *v)
{
    enum config_log log;
    size_t n = strcspn(v, "=");
    if (n == 4 && memcmp(v, "none", n) == 0 && v[n] == 0)
        log = LOG_NONE;
    else if (n == 2 && memcmp(v, "gc", n) == 0)
        log = LOG_GC;
    else if (n == 5 && memcmp(v, "debug", n) == 0)
        log = LOG_DEBUG;
    else
        return false;
    if (v[n] == '=') {
        if (!read_path(v + n + 1, c->log_file)) return false;
    } else
        c->log_file[0] = 0;
    c->log = log;
    return true;
}

static bool key_follow(struct config *c, const char *v)
{
    return read_yes(v, &c->follow);
}
static bool key_verify(struct config *c, const char *v)
{
    return read_yes(v, &c->verify);
}
static bool key_abort(struct config *c, const char *v)
{
    return read_yes(v, &c->abort);
}

static bool key_unwind(struct config *c, const char *v)
{
    if (!is(v, "fp") && !is(v, "libunwind")) return false;
    c->frame_pointers = is(v, "fp");
    return true;
}

static bool key_seed(struct config *c, const char *v)
{
    uint64_t n = 0;
    bool fixed = !is(v, "random");
    if (fixed && !read_plain(v, UINT64_MAX, &n)) return false;
    c->fixed_seed = fixed;
    c->seed = n;
    return true;
}

static bool key_snapshot(struct config *c, const char *v)
{
    return read_yes(v, &c->snapshot);
}

static bool key_pages(struct config *c, const char *v)
{
    static const char *const names[] = {"scan", "pagemap", "mincore"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (!is(v, names[i])) continue;
        c->pages = (enum config_pages)i;
        return true;
    }
    return false;
}

static bool key_remember(struct config *c, const char *v)
{
    static const char *const names[] = {"auto", "sweep", "track"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (!is(v, names[i])) continue;
        c->remember = (enum config_remember)i;
        return true;
    }
    return false;
}

static const struct key keys[] = {
    {"sample", key_sample, "bytes (512K), `all` or 0"},
    {"depth", key_depth, "1 to 256"},
    {"leaks", key_leaks, "off, exit or every=30s"},
    {"collect", key_collect, "off, report or reclaim"},
    {"nursery", key_nursery, "bytes (4M) or adaptive"},
    {"reclaim_delay", key_reclaim_delay, "a duration: 500ms, 60s, 5m, 1h or 0"},
    {"reclaim_age", key_reclaim_age, "a duration: 500ms, 60s, 5m, 1h or 0"},
    {"reclaim_confirmations", key_reclaim_confirmations, "1 to 255"},
    {"reclaim_trial", key_reclaim_trial, "0 to 1000000"},
    {"reclaim_share", key_reclaim_share, "1 to 100"},
    {"reclaim_stacks", key_reclaim_stacks, "yes or no"},
    {"reclaim_contents", key_reclaim_contents, "yes or no"},
    {"reclaim_libraries", key_reclaim_libraries, "yes or no"},
    {"reclaim_anyway", key_reclaim_anyway, "yes or no"},
    {"reclaim_seal", key_reclaim_seal, "yes or no"},
    {"interval", key_interval, "a duration: 500ms, 60s, 5m, 1h or none"},
    {"output", key_output, "a path of at most 1023 bytes"},
    {"exit", key_exit, "none, report, profile or both"},
    {"exit_code", key_exit_code, "0 to 255"},
    {"signal", key_signal, "a number or a name (USR2) of a signal that means no fault, or none"},
    {"suppressions", key_suppressions, "a path of at most 1023 bytes, or none"},
    {"follow", key_follow, "yes or no"},
    {"log", key_log, "none, gc, debug, gc=FILE or debug=FILE"},
    {"verify", key_verify, "yes or no"},
    {"abort", key_abort, "yes or no"},
    {"unwind", key_unwind, "libunwind or fp"},
    {"seed", key_seed, "a number or random"},
    {"snapshot", key_snapshot, "yes or no"},
    {"pages", key_pages, "scan, pagemap or mincore"},
    {"remember", key_remember, "auto, sweep or track"},
};
#define KEYS (sizeof keys / sizeof *keys)

void config_default(struct config *to)
{
    memset(to, 0, sizeof *to);
    to->sample_bytes = 512 * KIB;
    to->depth = 64;
    to->reclaim_delay_ns = 60 * SECOND;
    to->reclaim_age_ns = UINT64_MAX;
    to->reclaim_confirmations = 3;
    to->reclaim_trial = 1;
    to->reclaim_share = 10;
    to->reclaim_stacks = to->reclaim_contents = to->reclaim_seal = true;
    to->follow = to->abort = to->snapshot = true;
    memcpy(to->output, "gleaner.%e.%p.%n.pb.gz", sizeof "gleaner.%e.%p.%n.pb.gz");
}

/* Text. */

/* What the user wrote, cut and made printable. */
struct quoted {
    char text[64];
};

static struct quoted quote(const char *s)
{
    struct quoted q;
    size_t n = 0;
    for (; s[n] && n < sizeof q.text - 4; n++) q.text[n] = s[n] >= 0x20 && s[n] < 0x7f ? s[n] : '?';
    if (s[n])
        while (n < sizeof q.text - 1) q.text[n++] = '.';
    q.text[n] = 0;
    return q;
}

static void complain(struct reader *r, const char *format, ...) PRINTF_LIKE(2, 3);
static void complain(struct reader *r, const char *format, ...)
{
    char line[768];
    if (!r->complain || r->complaints > COMPLAINTS) return;
    size_t n = print_to(line, sizeof line, "gleaner: %s: ", r->where);
    if (n >= sizeof line) return;
    if (r->complaints++ == COMPLAINTS)
        print_to(line + n, sizeof line - n, "more of this is not shown");
    else {
        va_list args;
        va_start(args, format);
        print_to_v(line + n, sizeof line - n, format, args);
        va_end(args);
    }
    r->complain(line);
}

/* One item: zero-terminated, no blanks around it. */
static void read_item(struct config *to, char *item, struct reader *r)
{
    size_t n = strcspn(item, ":=");
    if (item[n] == 0) {
        complain(r, "'%s' is not key:value; skipped", quote(item).text);
        return;
    }
    char *value = item + n + 1;
    value += strspn(value, " \t");
    while (n > 0 && (item[n - 1] == ' ' || item[n - 1] == '\t')) n--;
    item[n] = 0;
    for (unsigned i = 0; i < KEYS; i++)
        if (is(item, keys[i].name)) {
            if (!keys[i].read(to, value))
                complain(r, "bad value '%s' for %s; skipped (right: %s)", quote(value).text, item,
                         keys[i].right);
            return;
        }
    char known[640];
    size_t length = 0;
    for (unsigned i = 0; i < KEYS; i++)
        length += print_to(known + length, sizeof known - length, " %s", keys[i].name);
    complain(r, "unknown key '%s'; skipped (known:%s)", quote(item).text, known);
}

static bool ends_item(char c)
{
    return c == ',' || c == '\n' || c == '\r' || c == 0;
}
static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

void config_parse(struct config *to, const char *text, size_t bytes, const char *where,
                  void (*tell)(const char *))
{
    struct reader r = {where, tell, 0};
    const char *at = text, *end = text + bytes, *zero = memchr(text, 0, bytes);
    if (zero) end = zero;
    while (at < end) {
        while (at < end && (blank(*at) || ends_item(*at))) at++;
        if (at < end && *at == '#') {
            while (at < end && *at != '\n') at++;
            continue;
        }
        const char *start = at;
        while (at < end && !ends_item(*at)) at++;
        size_t n = (size_t)(at - start);
        while (n > 0 && blank(start[n - 1])) n--;
        if (n == 0) continue;
        char item[ITEM];
        size_t kept = n < ITEM ? n : ITEM - 1;
        memcpy(item, start, kept);
        item[kept] = 0;
        if (kept < n)
            complain(&r, "'%s' is too long; skipped", quote(item).text);
        else
            read_item(to, item, &r);
    }
}

void config_read_file(struct config *to, const char *path, void (*tell)(const char *))
{
    struct reader r = {path, tell, 0};
    long fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (fd != -ENOENT && fd != -ENOTDIR)
            complain(&r, "cannot be read (%s); skipped", print_error((int)-fd));
        return;
    }
    char *text = os_map(FILE_LIMIT + OS_PAGE);
    size_t n = 0;
    long got = text ? 0 : -ENOMEM;
    while (text && n <= FILE_LIMIT) {
        got = raw_syscall(SYS_read, fd, text + n, FILE_LIMIT + 1 - n);
        if (got == -EINTR) continue;
        if (got <= 0) break;
        n += (size_t)got;
    }
    raw_syscall(SYS_close, fd);
    if (got < 0)
        complain(&r, "cannot be read (%s); skipped", print_error((int)-got));
    else if (n > FILE_LIMIT)
        complain(&r, "longer than 64K; skipped");
    else if (text)
        config_parse(to, text, n, path, tell);
    if (text) os_unmap(text, FILE_LIMIT + OS_PAGE);
}

const char *config_environment(char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
            return *environment + n + 1;
    return NULL;
}
