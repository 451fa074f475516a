/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/find_profile.h"
#include "report/basics.h"
#include "report/profile_read.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The pattern as glob takes it. */
static char *glob_of(const char *pattern, int pid)
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!to) return NULL;
    for (; *pattern; pattern++) {
        if (*pattern != '%') {
            if (strchr("*?[\\", *pattern)) fputc('\\', to);
            fputc(*pattern, to);
        } else if (pattern[1] == '%' || !pattern[1]) {
            fputc('%', to);
            pattern += pattern[1] == '%';
        } else if (*++pattern == 'p') {
            fprintf(to, "%d", pid);
        } else {
            fputc('*', to);
        }
    }
    fclose(to);
    return text;
}

static int64_t changed(const char *path)
{
    struct stat is;
    return stat(path, &is) || !S_ISREG(is.st_mode) ? -1 : (int64_t)is.st_mtim.tv_sec;
}

static int compare_ages(const void *a, const void *b)
{
    int64_t left = changed(*(char *const *)a), right = changed(*(char *const *)b);
    return (left < right) - (left > right);
}

static struct profile *read_if(const char *path, int pid)
{
    char problem[PROBLEM_BYTES];
    struct bytes bytes;
    if (!file_read(path, &bytes, problem)) return NULL;
    struct profile *profile = profile_parse(path, bytes, problem);
    const char *reason = profile ? head_text(profile, "reason") : NULL;
    if (profile && head_number(profile, "pid") == pid && reason && !strcmp(reason, "exit"))
        return profile;
    profile_free(profile);
    return NULL;
}

struct profile *find_profile(const char *pattern, int pid, int64_t since, char **path)
{
    struct profile *found = NULL;
    glob_t names = {0};
    char *wanted = glob_of(pattern, pid);
    *path = NULL;
    if (wanted && !glob(wanted, GLOB_NOSORT, NULL, &names)) {
        qsort(names.gl_pathv, names.gl_pathc, sizeof *names.gl_pathv, compare_ages);
        for (size_t i = 0; i < names.gl_pathc && !found && changed(names.gl_pathv[i]) >= since;
             i++) {
            *path = need_copy(names.gl_pathv[i]); /* the profile points to it */
            found = read_if(*path, pid);
            if (found) break;
            free(*path);
            *path = NULL;
        }
        globfree(&names);
    }
    free(wanted);
    return found;
}
