/* json_parts.h: what the parts of the report's JSON share.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REPORT_JSON_PARTS_H
#define GLEANER_REPORT_JSON_PARTS_H

#include "report/model.h"

/* The nearest integer. */
json_t *json_whole(double value);

/* to.KEY, and where it is an estimate to.KEY_ci95: [low, high], or null. */
void json_estimate(json_t *to, const char *key, struct estimate);

/* A site's lifetime; its members are null where nothing is known. */
json_t *lifetime_json(const struct profile *, const struct site *);

/* The time in which lifetimes were observed, or null. */
json_t *lifetime_observed_json(const struct profile *);

#endif
