/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/schedule/zones.h"

#include <stdio.h>

#include "base/limits.h"

#define FRESH_US (3600 * US_PER_S)
#define FAILED_US (60 * US_PER_S)

struct zone {
    char name[LIMIT_ZONE_BYTES + 1];
    struct tz *tz; /* NULL: it could not be read, and `error` says why */
    struct error error;
    int64_t read_at;
};

static struct zone *find(struct zones *zones, struct slice name)
{
    for (size_t i = 0; i < zones->count; i++)
        if (slice_equal(name, slice_of(zones->list[i].name)))
            return &zones->list[i];
    return NULL;
}

static struct zone *add(struct zones *zones, struct slice name)
{
    if (zones->count == zones->capacity) {
        size_t capacity = zones->capacity ? 2 * zones->capacity : 8;
        void *grown = realloc(zones->list, capacity * sizeof(*zones->list));
        if (!grown)
            return NULL;
        zones->list = grown;
        zones->capacity = capacity;
    }
    struct zone *zone = &zones->list[zones->count++];
    *zone = (struct zone){ 0 };
    snprintf(zone->name, sizeof(zone->name), "%.*s", (int)name.n, name.p);
    return zone;
}

static bool is_fresh(const struct zone *zone, int64_t now)
{
    return zone->read_at != 0 && now - zone->read_at < (zone->tz ? FRESH_US : FAILED_US);
}

int zones_get(struct zones *zones, struct slice name, int64_t now, struct error *error,
              const struct tz **ret)
{
    if (!tz_name_valid(name)) /* also: it has room in the list */
        return tz_load(zones->dir, name, error, &(struct tz *){ NULL });
    struct zone *zone = find(zones, name);
    if (!zone && !(zone = add(zones, name)))
        return -HF_NOMEM;
    if (!is_fresh(zone, now)) {
        tz_free(zone->tz);
        zone->tz = NULL;
        zone->error = (struct error){ 0 };
        int r = tz_load(zones->dir, name, &zone->error, &zone->tz);
        if (r == -HF_NOMEM)
            return r;
        zone->read_at = now;
    }
    if (!zone->tz) {
        if (error)
            *error = zone->error;
        return zone->error.code;
    }
    *ret = zone->tz;
    return 0;
}

void zones_release(struct zones *zones)
{
    for (size_t i = 0; i < zones->count; i++)
        tz_free(zones->list[i].tz);
    free(zones->list);
    *zones = (struct zones){ .dir = zones->dir };
}
