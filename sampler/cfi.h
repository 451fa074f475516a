/* cfi.h: the unwinding rule of one code address, read from .eh_frame.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_CFI_H
#define GLEANER_CFI_H

#include "heap/base.h"

enum cfi_kind {
    CFI_UNKNOWN,   /* no table covers the address */
    CFI_PLAIN,     /* the caller's frame follows from this one's registers */
    CFI_SIGNAL,    /* a signal handler's return trampoline: registers lie in the ucontext at sp */
    CFI_OUTERMOST, /* the return address is undefined: a thread's first frame */
    CFI_COMPLEX    /* a rule that needs more than sp and fp */
};

/* Offsets are in bytes and multiples of 8.  The caller's sp is the canonical frame address:

     cfa = (cfa_fp ? fp : sp) + cfa_offset,  and one load more where `cfa_load` (functions that
   align their stack keep the address there) return address = ra_slot ? *(cfa + ra_slot) : the link
   register caller's fp    = fp_slot ? *(cfa + fp_slot) : fp; with `cfa_load`: *fp */
struct cfi_rule {
    enum cfi_kind kind;
    bool cfa_fp, cfa_load;
    int32_t cfa_offset, ra_slot, fp_slot;
};

/* The rule at `pc`, an address in the object whose PT_GNU_EH_FRAME segment is at `eh_frame_hdr`.
   Reads mapped tables only; any thread, signal handlers too. */
struct cfi_rule cfi_find(const void *eh_frame_hdr, uintptr_t pc);

#endif
