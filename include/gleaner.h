/* gleaner.h: what a program may ask of Gleaner.  Optional: the library works under programs that
   know nothing of it.
   Every function is weak: a program links and runs without the library, and tells by
   `if (gleaner_version)` whether it is there.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef GLEANER_H
#define GLEANER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef GLEANER_API
#define GLEANER_API __attribute__((weak))
#endif

/* The library's version, "0.1.0". */
GLEANER_API extern const char *gleaner_version(void);

/* Writes a profile of this process, to `path` or where the `output` key says if that is NULL.  By
   way of a temporary file beside it: the file is whole or as before.  0, or an errno value.  Any
   thread. */
GLEANER_API extern int gleaner_dump(const char *path);

/* Bytes and blocks that are allocated now; either pointer may be NULL. */
GLEANER_API extern void gleaner_live(size_t *bytes, size_t *blocks);

/* Collections: which blocks does nothing reach any more? */

enum gleaner_collection { GLEANER_MINOR, GLEANER_MAJOR };

/* Runs a collection now and waits for what it finds.  0; EAGAIN: a thread could not be stopped, or something not be
   looked at, so that nothing may be called lost by it; ENOTSUP: collections cannot run here; ENOMEM.  Any
   thread. */
GLEANER_API extern int gleaner_collect(enum gleaner_collection kind);

/* Blocks, and bytes given to them. */
struct gleaner_count {
    size_t blocks, bytes;
};

struct gleaner_leaks {
    struct gleaner_count lost;       /* nothing reaches them: direct and indirect */
    struct gleaner_count direct;     /* of them, those that no other lost block reaches */
    struct gleaner_count indirect;
    struct gleaner_count possible;   /* reached by an unusual form of pointer only; not in `lost` */
    struct gleaner_count false_lost; /* called lost once, and freed, resized, written or read by the program since */
    struct gleaner_count unrecorded; /* lost, too, whenever that was, but there was no memory to record them; not in `lost` */
};

/* A moment, for leak checks that look only at what was lost since: a complete major collection, after which whatever is lost
   by now is known and will not be counted.  Which moment a block was *allocated* at is not kept, so one that is older
   counts, too, if its last pointer went since.  0, the process's start, where the collection was not possible. */
GLEANER_API extern unsigned long gleaner_mark(void);

/* A complete major collection, and what is lost now and was not at `mark` (0: all).  As gleaner_collect; `leaks` is zeroed
   where that is not 0. No suppression is applied. */
GLEANER_API extern int gleaner_leak_check(unsigned long mark, struct gleaner_leaks *leaks);

/* What is known of a block (its first address). */
enum gleaner_state {
    GLEANER_NO_BLOCK,
    GLEANER_YOUNG, /* allocated since the last collection */
    GLEANER_OLD,
    GLEANER_LOST,
    GLEANER_POSSIBLY_LOST,
    GLEANER_IGNORED /* by gleaner_ignore or __lsan_ignore_object, allocated between __lsan_disable and __lsan_enable, or called
                       lost once and written or read since */
};
GLEANER_API extern enum gleaner_state gleaner_state(const void *block);

/* Memory that the program wants looked at for pointers (what it maps or allocates itself is looked at anyway), and the
   opposite, with the same range.  0, ENOMEM, EINVAL. */
GLEANER_API extern int gleaner_add_root(const void *from, size_t bytes);
GLEANER_API extern int gleaner_remove_root(const void *from, size_t bytes);

/* The block, and what it reaches, is never called lost.  0; EINVAL if no block starts there. */
GLEANER_API extern int gleaner_ignore(const void *block);

struct gleaner_statistics {
    size_t minor, major, incomplete; /* collections */
    size_t live, live_bytes;         /* now */
    size_t young, young_bytes;       /* allocated between the latest two collections, and live at the latest */
    double pause_ms_max, pause_ms_median;
};
GLEANER_API extern void gleaner_statistics(struct gleaner_statistics *);

/* The program's own heap profile, as OCaml's Gc.Memprof gives it to OCaml programs: every allocated word is sampled with the
   probability lambda, and the program's callbacks are told of the blocks that hold sample points: when they are allocated,
   when a collection finds them still there, when they end.  It has nothing to do with the library's profile (the key
   `sample`), at whatever rate that is or if it is off: a block may be in both. */

enum gleaner_source {
    GLEANER_MALLOC,
    GLEANER_CALLOC,
    GLEANER_REALLOC, /* a block that realloc moved or gave another size is a new one, and the old one has ended */
    GLEANER_ALIGNED,
    GLEANER_CUSTOM, /* gleaner_memprof_custom */
    GLEANER_ARENA,  /* gleaner_arena_alloc */
    GLEANER_BULK    /* gleaner_arena_bulk */
};

/* A sampled block.  What n_samples points say of the program: n_samples * 8 / lambda bytes, allocated in
   n_samples * 8 / lambda / given blocks like this one. */
struct gleaner_sample {
    void *block;
    size_t asked, given;  /* bytes */
    size_t n_samples;     /* sample points in it, 1 at least: of its given / 8 words each is one with the probability lambda */
    enum gleaner_source source;
    unsigned stack;       /* number of the call stack that allocated it, for gleaner_stack_print, now or later; 0: unknown */
    unsigned n_frames;    /* of it, as many as the profile wants: return addresses, innermost first. */
    void *const *frames;  /* Only while the callback runs. */
    unsigned thread;      /* that allocated it: gettid's number */
    unsigned long long time; /* of the allocation: nanoseconds since 1970 */
};

/* The callbacks; NULL: not wanted.  An alloc callback returns the program's data for the block, which the later callbacks
   get, or NULL: then nothing is heard of this block any more.  (Where there is no alloc callback the data are NULL and the
   others are called.) The data count as a root: what they point to is not lost.  Blocks are tracked weakly: tracking keeps
   none from being lost.
While a callback runs nothing that its thread allocates is sampled, and no other callback runs in that thread: those that
become due run after it.  A callback may allocate, free, start, stop and discard profiles, fork, and end its thread; it must
not leave by longjmp or an exception.  It runs at the end of the malloc, free, … that caused it, before that returns: the
allocator is whole and holds no lock, but the program may hold some, and its block's contents are not set yet.  Of one block
one callback runs at a time, and in the order alloc, promote, lost, end; of different blocks they run in many threads at once.
*/
struct gleaner_tracker {
    void *(*alloc_young)(const struct gleaner_sample *, void *user);
    void *(*alloc_old)(const struct gleaner_sample *, void *user); /* old at once: of an arena of old blocks, or an old block
                                                                      that realloc gave another size in its place */
    void (*promote)(const struct gleaner_sample *, void *data, void *user);       /* a collection found it: it is old now */
    void (*dealloc_young)(const struct gleaner_sample *, void *data, void *user); /* it was freed before any did */
    void (*dealloc_old)(const struct gleaner_sample *, void *data, void *user);
    void (*lost)(const struct gleaner_sample *, void *data, void *user); /* nothing reaches it any more; it may be freed yet, or found
                                                                            again, and called lost once more */
    void (*reclaimed)(const struct gleaner_sample *, void *data, void *user); /* it was lost, and taken back: its end */
};

struct gleaner_memprof_options {
    double lambda;  /* samples per word of 8 bytes, 0 to 1 */
    unsigned depth; /* frames of a call stack that callbacks get, at most what the library keeps (the key `depth`); 0: that */
    struct gleaner_tracker tracker;
    void *user;     /* handed to every callback */
    int postponed;  /* not 0: callbacks run only in gleaner_memprof_poll */
};

/* Starts a profile, of all threads: the calling one takes part at once, others from their next visit to the allocator's slow
   path, which is at most 1024 blocks of one size away.  *profile (may be NULL) gets its number.  0; EINVAL: lambda is not in
   [0, 1]; EALREADY: one is running; ENOTSUP: the library does not serve this process's memory; ENOMEM. Any thread. */
GLEANER_API extern int gleaner_memprof_start(const struct gleaner_memprof_options *, unsigned long *profile);

/* Ends the sampling of the profile that runs.  Blocks that it has sampled are still tracked, until it is discarded; another
   profile may be started.  0; EINVAL if none runs. */
GLEANER_API extern int gleaner_memprof_stop(void);

/* Forgets a stopped profile: no callback of it begins any more (in another thread one may still be running), and its blocks
   are not tracked.  0; EINVAL: there is no such profile; EBUSY: it was not stopped. */
GLEANER_API extern int gleaner_memprof_discard(unsigned long profile);

/* Runs callbacks that wait: of postponed profiles, of collections (which leave theirs to whoever comes by the allocator
   next), of threads that have ended.  How many ran; 0 inside a callback. */
GLEANER_API extern size_t gleaner_memprof_poll(void);

/* Sampled blocks, and their sample points. */
struct gleaner_samples {
    unsigned long long blocks, samples;
};

/* What has become of a profile's samples.  When no thread allocates meanwhile
   allocated = freed_young + freed_old + reclaimed + live + lost + declined. */
struct gleaner_memprof_counts {
    struct gleaner_samples allocated;
    struct gleaner_samples freed_young, freed_old, reclaimed;
    struct gleaner_samples live, lost; /* tracked now, and in `lost` those that the latest complete collection did not reach */
    struct gleaner_samples promoted;   /* ever */
    struct gleaner_samples declined;   /* no longer tracked, since the alloc callback returned NULL */
    struct gleaner_samples dropped;    /* not in `allocated`: for want of memory */
};
GLEANER_API extern int gleaner_memprof_counts(unsigned long profile, struct gleaner_memprof_counts *); /* 0 or EINVAL */

/* `bytes` of memory that the program holds elsewhere (a mapping, a graphics card's) on account of a block: sampled by the
   running profile as if they were allocated here, and freed with the block.  0; EINVAL if no block starts there; ENOMEM. */
GLEANER_API extern int gleaner_memprof_custom(void *block, size_t bytes);

/* A call stack by its number.  _get: its return addresses, innermost first, at most `room`; returns how many there are.
   _print writes one line a frame, " #0 0x… (module+0x…)", as addr2line and `gleaner report` want it.  _name: "function+0x…
   (module)" of a return address, as far as the dynamic symbol tables know; "0x…" where they do not.  The number of
   characters, as snprintf. */
GLEANER_API extern unsigned gleaner_stack_get(unsigned stack, void **frames, unsigned room);
GLEANER_API extern void gleaner_stack_print(int descriptor, unsigned stack);
GLEANER_API extern int gleaner_stack_name(const void *frame, char *to, size_t room);

/* Weak handles: a way to a block that does not keep it from being lost.  A handle is cleared when its block is freed (also by
   a realloc that moves it), found lost, or reclaimed, and its number never stands for another block. */

enum gleaner_end { GLEANER_FREED, GLEANER_FOUND_LOST, GLEANER_RECLAIMED };

/* A handle to a live block (its first address), or 0 (no block starts there, no memory, nothing of ours in this process).
   `cleared`, if not NULL, is called once with `user` (a root) and the block's former address when the handle was cleared,
   under the rules for callbacks above; the block is gone by then, unless it was found lost.  Many handles of one block are
   many callbacks.  The block must not be freed meanwhile. Any thread. */
GLEANER_API extern unsigned long gleaner_weak_make(void *block, void (*cleared)(void *block, enum gleaner_end, void *user),
                                                   void *user);

/* The block, or NULL once the handle is cleared or dropped.  That the block is not freed while it is used is the program's
   matter. */
GLEANER_API extern void *gleaner_weak_get(unsigned long handle);

/* Gives a handle up: its callback is not called any more.  0; EINVAL if it was cleared or dropped before. */
GLEANER_API extern int gleaner_weak_drop(unsigned long handle);

/* Pools of the program's own: an arena is memory (a block, a mapping) that the program cuts into blocks itself.  Announced
   blocks are sampled by the running profile, and end when they are freed or their arena does. */
struct gleaner_arena;

enum { GLEANER_ARENA_OLD = 1 }; /* its blocks are old from the start */

/* NULL: no memory, or `bytes` is not in 1 … 2^40. Any thread. With NULL for an arena the calls below do nothing, or return EINVAL. */
GLEANER_API extern struct gleaner_arena *gleaner_arena_begin(void *memory, size_t bytes, int flags);

/* A block was cut from the arena, or given back to it.  0; EINVAL: it does not lie in the arena, is not aligned to 8, was announced
   already, or (free) was not.  As with malloc, many threads may be in here with different blocks, and a sample for which there is no
   memory is counted as dropped. */
GLEANER_API extern int gleaner_arena_alloc(struct gleaner_arena *, void *block, size_t bytes);
GLEANER_API extern int gleaner_arena_free(struct gleaner_arena *, void *block);

/* Many blocks cut at once, each sampled for itself, with one call stack for all.  All or nothing: EINVAL, as above, if it is so of any of
   them, and then none is announced, sampled or told of. */
struct gleaner_piece {
    void *block;
    size_t bytes;
};
GLEANER_API extern int gleaner_arena_bulk(struct gleaner_arena *, const struct gleaner_piece *, size_t count);

/* What is known of an announced block (gleaner_state knows only blocks of malloc), and how many are lost: a complete major
   collection did not reach them.  A block keeps what it points to alive only if it is reached itself; what of the arena's
   memory is in no announced block is looked at as if there were no arena.  Unusual forms of pointers are not looked for.
   Lost blocks of arenas are in no report. */
GLEANER_API extern enum gleaner_state gleaner_arena_state(struct gleaner_arena *, const void *block);
GLEANER_API extern void gleaner_arena_lost(struct gleaner_arena *, struct gleaner_count *);

/* All blocks of the arena end; with _end the arena, too.  Call it before its memory is freed or unmapped, while nobody else
   uses it. */
GLEANER_API extern void gleaner_arena_reset(struct gleaner_arena *);
GLEANER_API extern void gleaner_arena_end(struct gleaner_arena *);

#ifdef __cplusplus
}
#endif

#endif
