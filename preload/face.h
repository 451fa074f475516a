/* face.h: what the files of preload/ share.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_FACE_H
#define GLEANER_FACE_H

#include "heap/base.h"
#include "preload/config.h"

/* Exported: listed with its reason in wrapped.list. */
#define EXPORT __attribute__((visibility("default")))
#define INTERNAL __attribute__((visibility("hidden")))
/* malloc.c: our own definitions, whatever the loader bound the public names to. */
INTERNAL void *own_malloc(size_t size);
INTERNAL void own_free(void *block);
INTERNAL void *own_calloc(size_t count, size_t size);
INTERNAL void *own_realloc(void *block, size_t size);
INTERNAL size_t own_usable_size(void *block);

/* start.c: the configuration in force (defaults before start, and where it is ignored). */
extern struct config face_config;

/* thread_exit.c: takes the thread key; from start-up, early enough that the key is below 32: glibc
   keeps those in the thread itself, while later ones make pthread_setspecific call calloc
   (gperftools' thread_dealloc_unittest.cc). */
void thread_exit_start(void);

struct heap_thread_hook;
/* The thread_started hook: arranges for heap_thread_exit at the thread's end. */
void thread_exit_arm(struct heap_thread_hook *);

/* misuse.c: the misuse hook of heap/hooks.h. */
enum heap_misuse;
void misuse_found(enum heap_misuse, void *address, void *block, size_t size, uint32_t entry);

#endif
