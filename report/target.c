/* target.c: what /proc says of another process.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/target.h"
#include "report/basics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *open_proc(int pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return fopen(path, "re");
}

/* The control page of preload/control_page.h: a memory file, or a named anonymous page where there
   are none. */
static bool is_control_page(const char *line)
{
    static const char *const names[] = {"/memfd:gleaner-1", "[anon:gleaner-1]"};
    const char *name = line + strcspn(line, "/["); /* the first five columns have neither */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (!strncmp(name, names[i], length) && (name[length] == '\n' || name[length] == ' '))
            return true;
    }
    return false;
}

enum target_state target_state(int pid)
{
    FILE *maps = open_proc(pid, "maps");
    if (!maps) return errno == ENOENT || errno == ESRCH ? TARGET_GONE : TARGET_CLOSED;
    enum target_state state = TARGET_OTHER;
    char *line = NULL;
    size_t room = 0;
    errno = 0;
    while (state == TARGET_OTHER && getline(&line, &room, maps) > 0)
        if (is_control_page(line)) state = TARGET_OURS;
    if (state == TARGET_OTHER && ferror(maps)) state = errno == ESRCH ? TARGET_GONE : TARGET_CLOSED;
    free(line);
    fclose(maps);
    return state;
}

/* Field 22 of stat; the name in field 2 may hold spaces and parentheses. */
static bool read_start_time(int pid, struct target *to)
{
    FILE *stat = open_proc(pid, "stat");
    char line[1024];
    size_t length = stat ? fread(line, 1, sizeof line - 1, stat) : 0;
    if (stat) fclose(stat);
    line[length] = 0;
    char *at = strrchr(line, ')');
    if (!at || !at[1]) return false;
    to->zombie = at[2] == 'Z' || at[2] == 'X';
    for (int field = 2; field < 22; field++) {
        at = strchr(at + 1, ' ');
        if (!at) return false;
    }
    return sscanf(at, " %" SCNu64, &to->start_time) == 1;
}

static bool read_status(int pid, struct target *to)
{
    FILE *status = open_proc(pid, "status");
    if (!status) return false;
    char line[512];
    while (fgets(line, sizeof line, status)) {
        uint64_t kib;
        sscanf(line, "Uid: %*u %u", &to->uid);
        sscanf(line, "Gid: %*u %u", &to->gid);
        if (sscanf(line, "VmRSS: %" SCNu64, &kib) == 1) to->rss = kib << 10;
        if (!strncmp(line, "NSpid:", 6)) {
            char *last = strrchr(line, '\t');
            if (last) to->inner_pid = atoi(last);
        }
    }
    fclose(status);
    return true;
}

/* The uid as a number inside the target's own user namespace. */
static uid_t read_inner_uid(int pid, uid_t uid)
{
    FILE *map = open_proc(pid, "uid_map");
    unsigned inside, outside, count;
    uid_t inner = uid;
    while (map && fscanf(map, "%u %u %u", &inside, &outside, &count) == 3) {
        if (uid < outside || uid - outside >= count) continue;
        inner = inside + (uid - outside);
        break;
    }
    if (map) fclose(map);
    return inner;
}

bool target_read(int pid, struct target *to)
{
    char path[32];
    struct stat maps; /* not the folder: that is always its user's (proc(5)) */
    *to = (struct target){.pid = pid, .inner_pid = pid};
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    if (stat(path, &maps)) return false;
    to->shown_owner = maps.st_uid;
    if (!read_status(pid, to) || !read_start_time(pid, to)) return false;
    to->inner_uid = read_inner_uid(pid, to->uid);
    return true;
}

char *target_command(int pid)
{
    char text[4096];
    FILE *file = open_proc(pid, "cmdline");
    size_t length = file ? fread(text, 1, sizeof text, file) : 0;
    if (file) fclose(file);
    while (length && !text[length - 1]) length--;
    for (size_t i = 0; i < length; i++)
        if (!text[i]) text[i] = ' ';
    if (length) return clean_text(text, length);
    file = open_proc(pid, "comm");
    if (!file) return NULL;
    length = fread(text, 1, sizeof text, file);
    fclose(file);
    while (length && text[length - 1] == '\n') length--;
    char *name = clean_text(text, length), *shown = need_text("[%s]", name);
    free(name);
    return shown;
}

double target_age(const struct target *target)
{
    double uptime = -1;
    FILE *file = fopen("/proc/uptime", "re");
    if (!file || fscanf(file, "%lf", &uptime) != 1) uptime = -1;
    if (file) fclose(file);
    return uptime < 0 ? -1 : uptime - (double)target->start_time / (double)sysconf(_SC_CLK_TCK);
}
