/* lifetime_json.c: how long the blocks of a site live, for scripts.  The members are in doc/format.md.
   SPDX-License-Identifier: LGPL-2.1-or-later */
#include "report/json_parts.h"
#include "report/lifetime.h"

#include <math.h>

static json_t *figure(const struct figure *of)
{
    json_t *to = json_object();
    json_estimate(to, "objects", of->objects);
    json_estimate(to, "bytes", of->bytes);
    return to;
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static struct figure sum(const struct figure *a, const struct figure *b)
{
    return (struct figure){estimate_plus(a->objects, b->objects), estimate_plus(a->bytes, b->bytes)};
}

/* The curve where it falls: at the end of each step in which something died, and at the last that is known. */
static json_t *curve(const struct survival *survival, double unit)
{
    json_t *to = json_array();
    for (unsigned i = 0; i < survival->steps->count && survival->at_risk[i] > 0; i++) {
        bool last = i + 1 == survival->steps->count || !(survival->at_risk[i + 1] > 0);
        if (survival->after[i] == survival->before[i] && !last) continue;
        double age = i + 1 < survival->steps->count ? (double)survival->steps->least(i + 1) : INFINITY;
        age = fmin(age, fmax(survival->observed, (double)survival->steps->least(i)));
        struct estimate share = survival_share(survival, age);
        if (isnan(share.value)) share = (struct estimate){survival->after[i], NAN, NAN};
        json_t *point = json_object();
        json_object_set_new(point, "age", json_real(age * unit));
        json_object_set_new(point, "alive", json_real(survival->after[i]));
        if (survival->points > 0)
            json_object_set_new(point, "alive_ci95",
                                isnan(share.lo) ? json_null()
                                                : json_pack("[f,f]", share.lo, share.hi));
        json_array_append_new(to, point);
    }
    return to;
}

json_t *lifetime_json(const struct profile *profile, const struct site *site)
{
    static const char *const keys[] = {"verdict",      "young_deaths",     "promoted",
                                       "old_deaths",   "deaths_elsewhere", "median_age_s",
                                       "median_age_bytes", "growth",       "survival_s",
                                       "survival_bytes"};
    const struct lifetime *of = site->lifetime;
    json_t *to = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(to, keys[i], json_null());
    if (!of || !profile->lifetimes) return to;
    enum verdict verdict = lifetime_verdict(profile, site);
    if (verdict != VERDICT_NONE)
        json_object_set_new(to, "verdict", json_string(verdict_names[verdict]));
    json_object_set_new(to, "young_deaths", figure(&of->young));
    if (lifetime_knows_old(profile)) {
        struct figure promoted = sum(&of->old, &of->live_old);
        json_object_set_new(to, "promoted", figure(&promoted));
        json_object_set_new(to, "old_deaths", figure(&of->old));
    }
    json_object_set_new(to, "deaths_elsewhere", figure(&of->elsewhere));
    struct survival survival;
    if (lifetime_by_time(profile, site, &survival)) {
        json_object_set_new(to, "median_age_s",
                            number_or_null(survival_median(&survival) * profile->lifetimes->tick));
        json_object_set_new(to, "survival_s", curve(&survival, profile->lifetimes->tick));
    }
    if (lifetime_by_span(profile, site, &survival)) {
        json_object_set_new(to, "median_age_bytes",
                            number_or_null(survival_median(&survival) * profile->lifetimes->unit));
        json_object_set_new(to, "survival_bytes", curve(&survival, profile->lifetimes->unit));
    }
    struct lifetime_growth growth = lifetime_growth(profile, site);
    if (growth.known)
        json_object_set_new(to, "growth",
                            json_pack("{s:o,s:o,s:o,s:o}", "came_bytes", json_whole(growth.came),
                                      "went_bytes", json_whole(growth.went), "deviation_bytes",
                                      json_whole(growth.noise), "before_bytes",
                                      json_whole(growth.before)));
    return to;
}

json_t *lifetime_observed_json(const struct profile *profile)
{
    const struct lifetimes *all = profile->lifetimes;
    if (!all) return json_null();
    return json_pack("{s:f,s:o,s:o}", "seconds", all->observed_time * all->tick, "bytes",
                     json_whole(all->observed_span * all->unit), "dropped",
                     json_whole(all->dropped));
}
