/* string_table.c: a table that gives equal strings equal small numbers: open addressing, at most
   half full. SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/string_table.h"
#include "report/basics.h"

#include <stdlib.h>
#include <string.h>

static size_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return (size_t)(hash ^ hash >> 32);
}

static void enter(struct strings *strings, size_t number)
{
    size_t at = hash_text(strings->texts[number]) & strings->mask;
    while (strings->slots[at]) at = (at + 1) & strings->mask;
    strings->slots[at] = (uint32_t)number + 1;
}

static void grow(struct strings *strings)
{
    strings->mask = strings->mask ? strings->mask * 2 + 1 : 255;
    free(strings->slots);
    strings->slots = need_array(strings->mask + 1, sizeof *strings->slots);
    for (size_t i = 0; i < strings->count; i++) enter(strings, i);
}

size_t strings_number(struct strings *strings, const char *text, _Bool *new)
{
    if (strings->count * 2 >= strings->mask) grow(strings);
    if (new) *new = false;
    size_t at = hash_text(text) & strings->mask;
    for (; strings->slots[at]; at = (at + 1) & strings->mask)
        if (!strcmp(strings->texts[strings->slots[at] - 1], text)) return strings->slots[at] - 1;
    strings->texts = need_more(strings->texts, strings->count, &strings->room, sizeof(char *));
    size_t bytes = strlen(text) + 1;
    strings->texts[strings->count] = arena_need(&strings->arena, bytes, 1);
    memcpy(strings->texts[strings->count], text, bytes);
    strings->slots[at] = (uint32_t)strings->count + 1;
    if (new) *new = true;
    return strings->count++;
}

_Bool strings_has(const struct strings *strings, const char *text)
{
    if (!strings->mask) return false;
    size_t at = hash_text(text) & strings->mask;
    for (; strings->slots[at]; at = (at + 1) & strings->mask)
        if (!strcmp(strings->texts[strings->slots[at] - 1], text)) return true;
    return false;
}

void strings_free(struct strings *strings)
{
    arena_free(&strings->arena);
    free(strings->texts);
    free(strings->slots);
    *strings = (struct strings){0};
}
