/* suite.h: how every test of Check's ends its main.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef TEST_SUITE_H
#define TEST_SUITE_H

#include <check.h>

/* Runs the suite, as CK_VERBOSITY and the like in the environment say, and frees it; main's status. */
static inline int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
