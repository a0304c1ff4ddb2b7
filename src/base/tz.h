/* SPDX-License-Identifier: Apache-2.0
 *
 * tz.h -- time zones: what the clocks of a place show, and when.
 *
 * Why it exists: the C library knows one zone per process, which belongs to
 * the embedding program.  A schedule has a zone of its own, and there are many;
 * so the system's zone files (TZif, RFC 9636) are read here, each into an object
 * of its own.
 *
 * A zone is a row of PERIODS, each with one offset from UTC; where two meet, the
 * clocks jump.  A file lists them up to some year and gives a rule for the time
 * after (the last line, such as CET-1CEST,M3.5.0,M10.5.0/3); here the rule has
 * been unrolled, so that nobody has to know of it.
 *
 * LOCAL seconds are what the clocks of the zone show, counted as if they were
 * UTC: 1970-01-01 02:00 on the wall is 7200, wherever the wall stands.
 *
 * Leap seconds are not counted: files that count them (those under right/) are
 * refused, since Unix time does not.
 *
 * UTC needs no file: "UTC", "Etc/UTC" and "GMT" are there where no zone files
 * are installed.
 *
 * Threads: immutable once it is loaded; any number may use it at once. */
#pragma once

#include "base.h"
#include "status.h"

struct tz;

/* Where Linux systems keep them. */
#define TZ_DIR "/usr/share/zoneinfo"

/* True for a name that may be looked up: 1 to 64 bytes, components out of
 * [A-Za-z0-9._+-] with single slashes between them, none of which is "." or
 * "..".  Whether there is such a zone is another question. */
bool tz_name_valid(struct slice name);

/* Reads the zone `name` ("Europe/Berlin") from below the folder `dir`; NULL is
 * TZ_DIR.  Free with tz_free().  Each with a sentence, and timeZone as the field:
 *   -HF_INVALID    the name is none, or the file is not one that can be used
 *   -HF_NOT_FOUND  there is no such zone on this machine
 *   -HF_SYSTEM     it is there and cannot be read
 *   -HF_NOMEM */
must_check int tz_load(const char *dir, struct slice name, struct error *error,
                       struct tz **ret);

/* The same from bytes that are already there; `name` is for sentences and for
 * tz_name(). */
must_check int tz_read(struct slice name, struct slice bytes, struct error *error,
                       struct tz **ret);

/* NULL is fine. */
void tz_free(struct tz *tz);

/* UTC itself; static, not to be freed. */
const struct tz *tz_utc(void);

const char *tz_name(const struct tz *tz);

struct tz_period {
    int64_t start_s, end_s; /* UTC; the end belongs to the next.  INT64_MIN, _MAX: open */
    int32_t offset_s;       /* local = UTC + offset; less than 26 hours either way */
    bool is_dst;            /* what the zone calls its summer time, or the like */
    const char *abbreviation; /* "CEST"; lives as long as the zone */
};

/* The period that `utc_s` is in.  The next change of clocks is its end. */
struct tz_period tz_at(const struct tz *tz, int64_t utc_s);

/* The first instant at which the clocks show `local_s` or have gone past it: of a time
 * that is there twice the first, of one that is skipped the end of the gap. */
struct tz_reached {
    int64_t utc_s;
    int64_t gap_s; /* 0, or by how much the clocks jumped over it */
};
struct tz_reached tz_reach(const struct tz *tz, int64_t local_s);

/* The most that the clocks have shown up to and including `utc_s`: local time, but for
 * the hour (or whatever it is) after they were put back, when it stands still. */
int64_t tz_latest_local(const struct tz *tz, int64_t utc_s);
