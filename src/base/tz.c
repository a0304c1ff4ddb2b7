/* SPDX-License-Identifier: Apache-2.0
 *
 * tz.c -- finds a zone's file, and the period that an instant is in. */
#include "tz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calendar.h"
#include "tz_private.h"

/* ---- by name ---- */

static bool is_zone_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '.' || c == '_' || c == '+' || c == '-';
}

static bool component_valid(struct slice part)
{
    for (size_t i = 0; i < part.n; i++)
        if (!is_zone_byte(part.p[i]))
            return false;
    return part.n > 0 && !slice_equal(part, SLICE(".")) &&
           !slice_equal(part, SLICE(".."));
}

bool tz_name_valid(struct slice name)
{
    assert(name.p || name.n == 0);
    if (name.n == 0 || name.n > LIMIT_ZONE_BYTES)
        return false;
    for (size_t start = 0;;) {
        const char *slash = memchr(name.p + start, '/', name.n - start);
        size_t end = slash ? (size_t)(slash - name.p) : name.n;
        if (!component_valid((struct slice){ name.p + start, end - start }))
            return false;
        if (!slash)
            return true;
        start = end + 1;
    }
}

/* ---- loading ---- */

struct tz *tz_allocate(struct slice name, size_t periods, size_t kinds)
{
    struct tz *tz = new(struct tz);

    if (!tz)
        return NULL;
    assert(name.n < sizeof(tz->name));
    memcpy(tz->name, name.p, name.n);
    tz->starts = calloc(periods, sizeof(*tz->starts));
    tz->kind_of = calloc(periods, sizeof(*tz->kind_of));
    tz->kinds = calloc(kinds, sizeof(*tz->kinds));
    if (tz->starts && tz->kind_of && tz->kinds)
        return tz;
    tz_free(tz);
    return NULL;
}

void tz_free(struct tz *tz)
{
    assert(tz != tz_utc());
    if (!tz)
        return;
    free(tz->starts);
    free(tz->kind_of);
    free(tz->kinds);
    free(tz);
}

const struct tz *tz_utc(void)
{
    static int64_t start = INT64_MIN;
    static uint16_t kind;
    static struct tz_kind utc = { .abbreviation = "UTC" };
    static const struct tz zone = {
        .name = "UTC", .count = 1, .starts = &start, .kind_of = &kind, .kinds = &utc
    };
    return &zone;
}

/* UTC must be there also where no zones are installed. */
static int without_file(const char *path, struct slice name, struct error *error,
                        struct tz **ret)
{
    const char *word = slice_equal(name, SLICE("GMT")) ? "GMT" : "UTC";

    if (!slice_equal(name, SLICE("UTC")) && !slice_equal(name, SLICE("Etc/UTC")) &&
        !slice_equal(name, SLICE("GMT")))
        return error_set(error, -HF_NOT_FOUND, "timeZone",
                         "there is no time zone \"%.*s\" on this machine (%s is not "
                         "there); a name is like Europe/Berlin or UTC",
                         (int)name.n, name.p, path);
    struct tz *tz = tz_allocate(name, 1, 1);
    if (!tz)
        return error_set(error, -HF_NOMEM, NULL, "no memory for a time zone");
    tz->count = 1;
    tz->starts[0] = INT64_MIN;
    memcpy(tz->kinds[0].abbreviation, word, 4);
    *ret = tz;
    return 0;
}

/* Reads up to `room` bytes; how many, or -1 with errno. */
static ssize_t read_whole(int fd, char *out, size_t room)
{
    size_t n = 0;

    while (n < room) {
        ssize_t got = read(fd, out + n, room - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static int load_open(int fd, const char *path, struct slice name, struct error *error,
                     struct tz **ret)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return error_set(error, -HF_SYSTEM, "timeZone", "cannot look at %s: %m", path);
    if (!S_ISREG(st.st_mode) || st.st_size > LIMIT_ZONE_FILE_BYTES)
        return error_set(error, -HF_INVALID, "timeZone",
                         "\"%.*s\" is no time zone: %s is %s; a name is like "
                         "Europe/Berlin or UTC",
                         (int)name.n, name.p, path,
                         S_ISREG(st.st_mode) ? "too large for one" : "no plain file");
    char *bytes = malloc(LIMIT_ZONE_FILE_BYTES);
    if (!bytes)
        return error_set(error, -HF_NOMEM, NULL, "no memory for a time zone");
    ssize_t n = read_whole(fd, bytes, LIMIT_ZONE_FILE_BYTES);
    int r = n < 0 ? error_set(error, -HF_SYSTEM, "timeZone", "cannot read %s: %m", path)
                  : tz_read(name, (struct slice){ bytes, (size_t)n }, error, ret);
    free(bytes);
    return r;
}

int tz_load(const char *dir, struct slice name, struct error *error, struct tz **ret)
{
    char path[LIMIT_PATH_BYTES];

    assert(ret);
    if (!tz_name_valid(name))
        return error_set(error, -HF_INVALID, "timeZone",
                         "\"%.*s\" is no name of a time zone; one is like Europe/Berlin "
                         "or UTC",
                         (int)(name.n < LIMIT_ZONE_BYTES ? name.n : LIMIT_ZONE_BYTES),
                         name.n ? name.p : "");
    int length =
        snprintf(path, sizeof(path), "%s/%.*s", dir ? dir : TZ_DIR, (int)name.n, name.p);
    if (length < 0 || (size_t)length >= sizeof(path))
        return error_set(error, -HF_INVALID, NULL,
                         "the folder of time zones has too long a name");
    /* Whatever is there, opening it must not wait. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return without_file(path, name, error, ret);
    if (fd < 0)
        return error_set(error, -HF_SYSTEM, "timeZone", "cannot open %s: %m", path);
    int r = load_open(fd, path, name, error, ret);
    close(fd);
    return r;
}

const char *tz_name(const struct tz *tz)
{
    return tz->name;
}

/* ---- asking ---- */

/* The last period that starts at or before `utc_s`.  The halves are chosen without a
 * branch: schedules ask this for every fire. */
static size_t find_period(const struct tz *tz, int64_t utc_s)
{
    size_t at = 0;

    assert(tz->count > 0 && tz->starts[0] == INT64_MIN);
    for (size_t n = tz->count; n > 1;) {
        size_t half = n / 2;
        at += tz->starts[at + half] <= utc_s ? half : 0;
        n -= half;
    }
    return at;
}

struct tz_period tz_at(const struct tz *tz, int64_t utc_s)
{
    int64_t shift_s = 0;

    assert(utc_s >= -2 * TZ_TIME_MAX_S && utc_s <= 2 * TZ_TIME_MAX_S);
    if (tz->repeats && utc_s >= tz->repeat_end_s)
        shift_s = ((utc_s - tz->repeat_end_s) / TZ_CYCLE_S + 1) * TZ_CYCLE_S;

    size_t i = find_period(tz, utc_s - shift_s);
    const struct tz_kind *kind = &tz->kinds[tz->kind_of[i]];
    return (struct tz_period){
        .start_s = i == 0 ? INT64_MIN : tz->starts[i] + shift_s,
        .end_s = i + 1 == tz->count ? INT64_MAX : tz->starts[i + 1] + shift_s,
        .offset_s = kind->offset_s,
        .is_dst = kind->is_dst,
        .abbreviation = kind->abbreviation,
    };
}

struct tz_reached tz_reach(const struct tz *tz, int64_t local_s)
{
    struct tz_period p = tz_at(tz, local_s - TZ_OFFSET_END_S);

    for (;;) {
        if (local_s - p.offset_s < p.end_s)
            return (struct tz_reached){ .utc_s = local_s - p.offset_s };
        struct tz_period next = tz_at(tz, p.end_s);
        if (local_s - next.offset_s < next.start_s)
            return (struct tz_reached){ .utc_s = next.start_s,
                                        .gap_s = next.offset_s - p.offset_s };
        p = next;
    }
}

int64_t tz_latest_local(const struct tz *tz, int64_t utc_s)
{
    struct tz_period p = tz_at(tz, utc_s);
    int64_t latest_s = utc_s + p.offset_s;

    /* Whatever was shown earlier than that is less than what is shown now. */
    while (p.start_s > utc_s - 2 * TZ_OFFSET_END_S) {
        int64_t before_s = p.start_s - 1;
        p = tz_at(tz, before_s);
        if (before_s + p.offset_s > latest_s)
            latest_s = before_s + p.offset_s;
    }
    return latest_s;
}
