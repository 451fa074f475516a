/* control_page.c: a page with a name.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/control_page.h"
#include "heap/os.h"
#include "heap/quiet_write.h"
#include "heap/syscall.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#endif

static _Atomic(void *) page;

void control_page_end(void)
{
    void *p = atomic_exchange(&page, NULL);
    if (p) os_unmap(p, OS_PAGE);
}

bool control_page_start(void)
{
    long fd = raw_syscall(SYS_memfd_create, CONTROL_PAGE_NAME, MFD_CLOEXEC);
    if (fd >= 0) {
        struct quiet quiet = quiet_begin();
        raw_syscall(SYS_ftruncate, fd, OS_PAGE); /* not where files may have less: the name is there all the same, and nobody reads the page */
        quiet_end(quiet);
        long p = raw_syscall(SYS_mmap, 0, OS_PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
        raw_syscall(SYS_close, fd);
        if ((unsigned long)p < -4095UL) {
            atomic_store(&page, (void *)p);
            return true;
        }
    }
    void *p = os_map(OS_PAGE);
    if (!p) return false;
    if (raw_syscall(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, OS_PAGE, CONTROL_PAGE_NAME)) {
        os_unmap(p, OS_PAGE);
        return false;
    }
    atomic_store(&page, p);
    return true;
}
