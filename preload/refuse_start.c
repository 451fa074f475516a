/* refuse_start.c: what can be known at the start.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/next_symbol.h"
#include "preload/refuse.h"
#include "preload/scope.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

/* Go's linker leaves a note named "Go" in every executable. */
static bool is_go(void)
{
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    size_t n = getauxval(AT_PHNUM);
    uintptr_t bias = 0;
    for (size_t i = 0; p && i < n; i++)
        if (p[i].p_type == PT_PHDR) bias = (uintptr_t)p - p[i].p_vaddr;
    for (size_t i = 0; p && i < n; i++) {
        if (p[i].p_type != PT_NOTE) continue;
        const char *at = (const char *)(bias + p[i].p_vaddr), *end = at + p[i].p_memsz;
        while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)at;
            const char *name = at + sizeof *note;
            if (note->n_namesz > (size_t)(end - name)) break;
            if (note->n_namesz == 4 && memcmp(name, "Go\0", 4) == 0) return true;
            at = name + ((note->n_namesz + 3u) & ~3u) + ((note->n_descsz + 3u) & ~3u);
        }
    }
    return false;
}

const char *refuse_at_start(void)
{
    if (scope_find() == SCOPE_OTHER) return "the program has an allocator of its own";
    if (is_go() || any_symbol("crosscall2")) return "a program of Go's keeps pointers where nobody sees them";
    if (any_symbol("_ZN2v87Isolate7DisposeEv") || any_symbol("_ZN2v82V810InitializeEi"))
        return "V8 keeps pointers where nobody sees them";
    if (any_symbol("JNI_CreateJavaVM")) return "a Java virtual machine keeps pointers where nobody sees them";
    return NULL;
}
