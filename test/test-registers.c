/* test-registers.c: a word that only a register holds is found in the frame of a signal.

   The register gets the word's complement from memory, is complemented, and the thread then sends itself a signal,
   all in one piece of assembly, so that the word is nowhere else.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#undef NDEBUG
#include "heap/registers.h"
#include "suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define HIDDEN_WORD UINT64_C(0x3a5c96e1d2b48f07)

static volatile uint64_t complement; /* of the word looked for */

static struct {
    int hits, ranges, signals;
    uintptr_t sp, low, high; /* as registers.h says */
    uintptr_t ss_sp;         /* to be found among the words, too */
    int ss_hits;
} found;

static void look(const uintptr_t *from, const uintptr_t *to, void *context)
{
    ck_assert_uint_eq((uintptr_t)from % sizeof *from, 0);
    ck_assert(from <= to);
    found.ranges++;
    for (; from < to; from++) {
        if (~*from == complement) found.hits++;
        if (found.ss_sp && *from == found.ss_sp &&
            from == (void *)&((ucontext_t *)context)->uc_stack.ss_sp) {
            found.ss_hits++;
        }
    }
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    found.signals++;
    found.sp = registers_sp(context);
    registers_alternate(context, &found.low, &found.high);
    registers_each(context, look, context);
}

/* raise is declared to leave our variables alone. */
static void send(int sig)
{
    raise(sig);
    __asm__ volatile("" : : : "memory");
}

static void listen(int flags)
{
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
    memset(&found, 0, sizeof found);
    complement = ~HIDDEN_WORD;
    ck_assert_int_eq(sigaction(SIGUSR1, &act, NULL), 0);
}

#if defined(__x86_64__)

#define IN_GENERAL(r)                                                                              \
    static void in_##r(void)                                                                       \
    {                                                                                              \
        long nr = SYS_tgkill;                                                                      \
        __asm__ volatile("mov %[from], %%" #r "\n\tnot %%" #r "\n\tsyscall"                        \
                         : "+a"(nr)                                                                \
                         : [from] "m"(complement), "D"(getpid()), "S"(gettid()), "d"(SIGUSR1)      \
                         : #r, "rcx", "r11", "memory");                                            \
    }
IN_GENERAL(rbx)
IN_GENERAL(r8)
IN_GENERAL(r9)
IN_GENERAL(r10)
IN_GENERAL(r12)
IN_GENERAL(r13)
IN_GENERAL(r14)
IN_GENERAL(r15)

static void in_rbp(void)
{
    long nr = SYS_tgkill;
    __asm__ volatile(
        "mov %%rbp, %%r12\n\tmov (%[from]), %%rbp\n\tnot %%rbp\n\tsyscall\n\tmov %%r12, %%rbp"
        : "+a"(nr)
        : [from] "r"(&complement), "D"(getpid()), "S"(gettid()), "d"(SIGUSR1)
        : "r12", "rcx", "r11", "memory");
}

/* A vector register holds the word in each of its lanes: two, four or eight. */
static void in_xmm6(void)
{
    long nr = SYS_tgkill;
    __asm__ volatile(
        "movq %[from], %%xmm6\n\tpunpcklqdq %%xmm6, %%xmm6\n\tpcmpeqd %%xmm7, %%xmm7\n\t"
        "pxor %%xmm7, %%xmm6\n\tsyscall"
        : "+a"(nr)
        : [from] "m"(complement), "D"(getpid()), "S"(gettid()), "d"(SIGUSR1)
        : "xmm6", "xmm7", "rcx", "r11", "memory");
}

__attribute__((target("avx"))) static void in_ymm15(void)
{
    long nr = SYS_tgkill;
    __asm__ volatile("vbroadcastsd %[from], %%ymm15\n\tvcmpps $15, %%ymm14, %%ymm14, %%ymm14\n\t"
                     "vxorps %%ymm14, %%ymm15, %%ymm15\n\tsyscall\n\tvzeroupper"
                     : "+a"(nr)
                     : [from] "m"(complement), "D"(getpid()), "S"(gettid()), "d"(SIGUSR1)
                     : "xmm14", "xmm15", "rcx", "r11", "memory");
}

__attribute__((target("avx512f"))) static void in_zmm31(void)
{
    long nr = SYS_tgkill;
    __asm__ volatile(
        "vbroadcastsd %[from], %%zmm31\n\tvpternlogq $0x55, %%zmm31, %%zmm31, %%zmm31\n\tsyscall"
        : "+a"(nr)
        : [from] "m"(complement), "D"(getpid()), "S"(gettid()), "d"(SIGUSR1)
        : "xmm31", "rcx", "r11", "memory");
}

static const struct {
    const char *name;
    void (*go)(void);
    int hits;
} registers[] = {
    {"rbx", in_rbx, 1}, {"rbp", in_rbp, 1},   {"r8", in_r8, 1},       {"r9", in_r9, 1},
    {"r10", in_r10, 1}, {"r12", in_r12, 1},   {"r13", in_r13, 1},     {"r14", in_r14, 1},
    {"r15", in_r15, 1}, {"xmm6", in_xmm6, 2}, {"ymm15", in_ymm15, 4}, {"zmm31", in_zmm31, 8},
};

static bool have(const char *name)
{
    if (name[0] == 'y') return __builtin_cpu_supports("avx");
    return name[0] != 'z' || __builtin_cpu_supports("avx512f");
}

#elif defined(__aarch64__)

#define IN_GENERAL(r)                                                                              \
    static void in_##r(void)                                                                       \
    {                                                                                              \
        long pid = getpid(), tid = gettid();                                                       \
        register long x8 __asm__("x8") = SYS_tgkill;                                               \
        register long x0 __asm__("x0") = pid;                                                      \
        register long x1 __asm__("x1") = tid;                                                      \
        register long x2 __asm__("x2") = SIGUSR1;                                                  \
        __asm__ volatile("ldr " #r ", %[from]\n\tmvn " #r ", " #r "\n\tsvc 0"                      \
                         : "+r"(x0)                                                                \
                         : [from] "m"(complement), "r"(x8), "r"(x1), "r"(x2)                       \
                         : #r, "memory");                                                          \
    }
IN_GENERAL(x9)
IN_GENERAL(x17)
IN_GENERAL(x20)
IN_GENERAL(x28)

/* A vector register holds the word in each of its lanes. */
static void in_v31(void)
{
    long pid = getpid(), tid = gettid();
    register long x8 __asm__("x8") = SYS_tgkill;
    register long x0 __asm__("x0") = pid;
    register long x1 __asm__("x1") = tid;
    register long x2 __asm__("x2") = SIGUSR1;
    __asm__ volatile("ld1r {v31.2d}, [%[from]]\n\tmvn v31.16b, v31.16b\n\tsvc 0"
                     : "+r"(x0)
                     : [from] "r"(&complement), "r"(x8), "r"(x1), "r"(x2)
                     : "v31", "memory");
}

static const struct {
    const char *name;
    void (*go)(void);
    int hits;
} registers[] = {{"x9", in_x9, 1},
                 {"x17", in_x17, 1},
                 {"x20", in_x20, 1},
                 {"x28", in_x28, 1},
                 {"v31", in_v31, 2}};

static bool have(const char *name)
{
    return true;
}

#endif

START_TEST(test_registers)
{
    if (!have(registers[_i].name)) return;
    listen(0);
    registers[_i].go();
    ck_assert_int_eq(found.signals, 1);
    ck_assert_msg(found.hits >= registers[_i].hits, "%s: %d", registers[_i].name, found.hits);
    complement = ~HIDDEN_WORD ^ 1; /* and nothing is found that is not there */
    found.hits = 0;
    send(SIGUSR1);
    ck_assert_int_eq(found.hits, 0);
}
END_TEST

START_TEST(test_stack_pointer)
{
    listen(0);
    volatile char here = 0;
    stack_t none = {.ss_flags = SS_DISABLE}; /* sanitizers install one */
    ck_assert_int_eq(sigaltstack(&none, NULL), 0);
    send(SIGUSR1);
    ck_assert_uint_lt(found.sp, (uintptr_t)&here + 4096);
    ck_assert_uint_gt(found.sp, (uintptr_t)&here - 16384);
    ck_assert_uint_eq(found.low, 0);
    ck_assert_uint_eq(found.high, 0);
}
END_TEST

/* On the alternate stack the interrupted stack pointer is the normal stack's, and the alternate one is known. */
START_TEST(test_alternate_stack)
{
    size_t bytes = 1 << 16;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t alternate = {.ss_sp = memory, .ss_size = bytes}, none = {.ss_flags = SS_DISABLE};
    ck_assert_int_eq(sigaltstack(&alternate, NULL), 0);
    listen(SA_ONSTACK);
    found.ss_sp = (uintptr_t)memory;
    send(SIGUSR1);
    ck_assert_uint_eq(found.low, (uintptr_t)memory);
    ck_assert_uint_eq(found.high, (uintptr_t)memory + bytes);
    ck_assert(found.sp < found.low || found.sp >= found.high);
    ck_assert_int_eq(found.ss_hits, 1);
    listen(SA_ONSTACK);
    registers[0].go();
    ck_assert_int_ge(found.hits, registers[0].hits);
    ck_assert_int_eq(sigaltstack(&none, NULL), 0);
    send(SIGUSR1);
    ck_assert_uint_eq(found.high, 0);
    munmap(memory, bytes);
}
END_TEST

static void take_signal(int sig)
{
    send(SIGUSR1);
}

/* Our signal interrupts a handler of the program that runs on the alternate stack. */
START_TEST(test_within_a_handler)
{
    size_t bytes = 1 << 16;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t alternate = {.ss_sp = memory, .ss_size = bytes}, none = {.ss_flags = SS_DISABLE};
    struct sigaction act = {.sa_handler = take_signal, .sa_flags = SA_ONSTACK};
    ck_assert_int_eq(sigaltstack(&alternate, NULL), 0);
    ck_assert_int_eq(sigaction(SIGUSR2, &act, NULL), 0);
    listen(SA_ONSTACK);
    send(SIGUSR2);
    ck_assert_int_eq(found.signals, 1);
    ck_assert_uint_eq(found.low, (uintptr_t)memory);
    ck_assert(found.sp >= found.low && found.sp < found.high);
    ck_assert_int_eq(sigaltstack(&none, NULL), 0);
    munmap(memory, bytes);
}
END_TEST

/* Frames that are not as they should be: nothing beyond what is surely there is named. */
static struct {
    const char *from, *to; /* of vectors: what a test looks at */
} area;

static void see(const uintptr_t *from, const uintptr_t *to, void *start)
{
    if ((const char *)from == start) area.from = (const char *)from, area.to = (const char *)to;
}

#if defined(__x86_64__)

START_TEST(test_odd_frames)
{
    static _Alignas(64) char memory[8192];
    static const struct {
        uint32_t magic, bytes;
        bool ends_well;
        size_t expected;
    } frames[] = {
        {0, 0, false, 512},
        {0, 1000, true, 512},
        {0x46505853, 836, true,
         832}, /* AVX: 832 bytes and the second magic number, as Linux has it */
        {0x46505853, 836, false, 512},
        {0x46505853, 2700, true, 2696},
        {0x46505853, 12, true, 512},
        {0x46505853, 0x7fffffff, false, 512},
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        ucontext_t uc = {0};
        uint32_t end = 0x46505845;
        memset(memory, 0, sizeof memory);
        memcpy(memory + 464, &frames[i].magic, 4);
        memcpy(memory + 468, &frames[i].bytes, 4);
        if (frames[i].ends_well) memcpy(memory + frames[i].bytes - 4, &end, 4);
        uc.uc_mcontext.fpregs = (void *)memory;
        area.from = area.to = NULL;
        registers_each(&uc, see, memory);
        ck_assert_ptr_eq(area.from, memory);
        size_t bytes = (size_t)(area.to - area.from);
        ck_assert_msg(bytes == frames[i].expected, "%zu: %zu", i, bytes);
    }
    ucontext_t none = {0};
    area.from = NULL;
    registers_each(&none, see, memory);
    ck_assert_ptr_null(area.from);
}
END_TEST

#else

START_TEST(test_odd_frames)
{
    static ucontext_t uc;
    static _Alignas(16) char extra[256];
    char *records = (char *)uc.uc_mcontext.__reserved;
    uint32_t fpsimd[2] = {0x46508001, 528}, wild[2] = {0x53564501, 1 << 20};
    struct {
        uint32_t magic, bytes;
        uint64_t address;
        uint32_t length, none[3];
    } more = {0x45585401, 32, (uintptr_t)extra, sizeof extra, {0}};
    memcpy(records, fpsimd, sizeof fpsimd);
    memcpy(records + 528, &more, sizeof more);
    area.from = NULL;
    registers_each(&uc, see, records);
    ck_assert_int_eq(area.to - area.from, 528 + 32);
    registers_each(&uc, see, extra);
    ck_assert_ptr_eq(area.from, extra);
    ck_assert_int_eq(area.to - area.from, sizeof extra);
    memcpy(records + 528, wild, sizeof wild);
    registers_each(&uc, see, records);
    ck_assert_int_eq(area.to - area.from, 528);
}
END_TEST

#endif

int main(void)
{
    Suite *s = suite_create("registers");
    TCase *t = tcase_create("registers");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, test_registers, 0, sizeof registers / sizeof *registers);
    tcase_add_test(t, test_stack_pointer);
    tcase_add_test(t, test_alternate_stack);
    tcase_add_test(t, test_within_a_handler);
    tcase_add_test(t, test_odd_frames);
    suite_add_tcase(s, t);
    return suite_run(s);
}
