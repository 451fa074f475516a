/* run.c: `gleaner run PROGRAM`.

   With -o the program takes our place (exec): its pid, its parent, its terminal and its end are
   then what they would be without us, and the library writes the file.  Without -o somebody must
   print the report afterwards, so the program is a child and supervise.c makes us transparent.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/commands.h"
#include "report/find_profile.h"
#include "report/load.h"
#include "report/output.h"
#include "report/profile_read.h"
#include "report/program.h"
#include "report/run_request.h"
#include "report/supervise.h"
#include "report/suppress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "Usage: gleaner run [OPTION]... [--] PROGRAM [ARG]...\n"
    "Starts a program under Gleaner. Without -o, a text report of its memory is printed on stderr "
    "when\n"
    "it ends. The program's output and exit status are its own, but for --fail.\n"
    "\n"
    "  -o, --output PATTERN  write a profile to this file when a process ends, and print nothing;\n"
    "                        %p pid, %e executable, %t time, %n sequence, %h host\n"
    "  -s, --sample BYTES    mean bytes between samples: 64K, 1M, … (default 512K); 0: none;\n"
    "                        all: every block, exact and slower\n"
    "  -l, --leaks[=WHEN]    look for lost blocks, which no pointer reaches any more: exit (at "
    "the\n"
    "                        end; also what a bare --leaks means), every=30s (meanwhile, too), "
    "off\n"
    "      --fail[=CODE]     exit with CODE (default 23) when blocks were lost that no "
    "suppression\n"
    "                        names, or when that is not known; implies --leaks\n"
    "      --suppressions FILE  known leaks: lines leak:PATTERN, as LeakSanitizer's\n"
    "      --reclaim         return lost blocks to the heap, carefully, and say what was returned\n"
    "  -c, --conf KEY:VALUE  any configuration key of the library (GLEANER_CONF is kept, this "
    "wins)\n"
    "  -h, --help            this text\n"
    "\n"
    "--leaks=exit, --fail and --reclaim record every block, as -s all does, unless -s is given.\n"
    "\n"
    "  gleaner run -- ./server --port 80\n"
    "  gleaner run --leaks --fail -- ./tests\n"
    "  gleaner run -s all -o 'prof.%p.pb.gz' -- make test\n"
    "  gleaner report prof.1234.pb.gz\n";

/* libgleaner.so beside us: installed (bin/ and lib/), or in the tree where it was built. */
static char *find_library(void)
{
    static const char *const places[] = {
        "../lib/libgleaner.so", "../" GLEANER_LIBDIR "/libgleaner.so", "../preload/libgleaner.so"};
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = length > 0 ? memrchr(self, '/', (size_t)length) : NULL;
    if (!slash) return NULL;
    slash[1] = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = need_text("%s%s", self, places[i]), *real = realpath(path, NULL);
        free(path);
        if (real) return real;
    }
    return NULL;
}

/* AddressSanitizer's run-time ends a program in which a library comes before it, also one that leaves
   malloc to it as ours does.  In front, so that the user's own word wins. */
static void let_sanitizers_start(void)
{
    static const char ours[] = "verify_asan_link_order=0";
    const char *users = getenv("ASAN_OPTIONS");
    bool more = users && *users;
    char *all = need_text("%s%s%s", ours, more ? ":" : "", more ? users : "");
    setenv("ASAN_OPTIONS", all, 1);
    free(all);
}

static bool set_preload(void)
{
    char *library = find_library();
    if (!library) {
        say("libgleaner.so was not found beside this command (../lib)");
        return false;
    }
    bool usable = !strpbrk(library, " :");
    if (usable) {
        const char *others = getenv("LD_PRELOAD");
        bool more = others && *others;
        char *preload = need_text("%s%s%s", library, more ? ":" : "", more ? others : "");
        setenv("LD_PRELOAD", preload, 1);
        free(preload);
        let_sanitizers_start();
    } else {
        say("%s cannot be preloaded: its path has a space or colon", library);
    }
    free(library);
    return usable;
}

static void set_conf(const struct request *request)
{
    const char *users = getenv("GLEANER_CONF");
    const char *ours = request->conf ? request->conf : "";
    if (!users || !*users) {
        users = "";
        ours += *ours == ',';
    }
    char *conf = need_text("%s%s", users, ours);
    setenv("GLEANER_CONF", conf, 1);
    free(conf);
}

/* A pattern that means the same after a chdir; what is added is a text, so its % are doubled. */
static char *absolute_pattern(const char *pattern)
{
    char folder[PATH_MAX];
    if (*pattern == '/' || !getcwd(folder, sizeof folder)) return need_copy(pattern);
    char *whole = need(2 * strlen(folder) + strlen(pattern) + 2), *at = whole;
    for (const char *from = folder; *from; from++) {
        if (*from == '%') *at++ = '%';
        *at++ = *from;
    }
    if (at[-1] != '/') *at++ = '/';
    strcpy(at, pattern);
    return whole;
}

/* Tells the library which process is the first, whose file has the pattern's plain name. */
static void mark_first(void)
{
    char number[24];
    snprintf(number, sizeof number, "%d", getpid());
    setenv("GLEANER_FIRST", number, 1);
}

static int not_started(const char *name, int error)
{
    say("cannot start %s: %s", name, error == ENOENT ? "not found" : strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

#define AS_THE_PROGRAM (-1) /* a status: that of the program */

/* -- with -o ------------------------------------------------------------------------------------
 */

/* Configures the library to write the file; the pattern, absolute. */
static char *set_output(struct request *request, const char *path, char **argv)
{
    char *output = absolute_pattern(request->output);
    if (!conf_takes(output)) usage_error("run", "the output path may not contain a comma");
    const char *obstacle = program_obstacle(path);
    if (obstacle) say("there will be no profile of %s: %s", argv[0], obstacle);
    /* First, so that -c can still change them. */
    char *rest = request->conf;
    request->conf = need_text(",exit:profile,output:%s%s", output, rest ? rest : "");
    free(rest);
    set_conf(request);
    return output;
}

static int replace_ourselves(struct request *request, const char *path, char **argv)
{
    free(set_output(request, path, argv));
    mark_first();
    execvp(path, argv);
    return not_started(argv[0], errno);
}

/* Names what was lost beyond the suppressions; whether there is any. */
static bool judge(struct profile *profile, const struct request *request)
{
    name_profile(profile, NULL);
    suppress_known(profile, request->suppressions, request->suppression_count);
    return unsuppressed_blocks(profile) > 0;
}

/* Why a profile does not tell what was lost at the end; NULL if it does. */
static const char *why_unknown(const struct profile *profile)
{
    if (!profile) return "there is no profile of it";
    if (!profile_collected(profile)) return "it was not looked for lost blocks";
    const char *reason = head_text(profile, "reason");
    if (!reason || strcmp(reason, "exit")) return "the profile is from before its end";
    return head_text(profile, "collections.latest.why_not");
}

/* For whoever asks by --fail an answer that is not known is no success, as LeakSanitizer's fatal errors are none.  A program that was killed
   does not look like a success. */
static int status_unless_known(const struct profile *profile, const struct request *request, const char *name, int wait_status)
{
    const char *why = request->fail >= 0 && WIFEXITED(wait_status) ? why_unknown(profile) : NULL;
    if (!why) return AS_THE_PROGRAM;
    char *clean = clean_text(why, strlen(why));
    say("whether %s leaks is not known (%s): status %d by --fail", name, clean, request->fail);
    free(clean);
    return request->fail;
}

/* With --fail somebody must set the status afterwards.  Returns it, or AS_THE_PROGRAM. */
static int run_and_judge(struct request *request, const char *path, char **argv, int *wait_status)
{
    char *output = set_output(request, path, argv), *file = NULL;
    struct timespec begun;
    int status = AS_THE_PROGRAM;
    clock_gettime(CLOCK_REALTIME_COARSE, &begun);
    pid_t pid = supervise(path, argv, mark_first, wait_status);
    if (pid < 0) status = not_started(argv[0], errno);
    struct profile *profile = pid > 0 ? find_profile(output, pid, begun.tv_sec, &file) : NULL;
    if (profile && judge(profile, request)) {
        double more = head_number(profile, "totals.unrecorded.objects"), more_bytes = head_number(profile, "totals.unrecorded.bytes");
        say("%.0f byte(s) leaked in %.0f allocation(s): gleaner report --show lost %s",
            head_number(profile, "totals.lost.bytes") + (more > 0 ? more_bytes : 0),
            head_number(profile, "totals.lost.objects") + (more > 0 ? more : 0), file);
        status = request->fail;
    } else if (pid > 0) {
        status = status_unless_known(profile, request, argv[0], *wait_status);
    }
    profile_free(profile);
    free(file);
    free(output);
    return status;
}

/* -- without ------------------------------------------------------------------------------------
 */

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (folder) {
        for (struct dirent *entry; (entry = readdir(folder));)
            if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2)
                unlinkat(dirfd(folder), entry->d_name, 0);
        closedir(folder);
    }
    rmdir(path);
}

static void say_no_profile(const char *path, const char *name, int wait_status)
{
    const char *obstacle = program_obstacle(path);
    if (obstacle)
        say("no profile of %s: %s", name, obstacle);
    else if (WIFSIGNALED(wait_status))
        say("no profile of %s: it was killed by signal %d (-o FILE -c interval:10s would write "
            "meanwhile)",
            name, WTERMSIG(wait_status));
    else
        say("no profile of %s: it ended without writing one", name);
}

/* Whether the status is to be that of --fail. */
static bool print_report(struct profile *profile, const struct request *request)
{
    bool lost = request->leaks_exit || request->leaks_every || request->fail >= 0 || request->reclaim;
    enum measure measure = lost ? MEASURE_LOST : MEASURE_LIVE;
    bool leaked = judge(profile, request);
    model_sort(profile, measure);
    text_write(stderr, profile, measure, 20);
    return leaked && request->fail >= 0;
}

/* A fresh folder's real path; NULL after one line. */
static char *temporary_folder(void)
{
    const char *base = getenv("TMPDIR");
    char *folder = need_text("%s/gleaner-run.XXXXXX", base && *base ? base : "/tmp");
    char *real = mkdtemp(folder) ? realpath(folder, NULL) : NULL;
    if (!real) say("cannot make a folder %s: %s", folder, strerror(errno));
    free(folder);
    if (real && strpbrk(real, ",%\n")) {
        say("TMPDIR may not contain a comma or per cent sign");
        rmdir(real);
        free(real);
        real = NULL;
    }
    return real;
}

/* Returns the status to end with, or AS_THE_PROGRAM. */
static int run_and_report(struct request *request, const char *path, char **argv, int *wait_status)
{
    char *folder = temporary_folder();
    if (!folder) return EXIT_PROBLEM;
    char *file = need_text("%s/profile.pb.gz", folder);
    /* Last: nothing may send the profile elsewhere, and children that outlive the folder write
     * none. */
    request_conf(request, "exit", "profile");
    request_conf(request, "output", file);
    request_conf(request, "follow", "no");
    set_conf(request);
    pid_t pid = supervise(path, argv, mark_first, wait_status);
    int status = AS_THE_PROGRAM;
    struct profile *profile = NULL;
    if (pid < 0)
        status = not_started(argv[0], errno);
    else if (access(file, F_OK))
        say_no_profile(path, argv[0], *wait_status);
    else
        profile = profile_read(file);
    remove_folder(folder); /* at once: the report may be interrupted */
    if (profile && print_report(profile, request)) status = request->fail;
    else if (pid > 0) status = status_unless_known(profile, request, argv[0], *wait_status);
    profile_free(profile);
    free(file);
    free(folder);
    return status;
}

int command_run(int argc, char **argv)
{
    enum { FAIL = 256, RECLAIM, SUPPRESSIONS };
    static const struct option options[] = {{"output", required_argument, 0, 'o'},
                                            {"sample", required_argument, 0, 's'},
                                            {"leaks", optional_argument, 0, 'l'},
                                            {"fail", optional_argument, 0, FAIL},
                                            {"reclaim", no_argument, 0, RECLAIM},
                                            {"conf", required_argument, 0, 'c'},
                                            {"help", no_argument, 0, 'h'},
                                            {"suppressions", required_argument, 0, SUPPRESSIONS},
                                            {0}};
    struct request request = {.fail = -1};
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, "+:o:s:l::c:h", options, NULL)) != -1;) {
        switch (option) {
        case 'o':
            request.output = optarg;
            break;
        case 's':
            request_sample(&request, optarg);
            break;
        case 'l':
            request_leaks(&request, optarg);
            break;
        case FAIL:
            request_fail(&request, optarg);
            break;
        case SUPPRESSIONS:
            request_suppressions(&request, optarg);
            break;
        case RECLAIM:
            request_reclaim(&request);
            break;
        case 'c':
            request_any(&request, optarg);
            break;
        case 'h':
            return show_help(help);
        case ':':
            usage_error("run", "%s needs a value", argv[optind - 1]);
        default:
            usage_error("run", "there is no option %s", argv[optind - 1]);
        }
    }
    if (optind >= argc) usage_error("run", "a program to run is needed");
    if (request.output && !*request.output) usage_error("run", "--output needs a file name");
    request_implied(&request);
    char *path = program_find(argv[optind]);
    int status, wait_status = 0;
    if (!path)
        status = not_started(argv[optind], errno);
    else if (!set_preload())
        status = EXIT_PROBLEM;
    else
        status = !request.output     ? run_and_report(&request, path, argv + optind, &wait_status)
                 : request.fail >= 0 ? run_and_judge(&request, path, argv + optind, &wait_status)
                                     : replace_ourselves(&request, path, argv + optind);
    free(path);
    free(request.conf);
    free(request.suppressions);
    if (status == AS_THE_PROGRAM) end_as(wait_status);
    return status;
}
