/* module.c: the table of modules.

   1. Data.  Records in meta_alloc memory behind an array of pointers (append-only), and an
      open-addressed index by start address.  Two modules that were mapped at the same place one
   after the other are two records.
   2. Synchronisation.  A record is complete before it is published: by fetch-and-add of the count
   and a store into the array, then by compare-and-swap into the index.  Two threads that meet the
      same new module make two records; the index keeps the first, and only its number is given out.
   3. Which of several records with one start address is mapped now?  The one whose `checked`
      is the present epoch; if there is none, path, size and build id are compared with the loader's
      once an epoch.  dlclose moves the epoch after it has unmapped, so what was checked in this
      epoch is still there.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/module.h"
#include "heap/meta.h"
#include "heap/os.h"
#include "heap/syscall.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define INDEX_SIZE (2 * MODULE_MAX)
#define PATH_BYTES 4096

struct record {
    _Atomic uint32_t checked; /* epoch + 1 in which it was seen mapped */
    struct module module;
};

static struct record *_Atomic records[MODULE_MAX];
static _Atomic uint16_t index_of[INDEX_SIZE]; /* number of a module, 0: free */
static _Atomic uint32_t count, dropped;
static char *_Atomic folder; /* that the process started in; NULL: not known */
_Atomic uint32_t module_epoch_now;

#ifdef DLFO_STRUCT_HAS_EH_DBASE
extern int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));
#endif

void module_changed(void)
{
    atomic_fetch_add(&module_epoch_now, 1);
}
uint32_t module_dropped(void)
{
    return atomic_load(&dropped);
}

uint32_t module_count(void)
{
    uint32_t n = atomic_load(&count);
    return n < MODULE_MAX ? n : MODULE_MAX;
}

const struct module *module_get(uint32_t number)
{
    if (number == 0 || number > MODULE_MAX) return NULL;
    struct record *r = atomic_load_explicit(&records[number - 1], memory_order_acquire);
    return r ? &r->module : NULL;
}

bool module_lock_free(void)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    return _dl_find_object != NULL;
#else
    return false;
#endif
}

bool module_object(uintptr_t address, struct module_object *to)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    struct dl_find_object found;
    if (!_dl_find_object || _dl_find_object((void *)address, &found) != 0) return false;
    to->start = (uintptr_t)found.dlfo_map_start;
    to->end = (uintptr_t)found.dlfo_map_end;
    to->link_map = found.dlfo_link_map;
    to->eh_frame_hdr = found.dlfo_eh_frame;
    return true;
#else
    return false;
#endif
}

/* What a record is made of. */
struct description {
    uintptr_t address, start, end, bias;
    const void *link_map;
    const char *path;
    const ElfW(Phdr) * headers;
    unsigned header_count;
};

/* The program headers, as mapped in the first segment.  Of an executable with holes between its segments (node) the loader tells the
   bounds of one segment only. */
static void find_headers(struct description *d)
{
    if (d->link_map && d->link_map == _r_debug.r_map) {
        d->headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
        d->header_count = d->headers ? (unsigned)getauxval(AT_PHNUM) : 0;
        return;
    }
    const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)d->start;
    if (d->end - d->start < sizeof *file || memcmp(file->e_ident, ELFMAG, SELFMAG) != 0) return;
    if (file->e_phentsize != sizeof(ElfW(Phdr)) || file->e_phoff > d->end - d->start ||
        file->e_phnum * sizeof(ElfW(Phdr)) > d->end - d->start - file->e_phoff)
        return;
    d->headers = (const ElfW(Phdr) *)(d->start + file->e_phoff);
    d->header_count = file->e_phnum;
}

static int consider(struct dl_phdr_info *info, size_t bytes, void *user)
{
    struct description *d = user;
    uintptr_t start = UINTPTR_MAX, end = 0;
    bool inside = false;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD) continue;
        uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
        if (from < start) start = from & -OS_PAGE;
        if (to > end) end = to;
        if (d->address >= from && d->address < to) inside = true;
    }
    if (!inside) return 0;
    d->start = start;
    d->end = end;
    d->bias = info->dlpi_addr;
    d->path = info->dlpi_name;
    d->headers = info->dlpi_phdr;
    d->header_count = info->dlpi_phnum;
    return 1;
}

static bool describe(uintptr_t address, struct description *d)
{
    *d = (struct description){.address = address};
    struct module_object object;
    if (!module_lock_free()) return dl_iterate_phdr(consider, d) == 1;
    if (!module_object(address, &object)) return false;
    const struct link_map *map = object.link_map;
    d->start = object.start;
    d->end = object.end;
    d->link_map = map;
    d->bias = map ? map->l_addr : 0;
    d->path = map ? map->l_name : "";
    find_headers(d);
    return true;
}

static unsigned build_id(const struct description *d, uint8_t *to)
{
    for (unsigned i = 0; i < d->header_count; i++) {
        const ElfW(Phdr) *p = &d->headers[i];
        uintptr_t at = d->bias + p->p_vaddr, end = at + p->p_memsz;
        bool outside = d->link_map != _r_debug.r_map && (at < d->start || end > d->end);
        if (p->p_type != PT_NOTE || outside || end < at) continue;
        while (end - at >= sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
            size_t name = round_up(note->n_namesz, 4), body = round_up(note->n_descsz, 4);
            at += sizeof *note;
            if (name > end - at || body > end - at - name) break;
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
                memcmp((void *)at, "GNU", 4) == 0) {
                unsigned bytes =
                    note->n_descsz < MODULE_BUILD_ID ? note->n_descsz : MODULE_BUILD_ID;
                memcpy(to, (void *)(at + name), bytes);
                return bytes;
            }
            at += name + body;
        }
    }
    return 0;
}

static void fill(struct module *m, const struct description *d)
{
    m->start = d->start;
    m->end = d->end;
    m->bias = d->bias;
    m->identity = d->link_map;
    m->first_seen = os_realtime();
    m->epoch = module_epoch();
    m->build_id_bytes = (uint8_t)build_id(d, m->build_id);
    m->text = d->start;
    m->text_end = d->end;
    for (unsigned i = 0; i < d->header_count; i++) {
        const ElfW(Phdr) *p = &d->headers[i];
        uintptr_t from = d->bias + p->p_vaddr;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        if (d->address < from || d->address >= from + p->p_memsz) continue;
        m->text = from & -OS_PAGE;
        m->text_end = round_up(from + p->p_memsz, OS_PAGE);
        m->text_offset = p->p_offset & -(uint64_t)OS_PAGE;
    }
}

/* As the loader was given it: by dlopen, LD_LIBRARY_PATH, or a run path. */
static bool is_relative(const char *path)
{
    return path[0] != 0 && path[0] != '/' && path[0] != '[';
}

static const char *without_dots(const char *path)
{
    while (path[0] == '.' && path[1] == '/') path += 2;
    return path;
}

/* A relative path is kept as one from the folder of the start: whoever reads it later is elsewhere.  If the program had left that, the
   file is found by its build id or not at all. */
static struct record *make(const struct description *d, const char *path)
{
    const char *from = is_relative(path) ? atomic_load(&folder) : NULL;
    if (from) path = without_dots(path);
    size_t length = strlen(path), before = from ? strlen(from) : 0;
    if (length >= PATH_BYTES) length = PATH_BYTES - 1;
    struct record *r = meta_alloc(sizeof *r + before + 1 + length + 1);
    if (!r) return NULL;
    fill(&r->module, d);
    char *to = r->module.path;
    if (from) {
        memcpy(to, from, before);
        to += before;
        if (to[-1] != '/') *to++ = '/';
    }
    memcpy(to, path, length);
    return r;
}

/* Publishes; 0 if the table is full. */
static uint32_t append(struct record *r)
{
    uint32_t n = r ? atomic_fetch_add(&count, 1) : MODULE_MAX;
    if (n >= MODULE_MAX) {
        if (r) atomic_fetch_sub(&count, 1);
        atomic_fetch_add(&dropped, 1);
        return 0;
    }
    atomic_store_explicit(&records[n], r, memory_order_release);
    return n + 1;
}

static bool is_vdso(const struct description *d)
{
    static _Atomic uintptr_t vdso; /* getauxval searches */
    uintptr_t at = atomic_load_explicit(&vdso, memory_order_relaxed);
    if (unlikely(at == 0)) {
        at = getauxval(AT_SYSINFO_EHDR);
        if (at == 0) at = 1; /* none */
        atomic_store_explicit(&vdso, at, memory_order_relaxed);
    }
    return d->start == at;
}

static const char *path_of(const struct description *d)
{
    if (is_vdso(d)) return "[vdso]";
    return d->path ? d->path : "";
}

static bool same(const struct module *m, const struct description *d)
{
    if (m->start != d->start || m->end != d->end || m->bias != d->bias) return false;
    uint8_t id[MODULE_BUILD_ID];
    unsigned bytes = build_id(d, id);
    if (bytes != m->build_id_bytes || memcmp(id, m->build_id, bytes) != 0) return false;
    const char *path = path_of(d), *kept = m->path;
    if (is_relative(path)) {
        path = without_dots(path);
        size_t length = strlen(path), all = strlen(kept);
        if (all > length) kept += all - length;
    }
    return path[0] == 0 || strncmp(path, kept, PATH_BYTES - 1) == 0;
}

static unsigned first_slot(uintptr_t start)
{
    return (unsigned)((start >> 12) * 0x9e3779b97f4a7c15u >> 40) % INDEX_SIZE;
}

/* The index entry for a module that is mapped as `d` says, or its first free slot. */
static uint32_t look_up(const struct description *d, uint32_t now, unsigned *slot)
{
    unsigned at = first_slot(d->start);
    for (unsigned i = 0; i < INDEX_SIZE; i++, at = (at + 1) % INDEX_SIZE) {
        uint32_t n = atomic_load_explicit(&index_of[at], memory_order_acquire);
        *slot = at;
        if (n == 0) return 0;
        struct record *r = atomic_load_explicit(&records[n - 1], memory_order_acquire);
        if (r->module.start != d->start) continue;
        if (atomic_load_explicit(&r->checked, memory_order_relaxed) == now + 1) return n;
        if (!same(&r->module, d)) continue;
        atomic_store_explicit(&r->checked, now + 1, memory_order_relaxed);
        return n;
    }
    *slot = INDEX_SIZE;
    return 0;
}

static uint32_t enter(const struct description *d, const char *path)
{
    uint32_t now = module_epoch(), made = 0;
    for (;;) {
        unsigned slot;
        uint32_t n = look_up(d, now, &slot);
        if (n) return n;
        if (slot == INDEX_SIZE) return 0;
        if (!made) {
            struct record *r = make(d, path);
            if (r) atomic_store(&r->checked, now + 1);
            if (!(made = append(r))) return 0;
        }
        uint16_t free = 0;
        if (atomic_compare_exchange_strong(&index_of[slot], &free, (uint16_t)made)) return made;
    }
}

/* The main program's path; its link map has no name. */
static const char *own_path(char *buffer)
{
    long n = raw_syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", buffer, PATH_BYTES - 1);
    if (n > 0) {
        buffer[n] = 0;
        return buffer;
    }
    const char *name = (const char *)getauxval(AT_EXECFN);
    return name ? name : "";
}

static bool main_program(struct description *d)
{
    uintptr_t entry = getauxval(AT_ENTRY);
    return entry && describe(entry, d);
}

void module_start(void)
{
    struct description d;
    if (module_count() > 0 || !main_program(&d)) return;
    char *path = meta_alloc(PATH_BYTES); /* not on a stack that may be small */
    if (!path) return;
    enter(&d, own_path(path));
    if (raw_syscall(SYS_getcwd, path, PATH_BYTES) > 0 && path[0] == '/') atomic_store(&folder, path);
}

uint32_t module_of(uintptr_t address)
{
    struct description d;
    if (!describe(address, &d)) return 0;
    if (unlikely(module_count() == 0)) module_start();
    return enter(&d, path_of(&d));
}
