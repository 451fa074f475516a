/* run_request.c: from the options of `gleaner run` to the library's configuration.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/run_request.h"
#include "report/basics.h"
#include "report/options.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void request_conf(struct request *request, const char *key, const char *value)
{
    char *longer = need_text("%s,%s%s%s", request->conf ? request->conf : "", key, value ? ":" : "",
                             value ? value : "");
    free(request->conf);
    request->conf = longer;
}

void request_sample(struct request *request, const char *text)
{
    uint64_t bytes;
    char number[24];
    request->sample = true;
    if (!strcmp(text, "all")) {
        request_conf(request, "sample", "all");
        return;
    }
    if (!parse_size(text, &bytes))
        usage_error("run", "--sample takes bytes as 4096, 64K or 1M, or 'all', not '%s'", text);
    snprintf(number, sizeof number, "%" PRIu64, bytes);
    request_conf(request, "sample", number);
}

bool conf_takes(const char *value)
{
    return *value && !strpbrk(value, ",\n");
}

void request_leaks(struct request *request, const char *when)
{
    uint64_t every;
    char text[40];
    request->leaks_exit = request->leaks_every = request->leaks_off = false;
    if (!when || !strcmp(when, "exit")) {
        request->leaks_exit = true;
        request_conf(request, "leaks", "exit");
    } else if (!strcmp(when, "off")) {
        request->leaks_off = true;
        request_conf(request, "leaks", "off");
    } else if (!strncmp(when, "every=", 6) && parse_duration(when + 6, &every) &&
               every >= 1000000) {
        request->leaks_every = true;
        snprintf(text, sizeof text, "every=%" PRIu64 "ms", every / 1000000);
        request_conf(request, "leaks", text);
    } else {
        usage_error("run", "--leaks takes exit, every=30s or off, not '%s'", when);
    }
}

void request_reclaim(struct request *request)
{
    request->reclaim = true;
    request_conf(request, "collect", "reclaim");
}

void request_fail(struct request *request, const char *code)
{
    int64_t number = 23; /* LeakSanitizer's */
    if (code && !parse_number(code, 1, 255, &number))
        usage_error("run", "--fail takes an exit status from 1 to 255, not '%s'", code);
    request->fail = (int)number;
}

static void add_suppressions(struct request *request, const char *file)
{
    request->suppressions = need_more(request->suppressions, request->suppression_count,
                                      &request->suppression_room, sizeof *request->suppressions);
    request->suppressions[request->suppression_count++] = file;
}

void request_any(struct request *request, const char *item)
{
    static const char suppressions[] = "suppressions:";
    size_t length = sizeof suppressions - 1;
    if (!strchr(item, ':') || !conf_takes(item))
        usage_error("run", "--conf takes KEY:VALUE, not '%s'", item);
    if (!strncmp(item, suppressions, length) && strcmp(item + length, "none"))
        add_suppressions(request, item + length);
    request_conf(request, item, NULL);
}

void request_suppressions(struct request *request, const char *file)
{
    char real[PATH_MAX];
    if (realpath(file, real) && conf_takes(real) && strlen(real) < 1024)
        request_conf(request, "suppressions", real);
    add_suppressions(request, file);
}

void request_implied(struct request *request)
{
    bool fails = request->fail >= 0;
    if (fails && request->leaks_off) usage_error("run", "--fail needs --leaks, which is off");
    char *rest = request->conf;
    /* What is lost at the end is asked for with --reclaim, too. */
    bool wants_end = fails || (request->reclaim && !request->leaks_off);
    const char *leaks = wants_end && !request->leaks_exit && !request->leaks_every ? ",leaks:exit" : "";
    const char *sample = (fails || request->leaks_exit || request->reclaim) && !request->sample ? ",sample:all" : "";
    request->conf = need_text("%s%s%s", sample, leaks, rest ? rest : "");
    free(rest);
}
