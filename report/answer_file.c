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
#include <sys/stat.h>
#include <unistd.h>

static bool refuse(const struct answer_file *answer, const char *what, const char *why)
{
    say("cannot use /tmp/%s as the process sees it: %s%s", answer->folder_name, what, why);
    return false;
}

static bool open_folder(const struct target *target, struct answer_file *answer)
{
    bool made = !mkdirat(answer->tmp, answer->folder_name, 0700);
    if (!made && errno != EEXIST) return refuse(answer, "", strerror(errno));
    answer->folder =
        openat(answer->tmp, answer->folder_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
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

static bool open_file(const struct target *target, struct answer_file *answer)
{
    if (unlinkat(answer->folder, answer->name, 0) && errno != ENOENT)
        return refuse(answer, answer->name, " cannot be replaced");
    answer->file = openat(answer->folder, answer->name,
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (answer->file < 0) return false;
    if (fchmod(answer->file, 0600)) return false; /* whatever the umask took */
    return target->uid == geteuid() || !fchown(answer->file, target->uid, target->gid);
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
    /* Another dump may remove the folder between the two steps: it is then made again. */
    for (int attempt = 0; attempt < 8; attempt++) {
        if (!open_folder(target, answer)) break;
        if (open_file(target, answer)) return true;
        if (errno != ENOENT) {
            refuse(answer, "", strerror(errno));
            break;
        }
        close(answer->folder);
        answer->folder = -1;
    }
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
