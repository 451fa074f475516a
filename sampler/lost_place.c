/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sampler/lost_place.h"
#include "heap/caller.h"
#include "heap/tag.h"
#include "sampler/tracked.h"

struct lost_place lost_caller_of(uint32_t tag)
{
    uint32_t caller = tag_caller(tracked_tag(tag));
    if (caller && caller_address(caller)) return (struct lost_place){LOST_AT_CALLER, caller};
    return (struct lost_place){LOST_NOWHERE, 0};
}

struct lost_place lost_place_of(uint32_t tag)
{
    struct tracked_view v;
    if (tag_entry(tag) && tracked_get(tag_entry(tag), &v))
        return (struct lost_place){LOST_AT_SITE, v.site};
    return lost_caller_of(tag);
}
