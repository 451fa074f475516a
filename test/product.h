/* product.h: what the tests of the whole product share: the JSON report, and its sites.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef TEST_PRODUCT_H
#define TEST_PRODUCT_H

#include <jansson.h>

/* `gleaner report --format json FILE`; to be released with json_decref. */
json_t *product_report(const char *file);

/* A number by keys, outermost first, NULL at the end; a missing one fails the test. */
double product_number(const json_t *object, ...) __attribute__((sentinel));

/* The sum over the sites that have `function` in their stack (NULL: all) of site.KIND.UNIT, for
   instance "live", "bytes". */
double product_sum(const json_t *report, const char *function, const char *kind, const char *unit);

/* Is a module of this name (its file's last part) in a stack that has `function`? */
int product_has_module(const json_t *report, const char *function, const char *module);

#endif
