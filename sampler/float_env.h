/* float_env.h: floating point inside malloc must not be seen outside.  The program may have
   unmasked exceptions (feenableexcept), may test the sticky flags, or may round otherwise or
   flush to zero: for our few operations we take the default environment and put back the
   program's. (fenv.h would do, but lives in libm, which the library does not load into every
   program.)
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_FLOAT_ENV_H
#define GLEANER_FLOAT_ENV_H

#include "heap/base.h"

struct float_env {
    uint64_t control, status;
};

#if defined(__x86_64__)

static inline void float_env_take(struct float_env *saved)
{
    uint32_t was, ours = 0x1f80; /* all masked, to nearest: the state at a process's start */
    __asm__ volatile("stmxcsr %0" : "=m"(was));
    __asm__ volatile("ldmxcsr %0" : : "m"(ours) : "memory");
    saved->control = was;
}

static inline void float_env_restore(const struct float_env *saved)
{
    uint32_t was = (uint32_t)saved->control;
    __asm__ volatile("ldmxcsr %0" : : "m"(was) : "memory");
}

#elif defined(__aarch64__)

static inline void float_env_take(struct float_env *saved)
{
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(saved->control), "=r"(saved->status));
    __asm__ volatile("msr fpcr, xzr" : : : "memory");
}

static inline void float_env_restore(const struct float_env *saved)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
                     :
                     : "r"(saved->control), "r"(saved->status)
                     : "memory");
}

#endif

#endif
