/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall_filter.h"
#include "heap/proc_text.h"

bool syscall_filter_is_on(void)
{
    uint64_t mode;
    return !proc_status("Seccomp:", &mode) || mode != 0;
}
