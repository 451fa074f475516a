/* next_symbol.c: a walk over the loader's list of objects and a look into their hash tables (both are described in U. Drepper, "How To
   Write Shared Libraries", 2011, section 1.5).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/next_symbol.h"
#include "heap/base.h"

#include <elf.h>
#include <link.h>

struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash, *hash;
};

/* glibc adds the load address to what the dynamic section says, but where that is read-only. */
static uintptr_t loaded(const struct link_map *m, uintptr_t value)
{
    return value < m->l_addr ? value + m->l_addr : value;
}

static void find_tables(const struct link_map *m, struct tables *t)
{
    *t = (struct tables){.symbols = NULL};
    for (const ElfW(Dyn) *d = m->l_ld; d && d->d_tag != DT_NULL; d++) {
        uintptr_t at = loaded(m, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB) t->symbols = (const ElfW(Sym) *)at;
        if (d->d_tag == DT_STRTAB) t->strings = (const char *)at;
        if (d->d_tag == DT_GNU_HASH) t->gnu_hash = (const uint32_t *)at;
        if (d->d_tag == DT_HASH) t->hash = (const uint32_t *)at;
    }
}

static bool is_it(const struct tables *t, uint32_t i, const char *name)
{
    const ElfW(Sym) *s = &t->symbols[i];
    const char *a = t->strings + s->st_name;
    if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC) return false;
    while (*a && *a == *name) a++, name++;
    return *a == *name;
}

/* The index of a symbol; 0: there is none. */
static uint32_t by_gnu_hash(const struct tables *t, const char *name)
{
    uint32_t h = 5381, buckets = t->gnu_hash[0], first = t->gnu_hash[1], words = t->gnu_hash[2];
    for (const char *c = name; *c; c++) h = h * 33 + (unsigned char)*c;
    const uint32_t *bucket = t->gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t i = buckets ? bucket[h % buckets] : 0;
    if (i < first) return 0;
    for (;; i++) {
        uint32_t is = chain[i - first];
        if ((is | 1) == (h | 1) && is_it(t, i, name)) return i;
        if (is & 1) return 0;
    }
}

static uint32_t by_hash(const struct tables *t, const char *name)
{
    uint32_t h = 0, buckets = t->hash[0];
    for (const char *c = name; *c; c++) {
        h = (h << 4) + (unsigned char)*c;
        uint32_t high = h & 0xf0000000;
        h = (h ^ high >> 24) & ~high;
    }
    uint32_t i = buckets ? t->hash[2 + h % buckets] : 0;
    while (i != 0 && !is_it(t, i, name)) i = t->hash[2 + buckets + i];
    return i;
}

static void *find(const char *name, bool after)
{
    for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next) {
        if (m->l_ld == _DYNAMIC) {
            after = true;
            continue; /* our own */
        }
        struct tables t;
        if (!after) continue;
        find_tables(m, &t);
        if (!t.symbols || !t.strings || (!t.gnu_hash && !t.hash)) continue;
        uint32_t i = t.gnu_hash ? by_gnu_hash(&t, name) : by_hash(&t, name);
        if (i != 0) return (void *)(m->l_addr + t.symbols[i].st_value);
    }
    return NULL;
}

void *next_symbol(const char *name) { return find(name, false); }
void *any_symbol(const char *name) { return find(name, true); }
