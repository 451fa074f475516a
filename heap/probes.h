/* probes.h: static probes (USDT) for tracers: bpftrace, perf, SystemTap, OpenTelemetry's eBPF profiler.  A probe is one nop, and a note in the
   file that says where it is and where its arguments lie, all of which are at hand there anyway.  Without sys/sdt.h (Debian:
   systemtap-sdt-dev) at build time there are none.

     gleaner:sample        block, bytes asked, bytes given, sample points, number of its site
     gleaner:sample_free   block, number of its site, sample points
     gleaner:minor_begin   number of the collection, what triggered it (enum collection_trigger)
     gleaner:minor_end     number, complete (0 or 1), young bytes, promoted bytes, pause in nanoseconds
     gleaner:major_begin   number, trigger
     gleaner:major_end     number, complete, blocks newly lost, their bytes, pause
     gleaner:lost          block, bytes given, kind (enum lost_kind), number of the collection
     otel_memory:alloc     block, bytes asked, weight in bytes
     otel_memory:free      block

   The last two are OpenTelemetry's contract for samplers in a process (opentelemetry-ebpf-profiler, design-docs/00003-memory-profiling): of
   sampled blocks only, a weight being the sample points times the interval.

   PROBE_LISTENED(sample_free) says that a tracer has counted itself into the probe's semaphore, as bpftrace, perf and gdb do; of the probes in a file that
   defines GLEANER_PROBES_COUNTED only (the sampler's, whose semaphores are in sampler.c).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_PROBES_H
#define GLEANER_PROBES_H

#if defined(__has_include) && !defined(GLEANER_NO_PROBES)
#if __has_include(<sys/sdt.h>)
#ifdef GLEANER_PROBES_COUNTED
#include "heap/base.h"
#define _SDT_HAS_SEMAPHORES 1
#define PROBE_SEMAPHORE HIDDEN __attribute__((section(".probes"))) volatile unsigned short
HIDDEN extern volatile unsigned short gleaner_sample_semaphore, gleaner_sample_free_semaphore, otel_memory_alloc_semaphore, otel_memory_free_semaphore;
#define PROBE_LISTENED(name) unlikely(gleaner_##name##_semaphore)
#endif
#include <sys/sdt.h>
#define PROBE1(provider, name, a) STAP_PROBE1(provider, name, a)
#define PROBE2(provider, name, a, b) STAP_PROBE2(provider, name, a, b)
#define PROBE3(provider, name, a, b, c) STAP_PROBE3(provider, name, a, b, c)
#define PROBE4(provider, name, a, b, c, d) STAP_PROBE4(provider, name, a, b, c, d)
#define PROBE5(provider, name, a, b, c, d, e) STAP_PROBE5(provider, name, a, b, c, d, e)
#endif
#endif

#ifndef PROBE1
#define PROBE1(provider, name, a) ((void)(a))
#define PROBE2(provider, name, a, b) ((void)(a), (void)(b))
#define PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define PROBE4(provider, name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#define PROBE5(provider, name, a, b, c, d, e) ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))
#endif

#ifndef PROBE_LISTENED
#define PROBE_LISTENED(name) false
#endif

#endif
