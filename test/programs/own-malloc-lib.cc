// own-malloc-lib.cc: the library of own-malloc.cc.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cstdlib>
#include <string>
#include <vector>

extern "C" void *library_new(std::size_t n)
{
    return ::operator new(n);
}
extern "C" void library_delete(void *p)
{
    ::operator delete (p, std::size_t{1});
}

struct alignas(64) wide {
    char data[64];
};

extern "C" int library_work(void)
{
    std::vector<std::string> v;
    for (int i = 0; i < 2000; i++) v.push_back(std::string(static_cast<std::size_t>(i % 100), 'y'));
    wide *w = new wide[3];
    if (reinterpret_cast<std::size_t>(w) % 64 != 0) return 1;
    delete[] w;
    ::operator delete[](::operator new[](100));
    std::free(std::malloc(10));
    return v[99].size() == 99 ? 0 : 2;
}
