/* object.c: the ELF file of a module of a profile, found on this machine and checked to be the same
   build. SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/object.h"
#include "report/basics.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *debug_path; /* ":.debug:/usr/lib/debug" when NULL */

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .debuginfo_path = &debug_path,
};

/* Opens a regular file only: a path out of a profile may name a device or a pipe. */
static int open_regular(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status;
    if (fd >= 0 && (fstat(fd, &status) || !S_ISREG(status.st_mode))) {
        close(fd);
        errno = ENOENT;
        return -1;
    }
    return fd;
}

static bool same_build(int fd, const char *build_id)
{
    if (!*build_id) return true; /* nothing to compare */
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    const void *id;
    ssize_t bytes = elf ? dwelf_elf_gnu_build_id(elf, &id) : -1;
    bool same = bytes > 0 && strlen(build_id) == (size_t)bytes * 2;
    for (ssize_t i = 0; same && i < bytes; i++) {
        char two[3];
        snprintf(two, sizeof two, "%02x", ((const unsigned char *)id)[i]);
        same = !memcmp(two, build_id + 2 * i, 2);
    }
    elf_end(elf);
    return same;
}

/* Asks the debug folders and servers for a build id; a descriptor, or -1.  *path is to be freed. */
static int find_by_build_id(const char *build_id, char **path)
{
    unsigned char id[64];
    size_t bytes = strlen(build_id) / 2;
    if (!bytes || bytes > sizeof id) return -1;
    for (size_t i = 0; i < bytes; i++)
        if (sscanf(build_id + 2 * i, "%2hhx", &id[i]) != 1) return -1;
    Dwfl *dwfl = dwfl_begin(&callbacks);
    if (!dwfl) return -1;
    dwfl_report_begin(dwfl);
    Dwfl_Module *module = dwfl_report_module(dwfl, "wanted", 0x10000, 0x20000);
    int fd = -1;
    if (module && !dwfl_module_report_build_id(module, id, bytes, 0)) {
        Elf *elf = NULL;
        dwfl_report_end(dwfl, NULL, NULL);
        fd = dwfl_build_id_find_elf(module, NULL, "wanted", 0x10000, path, &elf);
        if (elf) elf_end(elf);
        if (fd < 0) fd = dwfl_build_id_find_debuginfo(module, NULL, NULL, 0, NULL, NULL, 0, path);
    }
    dwfl_end(dwfl);
    return fd;
}

/* The descriptor belongs to libdwfl afterwards. */
static bool report_to_dwfl(struct object *to, const char *name, const char *path, int fd)
{
    to->dwfl = dwfl_begin(&callbacks);
    if (to->dwfl) {
        dwfl_report_begin(to->dwfl);
        to->module = dwfl_report_elf(to->dwfl, name, path, fd, 0, true);
        dwfl_report_end(to->dwfl, NULL, NULL);
    }
    if (to->module) return true;
    close(fd);
    object_close(to);
    return false;
}

enum object_state object_open(const struct module *module, const char *root, struct object *to)
{
    *to = (struct object){0};
    if (*module->file != '/') return OBJECT_NONE;
    elf_version(EV_CURRENT);
    if (!debug_path && getenv("GLEANER_DEBUG_PATH"))
        debug_path = need_text(":.debug:%s:/usr/lib/debug", getenv("GLEANER_DEBUG_PATH"));
    bool other_build = false;
    const char *const roots[] = {root ? root : "", ""};
    for (int i = root ? 0 : 1; i < 2; i++) {
        char *path = need_text("%s%s", roots[i], module->file);
        int fd = open_regular(path);
        bool same = fd >= 0 && same_build(fd, module->build_id);
        if (fd >= 0 && !same) {
            other_build = true;
            close(fd);
        }
        bool opened = same && report_to_dwfl(to, module->name, path, fd);
        free(path);
        if (opened) return OBJECT_OPEN;
    }
    char *path = NULL;
    int fd = find_by_build_id(module->build_id, &path);
    bool opened = fd >= 0 && report_to_dwfl(to, module->name, path ? path : module->name, fd);
    free(path);
    if (opened) return OBJECT_OPEN;
    return other_build ? OBJECT_OTHER_BUILD : OBJECT_MISSING;
}

void object_close(struct object *object)
{
    if (object->dwfl) dwfl_end(object->dwfl);
    *object = (struct object){0};
}

bool object_address(const struct object *object, const struct place *place, uint64_t *address)
{
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(object->module, &bias);
    size_t count;
    if (!elf || elf_getphdrnum(elf, &count)) return false;
    uint64_t offset = place_offset(place);
    GElf_Phdr code = {0};
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD) continue;
        if (!code.p_memsz && (segment.p_flags & PF_X)) code = segment;
        if (offset < segment.p_offset || offset - segment.p_offset >= segment.p_filesz) continue;
        *address = offset - segment.p_offset + segment.p_vaddr;
        return true;
    }
    /* A file of debug information alone keeps the virtual addresses but not the offsets. */
    uint64_t page = code.p_align ? code.p_align : 1;
    uint64_t into = place->module ? place->address - place->module->start : 0;
    if (!place->module || !code.p_memsz || into > code.p_memsz + page) return false;
    *address = (code.p_vaddr & ~(page - 1)) + into;
    return true;
}
