/* program.c: a program that is about to be started.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/program.h"
#include "report/basics.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool startable(const char *path)
{
    struct stat status;
    if (stat(path, &status)) return false;
    if (S_ISREG(status.st_mode) && !access(path, X_OK)) return true;
    errno = EACCES;
    return false;
}

char *program_find(const char *name)
{
    if (!*name) {
        errno = ENOENT;
        return NULL;
    }
    if (strchr(name, '/')) return startable(name) ? need_copy(name) : NULL;
    const char *at = getenv("PATH");
    if (!at) at = "/bin:/usr/bin";
    int error = ENOENT;
    for (;; at++) {
        size_t length = strcspn(at, ":");
        char *path = length ? need_text("%.*s/%s", (int)length, at, name) : need_copy(name);
        if (startable(path)) return path;
        if (errno == EACCES) error = EACCES; /* a later folder may still have it */
        free(path);
        at += length;
        if (!*at) break;
    }
    errno = error;
    return NULL;
}

static bool has_interpreter(int fd, const Elf64_Ehdr *header)
{
    if (header->e_phentsize != sizeof(Elf64_Phdr)) return true;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(header->e_phoff + i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != sizeof segment) return true;
        if (segment.p_type == PT_INTERP) return true;
    }
    return false;
}

static const char *obstacle(const char *path, int depth)
{
    union {
        Elf64_Ehdr elf;
        char text[256];
    } head = {0};
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NULL;
    const char *found = NULL;
    ssize_t got = read(fd, &head, sizeof head - 1);
    bool other_user =
        !fstat(fd, &status) && (status.st_mode & S_ISUID) && status.st_uid != getuid();
    if (other_user) {
        found = "it is setuid, and the loader ignores LD_PRELOAD then";
    } else if (fgetxattr(fd, "security.capability", NULL, 0) > 0 && getuid()) {
        found = "it has file capabilities, and the loader ignores LD_PRELOAD then";
    } else if (got > 2 && !memcmp(head.text, "#!", 2) && depth < 4) {
        head.text[got] = 0;
        char *name = head.text + 2 + strspn(head.text + 2, " \t");
        name[strcspn(name, " \t\n")] = 0;
        found = obstacle(name, depth + 1);
    } else if (got >= (ssize_t)sizeof head.elf && !memcmp(head.text, ELFMAG, SELFMAG)) {
#if defined __x86_64__
        const int machine = EM_X86_64;
#else
        const int machine = EM_AARCH64;
#endif
        if (head.elf.e_ident[EI_CLASS] != ELFCLASS64 || head.elf.e_machine != machine)
            found = "it is of another architecture than libgleaner.so";
        else if (!has_interpreter(fd, &head.elf))
            found = "it is statically linked";
    }
    close(fd);
    return found;
}

const char *program_obstacle(const char *path)
{
    return obstacle(path, 0);
}
