/* misuse.c: what happens when the program frees what is not its to free.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "heap/hooks.h"
#include "heap/print.h"
#include "preload/face.h"
#include "sampler/sampler.h"

#include <errno.h>
#include <stdlib.h>

void misuse_found(enum heap_misuse kind, void *address, void *block, size_t size, uint32_t entry)
{
    int before = errno;
    const char *what = kind == HEAP_DOUBLE_FREE ? "double free" : "invalid free";
    if (!block)
        print_fd(2, "gleaner: %s of %p (no block of any allocator)\n", what, address);
    else if (block == address)
        print_fd(2, "gleaner: %s of %p (block of %zu bytes at %p)\n", what, address, size, block);
    else
        print_fd(2, "gleaner: %s of %p (%zu bytes into the block of %zu bytes at %p)\n", what,
                 address, (size_t)((char *)address - (char *)block), size, block);
    if (entry != 0) {
        print_fd(2, "the block was allocated here:\n");
        sampler_print_stack(2, entry);
    }
    if (face_config.abort) abort();
    errno = before;
}
