/* program.h: a program that is about to be started: where it is, and what would keep Gleaner out of
   it. SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_PROGRAM_H
#define GLEANER_REPORT_PROGRAM_H

/* The path that execvp would start, to be freed; NULL with errno ENOENT (nowhere) or EACCES. */
char *program_find(const char *name);

/* Why preloading has no effect on the file at `path` ("it is statically linked" …), or NULL when
   nothing of that kind is seen. Of a script, its interpreter is looked at. */
const char *program_obstacle(const char *path);

#endif
