/* tally.h: adds up what several samples of one site say, for one estimate with its interval.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_TALLY_H
#define GLEANER_REPORT_TALLY_H

#include "report/model.h"

/* Of blocks, or of bytes. A weight is what one sample point stands for. */
struct tally_sum {
    double sum, squares, weight; /* of n * weight, of n * weight^2; the largest weight */
};

struct tally {
    struct tally_sum objects, bytes;
    bool unknown; /* some part came without its number of sample points */
};

/* `points`: sample points that stand behind the two figures, negative when not known.  `period`:
   mean bytes between two points; `size`: bytes of each block, 0 when not known. */
void tally_add(struct tally *, double objects, double bytes, int64_t points, int64_t period,
               int64_t size);

/* The figure with its intervals; exact where every word was sampled, NANs where nothing is known.
 */
struct figure tally_figure(const struct tally *, int64_t period);

#endif
