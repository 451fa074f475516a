/* report.h: the text of `exit:report`: exact totals, and the heaviest call stacks by module and
   offset, with the names of exported functions.  With all names and lines: `gleaner report`, which looks symbols up outside of the target.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_H
#define GLEANER_REPORT_H

/* Writes the text to a descriptor; `file` is the profile that was written, or NULL.  Any thread; no
   lock, no malloc. */
void report_print(int fd, const char *file);

#endif
