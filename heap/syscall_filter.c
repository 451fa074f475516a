/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/syscall_filter.h"
#include "heap/proc_text.h"

#include <fcntl.h>

bool syscall_filter_is_on(void)
{
    char buffer[512];
    struct proc_text text;
    bool on = true;
    if (proc_open(&text, AT_FDCWD, "/proc/thread-self/status", buffer, sizeof buffer) != 0) return true;
    for (const char *line; (line = proc_line(&text));) {
        const char *value = proc_after(line, "Seccomp:");
        if (!value) continue;
        on = *proc_skip_spaces(value) != '0';
        break;
    }
    proc_close(&text);
    return on;
}
