/* start_folder.h: the folder that the process started in: what relative names of the configuration mean (daemons change
   theirs).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_START_FOLDER_H
#define GLEANER_START_FOLDER_H

#include "heap/base.h"

/* Notes it; from start-up. */
void start_folder_note(void);

/* The name of a file from there: `to` gets it, absolute where the folder is known and the name has room, else as it is.  Its
   length, as snprintf. */
size_t start_folder_path(char *to, size_t bytes, const char *name);

#endif
