/* epoll.c: only the kernel's epoll holds it (T1, H39).  `raw`: the call is made without libc's function.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "place.h"

#include <sys/epoll.h>

static int set, ends_of_pipe[2];

static void put(void *block)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = block};
    set = epoll_create1(EPOLL_CLOEXEC);
    CHECK(set >= 0 && pipe(ends_of_pipe) == 0);
    if (strcmp(variant, "raw") == 0) {
        CHECK(syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, ends_of_pipe[0], &event) == 0);
    } else {
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends_of_pipe[0], &event) == 0);
    }
}

static void *take(void)
{
    struct epoll_event event;
    CHECK(write(ends_of_pipe[1], "x", 1) == 1);
    CHECK(epoll_wait(set, &event, 1, -1) == 1);
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, ends_of_pipe[0], NULL) == 0);
    return event.data.ptr;
}
