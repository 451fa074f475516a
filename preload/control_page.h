/* control_page.h: how the command recognises a process that answers.

   /proc/PID/maps of such a process has a line that ends in "/memfd:gleaner-1 (deleted)": one page,
   private, read-only, of a memory file of which nobody holds a descriptor.  The 1 is the version of
   the request protocol (dump.h).  The page is mapped last, once the handler of signal 33 is
   installed, and vanishes with exec, or with a seccomp filter that keeps the process from answering; a forked child has both.  Where memfd_create is refused, the
   page is anonymous and named by prctl(PR_SET_VMA), which the kernel shows as "[anon:gleaner-1]"
   where it was built with that; else the process does not answer.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_CONTROL_PAGE_H
#define GLEANER_CONTROL_PAGE_H

#include "heap/base.h"

#define CONTROL_PAGE_NAME "gleaner-1"

/* Maps the page; from start-up, after signal33_start.  False if neither way works. */
bool control_page_start(void);

/* Takes it away: from now on nobody is to send the signal.  One thread at a time; it may be started again. */
void control_page_end(void);

#endif
