/* report.c: `gleaner report FILE|PID`.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/commands.h"
#include "report/holders.h"
#include "report/load.h"
#include "report/options.h"
#include "report/output.h"
#include "report/subtract.h"
#include "report/suppress.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: gleaner report [OPTION]... FILE|PID\n"
    "Shows a profile, or asks a live process for one and shows that.\n"
    "\n"
    "  -f, --format FORMAT  text (default), json, collapsed (for flame graphs), or pprof\n"
    "                       (profile.proto with the functions' names filled in)\n"
    "      --show WHAT      live (default), alloc (all that was ever allocated), peak (live at "
    "the\n"
    "                       moment of the peak), lost (what no pointer reaches any more; a live\n"
    "                       process looks for it now), survival (how long blocks live, and what\n"
    "                       grows: text or json; a live process looks for lost blocks, too)\n"
    "      --base FILE      subtract this older profile\n"
    "      --holders SITE   who keeps the live blocks of a call stack, and what each holder retains;\n"
    "                       SITE: a function in it, the 0xADDRESS of a frame, or its number in the\n"
    "                       report of live blocks; a FILE is one of gleaner dump PID --holders\n"
    "      --suppressions FILE  leave out known leaks: lines leak:PATTERN, as LeakSanitizer's\n"
    "      --top N          at most N call stacks; 0 shows all (default: 20 in text, else all)\n"
    "  -h, --help           this text\n"
    "\n"
    "Figures with an interval in parentheses are estimates from samples: the truth is inside in "
    "95\n"
    "of 100 cases. Figures without one are exact. Profiles of other programs (Go's, tcmalloc's, "
    "…)\n"
    "in pprof's format are read as well, without totals.\n"
    "Names come from the binary, its .debug file, build-id folders (GLEANER_DEBUG_PATH=DIR:DIR "
    "adds\n"
    "to the system's), or a debuginfod server where DEBUGINFOD_URLS is set.\n";

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_COLLAPSED, FORMAT_PPROF, FORMATS };

struct request {
    enum format format;
    enum measure measure;
    bool survival; /* instead of a measure */
    int64_t top; /* -1: the format's default */
    const char *base;
    const char *holders; /* of which call stacks; NULL: not asked */
    const char **suppressions;
    size_t suppression_count, suppression_room;
};

static enum format read_format(const char *word)
{
    static const char *const names[FORMATS] = {"text", "json", "collapsed", "pprof"};
    for (int i = 0; i < FORMATS; i++)
        if (!strcmp(word, names[i])) return (enum format)i;
    if (!strcmp(word, "html") || !strcmp(word, "speedscope"))
        usage_error("report", "--format %s is not in this version", word);
    usage_error("report", "--format takes text, json, collapsed or pprof, not '%s'", word);
}

static void read_show(const char *word, struct request *request)
{
    request->survival = !strcmp(word, "survival");
    request->measure = MEASURE_LIVE;
    if (request->survival) return;
    for (int i = 0; i < MEASURES_SHOWN; i++)
        if (!strcmp(word, measure_names[i])) {
            request->measure = (enum measure)i;
            return;
        }
    usage_error("report", "--show takes live, alloc, peak, lost or survival, not '%s'", word);
}

static int print(const struct profile *profile, const struct request *request)
{
    size_t top = request->top >= 0 ? (size_t)request->top : request->format == FORMAT_TEXT ? 20 : 0;
    size_t left_out = 0;
    switch (request->format) {
    case FORMAT_JSON:
        json_write(stdout, profile,
                   request->survival ? "survival" : measure_names[request->measure], top);
        break;
    case FORMAT_COLLAPSED:
        left_out = collapsed_write(stdout, profile, request->measure);
        break;
    case FORMAT_PPROF:
        pprof_write(stdout, profile, request->measure);
        break;
    default:
        if (request->survival)
            survival_write(stdout, profile, top);
        else
            text_write(stdout, profile, request->measure, top);
    }
    int status = finish_output();
    if (left_out)
        say("%zu stacks that shrank are left out: a flame graph cannot show them", left_out);
    return status;
}

static struct profile *load(const char *file, const struct request *request)
{
    bool leaks = request->measure == MEASURE_LOST || request->survival;
    enum ask_for what = request->holders ? ASK_HOLDERS : leaks ? ASK_LEAKS : ASK_PROFILE;
    struct profile *profile = load_profile(file, what);
    if (profile) suppress_known(profile, request->suppressions, request->suppression_count);
    return profile;
}

static int print_holders(const char *file, struct profile *profile, const struct request *request)
{
    enum { TOP = 10 };
    const struct holders *h = profile->holders;
    size_t top = request->top >= 0 ? (size_t)request->top : request->format == FORMAT_TEXT ? TOP : 0;
    if (!h || h->why_not) {
        if (h) say("who holds what in %s could not be found out: %s", file, h->why_not);
        else say("%s does not say who holds what: take it by gleaner dump PID --holders", file);
        return EXIT_PROBLEM;
    }
    model_sort(profile, MEASURE_LIVE);
    holders_merge(profile);
    const struct held **held;
    size_t count = holders_find_site(profile, request->holders, &held);
    int status = EXIT_PROBLEM;
    if (!count) {
        say("no call stack of sampled live blocks in %s matches %s", file, request->holders);
    } else {
        if (request->format == FORMAT_JSON) holders_write_json(stdout, profile, held, count, top);
        else holders_write(stdout, profile, held, count, top);
        status = finish_output();
    }
    free(held);
    return status;
}

static int report(const char *file, const struct request *request)
{
    struct profile *profile = load(file, request), *base = NULL, *difference = NULL;
    int status = EXIT_PROBLEM;
    if (!profile) return status;
    if (request->holders) {
        status = print_holders(file, profile, request);
        profile_free(profile);
        return status;
    }
    if (request->base) {
        base = load(request->base, request);
        if (base) difference = profile_subtract(profile, base);
    }
    struct profile *shown = request->base ? difference : profile;
    if (shown && !shown->has[request->measure]) {
        say("%s says nothing of %s memory", file, measure_names[request->measure]);
    } else if (shown && request->survival && !shown->lifetimes) {
        say("%s says nothing of how long blocks live", file);
    } else if (shown) {
        if (!profile->ours)
            say("%s is another program's profile: no exact totals, no intervals", file);
        if (request->measure == MEASURE_LOST && profile->ours && !profile_collected(profile) &&
            (request->format != FORMAT_TEXT || shown->relative))
            say("nobody has looked for lost blocks: all are zero (gleaner dump PID --leaks)");
        if (request->survival)
            survival_sort(shown);
        else
            model_sort(shown, request->measure);
        status = print(shown, request);
    }
    profile_free(difference);
    profile_free(base);
    profile_free(profile);
    return status;
}

int command_report(int argc, char **argv)
{
    enum { SHOW = 256, BASE, TOP, HOLDERS, SUPPRESSIONS };
    static const struct option options[] = {{"format", required_argument, 0, 'f'},
                                            {"show", required_argument, 0, SHOW},
                                            {"base", required_argument, 0, BASE},
                                            {"top", required_argument, 0, TOP},
                                            {"holders", required_argument, 0, HOLDERS},
                                            {"suppressions", required_argument, 0, SUPPRESSIONS},
                                            {"help", no_argument, 0, 'h'},
                                            {0}};
    struct request request = {.measure = MEASURE_LIVE, .top = -1};
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, ":f:h", options, NULL)) != -1;) {
        switch (option) {
        case 'f':
            request.format = read_format(optarg);
            break;
        case SHOW:
            read_show(optarg, &request);
            break;
        case BASE:
            request.base = optarg;
            break;
        case TOP:
            if (!parse_number(optarg, 0, INT32_MAX, &request.top))
                usage_error("report", "--top takes a number, not '%s'", optarg);
            break;
        case SUPPRESSIONS:
            request.suppressions =
                need_more(request.suppressions, request.suppression_count,
                          &request.suppression_room, sizeof *request.suppressions);
            request.suppressions[request.suppression_count++] = optarg;
            break;
        case HOLDERS:
            if (!*optarg) usage_error("report", "--holders takes a call stack: a function, 0xADDRESS or number");
            request.holders = optarg;
            break;
        case 'h':
            return show_help(help);
        case ':':
            usage_error("report", "%s needs a value", argv[optind - 1]);
        default:
            usage_error("report", "there is no option %s", argv[optind - 1]);
        }
    }
    if (optind + 1 != argc) usage_error("report", "one FILE or PID is needed");
    if (request.survival && request.format != FORMAT_TEXT && request.format != FORMAT_JSON)
        usage_error("report", "--show survival is text or json");
    if (request.survival && request.base)
        usage_error("report", "--show survival takes no --base: it is of one profile");
    if (request.survival && request.holders)
        usage_error("report", "--show survival and --holders are two reports");
    if (request.holders && (request.base || (request.format != FORMAT_TEXT && request.format != FORMAT_JSON)))
        usage_error("report", "--holders is shown as text or json, of one profile");
    if (request.format == FORMAT_PPROF && isatty(STDOUT_FILENO))
        usage_error("report", "a pprof file is binary: send it to a file (> FILE)");
    int status = report(argv[optind], &request);
    free(request.suppressions);
    return status;
}
