/* walk_frame.c: a walk (walk.c) that follows plain rules only, and checks each address before it reads there: nobody else sees to it that this
   thread's stack is as its tables say, and a fault would end the child that asks.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/walk_frame.h"
#include "sampler/cfi.h"
#include "sampler/walk.h"

#include <ucontext.h>

#define MOST_FRAMES 4096u
#define LOWEST_CODE 0x4000

static uintptr_t code_at(uintptr_t address)
{
#if defined(__aarch64__)
    return *(const uintptr_t *)address & (((uintptr_t)1 << 48) - 1); /* without its signature */
#else
    return *(const uintptr_t *)address;
#endif
}

uintptr_t walk_frame_of(const void *context, uintptr_t low, uintptr_t high, uintptr_t address)
{
    const ucontext_t *uc = context;
    struct walk_state s = {0};
#if defined(__x86_64__)
    s.pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    s.sp = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
    s.fp = (uintptr_t)uc->uc_mcontext.gregs[REG_RBP];
#elif defined(__aarch64__)
    s.pc = uc->uc_mcontext.pc;
    s.sp = uc->uc_mcontext.sp;
    s.fp = uc->uc_mcontext.regs[29];
    s.lr = uc->uc_mcontext.regs[30];
#endif
    s.pc++; /* as a return address */
    for (unsigned n = 0; n < MOST_FRAMES; n++) {
        if (s.sp < low || s.sp >= high || s.sp % 8 != 0) return 0;
        const struct cfi_rule rule = walk_rule(s.pc - 1);
        if (rule.kind != CFI_PLAIN || rule.cfa_load) return 0;
        uintptr_t cfa = (rule.cfa_fp ? s.fp : s.sp) + (uintptr_t)(intptr_t)rule.cfa_offset;
        if (cfa < s.sp || cfa > high || cfa % 8 != 0 || (cfa == s.sp && n > 0)) return 0;
        if (address < cfa) return s.pc;
        uintptr_t ra = cfa + (uintptr_t)(intptr_t)rule.ra_slot, fp = cfa + (uintptr_t)(intptr_t)rule.fp_slot;
        if (rule.ra_slot && (ra < low || ra > high - 8)) return 0;
        if (rule.fp_slot && (fp < low || fp > high - 8)) return 0;
        if (rule.fp_slot) s.fp = *(const uintptr_t *)fp;
        if (!rule.ra_slot && n > 0) return 0;
        s.pc = rule.ra_slot ? code_at(ra) : s.lr;
        s.sp = cfa;
        if (s.pc < LOWEST_CODE) return 0;
    }
    return 0;
}
