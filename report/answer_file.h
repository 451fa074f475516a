/* answer_file.h: the file into which a live process writes its answer, as preload/dump.h
   prescribes. SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_ANSWER_FILE_H
#define GLEANER_REPORT_ANSWER_FILE_H

#include "report/file.h"
#include "report/target.h"

struct answer_file {
    int tmp, folder, file; /* descriptors; -1: none */
    char folder_name[32], name[64];
};

/* Makes /tmp/gleaner-UID/PID.STARTTIME as the target sees it, owned by the target's user, following
   no symbolic link.  False after one line on stderr. */
bool answer_make(const struct target *, struct answer_file *);

enum answer_state { ANSWER_EMPTY, ANSWER_GROWING, ANSWER_COMPLETE, ANSWER_FAILED };
enum answer_state answer_state(const struct answer_file *);

/* The contents, at most 1 GiB. False with the reason in `problem`. */
bool answer_read(const struct answer_file *, struct bytes *, char problem[PROBLEM_BYTES]);

/* Unlinks the file, and the folder if that was the last one. */
void answer_remove(struct answer_file *);

#endif
