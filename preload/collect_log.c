/* collect_log.c: a line a collection, by one write to a descriptor that appends, so that processes of a tree can share a file.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preload/collect_log.h"
#include "heap/print.h"
#include "heap/quiet_write.h"
#include "heap/syscall.h"
#include "preload/collection.h"
#include "preload/kept_file.h"
#include "preload/start_folder.h"

#include <fcntl.h>

static struct kept_file kept;
static bool to_file;
static bool totals;            /* log:debug */
static char path[2 * CONFIG_PATH];

static const char *const kinds[] = {[COLLECTION_MINOR] = "minor", [COLLECTION_MAJOR] = "major"};
static const char *const triggers[TRIGGERS] = {
    [TRIGGER_REQUEST] = "request", [TRIGGER_EXIT] = "exit", [TRIGGER_TIME] = "time",
    [TRIGGER_GROWTH] = "growth",   [TRIGGER_API] = "api", [TRIGGER_MEMORY] = "memory",
};

/* Milliseconds with three places. */
struct milliseconds {
    char text[32];
};

static struct milliseconds milliseconds(uint64_t ns)
{
    struct milliseconds m;
    print_to(m.text, sizeof m.text, "%lu.%03lu", (unsigned long)(ns / 1000000),
             (unsigned long)(ns / 1000 % 1000));
    return m;
}

size_t collect_log_line(char *to, size_t bytes, int pid, const struct collection *c)
{
    size_t n = print_to(
        to, bytes,
        "==%d== gleaner: collection %u %s (%s%s) %s%s, pause %s ms (stop %s, roots %s, remember "
        "%s, mark %s, sweep %s), "
        "young %lu blocks %lu bytes, promoted %lu blocks %lu bytes, lost %lu blocks %lu bytes",
        pid, c->number, kinds[c->kind], triggers[c->trigger], c->snapshot ? ", snapshot" : "",
        c->complete ? "complete" : "incomplete: ",
        c->complete  ? ""
        : c->why_not ? c->why_not
                     : "?",
        milliseconds(c->pause).text, milliseconds(c->stop).text, milliseconds(c->roots).text,
        milliseconds(c->remember).text, milliseconds(c->mark).text, milliseconds(c->sweep).text,
        (unsigned long)c->young, (unsigned long)c->young_bytes, (unsigned long)c->promoted,
        (unsigned long)c->promoted_bytes, (unsigned long)c->lost, (unsigned long)c->lost_bytes);
    if (c->reclaims && n < bytes)
        n += print_to(to + n, bytes - n, ", quarantined %lu blocks %lu bytes, reclaimed %lu blocks %lu bytes",
                      (unsigned long)c->quarantined, (unsigned long)c->quarantined_bytes, (unsigned long)c->reclaimed,
                      (unsigned long)c->reclaimed_bytes);
    return n + (n < bytes ? print_to(to + n, bytes - n, "\n") : 1);
}

static size_t totals_line(char *to, size_t bytes, int pid)
{
    struct lost_totals t;
    lost_totals(&t);
    size_t n = print_to(to, bytes,
                    "==%d== gleaner: lost now %lu blocks %lu bytes (direct %lu blocks %lu bytes), "
                    "possibly lost %lu blocks %lu bytes, "
                    "proved not lost: freed %lu, resized %lu, written %lu, read %lu, reached again %lu",
                    pid, (unsigned long)t.lost, (unsigned long)t.lost_bytes,
                    (unsigned long)t.direct, (unsigned long)t.direct_bytes,
                    (unsigned long)t.possible, (unsigned long)t.possible_bytes,
                    (unsigned long)t.proofs[PROOF_FREED], (unsigned long)t.proofs[PROOF_RESIZED],
                    (unsigned long)t.proofs[PROOF_WRITTEN], (unsigned long)t.proofs[PROOF_READ],
                    (unsigned long)t.proofs[PROOF_REACHED]);
    if (t.unrecorded > 0 && n < bytes)
        n += print_to(to + n, bytes - n, ", lost without a record %lu blocks %lu bytes", (unsigned long)t.unrecorded, (unsigned long)t.unrecorded_bytes);
    return n + (n < bytes ? print_to(to + n, bytes - n, "\n") : 1);
}

static long open_log(void)
{
    return raw_syscall(SYS_openat, AT_FDCWD, path,
                       O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
}

/* Where the program has closed all descriptors, the file is opened for each line; a log on stderr has come to its end, since
   what is descriptor 2 by now may be anything. */
static void write_line(const char *text, size_t bytes)
{
    int fd = kept_file_now(&kept);
    long opened = fd < 0 && to_file ? open_log() : -1;
    if (opened >= 0) fd = (int)opened;
    if (fd < 0 && !to_file && kept.fd == 0) fd = 2; /* no copy could be had */
    if (fd >= 0) quiet_write(fd, text, bytes);
    if (opened >= 0) raw_syscall(SYS_close, opened);
}

static void note(const struct collection *c)
{
    char line[1024];
    int pid = (int)raw_syscall(SYS_getpid, 0);
    size_t n = collect_log_line(line, sizeof line, pid, c);
    if (n > sizeof line - 1) n = sizeof line - 1;
    write_line(line, n);
    if (!totals) return;
    n = totals_line(line, sizeof line, pid);
    if (n > sizeof line - 1) n = sizeof line - 1;
    write_line(line, n);
}

void collect_log_start(const struct config *config)
{
    if (config->log == LOG_NONE) return;
    totals = config->log == LOG_DEBUG;
    to_file = config->log_file[0] != 0;
    if (to_file) {
        start_folder_path(path, sizeof path, config->log_file);
        long fd = open_log();
        if (fd < 0) {
            print_fd(2, "gleaner: %s cannot be written (error %d): the log goes to stderr\n", path,
                     (int)-fd);
            to_file = false;
        } else {
            kept_file_keep(&kept, (int)fd);
            raw_syscall(SYS_close, fd);
        }
    }
    if (!to_file) kept_file_keep(&kept, 2);
    collection_done = note;
}
