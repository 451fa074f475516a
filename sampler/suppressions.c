/* suppressions.c: which leaks are known, see suppressions.h.

   1. Data.  An array of patterns, numbered in the order of their lines, that doubles; the texts that they point into
      are copied, one mapping a text.  A pattern is cut where its `$` is: what follows an anchor of the end can match nothing.
   2. Synchronisation.  Who parses must be alone; matching and counting is for any thread.
   3. Matching.  Between its asterisks a pattern is plain text, so that taking the first place where each piece fits is
      enough, and the last piece, if it is anchored, is looked for at the end: no backtracking, length of the name times length of
      the pattern at worst.  LeakSanitizer's own matcher (sanitizer_suppressions.cpp, TemplateMatch) takes the first place for the
      last piece, too, and so does not find `o$` in `foo`; everything that it matches is matched here.
   4. Bounds.  A text is read once from front to back, never past its end or a zero byte; PATTERNS lines at most are kept of all
      texts; complaints are cut after 8 a text.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/suppressions.h"
#include "heap/os.h"
#include "heap/print.h"
#include "heap/syscall.h"

#include <errno.h>
#include <fcntl.h>

#define FILE_LIMIT (1 * MIB)
#define PATTERNS ((unsigned)1 << 20)
#define COMPLAINTS 8
#define TYPE "leak:"

struct pattern {
    const char *text; /* zero-terminated, as it was written, without `leak:` */
    uint32_t length;  /* up to a `$` */
    bool to_end;      /* there was one */
    _Atomic uint64_t blocks, bytes;
};

struct suppressions {
    struct pattern *pattern;
    unsigned count, room;
};

struct reader {
    const char *where;
    void (*complain)(const char *);
    unsigned complaints;
};

/* Complaints. */

struct quoted {
    char text[64];
};

/* What the user wrote, cut and made printable. */
static struct quoted quote(const char *s, size_t n)
{
    struct quoted q;
    size_t most = sizeof q.text - 4, at = 0;
    for (; at < n && at < most; at++) q.text[at] = s[at] >= 0x20 && s[at] < 0x7f ? s[at] : '?';
    for (unsigned dots = 0; at == most && n > most && dots < 3; dots++) q.text[most + dots] = '.';
    q.text[n > most ? most + 3 : at] = 0;
    return q;
}

static void complain(struct reader *r, const char *format, ...) PRINTF_LIKE(2, 3);
static void complain(struct reader *r, const char *format, ...)
{
    char line[512];
    if (!r->complain || r->complaints > COMPLAINTS) return;
    size_t n = print_to(line, sizeof line / 2, "gleaner: %s", r->where);
    if (n > sizeof line / 2 - 1) n = sizeof line / 2 - 1;
    n += print_to(line + n, sizeof line - n, ": ");
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

/* Reading. */

static size_t whole_pages(size_t bytes)
{
    return round_up(bytes, OS_PAGE);
}

static bool make_room(struct suppressions *s)
{
    if (s->count >= PATTERNS) return false;
    if (s->count < s->room) return true;
    size_t before = whole_pages(s->room * sizeof *s->pattern),
           after = before ? 2 * before : OS_PAGE;
    struct pattern *larger = os_map(after);
    if (!larger) return false;
    if (s->count) __builtin_memcpy(larger, s->pattern, s->count * sizeof *larger);
    if (before) os_unmap(s->pattern, before);
    s->pattern = larger;
    s->room = (unsigned)(after / sizeof *larger);
    return true;
}

/* `text` is zero-terminated and stays. */
static bool add(struct suppressions *s, const char *text, size_t length)
{
    if (!make_room(s)) return false;
    const char *dollar = __builtin_memchr(text, '$', length);
    s->pattern[s->count++] = (struct pattern){
        .text = text,
        .length = (uint32_t)(dollar ? (size_t)(dollar - text) : length),
        .to_end = dollar != NULL,
    };
    return true;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* One line, `length` bytes, in a copy that may be written to; false where there is no room for it. */
static bool read_line(struct suppressions *s, char *line, size_t length, unsigned number,
                      struct reader *r)
{
    while (length > 0 && blank(*line)) line++, length--;
    while (length > 0 && blank(line[length - 1])) length--;
    if (length == 0 || *line == '#') return true;
    size_t type = sizeof TYPE - 1;
    if (length < type || __builtin_memcmp(line, TYPE, type) != 0) {
        complain(r, "line %u: '%s' is not leak:PATTERN; skipped", number, quote(line, length).text);
        return true;
    }
    line += type;
    length -= type;
    const char *first = line + (length > 0 && *line == '^');
    if (first == line + length || *first == '$') {
        complain(r, "line %u: an empty pattern would hide every leak; skipped (if so, leak:*)",
                 number);
        return true;
    }
    if (add(s, line, length)) {
        line[length] = 0;
        return true;
    }
    complain(r, "line %u: no room for more patterns; the rest is skipped", number);
    return false;
}

void suppressions_parse(struct suppressions **to, const char *text, size_t bytes, const char *where,
                        void (*tell)(const char *))
{
    struct reader r = {where, tell, 0};
    const char *zero = bytes ? __builtin_memchr(text, 0, bytes) : NULL;
    if (zero) bytes = (size_t)(zero - text);
    if (bytes == 0) return;
    if (!*to && !(*to = os_map(whole_pages(sizeof **to)))) {
        complain(&r, "no memory; skipped");
        return;
    }
    char *copy = bytes < UINT32_MAX ? os_map(whole_pages(bytes + 1)) : NULL;
    if (!copy) {
        complain(&r, "no memory; skipped");
        return;
    }
    __builtin_memcpy(copy, text, bytes);
    unsigned number = 1, before = (*to)->count;
    for (char *at = copy, *end = copy + bytes; at < end; number++) {
        char *line_end = __builtin_memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        if (!read_line(*to, at, (size_t)(line_end - at), number, &r)) break;
        at = line_end + 1;
    }
    if ((*to)->count == before) os_unmap(copy, whole_pages(bytes + 1));
}

bool suppressions_read(struct suppressions **to, const char *path, void (*tell)(const char *))
{
    struct reader r = {path, tell, 0};
    long fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        complain(&r, "cannot be read (%s); no suppressions from there", print_error((int)-fd));
        return false;
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
    bool read = got >= 0 && n <= FILE_LIMIT;
    if (got < 0)
        complain(&r, "cannot be read (%s); no suppressions from there", print_error((int)-got));
    else if (n > FILE_LIMIT)
        complain(&r, "longer than 1 MiB; no suppressions from there");
    else
        suppressions_parse(to, text, n, path, tell);
    if (text) os_unmap(text, FILE_LIMIT + OS_PAGE);
    return read;
}

/* Matching. */

/* The first place of a piece in a name, or NULL. */
static const char *find(const char *name, size_t length, const char *piece, size_t bytes)
{
    if (bytes == 0) return name;
    while (bytes <= length) {
        const char *at = __builtin_memchr(name, piece[0], length - bytes + 1);
        if (!at) return NULL;
        if (__builtin_memcmp(at, piece, bytes) == 0) return at;
        length -= (size_t)(at + 1 - name);
        name = at + 1;
    }
    return NULL;
}

static bool matches(const struct pattern *p, const char *name, size_t length)
{
    const char *at = p->text, *end = at + p->length, *name_end = name + length;
    bool fixed = at < end && *at == '^';
    if (fixed) at++;
    for (;;) {
        const char *star = __builtin_memchr(at, '*', (size_t)(end - at));
        size_t bytes = (size_t)((star ? star : end) - at), left = (size_t)(name_end - name);
        const char *place;
        if (fixed) /* at the start */
            place = bytes <= left && __builtin_memcmp(name, at, bytes) == 0 ? name : NULL;
        else if (!star && p->to_end)
            place = bytes <= left && __builtin_memcmp(name_end - bytes, at, bytes) == 0
                        ? name_end - bytes
                        : NULL;
        else
            place = find(name, left, at, bytes);
        if (!place) return false;
        name = place + bytes;
        if (!star) return !p->to_end || name == name_end;
        at = star + 1;
        fixed = false;
    }
}

int suppressions_match(const struct suppressions *s, const char *function, const char *file,
                       const char *module)
{
    const char *const names[] = {function, file, module};
    size_t length[3];
    if (!s) return -1;
    for (unsigned k = 0; k < 3; k++) length[k] = names[k] ? __builtin_strlen(names[k]) : 0;
    for (unsigned i = 0; i < s->count; i++)
        for (unsigned k = 0; k < 3; k++)
            if (length[k] > 0 && matches(&s->pattern[i], names[k], length[k])) return (int)i;
    return -1;
}

/* The table of what matched. */

void suppressions_count(struct suppressions *s, int number, uint64_t blocks, uint64_t bytes)
{
    if (!s || number < 0 || (unsigned)number >= s->count) return;
    atomic_fetch_add_explicit(&s->pattern[number].blocks, blocks, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->pattern[number].bytes, bytes, memory_order_relaxed);
}

void suppressions_forget(struct suppressions *s)
{
    for (unsigned i = 0; s && i < s->count; i++) {
        atomic_store_explicit(&s->pattern[i].blocks, 0, memory_order_relaxed);
        atomic_store_explicit(&s->pattern[i].bytes, 0, memory_order_relaxed);
    }
}

unsigned suppressions_total(const struct suppressions *s)
{
    return s ? s->count : 0;
}

const char *suppressions_pattern(const struct suppressions *s, unsigned number, uint64_t *blocks,
                                 uint64_t *bytes)
{
    if (!s || number >= s->count) return NULL;
    const struct pattern *p = &s->pattern[number];
    if (blocks) *blocks = atomic_load_explicit(&p->blocks, memory_order_relaxed);
    if (bytes) *bytes = atomic_load_explicit(&p->bytes, memory_order_relaxed);
    return p->text;
}
