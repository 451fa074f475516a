/* answer_file.c: the file into which a live process writes its answer.

   Root may make it in a folder that the target's user owns, so nothing here goes through a name
   twice: every step is relative to a descriptor that was checked, and links are never followed.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/answer_file.h"
#include "report/basics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TURN_MS = 20, /* between two looks whether another dump of the process has ended */
    TURN_LIMIT_MS = 70000,
};

static bool refuse(const struct answer_file *answer, const char *what, const char *why)
{
    say("cannot use /tmp/%s as the process sees it: %s%s", answer->folder_name, what, why);
    return false;
}

/* ENOENT, and no line, where another dump has removed the folder between the two steps. */
static bool open_folder(const struct target *target, struct answer_file *answer)
{
    bool made = !mkdirat(answer->tmp, answer->folder_name, 0700);
    if (!made && errno != EEXIST) return refuse(answer, "", strerror(errno));
    answer->folder =
        openat(answer->tmp, answer->folder_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    if (answer->folder < 0 && errno == ENOENT) return false;
    if (answer->folder < 0 || fstat(answer->folder, &status))
        return refuse(answer, "", errno == ENOTDIR ? "it is no folder" : strerror(errno));
    /* Only what is still root's own is given away: the name may have been taken since mkdirat. */
    if (made && status.st_uid == geteuid() && status.st_uid != target->uid) {
        if (fchown(answer->folder, target->uid, target->gid) || fstat(answer->folder, &status))
            return refuse(answer, "", strerror(errno));
    }
    if (status.st_uid != target->uid) return refuse(answer, "it belongs to another user", "");
    if (status.st_mode & 077) return refuse(answer, "others may enter it", "");
    return true;
}

/* What nobody holds locked under that name is what a killed dump left: removes it. */
static bool remove_abandoned(const struct answer_file *answer)
{
    struct stat status;
    int file = openat(answer->folder, answer->name,
                      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool in_use = file >= 0 && (flock(file, LOCK_EX | LOCK_NB) || fstat(file, &status) || status.st_nlink == 0);
    bool good = in_use || !unlinkat(answer->folder, answer->name, 0) || errno == ENOENT;
    if (file >= 0) close(file);
    return good;
}

/* The file under a lock, which tells a second dump of the process to wait for its turn.  Between our making it and
   locking it the other may have taken it for an abandoned one: then it has no name any more. */
static bool open_file(const struct target *target, struct answer_file *answer)
{
    struct stat status;
    answer->file = openat(answer->folder, answer->name,
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (answer->file < 0) return false;
    if (flock(answer->file, LOCK_EX | LOCK_NB) || fstat(answer->file, &status) || status.st_nlink != 1) {
        close(answer->file);
        answer->file = -1;
        errno = EEXIST;
        return false;
    }
    if (fchmod(answer->file, 0600)) return false; /* whatever the umask took */
    return target->uid == geteuid() || !fchown(answer->file, target->uid, target->gid);
}

static bool make_in_turn(const struct target *target, struct answer_file *answer)
{
    const struct timespec moment = {0, 1000000 * TURN_MS};
    for (int attempt = 0; attempt < TURN_LIMIT_MS / TURN_MS; attempt++) {
        if (!open_folder(target, answer)) {
            if (answer->folder >= 0 || errno != ENOENT) return false;
            continue;
        }
        if (open_file(target, answer)) return true;
        int error = errno;
        if (error != EEXIST && error != ENOENT) return refuse(answer, "", strerror(error));
        if (error == EEXIST && !remove_abandoned(answer))
            return refuse(answer, answer->name, " cannot be replaced");
        close(answer->folder);
        answer->folder = -1;
        nanosleep(&moment, NULL);
    }
    say("another dump of process %d goes on", target->pid);
    return false;
}

bool answer_make(const struct target *target, struct answer_file *answer)
{
    char path[40];
    *answer = (struct answer_file){-1, -1, -1, "", ""};
    snprintf(answer->folder_name, sizeof answer->folder_name, "gleaner-%u", target->inner_uid);
    snprintf(answer->name, sizeof answer->name, "%d.%" PRIu64, target->inner_pid,
             target->start_time);
    snprintf(path, sizeof path, "/proc/%d/root/tmp", target->pid);
    answer->tmp = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (answer->tmp < 0) return refuse(answer, "", strerror(errno));
    if (make_in_turn(target, answer)) return true;
    answer_remove(answer);
    return false;
}

enum answer_state answer_state(const struct answer_file *answer)
{
    struct stat status;
    if (fstat(answer->file, &status)) return ANSWER_FAILED;
    if ((status.st_mode & 0777) == 0400) return ANSWER_COMPLETE;
    if ((status.st_mode & 0777) == 0200) return ANSWER_FAILED;
    return status.st_size ? ANSWER_GROWING : ANSWER_EMPTY;
}

bool answer_read(const struct answer_file *answer, struct bytes *bytes, char problem[PROBLEM_BYTES])
{
    return lseek(answer->file, 0, SEEK_SET) == 0 && file_read_open(answer->file, bytes, problem);
}

void answer_remove(struct answer_file *answer)
{
    if (answer->file >= 0) {
        unlinkat(answer->folder, answer->name, 0);
        close(answer->file);
    }
    if (answer->folder >= 0) {
        close(answer->folder);
        unlinkat(answer->tmp, answer->folder_name, AT_REMOVEDIR);
    }
    if (answer->tmp >= 0) close(answer->tmp);
    *answer = (struct answer_file){-1, -1, -1, "", ""};
}
