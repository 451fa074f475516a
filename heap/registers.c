/* registers.c: the layout of signal frames.

   x86-64: general registers in gregs; vector registers in the area that fpregs points to, 512 bytes of FXSAVE and,
   where its software-reserved bytes have FP_XSTATE_MAGIC1, extended_size bytes of XSAVE in standard format that end
   with FP_XSTATE_MAGIC2 (Linux, arch/x86/include/uapi/asm/sigcontext.h).
   aarch64: general registers in uc_mcontext; then records, each with a magic number and a size, up to one of size 0;
   what does not fit is in an area of its own that an EXTRA record points to (arch/arm64/include/uapi/asm/sigcontext.h).
   No record is left out: an unknown one may hold registers, too.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/registers.h"

#include <signal.h>
#include <ucontext.h>

typedef void each_range(const uintptr_t *from, const uintptr_t *to, void *user);

#define MOST_BYTES MIB /* of a frame's vector registers: more is no frame */

#if defined(__x86_64__)

#define XSTATE_MAGIC1 0x46505853u
#define XSTATE_MAGIC2 0x46505845u
#define FXSAVE_BYTES 512u
#define SOFTWARE_OFFSET 464u /* of the bytes that FXSAVE leaves to software */

static uint32_t word32(const char *at)
{
    uint32_t v;
    __builtin_memcpy(&v, at, sizeof v);
    return v;
}

static void each_vector(const ucontext_t *uc, each_range *each, void *user)
{
    const char *area = (const char *)uc->uc_mcontext.fpregs;
    if (!area || (uintptr_t)area % sizeof(uintptr_t) != 0) return;
    size_t bytes = FXSAVE_BYTES;
    if (word32(area + SOFTWARE_OFFSET) == XSTATE_MAGIC1) {
        size_t extended = word32(area + SOFTWARE_OFFSET + 4);
        if (extended > FXSAVE_BYTES && extended < MOST_BYTES &&
            word32(area + extended - 4) == XSTATE_MAGIC2) {
            bytes = extended;
        }
    }
    bytes &= ~(sizeof(uintptr_t) - 1);
    each((const uintptr_t *)area, (const uintptr_t *)(area + bytes), user);
}

uintptr_t registers_sp(const void *context)
{
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
}

static void each_general(const ucontext_t *uc, each_range *each, void *user)
{
    const uintptr_t *first = (const uintptr_t *)uc->uc_mcontext.gregs;
    each(first, first + sizeof uc->uc_mcontext.gregs / sizeof *first, user);
}

#elif defined(__aarch64__)

#define RECORD_EXTRA 0x45585401u

struct record {
    uint32_t magic, bytes;
};
struct extra_record {
    struct record head;
    uint64_t address;
    uint32_t bytes;
};

static void each_record(const char *at, const char *end, each_range *each, void *user)
{
    const char *first = at, *extra = NULL;
    size_t extra_bytes = 0;
    while ((size_t)(end - at) >= sizeof(struct record)) {
        const struct record *r = (const void *)at;
        if (r->bytes < sizeof *r || r->bytes % 16 != 0 || r->bytes > (size_t)(end - at)) break;
        if (r->magic == RECORD_EXTRA && r->bytes >= sizeof(struct extra_record)) {
            const struct extra_record *e = (const void *)at;
            extra = (const char *)(uintptr_t)e->address;
            extra_bytes = e->bytes;
        }
        at += r->bytes;
    }
    each((const uintptr_t *)first, (const uintptr_t *)at, user);
    if (!extra || (uintptr_t)extra % 16 != 0 || extra_bytes > MOST_BYTES) return;
    extra_bytes &= ~(sizeof(uintptr_t) - 1);
    each((const uintptr_t *)extra, (const uintptr_t *)(extra + extra_bytes), user);
}

static void each_vector(const ucontext_t *uc, each_range *each, void *user)
{
    const char *records = (const char *)uc->uc_mcontext.__reserved;
    each_record(records, records + sizeof uc->uc_mcontext.__reserved, each, user);
}

uintptr_t registers_sp(const void *context)
{
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.sp;
}

static void each_general(const ucontext_t *uc, each_range *each, void *user)
{
    const uintptr_t *first = (const uintptr_t *)uc->uc_mcontext.regs;
    each(first, first + sizeof uc->uc_mcontext.regs / sizeof *first, user);
}

#endif

void registers_each(const void *context, each_range *each, void *user)
{
    const ucontext_t *uc = context;
    each_general(uc, each, user);
    each_vector(uc, each, user);
    const uintptr_t *alternate = (const uintptr_t *)&uc->uc_stack.ss_sp;
    each(alternate, alternate + 1, user);
}

void registers_alternate(const void *context, uintptr_t *low, uintptr_t *high)
{
    const stack_t *s = &((const ucontext_t *)context)->uc_stack;
    *low = *high = 0;
    if ((s->ss_flags & SS_DISABLE) || !s->ss_sp) return;
    *low = (uintptr_t)s->ss_sp;
    *high = *low + s->ss_size;
}
