/* own_tls.c: our block of thread-local memory lies at the same distance from heap_tls in each thread, since it is part of the static ones
   (DF_STATIC_TLS); a heap knows where its thread's is.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/own_tls.h"
#include "heap/os.h"
#include "heap/thread_heap.h"

#include <link.h>

static ptrdiff_t before; /* bytes of the block before heap_tls */
static size_t bytes;     /* of the block; 0: not known */

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static int look(struct dl_phdr_info *info, size_t size, void *unused)
{
    if (info->dlpi_phdr != (const ElfW(Phdr) *)((uintptr_t)&__ehdr_start + __ehdr_start.e_phoff)) return 0;
    if (size < offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof info->dlpi_tls_data || !info->dlpi_tls_data) return 1;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
        before = (ptrdiff_t)((uintptr_t)&heap_tls - (uintptr_t)info->dlpi_tls_data);
        bytes = info->dlpi_phdr[i].p_memsz;
    }
    if (before < 0 || (size_t)before + sizeof heap_tls > bytes) bytes = 0;
    return 1;
}

void own_tls_start(void) { dl_iterate_phdr(look, NULL); }

size_t own_tls_most(void) { return bytes ? thread_heap_count() : 0; }

/* A thread that ended by the system call alone has left its address behind, and anything may be mapped there by now; but what still
   holds the heap's address at that place is what it was. */
static bool is_still(const struct heap_tls *tls, const struct thread_heap *h)
{
    const struct thread_heap *heap = NULL;
    return os_read_own(&heap, (uintptr_t)&tls->heap, sizeof heap) == (long)sizeof heap && heap == h;
}

/* The words of the thread that has the heap of this number; NULL: none has. */
static const struct heap_tls *words_of(uint32_t number)
{
    struct thread_heap *h = thread_heap_by_number(number);
    const struct heap_tls *tls = h ? atomic_load(&h->tls) : NULL;
    return tls && is_still(tls, h) ? tls : NULL;
}

bool own_tls_slot_in_hand(void)
{
    for (uint32_t i = 0, count = thread_heap_count(); i < count; i++) {
        const struct heap_tls *tls = words_of(i);
        if (tls && tls->slot_in_hand) return true;
    }
    return false;
}

size_t own_tls(struct cut_range *to, size_t room)
{
    size_t n = 0;
    for (uint32_t i = 0, count = (uint32_t)own_tls_most(); i < count; i++) {
        const struct heap_tls *tls = words_of(i);
        if (!tls) continue;
        uintptr_t from = (uintptr_t)tls - (uintptr_t)before;
        if (n < room) to[n] = (struct cut_range){from, from + bytes};
        n++;
    }
    return n;
}
