/* remember.c: see remember.h.

   1. What a cycle costs is written down in remember_cost.h.  All of it is measured here: what it takes to read a page for words, and to look
      whether a page was written, at every cycle; the fault of a write to an armed page, and arming it, once on 64 pages of our own.  A
      fault takes 1 us on a machine and up to 60 us on a virtual one, so neither way is always the better one.
   2. How many pages are written is counted while they are tracked and estimated from a sample while they are not (remember_sample.h), so that
      no cycle is spent on tracking only to find out that it does not pay.
   3. A page is read out of tracking and armed again in one call, at the beginning of a collection.  If that collection fails,
      blocks stay young and the pages that point to them are no longer known: all old memory counts as written (remember_words
      without remember_arm).  A major collection between two minor ones makes more blocks old, which takes nothing away.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/remember.h"
#include "heap/load_all.h"
#include "heap/remember_check.h"
#include "heap/remember_cost.h"
#include "heap/remember_ranges.h"
#include "heap/remember_sample.h"
#include "heap/remember_sweep.h"
#include "heap/remember_track.h"

#define SAMPLES_LEAST 64u
#define LOST_MOST 3 /* a program that closes our descriptor three times will do so again */

static enum remember_way forced, way = REMEMBER_SWEEP;
static bool measured; /* fault_ns and arm_ns are known */
static unsigned lost_descriptors;
static bool words_no_arm; /* remember_words without remember_arm */
/* For `verify`: */
static bool verify;
static const struct ranges *blind; /* while a pause lasts, of the latest remember_words */
static uint64_t verify_ns; /* what the notes took, which is no cost of tracking */
static bool written_known;
static double sweep_ns, look_ns, fault_ns, arm_ns; /* a page */
static double written_part;                        /* W / P */
static uint64_t old_pages;
static struct remember_stats last;

void remember_start(enum remember_way f)
{
    forced = f;
}

void remember_verify(bool yes)
{
    verify = yes;
}

enum remember_way remember_way(void)
{
    return way;
}

void remember_settle(void)
{
    track_settle();
}

int remember_descriptor(void)
{
    return track_descriptor();
}

void remember_fork_child(void)
{
    track_fork_child();
    sample_forget();
    way = REMEMBER_SWEEP;
    words_no_arm = written_known = false;
    lost_descriptors = 0;
}

void remember_stats(struct remember_stats *to)
{
    *to = last;
    to->way = way;
    to->sweep_ns_per_kib = sweep_ns / (OS_PAGE / KIB);
    to->track_ns_per_page = fault_ns;
    to->arm_ns_per_page = arm_ns;
}

/* ---- reading ---- */

/* Ranges that were read in one way. */
struct part {
    uint64_t bytes, read, ns; /* of them; what of them was read for words; and how long it took */
};

struct reading {
    struct sweep *sweep;
    struct present *present;
    struct part swept, tracked;
    uint64_t written; /* bytes of pages that tracking named */
    bool ok;
};

static NOINLINE void verify_note(uintptr_t from, uintptr_t to, const struct present *present)
{
    uint64_t began = cost_clock();
    check_note(from, to, present, blind);
    verify_ns += cost_clock() - began;
}

static void written_pages(uintptr_t from, uintptr_t to, void *user)
{
    struct reading *r = user;
    r->written += to - from;
    sweep_pages(from, to, r->sweep);
    if (unlikely(verify)) verify_note(from, to, r->present);
}

static bool read_range(uintptr_t from, uintptr_t to, void *user)
{
    struct reading *r = user;
    uint64_t began = cost_clock() - verify_ns, before = sweep_bytes(r->sweep), written = r->written;
    struct part *part = &r->tracked;
    if (way != REMEMBER_TRACK || !track_read(r->present, from, to, written_pages, r)) {
        part = &r->swept;
        r->written = written;
        r->ok = present_each(r->present, from, to, PRESENT_ANONYMOUS, sweep_pages, r->sweep);
    }
    part->bytes += to - from;
    part->read += sweep_bytes(r->sweep) - before;
    part->ns += cost_clock() - verify_ns - began;
    return r->ok;
}

/* A mean that forgets: a cycle that was disturbed does not decide alone. */
static void learn(double *mean, double now)
{
    *mean = *mean == 0 ? now : *mean * 0.75 + now * 0.25;
}

static double pages(uint64_t bytes)
{
    return (double)bytes / OS_PAGE;
}

static void learn_from(const struct reading *r)
{
    const struct part *s = &r->swept, *t = &r->tracked;
    if (s->read >= MIB && s->read >= s->bytes / 2) learn(&sweep_ns, (double)s->ns / pages(s->read));
    if (t->bytes >= MIB) {
        double look = ((double)t->ns - pages(r->written) * arm_ns - pages(t->read) * sweep_ns) /
                      pages(t->bytes);
        learn(&look_ns, look > 1 ? look : 1);
        written_part = (double)r->written / (double)t->bytes;
        written_known = true;
    }
    if (way != REMEMBER_TRACK) {
        unsigned found, changed;
        sample_result(&found, &changed);
        if (found < SAMPLES_LEAST) return;
        written_part = (double)changed / found;
        written_known = true;
    }
}

bool remember_words(struct marker *m, const struct white *young, uintptr_t guard,
                    struct present *present)
{
    if (words_no_arm) { /* see 3 */
        track_forget();
        sample_forget();
    }
    words_no_arm = true;
    blind = young->blind;
    if (way == REMEMBER_TRACK && !track_check()) {
        way = REMEMBER_SWEEP;
        lost_descriptors++;
    }
    struct reading r = {
        .sweep = sweep_begin(m, young, guard, present), .present = present, .ok = true};
    if (!r.sweep) return false;
    if (!sweep_any(r.sweep)) { /* what was written stays marked so */
        sweep_end(r.sweep);
        return true;
    }
    struct load_all loads;
    load_all_begin(&loads);
    if (way != REMEMBER_TRACK) sample_begin();
    ranges_each(read_range, &r);
    if (way != REMEMBER_TRACK) sample_end();
    load_all_end(&loads);
    sweep_end(r.sweep);
    learn_from(&r);
    last.bytes = r.swept.bytes + r.tracked.bytes;
    last.bytes_scanned = r.swept.read + r.tracked.read;
    old_pages = last.bytes / OS_PAGE;
    last.bytes_written = written_known ? (uint64_t)(written_part * (double)last.bytes) : 0;
    return r.ok;
}

static bool sweep_range(uintptr_t from, uintptr_t to, void *user)
{
    struct reading *r = user;
    return r->ok = present_each(r->present, from, to, PRESENT_ANONYMOUS, sweep_pages, r->sweep);
}

bool remember_all_words(struct marker *m, const struct white *young, uintptr_t guard, struct present *present)
{
    struct reading r = {.sweep = sweep_begin(m, young, guard, present), .present = present, .ok = true};
    if (!r.sweep) return false;
    if (sweep_any(r.sweep)) ranges_each(sweep_range, &r);
    sweep_end(r.sweep);
    return r.ok;
}

struct unseen {
    struct present *present;
    struct check_found found;
};

static bool look_for_unseen(uintptr_t from, uintptr_t to, void *user)
{
    struct unseen *u = user;
    if (track_is_armed(from)) check_range(from, to, u->present, blind, &u->found);
    return true;
}

uint64_t remember_unseen(struct present *present, uintptr_t *first)
{
    struct unseen u = {.present = present};
    if (verify && way == REMEMBER_TRACK) ranges_each(look_for_unseen, &u);
    *first = u.found.first;
    return u.found.pages;
}

/* ---- choosing and arming ---- */

static bool measure(struct present *p)
{
    if (measured) return true;
    if (!track_start(p)) return false;
    measured = track_measure(p, &fault_ns, &arm_ns);
    if (measured && look_ns == 0) look_ns = arm_ns / 8; /* a guess until the first look */
    return measured;
}

static bool may_track(struct present *p)
{
    return measure(p) && track_start(p);
}

struct huge {
    struct present *present;
    uint64_t bytes, huge;
};

static bool count_huge(uintptr_t from, uintptr_t to, void *user)
{
    struct huge *h = user;
    h->bytes += to - from;
    h->huge += track_huge_bytes(h->present, from, to);
    return true;
}

static bool keeps_huge(const struct remember_cost *c, struct present *p)
{
    struct huge h = {p, 0, 0};
    if (!cost_keeps_huge(c, 1)) return false;
    ranges_each(count_huge, &h);
    return cost_keeps_huge(c, h.bytes > 0 ? (double)h.huge / (double)h.bytes : 0);
}

static enum remember_way choose(struct present *p)
{
    if (forced == REMEMBER_SWEEP) return REMEMBER_SWEEP;
    if (forced == REMEMBER_TRACK) return may_track(p) ? REMEMBER_TRACK : REMEMBER_SWEEP;
    struct remember_cost c = {.pages = (double)old_pages, .sweep = sweep_ns};
    if (cost_of_sweep(&c) < COST_WORTH_NS || !written_known || lost_descriptors >= LOST_MOST ||
        !measure(p))
        return REMEMBER_SWEEP;
    c.written = c.pages * written_part;
    c.look = look_ns;
    c.arm = arm_ns;
    c.fault = fault_ns;
    bool now = way == REMEMBER_TRACK;
    if (!cost_says_track(&c, now) || (!now && keeps_huge(&c, p))) return REMEMBER_SWEEP;
    return track_start(p) ? REMEMBER_TRACK : REMEMBER_SWEEP;
}

struct arming {
    struct present *present;
    uint64_t pages;
    bool all;
};

static void armed_pages(uintptr_t from, uintptr_t to, void *user)
{
    struct arming *a = user;
    a->pages += (to - from) / OS_PAGE;
    if (unlikely(verify)) verify_note(from, to, a->present);
}

static bool arm_range(uintptr_t from, uintptr_t to, void *user)
{
    struct arming *a = user;
    a->all &= track_arm(a->present, from, to, armed_pages, a);
    return true;
}

void remember_arm(struct present *p)
{
    words_no_arm = false;
    enum remember_way next = choose(p);
    if (next != REMEMBER_TRACK) {
        track_stop();
        if (way == REMEMBER_TRACK) sample_forget();
        way = REMEMBER_SWEEP;
        return;
    }
    way = REMEMBER_TRACK;
    struct arming a = {p, 0, true};
    uint64_t began = cost_clock() - verify_ns;
    ranges_each(arm_range, &a);
    track_armed();
    if (a.pages >= MIB / OS_PAGE) learn(&arm_ns, (double)(cost_clock() - verify_ns - began) / (double)a.pages);
}
