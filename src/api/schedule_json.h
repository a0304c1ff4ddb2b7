/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_json.h -- schedules as JSON: read from a request, and shown.
 *
 * An endpoint is a schedule too, with other words for what its jobs do.  So the fields
 * are a list of names and a reader that takes values in the same order: whoever has more
 * fields, or fewer, puts the names together and hands on the values.
 *
 * Threads: reading is the loop's; what takes a store is a reader's. */
#pragma once

#include "base/json.h"
#include "base/json_write.h"
#include "engine/schedule/schedule.h"
#include "store/schedules.h"

enum schedule_field {
    SCHEDULE_NAME,
    SCHEDULE_CRON,
    SCHEDULE_ZONE,
    SCHEDULE_EVERY,
    SCHEDULE_START,
    SCHEDULE_END,
    SCHEDULE_JITTER,
    SCHEDULE_OVERLAP,
    SCHEDULE_MISFIRE,
    SCHEDULE_QUEUE,
    SCHEDULE_METADATA,
    SCHEDULE_UNIQUE_KEY,
    SCHEDULE_RETRY_DELAYS,
    SCHEDULE_MAX_EXECUTION,
    SCHEDULE_EXPIRE,
    SCHEDULE_PRIORITY,
    SCHEDULE_MAX_RETRIES,
    SCHEDULE_ON_CRASH,
    SCHEDULE_SHARED, /* so many has an endpoint as well */
    SCHEDULE_KIND = SCHEDULE_SHARED,
    SCHEDULE_PAYLOAD,
    SCHEDULE_FIELDS
};

/* As clients call them; at [i] the name of field i. */
extern const char *const schedule_field_names[SCHEDULE_FIELDS];

/* What a schedule has that is not given. */
struct schedule schedule_defaults(void);

/* Reads the first `count` fields into an edit, which is set up for a new schedule
 * (edit->id is 0) or a change.  Of a new one, null counts as left out; in a change it
 * puts the default back.  Texts are copied into the arena but for payload and metadata,
 * which are slices of their values.  0, or a refusal whose sentence names the field; also
 * -HF_NOMEM.  The engine checks what the fields mean together. */
must_check int schedule_read(const struct slice *values, size_t count,
                             struct arena *arena, struct error *error,
                             struct schedule_edit *edit);

/* Pausing: the values of `reason` and `until`, which must be after `now`. */
must_check int schedule_read_pause(const struct slice values[2], int64_t now,
                                   struct arena *arena, struct error *error,
                                   struct schedule_edit *edit);

/* active, paused, stalled or ended. */
const char *schedule_status(const struct schedule *schedule);
/* When it fires next; 0 while it does not, by itself. */
int64_t schedule_next_fire(const struct schedule *schedule);

/* Members that endpoints show as well, inside an object that was begun: all but what its
 * jobs do. */
void schedule_put_shared(struct store *store, struct json_writer *w,
                         const struct schedule *schedule);
/* A whole schedule. */
void schedule_put(struct store *store, struct json_writer *w,
                  const struct schedule *schedule);
void fire_put(struct json_writer *w, const struct fire *fire);

/* Answers an OP_TRIGGER with its job: 201 if it was made, 200 if it was there. */
struct call;
struct command;
void schedule_triggered(struct call *call, struct command *command);
