/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/start_folder.h"
#include "heap/print.h"
#include "heap/syscall.h"
#include "preload/config.h"

static char folder[CONFIG_PATH]; /* empty: unknown, or out of reach */

void start_folder_note(void)
{
    long n = raw_syscall(SYS_getcwd, folder, sizeof folder);
    if (n <= 0 || folder[0] != '/') folder[0] = 0;
}

size_t start_folder_path(char *to, size_t bytes, const char *name)
{
    if (name[0] != '/' && folder[0] != 0) {
        size_t n = print_to(to, bytes, "%s/%s", folder, name);
        if (n < bytes) return n;
    }
    return print_to(to, bytes, "%s", name);
}
