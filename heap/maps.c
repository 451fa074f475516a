/* maps.c: parsing /proc/…/maps.

   1. Data.  One mapping holds the list and, behind it, the buffer that the text is read through.
   2. A process may have 65,000 mappings and more.  A list that turns out too short is given back and the file is read
      again, instead of growing: what the list shows would otherwise hold memory that is gone when it is used, and a
      snapshot child that compares it with its own would miss it (unfrozen.c).  For the same reason the list's own
      memory is cut out.
   3. What a mapping is, follows from its name (proc_pid_maps(5)); a name that is no path and not known here is the
      kernel's or a driver's, and is not touched.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/maps.h"
#include "heap/os.h"
#include "heap/proc_text.h"

#include <fcntl.h>

#define FIRST_ROOM ((size_t)16384)
#define MOST_ROOM ((size_t)1 << 26)
#define TEXT_BYTES (64 * KIB)

static size_t list_bytes(size_t room)
{
    return round_up(room * sizeof(struct map), OS_PAGE);
}

static bool has(const char *text, const char *prefix)
{
    return proc_after(text, prefix) != NULL;
}

static uint8_t bracket_kind(const char *name)
{
    if (has(name, "[heap]") || has(name, "[anon")) return MAP_KIND_ANONYMOUS;
    /* "[stack:TID]", Linux 3.4 to 4.4: wherever a thread's stack pointer was. */
    if (has(name, "[stack:")) return MAP_KIND_ANONYMOUS;
    if (has(name, "[stack]")) return MAP_KIND_MAIN_STACK;
    return MAP_KIND_KERNEL;
}

/* Memory that has a name: `*cut_short` if by a file that can be truncated. */
static bool is_named_memory(const char *name, bool *cut_short)
{
    static const char *const firm[] = {"/dev/zero", "/SYSV", "/anon_hugepage", "/secretmem"};
    static const char *const soft[] = {"/memfd:", "/dev/shm/", "/run/shm/", "/dev/hugepages"};
    for (size_t i = 0; i < sizeof firm / sizeof *firm; i++) {
        if (has(name, firm[i])) return true;
    }
    for (size_t i = 0; i < sizeof soft / sizeof *soft; i++) {
        if (has(name, soft[i])) return *cut_short = true;
    }
    return false;
}

static bool is_device(const char *name)
{
    static const char *const of_devices[] = {"/dev/",   "/sys/",          "/proc/",
                                             "/dmabuf", "/drm mm object", "/i915"};
    if (name[0] != '/') return true; /* socket:[…], anon_inode:…: a driver's */
    for (size_t i = 0; i < sizeof of_devices / sizeof *of_devices; i++) {
        if (has(name, of_devices[i])) return true;
    }
    return false;
}

static uint8_t kind_of(const char *name, bool *cut_short)
{
    *cut_short = false;
    if (name[0] == 0) return MAP_KIND_ANONYMOUS;
    if (name[0] == '[') return bracket_kind(name);
    if (has(name, "/[aio]") || has(name, "anon_inode:[io_uring]")) return MAP_KIND_RING;
    if (is_named_memory(name, cut_short)) return MAP_KIND_ANONYMOUS;
    if (is_device(name)) return MAP_KIND_DEVICE;
    *cut_short = true;
    return MAP_KIND_FILE;
}

/* "from-to perms offset device inode   name"; false for a line that is none. */
static bool parse(const char *line, struct map *to)
{
    uint64_t from, until, skipped;
    const char *p = proc_hex(line, &from);
    if (p == line || *p != '-') return false;
    p = proc_hex(p + 1, &until);
    if (*p++ != ' ') return false;
    for (int i = 0; i < 4; i++) {
        if (!p[i]) return false;
    }
    *to = (struct map){.from = from, .to = until};
    to->readable = p[0] == 'r';
    to->writable = p[1] == 'w';
    to->executable = p[2] == 'x';
    to->shared = p[3] == 's';
    p = proc_hex(proc_skip_spaces(p + 4), &skipped);
    p = proc_skip_spaces(p);
    while (*p && *p != ' ') p++; /* major:minor */
    p = proc_decimal(proc_skip_spaces(p), &skipped);
    bool cut_short;
    to->kind = kind_of(proc_skip_spaces(p), &cut_short);
    to->cut_short = cut_short;
    return true;
}

/* Cuts [from, to) out of the list, which has room for one mapping more. */
static void leave_out(struct maps *m, uintptr_t from, uintptr_t to)
{
    size_t i = maps_from(m, from);
    while (i < m->count && m->map[i].from < to) {
        struct map *at = &m->map[i], whole = *at;
        size_t parts = (whole.from < from) + (to < whole.to);
        __builtin_memmove(at + parts, at + 1, (m->count - i - 1) * sizeof *at);
        m->count = m->count + parts - 1;
        if (whole.from < from) *at = whole, at++->to = from;
        if (to < whole.to) *at = whole, at->from = to;
        i += parts;
    }
}

/* False if the list is too short; then it must be read again. */
static bool fill(struct maps *m, struct proc_text *text)
{
    for (char *line; (line = proc_line(text));) {
        if (m->count + 1 == m->room) return false;
        if (parse(line, &m->map[m->count])) m->count++;
    }
    return true;
}

bool maps_read(struct maps *to, const char *path)
{
    *to = (struct maps){0};
    for (size_t room = FIRST_ROOM; room <= MOST_ROOM; room *= 4) {
        size_t bytes = list_bytes(room) + TEXT_BYTES;
        char *memory = os_map(bytes);
        if (!memory) {
            to->no_memory = true;
            return false;
        }
        *to = (struct maps){.map = (struct map *)memory, .room = room};
        struct proc_text text;
        bool opened = proc_open(&text, AT_FDCWD, path, memory + list_bytes(room), TEXT_BYTES) == 0;
        bool enough = opened && fill(to, &text);
        proc_close(&text);
        /* Of a process whose main thread has ended /proc/self/maps is empty. */
        if (enough && !text.failed && to->count > 0) {
            leave_out(to, (uintptr_t)memory, (uintptr_t)memory + bytes);
            return true;
        }
        maps_free(to);
        if (!opened || enough) return false;
    }
    return false;
}

void maps_free(struct maps *m)
{
    if (m->map) os_unmap(m->map, list_bytes(m->room) + TEXT_BYTES);
    *m = (struct maps){0};
}

size_t maps_from(const struct maps *m, uintptr_t address)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->map[middle].to > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

const struct map *maps_find(const struct maps *m, uintptr_t address)
{
    size_t i = maps_from(m, address);
    return i < m->count && m->map[i].from <= address ? &m->map[i] : NULL;
}
