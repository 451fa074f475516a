/* collapsed.c: "root;caller;function 123" a line, as flame graph programs read it.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/basics.h"
#include "report/output.h"
#include "report/print_site.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct line {
    char *stack;
    double bytes;
};

static char *stack_line(const struct site *site)
{
    char *line = NULL;
    size_t length = 0, room = 0;
    for (size_t i = site->step_count; i-- > 0;) {
        char name[512];
        step_name(&site->steps[i], name, sizeof name);
        /* The separators of the format may not occur in a name. */
        for (char *at = name; *at; at++)
            if (*at == ';') *at = ':';
        size_t bytes = strlen(name);
        if (length + bytes + 2 > room) {
            room = (length + bytes + 2) * 2;
            line = need_again(line, room, 1);
        }
        memcpy(line + length, name, bytes);
        length += bytes;
        line[length++] = i ? ';' : 0;
    }
    return line ? line : need_copy("(no call stack)");
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const struct line *)a)->stack, ((const struct line *)b)->stack);
}

size_t collapsed_write(FILE *to, const struct profile *profile, enum measure measure)
{
    struct line *lines = need_array(profile->site_count, sizeof *lines);
    size_t count = 0, left_out = 0;
    for (size_t i = 0; i < profile->site_count; i++) {
        double bytes = profile->sites[i].figures[measure].bytes.value;
        if (bytes == 0) continue;
        lines[count++] = (struct line){stack_line(&profile->sites[i]), bytes};
    }
    qsort(lines, count, sizeof *lines, compare_lines);
    for (size_t i = 0; i < count;) { /* sites that differ only in lines are one line here */
        double bytes = 0;
        size_t first = i;
        for (; i < count && !strcmp(lines[i].stack, lines[first].stack); i++)
            bytes += lines[i].bytes;
        if (bytes > 0)
            fprintf(to, "%s %.0f\n", lines[first].stack, bytes);
        else
            left_out++;
    }
    for (size_t i = 0; i < count; i++) free(lines[i].stack);
    free(lines);
    return left_out;
}
