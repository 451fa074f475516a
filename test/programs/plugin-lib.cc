// plugin-lib.cc: the library of plugin.c.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cstdint>
#include <new>

static void *volatile sink;
static volatile std::size_t huge = SIZE_MAX / 2 - 100;

extern "C" int plugin_fails(void)
{
    int caught = 0;
    try {
        sink = ::operator new(huge);
    } catch (const std::bad_alloc &) {
        caught++;
    }
    if (::operator new(huge, std::nothrow) == nullptr) caught++;
    return caught;
}
