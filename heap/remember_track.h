/* remember_track.h: which pages were written since the latest collection, by userfaultfd's asynchronous write protection.

   1. Kernel.  A descriptor of userfaultfd (USER_MODE_ONLY; features WP_ASYNC and WP_UNPOPULATED, Linux 6.7) to which mappings are
      registered; PAGEMAP_SCAN then names the pages that were written since they were armed, and arms them, in one call.  A write to an
      armed page costs a fault that the kernel resolves alone: no signal, nobody who reads the descriptor, and system calls that write there go on.
      (linux: Documentation/admin-guide/mm/pagemap.rst, "Pagemap Scan IOCTL")
   2. A page that is not known to be armed is written.  What is noted here is a flag for each unit of 64 MiB (remember_ranges.h): all mappings of its
      ranges were registered, and armed, once.  That new mappings came since, or that registrations are gone, the kernel says
      (EPERM), and the whole range is written then.
   3. The descriptor must be in the program's table, and the pause may have one of its own (stop.h): so it is opened and closed afterwards
      (track_settle).  It may be closed by the program, and its number used for another file: it lies high, and its device and inode are
      compared before each use.  If it was ours that was closed, the kernel has dropped all registrations.  A child has it, too,
      and registrations through it would be the parent's: the process's number is compared as well.
   4. Never tried where a seccomp filter is on, which may kill for it.
   All but track_settle only within a stopped world, or where nothing else runs.  Not where pages are larger than 4 KiB (ranges would share pages).
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_REMEMBER_TRACK_H
#define GLEANER_REMEMBER_TRACK_H

#include "heap/present.h"

/* Can pages be tracked now?  The first time with a self-test: a store, and read(2), to armed pages must be seen, and nothing
   else.  False: it cannot be had here, or not yet: then track_settle opens the descriptor. `p` must be able to scan. */
bool track_start(struct present *p);

/* Nothing is armed any more, as soon as track_settle has closed the descriptor. */
void track_stop(void);

/* Outside of the pause, in the program's descriptor table: opens the descriptor that track_start missed, or closes what track_stop has left.  A
   low number is in use for a moment; not one that a program may just have freed for the next of its standard streams. */
void track_settle(void);

/* Is the descriptor still there and this process's?  If not, all is forgotten, and false. */
bool track_check(void);

/* Calls `each` for every run of pages in the range that were, or may have been, written since they were armed, and arms them; only for
   pages that are present or swapped out (p->swapped, as in present.h).  False: nothing is known of the range, or no longer; look at all of it. */
bool track_read(struct present *p, uintptr_t from, uintptr_t to,
                void (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

/* Arms the range if it is in a unit that was not armed before, and calls `each` for every run of pages that was. False: it cannot be; its
   unit counts as written from now on. */
bool track_arm(struct present *p, uintptr_t from, uintptr_t to, void (*each)(uintptr_t from, uintptr_t to, void *user), void *user);

/* Does tracking know all pages of the address's unit? */
bool track_is_armed(uintptr_t address);

/* Was the page written, or may it have been, since it was armed?  Arms nothing. */
bool track_is_written(struct present *p, uintptr_t page);

/* All units whose ranges track_arm was called for since the latest call of this are armed. */
void track_armed(void);

/* What was read was of no use (the collection failed): everything counts as written. */
void track_forget(void);

/* After fork, in the child: closes the parent's descriptor, if it is there. */
void track_fork_child(void);

/* Measures with 64 pages of its own; nanoseconds a page.  False: could not. */
bool track_measure(struct present *p, double *fault_ns, double *arm_ns);

/* Bytes of the range that are in huge pages; 0 where that cannot be seen. */
uint64_t track_huge_bytes(struct present *p, uintptr_t from, uintptr_t to);

/* The descriptor, -1: none.  The pause's table must have it. */
int track_descriptor(void);

/* Memory was mapped anew within a range that may be tracked, and is empty still: it is registered as its neighbours are, so that it is one mapping
   with them.  Nothing where tracking is not in use. */
void track_join(uintptr_t from, uintptr_t to);

/* For tests: pretends that the kernel refuses userfaultfd. */
void track_refuse(bool);

#endif
