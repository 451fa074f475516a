/* commands.h: the commands.  Each takes its own words (argv[0] is its name) and returns the exit
   status. SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_COMMANDS_H
#define GLEANER_REPORT_COMMANDS_H

int command_run(int argc, char **argv);
int command_list(int argc, char **argv);
int command_dump(int argc, char **argv);
int command_report(int argc, char **argv);
int command_diff(int argc, char **argv);

/* Writes `text` to stdout and returns EXIT_OK: the --help of a command. */
int show_help(const char *text);

/* Flushes stdout; when that fails (a full disk, a closed pipe) says so and returns EXIT_PROBLEM. */
int finish_output(void);

#endif
