/* file.c: a whole input file in memory, unpacked when it is gzip, never more than a bound.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/file.h"
#include "report/basics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static const size_t LIMIT = (size_t)1 << 30;

bool file_read(const char *path, struct bytes *to, char problem[PROBLEM_BYTES])
{
    *to = (struct bytes){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && file_read_open(fd, to, problem);
    if (fd < 0) snprintf(problem, PROBLEM_BYTES, "%s", strerror(errno));
    if (fd >= 0) close(fd);
    return good;
}

bool file_read_open(int fd, struct bytes *to, char problem[PROBLEM_BYTES])
{
    struct stat status;
    bool sized = !fstat(fd, &status) && status.st_size > 0 && (size_t)status.st_size < LIMIT;
    size_t room = sized ? (size_t)status.st_size + 1 : 64 << 10;
    *to = (struct bytes){need(room), 0};
    ssize_t got;
    while ((got = read(fd, to->at + to->length, room - to->length)) > 0 ||
           (got < 0 && errno == EINTR)) {
        if (got < 0) continue;
        to->length += (size_t)got;
        if (to->length < room) continue;
        if (room > LIMIT) break;
        room *= 2;
        to->at = need_again(to->at, room, 1);
    }
    if (got < 0) snprintf(problem, PROBLEM_BYTES, "%s", strerror(errno));
    if (got > 0) snprintf(problem, PROBLEM_BYTES, "over 1 GiB, no profile");
    if (got == 0) return true;
    free(to->at);
    *to = (struct bytes){0};
    return false;
}

static bool inflate_all(z_stream *stream, const struct bytes *from, struct bytes *to, size_t limit,
                        char problem[PROBLEM_BYTES])
{
    size_t room = from->length * 4 + 4096;
    if (room > limit + 1) room = limit + 1;
    to->at = need(room);
    stream->next_in = from->at;
    stream->avail_in = (uInt)from->length;
    for (;;) {
        if (to->length == room) {
            if (room > limit) {
                snprintf(problem, PROBLEM_BYTES, "unpacks to more than %zu MiB: not read",
                         limit >> 20);
                return false;
            }
            room = room * 2 > limit + 1 ? limit + 1 : room * 2;
            to->at = need_again(to->at, room, 1);
        }
        stream->next_out = to->at + to->length;
        stream->avail_out = (uInt)(room - to->length);
        uInt left = stream->avail_in;
        int result = inflate(stream, Z_NO_FLUSH);
        size_t made = room - to->length - stream->avail_out;
        to->length += made;
        if (result == Z_STREAM_END) {
            if (stream->avail_in < 2 || stream->next_in[0] != 0x1f || stream->next_in[1] != 0x8b)
                return true;
            if (inflateReset(stream) != Z_OK) return false;
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            snprintf(problem, PROBLEM_BYTES, "is damaged (gzip: %s)",
                     stream->msg ? stream->msg : "error");
            return false;
        } else if (!made && left == stream->avail_in && stream->avail_out) {
            snprintf(problem, PROBLEM_BYTES, "is cut short (its gzip data ends early)");
            return false;
        }
    }
}

bool file_unpack(struct bytes *bytes, size_t limit, char problem[PROBLEM_BYTES])
{
    if (bytes->length < 2 || bytes->at[0] != 0x1f || bytes->at[1] != 0x8b) return true;
    z_stream stream = {0};
    if (inflateInit2(&stream, 15 + 16) != Z_OK) { /* 16: gzip only */
        snprintf(problem, PROBLEM_BYTES, "cannot be unpacked (zlib)");
        return false;
    }
    struct bytes unpacked = {0};
    bool good = inflate_all(&stream, bytes, &unpacked, limit, problem);
    inflateEnd(&stream);
    free(bytes->at);
    *bytes = unpacked;
    if (!good) {
        free(bytes->at);
        *bytes = (struct bytes){0};
    }
    return good;
}
