/* main.c: `gleaner COMMAND …`.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/commands.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "Usage: gleaner COMMAND [OPTION]... [ARGUMENT]...\n"
    "Shows where the memory of a C or C++ program went, by call stack, without rebuilding it.\n"
    "\n"
    "  gleaner run [OPTION]... [--] PROGRAM [ARG]...  start a program under Gleaner\n"
    "  gleaner list                                   processes that run under Gleaner\n"
    "  gleaner dump PID [-o FILE] [--leaks]           write a profile of a live process, now\n"
    "  gleaner report FILE|PID [OPTION]...            show a profile: text, json, collapsed, "
    "pprof\n"
    "  gleaner diff OLD NEW                           what grew, and is newly lost\n"
    "\n"
    "  gleaner COMMAND --help   the command's options\n"
    "  gleaner --version        the version\n"
    "\n"
    "A first look:   gleaner run -- ./server        (the report comes when it ends)\n"
    "A live server:  gleaner list; gleaner report PID\n"
    "Leaks:          gleaner run --leaks --fail -- ./tests; gleaner report PID --show lost\n"
    "A growing one:  gleaner dump PID -o 1.pb.gz; sleep 600; gleaner dump PID -o 2.pb.gz;\n"
    "                gleaner diff 1.pb.gz 2.pb.gz\n";

int show_help(const char *text)
{
    fputs(text, stdout);
    return finish_output();
}

int finish_output(void)
{
    if (!fflush(stdout) && !ferror(stdout)) return EXIT_OK;
    if (errno != EPIPE) say("cannot write the output: %s", strerror(errno));
    return EXIT_PROBLEM;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"run", command_run},
                    {"list", command_list},
                    {"dump", command_dump},
                    {"report", command_report},
                    {"diff", command_diff}};
    setlocale(LC_CTYPE, ""); /* the numbers of a report stay plain in every locale */
    if (argc < 2) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))
        return show_help(help);
    if (!strcmp(word, "--version") || !strcmp(word, "-V"))
        return show_help("gleaner " GLEANER_VERSION "\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(word, commands[i].name)) return commands[i].run(argc - 1, argv + 1);
    if (!strcmp(word, "top") || !strcmp(word, "serve"))
        usage_error(NULL, "%s is not in this version", word);
    usage_error(NULL, "there is no command '%s'", word);
}
