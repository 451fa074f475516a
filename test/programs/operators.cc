// operators.cc: operator new and delete in all forms; failure by the rules of the standard
// ([new.delete.single]): the new handler again and again, std::bad_alloc, null from nothrow forms.
// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static int failures, handler_calls;
#define CHECK(c)                                                                                   \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            std::printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #c);                      \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static const std::align_val_t wide{256};
static void *volatile sink;
static std::size_t huge()
{
    static volatile std::size_t n = SIZE_MAX / 2 - 100;
    return n;
}

struct leaves {
    int *count;
    ~leaves() { ++*count; }
};

template <class F> static bool throws_bad_alloc(F f)
{
    int unwound = 0;
    try {
        leaves l{&unwound};
        sink = f();
    } catch (const std::bad_alloc &) {
        return unwound == 1;
    }
    return false;
}

static void forms()
{
    for (std::size_t n = 0; n < 70000; n = n * 2 + 1) {
        void *p = ::operator new(n);
        CHECK(p && reinterpret_cast<std::uintptr_t>(p) % 16 == 0);
        ::operator delete(p);
        ::operator delete(::operator new(n), n);
        ::operator delete[](::operator new[](n));
        ::operator delete[](::operator new[](n), n);
        ::operator delete(::operator new(n, std::nothrow), std::nothrow);
        ::operator delete[](::operator new[](n, std::nothrow), std::nothrow);
        p = ::operator new(n, wide);
        CHECK(p && reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
        ::operator delete(p, wide);
        ::operator delete(::operator new(n, wide), n, wide);
        ::operator delete[](::operator new[](n, wide), wide);
        ::operator delete[](::operator new[](n, wide), n, wide);
        ::operator delete(::operator new(n, wide, std::nothrow), wide, std::nothrow);
        ::operator delete[](::operator new[](n, wide, std::nothrow), wide, std::nothrow);
    }
    ::operator delete(nullptr);
    std::free(::operator new(10)); // works, as with glibc
}

static void failing()
{
    CHECK(throws_bad_alloc([] { return ::operator new(huge()); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](huge()); }));
    CHECK(throws_bad_alloc([] { return ::operator new(huge(), wide); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](huge(), wide); }));
    CHECK(::operator new(huge(), std::nothrow) == nullptr);
    CHECK(::operator new[](huge(), std::nothrow) == nullptr);
    CHECK(::operator new(huge(), wide, std::nothrow) == nullptr);
    CHECK(::operator new[](huge(), wide, std::nothrow) == nullptr);
}

static void gives_up_after_three()
{
    if (++handler_calls % 3 == 0) std::set_new_handler(nullptr);
}

static void throws_own()
{
    throw std::bad_alloc();
}

static void handlers()
{
    for (int form = 0; form < 4; form++) {
        handler_calls = 0;
        std::set_new_handler(gives_up_after_three);
        switch (form) {
        case 0:
            CHECK(throws_bad_alloc([] { return ::operator new(huge()); }));
            break;
        case 1:
            CHECK(throws_bad_alloc([] { return ::operator new[](huge(), wide); }));
            break;
        case 2:
            CHECK(::operator new(huge(), std::nothrow) == nullptr);
            break;
        case 3:
            CHECK(::operator new[](huge(), wide, std::nothrow) == nullptr);
            break;
        }
        CHECK(handler_calls == 3);
    }
    std::set_new_handler(throws_own);
    CHECK(throws_bad_alloc([] { return ::operator new(huge()); }));
    CHECK(::operator new(huge(), std::nothrow) == nullptr);
    CHECK(::operator new[](huge(), wide, std::nothrow) == nullptr);
    std::set_new_handler(nullptr);
}

static void library_code()
{
    std::vector<std::string> v;
    std::map<int, std::vector<int>> m;
    for (int i = 0; i < 20000; i++) {
        v.push_back(std::string(static_cast<std::size_t>(i % 200), 'x'));
        m[i % 1000].push_back(i);
    }
    CHECK(v[199].size() == 199 && m[5].size() == 20);
    try {
        v.reserve(v.max_size());
        CHECK(!"reached");
    } catch (const std::bad_alloc &) {
    }
    std::thread t([] {
        try {
            throw std::runtime_error("through a thread");
        } catch (const std::exception &e) {
            CHECK(std::string(e.what()) == "through a thread");
        }
        CHECK(throws_bad_alloc([] { return ::operator new(huge()); }));
    });
    t.join();
}

int main()
{
    forms();
    failing();
    handlers();
    library_code();
    if (failures == 0) std::puts("all hold");
    return failures != 0;
}
