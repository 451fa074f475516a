/* dump.c: `gleaner dump PID`.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/ask.h"
#include "report/basics.h"
#include "report/commands.h"
#include "report/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "Usage: gleaner dump PID [-o FILE] [--leaks | --holders]\n"
    "Writes a profile of a live process that was started under Gleaner, without disturbing it.\n"
    "\n"
    "  -o, --output FILE  where to (default: gleaner.PROGRAM.PID.pb.gz in this folder);\n"
    "                     -: standard output\n"
    "      --leaks        look for lost blocks first, in a frozen copy of the process: what no\n"
    "                     pointer reaches any more (gleaner report FILE shows it)\n"
    "      --holders      note who holds the blocks, for gleaner report --holders SITE FILE\n"
    "  -h, --help         this text\n"
    "\n"
    "The process must be one's own; root may ask any, and is needed for one that dropped its\n"
    "privileges. `gleaner report PID` shows the profile at once.\n";

static char *default_name(int pid)
{
    char link[40], target[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/%d/exe", pid);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length > 0) target[length] = 0;
    char *deleted = strstr(target, " (deleted)");
    if (deleted) *deleted = 0;
    const char *name = strrchr(target, '/') ? strrchr(target, '/') + 1 : "program";
    return need_text("gleaner.%s.%d.pb.gz", name, pid);
}

static bool write_all(int fd, const struct bytes *bytes)
{
    for (size_t done = 0; done < bytes->length;) {
        ssize_t wrote = write(fd, bytes->at + done, bytes->length - done);
        if (wrote < 0 && errno != EINTR) return false;
        if (wrote > 0) done += (size_t)wrote;
    }
    return true;
}

/* A device, a pipe or standard output is written to: a rename would put a file in its place. */
static bool write_to(int fd, const char *path, const struct bytes *bytes)
{
    bool good = fd >= 0 && write_all(fd, bytes);
    if (fd > STDERR_FILENO && close(fd)) good = false;
    if (!good) say("cannot write %s: %s", path, strerror(errno));
    return good;
}

static bool is_file_or_missing(const char *path)
{
    struct stat is;
    return stat(path, &is) || S_ISREG(is.st_mode) || S_ISDIR(is.st_mode);
}

/* By way of a temporary file beside it, so that there is never half a profile under the name. */
static bool save(const char *path, const struct bytes *bytes)
{
    if (!strcmp(path, "-")) return write_to(STDOUT_FILENO, "the output", bytes);
    if (!is_file_or_missing(path))
        return write_to(open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC), path, bytes);
    char *temporary = need_text("%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    bool good = fd >= 0 && write_all(fd, bytes);
    if (fd >= 0 && close(fd)) good = false;
    good = good && !rename(temporary, path);
    if (!good) {
        say("cannot write %s: %s", path, strerror(errno));
        if (fd >= 0) unlink(temporary);
    }
    free(temporary);
    return good;
}

int command_dump(int argc, char **argv)
{
    enum { LEAKS = 256, HOLDERS };
    static const struct option options[] = {{"output", required_argument, 0, 'o'},
                                            {"leaks", no_argument, 0, LEAKS},
                                            {"holders", no_argument, 0, HOLDERS},
                                            {"help", no_argument, 0, 'h'},
                                            {0}};
    const char *output = NULL;
    enum ask_for what = ASK_PROFILE;
    int64_t pid;
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1;) {
        switch (option) {
        case 'o':
            output = optarg;
            break;
        case LEAKS:
        case HOLDERS:
            if (what != ASK_PROFILE && what != (option == LEAKS ? ASK_LEAKS : ASK_HOLDERS))
                usage_error("dump", "--leaks and --holders are two dumps: ask for one at a time");
            what = option == LEAKS ? ASK_LEAKS : ASK_HOLDERS;
            break;
        case 'h':
            return show_help(help);
        case ':':
            usage_error("dump", "%s needs a value", argv[optind - 1]);
        default:
            usage_error("dump", "there is no option %s", argv[optind - 1]);
        }
    }
    if (optind + 1 != argc) usage_error("dump", "one PID is needed");
    if (!parse_number(argv[optind], 1, INT32_MAX, &pid))
        usage_error("dump", "'%s' is no process number", argv[optind]);
    char *path = output ? need_copy(output) : default_name((int)pid);
    struct bytes answer;
    bool good = ask_profile((int)pid, what, &answer);
    if (good) {
        good = save(path, &answer);
        free(answer.at);
        if (good && !output) printf("%s\n", path);
    }
    free(path);
    int status = finish_output();
    return good ? status : EXIT_PROBLEM;
}
