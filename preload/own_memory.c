/* own_memory.c: a small table; what is in it is mapped at start, and a few ranges a collection.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/own_memory.h"
#include "heap/os.h"

#include <elf.h>
#include <link.h>

/* from is 0 in a free place, 1 in one that is being filled. */
static struct {
    _Atomic uintptr_t from, to;
} ranges[OWN_RANGES];

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

bool own_memory_add(uintptr_t from, uintptr_t to)
{
    for (unsigned i = 0; i < OWN_RANGES; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&ranges[i].from, &none, 1)) continue;
        atomic_store(&ranges[i].to, to);
        atomic_store(&ranges[i].from, from);
        return true;
    }
    return false;
}

void own_memory_remove(uintptr_t from)
{
    for (unsigned i = 0; i < OWN_RANGES; i++) {
        uintptr_t is = from;
        if (atomic_compare_exchange_strong(&ranges[i].from, &is, 0)) return;
    }
}

void *own_map(size_t bytes)
{
    void *p = os_map(bytes);
    if (p) own_memory_add((uintptr_t)p, (uintptr_t)p + bytes);
    return p;
}

void own_unmap(void *p, size_t bytes)
{
    own_memory_remove((uintptr_t)p);
    os_unmap(p, bytes);
}

/* The segments that can be written, our thread-local template among them. */
static size_t own_data(struct cut_range *to, size_t room)
{
    uintptr_t base = (uintptr_t)&__ehdr_start;
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)(base + __ehdr_start.e_phoff);
    size_t n = 0;
    for (unsigned i = 0; i < __ehdr_start.e_phnum; i++) {
        if (p[i].p_type != PT_LOAD || !(p[i].p_flags & PF_W)) continue;
        if (n < room)
            to[n] = (struct cut_range){(base + p[i].p_vaddr) & ~(OS_PAGE - 1),
                                       round_up(base + p[i].p_vaddr + p[i].p_memsz, OS_PAGE)};
        n++;
    }
    return n;
}

bool own_text_holds(uintptr_t address)
{
    uintptr_t base = (uintptr_t)&__ehdr_start;
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)(base + __ehdr_start.e_phoff);
    for (unsigned i = 0; i < __ehdr_start.e_phnum; i++)
        if (p[i].p_type == PT_LOAD && (p[i].p_flags & PF_X) && address - base - p[i].p_vaddr < p[i].p_memsz) return true;
    return false;
}

size_t own_memory(struct cut_range *to, size_t room)
{
    size_t n = own_data(to, room);
    for (unsigned i = 0; i < OWN_RANGES; i++) {
        uintptr_t from = atomic_load(&ranges[i].from), end = atomic_load(&ranges[i].to);
        if (from <= 1) continue;
        if (n < room) to[n] = (struct cut_range){from, end};
        n++;
    }
    return n;
}
