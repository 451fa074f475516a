/* product.c: reads the JSON report for the tests of the whole product.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "product.h"
#include "command.h"

#include <check.h>
#include <stdarg.h>
#include <string.h>

json_t *product_report(const char *file)
{
    const char *argv[] = {gleaner(), "report", "--format", "json", file, NULL};
    struct ran ran = run_program(argv);
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ck_assert_str_eq(ran.err, "");
    json_error_t error;
    json_t *report = json_loads(ran.out, 0, &error);
    ck_assert_msg(report, "%s", error.text);
    ran_free(&ran);
    return report;
}

double product_number(const json_t *object, ...)
{
    va_list keys;
    const char *last = "";
    va_start(keys, object);
    for (const char *key; (key = va_arg(keys, const char *)); last = key)
        object = json_object_get(object, key);
    va_end(keys);
    ck_assert_msg(json_is_number(object), "no number %s", last);
    return json_number_value(object);
}

static int has_function(const json_t *site, const char *function, const char *module)
{
    size_t i;
    json_t *frame;
    json_array_foreach(json_object_get(site, "stack"), i, frame)
    {
        const char *name = json_string_value(json_object_get(frame, "function"));
        const char *file = json_string_value(json_object_get(frame, "module"));
        if (!name || strcmp(name, function)) continue;
        if (!module || (file && strstr(file, module))) return 1;
    }
    return 0;
}

double product_sum(const json_t *report, const char *function, const char *kind, const char *unit)
{
    double sum = 0;
    size_t i;
    json_t *site;
    json_array_foreach(json_object_get(report, "sites"), i, site)
    {
        if (function && !has_function(site, function, NULL)) continue;
        sum += json_number_value(json_object_get(json_object_get(site, kind), unit));
    }
    return sum;
}

int product_has_module(const json_t *report, const char *function, const char *module)
{
    size_t i;
    json_t *site;
    json_array_foreach(json_object_get(report, "sites"), i, site)
    {
        if (has_function(site, function, module)) return 1;
    }
    return 0;
}
