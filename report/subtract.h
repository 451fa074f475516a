/* subtract.h: one profile minus an older one.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_SUBTRACT_H
#define GLEANER_REPORT_SUBTRACT_H

#include "report/model.h"

/* Sites are matched by what does not change from run to run: the offset in a file of the same build
   id, else the function's name, else the offset in the module of the same name.  Both profiles must
   be symbolised and unfolded, and must outlive the result, whose sites have `before` and `after`.
   Totals (alloc, live, lost) are subtracted too. To be freed by profile_free. */
struct profile *profile_subtract(const struct profile *newer, const struct profile *older);

#endif
