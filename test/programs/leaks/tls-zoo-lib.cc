/* tls-zoo-lib.cc: thread-local storage of a library that is loaded late, for tls-zoo.c.
   SPDX-License-Identifier: LGPL-2.1-or-later */
struct object {
    void *volatile pointer;
    object() : pointer(nullptr) {}
    ~object() { pointer = nullptr; }
};

static thread_local void *volatile loaded;
static thread_local object with_destructor;

extern "C" {
__attribute__((visibility("default"))) void loaded_set(void *p)
{
    loaded = p;
}
__attribute__((visibility("default"))) void *loaded_get()
{
    return loaded;
}
__attribute__((visibility("default"))) void object_set(void *p)
{
    with_destructor.pointer = p;
}
__attribute__((visibility("default"))) void *object_get()
{
    return with_destructor.pointer;
}
}
