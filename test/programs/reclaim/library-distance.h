/* library-distance.h: see library-distance.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_TEST_LIBRARY_DISTANCE_H
#define GLEANER_TEST_LIBRARY_DISTANCE_H

#include <stddef.h>
#include <stdint.h>

/* A pattern with so many bytes of elements, neither ever freed. */
__attribute__((visibility("default"))) struct pattern *pattern_make(size_t bytes);
__attribute__((visibility("default"))) unsigned char *pattern_elements(struct pattern *);

#endif
