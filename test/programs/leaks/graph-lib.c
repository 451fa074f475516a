/* graph-lib.c: a library whose data may hold roots of graph.c, loaded and unloaded again and again.
   SPDX-License-Identifier: LGPL-2.1-or-later */
extern void *volatile graph_lib_root[64];
__attribute__((visibility("default"))) void *volatile graph_lib_root[64];
