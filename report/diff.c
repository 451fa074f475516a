/* diff.c: `gleaner diff OLD NEW`.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/commands.h"
#include "report/load.h"
#include "report/options.h"
#include "report/output.h"
#include "report/subtract.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "Usage: gleaner diff [OPTION]... OLD NEW\n"
    "Shows the call stacks whose live memory grew or shrank between two profiles, of one process "
    "at\n"
    "two times or of two runs, and first what is newly lost where the profiles know (run --leaks,\n"
    "dump --leaks). NEW may be the number of a live process, which looks for lost blocks if OLD did.\n"
    "\n"
    "      --top N  at most N call stacks that grew, and as many that shrank; 0 shows all (default "
    "20)\n"
    "  -h, --help   this text\n"
    "\n"
    "A stack is listed only where its change is beyond the noise of sampling (its 95 % interval "
    "does\n"
    "not contain zero); the others are counted in the last line. Two profiles of one process, or a\n"
    "smaller sampling interval (gleaner run -s 64K), show smaller changes: what lives in both has the\n"
    "same samples there, and only what came and went in between is noise.\n";

int command_diff(int argc, char **argv)
{
    enum { TOP = 256 };
    static const struct option options[] = {
        {"top", required_argument, 0, TOP}, {"help", no_argument, 0, 'h'}, {0}};
    int64_t top = 20;
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        switch (option) {
        case TOP:
            if (!parse_number(optarg, 0, INT32_MAX, &top))
                usage_error("diff", "--top takes a number, not '%s'", optarg);
            break;
        case 'h':
            return show_help(help);
        case ':':
            usage_error("diff", "%s needs a value", argv[optind - 1]);
        default:
            usage_error("diff", "there is no option %s", argv[optind - 1]);
        }
    }
    if (optind + 2 != argc) usage_error("diff", "two profiles are needed: OLD NEW");
    int status = EXIT_PROBLEM;
    struct profile *older = load_profile(argv[optind], ASK_PROFILE), *newer = NULL, *difference = NULL;
    if (older) newer = load_profile(argv[optind + 1], profile_collected(older) ? ASK_LEAKS : ASK_PROFILE);
    if (newer && !(older->has[MEASURE_LIVE] && newer->has[MEASURE_LIVE])) {
        say("%s says nothing of live memory", argv[older->has[MEASURE_LIVE] ? optind + 1 : optind]);
    } else if (newer) {
        if (older->time > newer->time && newer->time)
            say("%s is older than %s: what is called growth happened backwards", argv[optind + 1],
                argv[optind]);
        difference = profile_subtract(newer, older);
        model_sort(difference, MEASURE_LIVE);
        growth_write(stdout, difference, newer, older, (size_t)top);
        status = finish_output();
    }
    profile_free(difference);
    profile_free(newer);
    profile_free(older);
    return status;
}
