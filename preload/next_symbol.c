/* next_symbol.c: a walk over the loader's list of objects and a look into their hash tables (both are described in U. Drepper, "How To
   Write Shared Libraries", 2011, section 1.5).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/next_symbol.h"
#include "heap/base.h"
#include "heap/syscall.h"
#include "preload/own_memory.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash, *hash;
    bool any_kind; /* indirect functions too, whose symbol gives no address to call */
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
    if (s->st_shndx == SHN_UNDEF || (ELF64_ST_TYPE(s->st_info) != STT_FUNC && !t->any_kind)) return false;
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

static uint32_t find(const struct tables *t, const char *name)
{
    if (!t->symbols || !t->strings || (!t->gnu_hash && !t->hash)) return 0;
    return t->gnu_hash ? by_gnu_hash(t, name) : by_hash(t, name);
}

static void *find_in(const char *name, bool after)
{
    for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next) {
        if (m->l_ld == _DYNAMIC) {
            after = true;
            continue; /* our own */
        }
        struct tables t;
        if (!after) continue;
        find_tables(m, &t);
        uint32_t i = find(&t, name);
        if (i != 0) return (void *)(m->l_addr + t.symbols[i].st_value);
    }
    return NULL;
}

void *next_symbol(const char *name) { return find_in(name, false); }
void *any_symbol(const char *name) { return find_in(name, true); }

bool defined_before_us(const char *name)
{
    for (const struct link_map *m = _r_debug.r_map; m && m->l_ld != _DYNAMIC; m = m->l_next) {
        struct tables t;
        find_tables(m, &t);
        t.any_kind = true;
        if (find(&t, name) != 0) return true;
    }
    return false;
}

/* Is it safe to make [from, to) writable for a moment?  Not where code may lie in the same pages. */
static bool holds_no_code(const struct link_map *m, uintptr_t from, uintptr_t to)
{
    const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)m->l_addr;
    if (m->l_addr == 0 || __builtin_memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 || file->e_phentsize != sizeof(ElfW(Phdr)))
        return false;
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)(m->l_addr + file->e_phoff);
    for (unsigned i = 0; i < file->e_phnum; i++, p++) {
        uintptr_t begins = m->l_addr + p->p_vaddr, ends = begins + p->p_memsz;
        if (p->p_type == PT_LOAD && begins <= from && to <= ends) return p->p_flags == PF_R;
    }
    return false;
}

#define REDIRECTED_MOST 64u

/* All symbols in one stretch that is made writable once, since every process pays for it. */
static void redirect(const struct link_map *m, const struct tables *t, const uint32_t *its, const uintptr_t *to, unsigned count)
{
    uint32_t first = UINT32_MAX, last = 0;
    for (unsigned i = 0; i < count; i++) {
        if (its[i] == 0) continue;
        if (its[i] < first) first = its[i];
        if (its[i] > last) last = its[i];
    }
    if (last == 0) return;
    uintptr_t page = getauxval(AT_PAGESZ), from = (uintptr_t)&t->symbols[first], end = (uintptr_t)&t->symbols[last + 1];
    if (!holds_no_code(m, from, end)) return;
    from &= -page;
    end = (end + page - 1) & -page;
    if (raw_syscall(SYS_mprotect, from, end - from, PROT_READ | PROT_WRITE) != 0) return;
    for (unsigned i = 0; i < count; i++)
        if (its[i] != 0)
            __atomic_store_n((ElfW(Addr) *)(uintptr_t)&t->symbols[its[i]].st_value, to[i] - m->l_addr, __ATOMIC_RELAXED);
    raw_syscall(SYS_mprotect, from, end - from, PROT_READ);
    /* Copied pages now, and so would be roots: of file offsets and indices, which pass for addresses at odd places. */
    own_memory_add(from, end);
}

void next_symbols_redirect(const char *of, const char *const *names, unsigned count)
{
    struct tables ours = {.symbols = NULL};
    uintptr_t our_base = 0, to[REDIRECTED_MOST];
    uint32_t its[REDIRECTED_MOST];
    for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next) {
        struct tables t;
        find_tables(m, &t);
        if (m->l_ld == _DYNAMIC) {
            ours = t;
            our_base = m->l_addr;
        } else if (ours.symbols && find(&t, of) != 0) {
            for (unsigned n = 0; n < count && n < REDIRECTED_MOST; n++) {
                uint32_t our = find(&ours, names[n]);
                its[n] = our ? find(&t, names[n]) : 0;
                to[n] = our ? our_base + ours.symbols[our].st_value : 0;
            }
            redirect(m, &t, its, to, count < REDIRECTED_MOST ? count : REDIRECTED_MOST);
            return;
        }
    }
}
