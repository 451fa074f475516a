/* exported.c: symbol tables as the loader sees them.

   1. Data.  For each module that was asked for: a copy of its string table, and an array of its functions by ascending address.
   2. Safety.  Another thread may unmap the module at any time (dlclose), so nothing of it is loaded from: all is read by
      /proc/self/mem, which fails where nothing is mapped.  What was read may be torn or another module's by then: all
      numbers are checked against the module's bounds and those of the copies.
   3. The number of symbols stands in no entry of the dynamic section; it is the greatest index that a hash table holds.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/exported.h"
#include "heap/os.h"
#include "heap/sort.h"
#include "heap/syscall.h"
#include "sampler/module.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>

#define HEADERS 64
#define DYNAMICS 256
#define SYMBOLS ((size_t)1 << 20)
#define STRINGS (64 * MIB)

struct function {
    uint64_t value; /* address in the module, without its bias */
    uint32_t size, name;
};

struct table {
    struct function *function;
    size_t functions, function_bytes;
    char *strings;
    size_t string_bytes, string_map;
    bool made; /* also where it is empty */
};

struct exported {
    long memory; /* /proc/self/mem */
    struct table of[MODULE_MAX + 1];
};

static size_t whole_pages(size_t bytes)
{
    return round_up(bytes, OS_PAGE);
}

struct exported *exported_open(void)
{
    long fd = raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    struct exported *e = os_map(whole_pages(sizeof *e));
    if (e)
        e->memory = fd;
    else
        raw_syscall(SYS_close, fd);
    return e;
}

void exported_close(struct exported *e)
{
    if (!e) return;
    raw_syscall(SYS_close, e->memory);
    for (size_t i = 0; i <= MODULE_MAX; i++) {
        if (e->of[i].function) os_unmap(e->of[i].function, e->of[i].function_bytes);
        if (e->of[i].strings) os_unmap(e->of[i].strings, e->of[i].string_map);
    }
    os_unmap(e, whole_pages(sizeof *e));
}

/* Where the tables of a module lie: addresses. */
struct places {
    uintptr_t symbols, strings, gnu_hash, hash;
    size_t string_bytes, symbol_count;
};

static bool read_at(const struct exported *e, const struct module *m, uintptr_t at, void *to,
                    size_t bytes)
{
    if (at < m->start || at > m->end || bytes > m->end - at) return false;
    for (char *c = to; bytes > 0;) {
        long got = raw_syscall(SYS_pread64, e->memory, c, bytes, at);
        if (got <= 0) return false;
        c += got;
        at += (uintptr_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool find_dynamic(const struct exported *e, const struct module *m, uintptr_t *at,
                         size_t *count)
{
    ElfW(Ehdr) file;
    ElfW(Phdr) header;
    if (!read_at(e, m, m->start, &file, sizeof file)) return false;
    if (__builtin_memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_phentsize != sizeof header ||
        file.e_phoff > m->end - m->start)
        return false;
    for (unsigned i = 0; i < file.e_phnum && i < HEADERS; i++) {
        if (!read_at(e, m, m->start + file.e_phoff + i * sizeof header, &header, sizeof header))
            return false;
        if (header.p_type != PT_DYNAMIC) continue;
        *at = m->bias + header.p_vaddr;
        *count = header.p_memsz / sizeof(ElfW(Dyn));
        return true;
    }
    return false;
}

/* glibc adds the bias to the addresses in the section as it loads a module, save where that is read-only (the vdso's). */
static uintptr_t biased(const struct module *m, uintptr_t address)
{
    return address < m->start ? address + m->bias : address;
}

static bool find_places(const struct exported *e, const struct module *m, struct places *p)
{
    ElfW(Dyn) d;
    uintptr_t at;
    size_t count;
    *p = (struct places){0};
    if (!find_dynamic(e, m, &at, &count)) return false;
    for (size_t i = 0; i < count && i < DYNAMICS; i++) {
        if (!read_at(e, m, at + i * sizeof d, &d, sizeof d)) return false;
        if (d.d_tag == DT_NULL) break;
        switch (d.d_tag) {
        case DT_SYMTAB:
            p->symbols = biased(m, d.d_un.d_ptr);
            break;
        case DT_STRTAB:
            p->strings = biased(m, d.d_un.d_ptr);
            break;
        case DT_STRSZ:
            p->string_bytes = d.d_un.d_val;
            break;
        case DT_GNU_HASH:
            p->gnu_hash = biased(m, d.d_un.d_ptr);
            break;
        case DT_HASH:
            p->hash = biased(m, d.d_un.d_ptr);
            break;
        case DT_SYMENT:
            if (d.d_un.d_val != sizeof(ElfW(Sym))) return false;
            break;
        }
    }
    return p->symbols && p->strings && p->string_bytes > 0 && p->string_bytes <= STRINGS;
}

/* Words of a table, read in pieces. */
struct words {
    uintptr_t at;
    size_t first, count; /* in `word` */
    uint32_t word[1024];
};

static bool word_of(const struct exported *e, const struct module *m, struct words *w, size_t i,
                    uint32_t *to)
{
    if (i < w->first || i >= w->first + w->count) {
        uintptr_t from = w->at + i * sizeof *w->word;
        if (from < m->start || from >= m->end) return false;
        size_t left = (m->end - from) / sizeof *w->word, most = sizeof w->word / sizeof *w->word;
        w->first = i;
        w->count = left < most ? left : most;
        while (!read_at(e, m, from, w->word, w->count * sizeof *w->word))
            if ((w->count /= 2) == 0) return false; /* the mapping ends earlier */
    }
    *to = w->word[i - w->first];
    return true;
}

static size_t count_by_hash(const struct exported *e, const struct module *m, uintptr_t hash)
{
    uint32_t head[2]; /* buckets, and entries of the chain: as many as symbols */
    return read_at(e, m, hash, head, sizeof head) ? head[1] : 0;
}

static size_t count_by_gnu_hash(const struct exported *e, const struct module *m, uintptr_t hash)
{
    uint32_t head[4], last = 0, value; /* buckets, index of the first symbol, words of the filter */
    if (!read_at(e, m, hash, head, sizeof head) || head[0] > SYMBOLS || head[2] > SYMBOLS) return 0;
    struct words w = {.at = hash + sizeof head + head[2] * sizeof(ElfW(Addr))};
    for (size_t i = 0; i < head[0]; i++) {
        if (!word_of(e, m, &w, i, &value)) return 0;
        if (value > last) last = value;
    }
    if (last < head[1]) return head[1]; /* no bucket is in use */
    do {                                /* the last chain, to its end */
        if (!word_of(e, m, &w, head[0] + (last - head[1]), &value)) return 0;
        last++;
    } while ((value & 1) == 0 && last < SYMBOLS);
    return last;
}

static bool less(const void *one, const void *other)
{
    const struct function *a = one, *b = other;
    return a->value != b->value ? a->value < b->value : a->name < b->name;
}

static void read_functions(const struct exported *e, const struct module *m, const struct places *p,
                           struct table *t)
{
    ElfW(Sym) symbol[128];
    for (size_t i = 0; i < p->symbol_count;) {
        size_t n = p->symbol_count - i, most = sizeof symbol / sizeof *symbol;
        if (n > most) n = most;
        if (!read_at(e, m, p->symbols + i * sizeof *symbol, symbol, n * sizeof *symbol)) break;
        for (size_t k = 0; k < n; k++) {
            const ElfW(Sym) *s = &symbol[k];
            unsigned type = ELF64_ST_TYPE(s->st_info);
            if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF ||
                s->st_size == 0 || s->st_size > UINT32_MAX || s->st_name >= t->string_bytes)
                continue;
            t->function[t->functions++] =
                (struct function){s->st_value, (uint32_t)s->st_size, s->st_name};
        }
        i += n;
    }
    sort_in_place(t->function, t->functions, sizeof *t->function, less);
}

static void make(const struct exported *e, uint32_t number, struct table *t)
{
    const struct module *m = module_get(number);
    struct module_object now;
    struct places p;
    t->made = true;
    if (!m || !module_object(m->text, &now) || now.start != m->start || now.link_map != m->identity)
        return;
    if (!find_places(e, m, &p)) return;
    p.symbol_count = p.gnu_hash ? count_by_gnu_hash(e, m, p.gnu_hash)
                     : p.hash   ? count_by_hash(e, m, p.hash)
                                : 0;
    if (p.symbol_count == 0 || p.symbol_count > SYMBOLS) return;
    t->string_map = whole_pages(p.string_bytes + 1); /* one more: the copy ends with a zero */
    t->strings = os_map(t->string_map);
    if (!t->strings || !read_at(e, m, p.strings, t->strings, p.string_bytes)) return;
    t->string_bytes = p.string_bytes;
    t->function_bytes = whole_pages(p.symbol_count * sizeof *t->function);
    t->function = os_map(t->function_bytes);
    if (t->function) read_functions(e, m, &p, t);
}

/* Of names for one function the first without an underscore before it. */
static const char *name_of(const struct table *t, size_t i)
{
    const struct function *f = t->function;
    size_t best = i;
    for (size_t k = i; t->strings[f[best].name] == '_' && f[k].value == f[i].value; k--) {
        if (t->strings[f[k].name] != '_') best = k;
        if (k == 0) break;
    }
    return t->strings + f[best].name;
}

size_t exported_name(struct exported *e, uint32_t number, uintptr_t address, char *to, size_t bytes)
{
    const struct module *m = module_get(number);
    if (bytes > 0) *to = 0;
    if (!e || !m) return 0;
    struct table *t = &e->of[number];
    if (!t->made) make(e, number, t);
    uint64_t value = address - m->bias;
    size_t low = 0, high = t->functions;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->function[middle].value <= value)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || value - t->function[low - 1].value >= t->function[low - 1].size) return 0;
    const char *name = name_of(t, low - 1);
    size_t length = __builtin_strlen(name), kept = length < bytes ? length : bytes - 1;
    if (bytes == 0) return length;
    __builtin_memcpy(to, name, kept);
    to[kept] = 0;
    return length;
}
