/* list.c: `gleaner list`.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/commands.h"
#include "report/options.h"
#include "report/target.h"

#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "Usage: gleaner list\n"
                           "Lists the processes that run under Gleaner: those of the calling user, "
                           "or of everybody for root.\n"
                           "\n"
                           "  -h, --help  this text\n";

static void age_text(double seconds, char *to, size_t bytes)
{
    long s = (long)seconds;
    if (seconds < 0)
        snprintf(to, bytes, "-");
    else if (s < 60)
        snprintf(to, bytes, "%lds", s);
    else if (s < 3600)
        snprintf(to, bytes, "%ldm%02lds", s / 60, s % 60);
    else if (s < 86400)
        snprintf(to, bytes, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else
        snprintf(to, bytes, "%ldd%02ldh", s / 86400, s / 3600 % 24);
}

static void print_target(int pid)
{
    struct target target;
    char *command = target_command(pid);
    if (command && target_read(pid, &target) && !target.zombie) { /* it may have ended meanwhile */
        char user[40], rss[32], age[32];
        const struct passwd *entry = getpwuid(target.uid);
        snprintf(user, sizeof user, "%u", target.uid);
        if (entry) snprintf(user, sizeof user, "%s", entry->pw_name);
        age_text(target_age(&target), age, sizeof age);
        printf("%7d %-12s %10s %8s  %s\n", pid, user, human_bytes((double)target.rss, rss), age,
               command);
    }
    free(command);
}

static int compare_pids(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int command_list(int argc, char **argv)
{
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) return show_help(help);
    if (argc > 1) usage_error("list", "list takes no argument, not '%s'", argv[1]);
    DIR *proc = opendir("/proc");
    if (!proc) {
        say("/proc is not mounted");
        return EXIT_PROBLEM;
    }
    int *pids = NULL;
    size_t count = 0, room = 0;
    for (struct dirent *entry; (entry = readdir(proc));) {
        int64_t pid;
        if (!parse_number(entry->d_name, 1, INT32_MAX, &pid)) continue;
        if (target_state((int)pid) != TARGET_OURS) continue;
        pids = need_more(pids, count, &room, sizeof *pids);
        pids[count++] = (int)pid;
    }
    closedir(proc);
    if (count) {
        qsort(pids, count, sizeof *pids, compare_pids);
        printf("%7s %-12s %10s %8s  %s\n", "PID", "USER", "RSS", "AGE", "COMMAND");
    } else {
        say("no process that may be looked at runs under Gleaner");
    }
    for (size_t i = 0; i < count; i++) print_target(pids[i]);
    free(pids);
    return finish_output();
}
