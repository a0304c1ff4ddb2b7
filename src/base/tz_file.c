/* SPDX-License-Identifier: Apache-2.0
 *
 * tz_file.c -- TZif (RFC 9636) into periods.
 *
 * A file is two blocks with the same content, of which the first has times of 32
 * bits and is passed over where there is a second, and a line with the rule for the
 * time after.  Every number in it is held against the bytes that are there. */
#include "calendar.h"
#include "tz_private.h"

enum {
    HEADER_BYTES = 44,
    KIND_BYTES = 6,
    KINDS_MAX = 256,
    UNROLLED_YEARS = 400 + 8, /* a few on either side, see unroll() */
};

/* The counts of a header, and where the parts are. */
struct block {
    size_t time_bytes; /* 4 or 8 */
    uint32_t ut_count, std_count, leap_count, time_count, kind_count, char_count;
    const uint8_t *times, *kind_of, *kinds, *chars;
};

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t read_time(const struct block *block, size_t i)
{
    const uint8_t *p = block->times + i * block->time_bytes;

    if (block->time_bytes == 4)
        return (int32_t)read_u32(p);
    return (int64_t)((uint64_t)read_u32(p) << 32 | read_u32(p + 4));
}

static void skip(struct slice *rest, size_t n)
{
    assert(n <= rest->n);
    rest->p += n, rest->n -= n;
}

/* Takes a header and the data behind it off `rest`.  NULL, or what is wrong. */
static const char *take_block(struct slice *rest, size_t time_bytes, struct block *ret)
{
    const uint8_t *p = (const uint8_t *)rest->p;

    if (rest->n < HEADER_BYTES || memcmp(p, "TZif", 4) != 0)
        return "it does not begin with TZif";
    struct block b = {
        .time_bytes = time_bytes,
        .ut_count = read_u32(p + 20),
        .std_count = read_u32(p + 24),
        .leap_count = read_u32(p + 28),
        .time_count = read_u32(p + 32),
        .kind_count = read_u32(p + 36),
        .char_count = read_u32(p + 40),
    };
    skip(rest, HEADER_BYTES);
    /* 32-bit counts times small factors: no sum here overflows 64 bits. */
    uint64_t bytes = (uint64_t)b.time_count * (time_bytes + 1) +
                     (uint64_t)b.kind_count * KIND_BYTES + b.char_count +
                     (uint64_t)b.leap_count * (time_bytes + 4) + b.std_count + b.ut_count;
    if (bytes > rest->n)
        return "it is cut off";
    b.times = (const uint8_t *)rest->p;
    b.kind_of = b.times + b.time_count * time_bytes;
    b.kinds = b.kind_of + b.time_count;
    b.chars = b.kinds + b.kind_count * KIND_BYTES;
    skip(rest, (size_t)bytes);
    *ret = b;
    return NULL;
}

/* The rule's text off the end of the file: between two line ends. */
static const char *take_footer(struct slice rest, struct slice *ret)
{
    const char *end = rest.n > 1 ? memchr(rest.p + 1, '\n', rest.n - 1) : NULL;

    if (!end || rest.p[0] != '\n')
        return "its last line is missing";
    *ret = (struct slice){ rest.p + 1, (size_t)(end - rest.p) - 1 };
    return NULL;
}

static const char *check_block(const struct block *block)
{
    if (block->kind_count == 0 || block->kind_count > KINDS_MAX)
        return "it has no kinds of local time, or too many";
    if (block->leap_count > 0)
        return "it counts leap seconds, which Unix time does not; use the zone of the "
               "same name without right/";
    for (size_t i = 0; i < block->time_count; i++) {
        int64_t time = read_time(block, i);
        if (block->kind_of[i] >= block->kind_count)
            return "a change leads to a kind of local time that is not there";
        if (time < -TZ_TIME_MAX_S || time > TZ_TIME_MAX_S)
            return "a change is not in any time";
        if (i > 0 && time <= read_time(block, i - 1))
            return "its changes are not in order";
    }
    return NULL;
}

static bool offset_good(int32_t offset_s)
{
    return offset_s > -TZ_OFFSET_END_S && offset_s < TZ_OFFSET_END_S;
}

static const char *read_kind(const struct block *block, size_t i, struct tz_kind *ret)
{
    const uint8_t *p = block->kinds + i * KIND_BYTES;
    struct tz_kind kind = { .offset_s = (int32_t)read_u32(p), .is_dst = p[4] != 0 };

    if (!offset_good(kind.offset_s))
        return "an offset is of 26 hours or more";
    if (p[4] > 1)
        return "a kind of local time is neither summer time nor not";
    if (p[5] >= block->char_count)
        return "an abbreviation is not there";
    const char *word = (const char *)block->chars + p[5];
    size_t n = strnlen(word, block->char_count - p[5]);
    if (n == block->char_count - p[5] || n > LIMIT_ZONE_WORD_BYTES)
        return "an abbreviation has no end";
    memcpy(kind.abbreviation, word, n);
    *ret = kind;
    return NULL;
}

static bool kinds_equal(const struct tz_kind *a, const struct tz_kind *b)
{
    return a->offset_s == b->offset_s && a->is_dst == b->is_dst &&
           strcmp(a->abbreviation, b->abbreviation) == 0;
}

/* A period begins; one that is like the one before it is none: what meets is always a
 * change. */
static void add_period(struct tz *tz, int64_t start_s, size_t kind)
{
    if (tz->count > 0 &&
        kinds_equal(&tz->kinds[tz->kind_of[tz->count - 1]], &tz->kinds[kind]))
        return;
    assert(tz->count == 0 || tz->starts[tz->count - 1] < start_s);
    tz->starts[tz->count] = start_s;
    tz->kind_of[tz->count++] = (uint16_t)kind;
}

/* A change by the rule, after the `from_file` periods of the file.  It takes the place
 * of those before it that were to be later: summer time all year is one that ends when,
 * or after, the next begins. */
static void add_change(struct tz *tz, size_t from_file, int64_t at_s, size_t kind)
{
    while (tz->count > from_file && tz->starts[tz->count - 1] >= at_s)
        tz->count--;
    if (at_s > tz->starts[tz->count - 1])
        add_period(tz, at_s, kind);
}

/* Adds the changes of the years after the last one in the file, until they have gone
 * through the calendar once.  They may be a week outside their year, so the 400 years
 * that are repeated begin a few years on, and a few more are added behind. */
static void unroll(struct tz *tz, const struct tz_rule *rule, size_t standard, size_t dst)
{
    const int64_t last_s = tz->starts[tz->count - 1], year_0_s = LEAST_TIME_US / US_PER_S;
    const size_t from_file = tz->count;
    int64_t first_year =
        last_s < year_0_s ? 0 : date_of_days(days_of_seconds(last_s)).year - 1;

    for (int64_t year = first_year; year < first_year + UNROLLED_YEARS; year++) {
        int64_t start_s = tz_change_in(&rule->start, year, rule->standard.offset_s);
        int64_t end_s = tz_change_in(&rule->end, year, rule->dst.offset_s);
        if (start_s < end_s)
            add_change(tz, from_file, start_s, dst);
        add_change(tz, from_file, end_s, standard);
        if (start_s >= end_s)
            add_change(tz, from_file, start_s, dst);
    }
    tz->repeats = tz->count - from_file > 2;
    tz->repeat_end_s =
        days_of_date(first_year + UNROLLED_YEARS - 3, 1, 1) * SECONDS_PER_DAY;
    /* Of a summer time that never ends, the end of the last year is left. */
    if (!tz->repeats && tz->count > from_file && tz->kind_of[tz->count - 1] == standard)
        tz->count--;
}

static const char *fill(struct tz *tz, const struct block *block,
                        const struct tz_rule *rule)
{
    size_t kind_count = block->kind_count;

    for (size_t i = 0; i < kind_count; i++) {
        const char *wrong = read_kind(block, i, &tz->kinds[i]);
        if (wrong)
            return wrong;
    }
    if (rule) {
        assert(offset_good(rule->standard.offset_s) && offset_good(rule->dst.offset_s));
        tz->kinds[kind_count] = rule->standard;
        tz->kinds[kind_count + 1] = rule->dst;
    }
    /* Without any change in the file, all of time is the rule's. */
    add_period(tz, INT64_MIN, rule && block->time_count == 0 ? kind_count : 0);
    for (size_t i = 0; i < block->time_count; i++)
        add_period(tz, read_time(block, i), block->kind_of[i]);
    if (rule && rule->has_dst)
        unroll(tz, rule, kind_count, kind_count + 1);
    return NULL;
}

static const char *parse(struct slice bytes, struct block *block, struct tz_rule *rule,
                         bool *has_rule)
{
    struct slice footer = { 0 };
    size_t version = bytes.n > 4 ? (uint8_t)bytes.p[4] : 0;

    *has_rule = false;
    const char *wrong = take_block(&bytes, 4, block);
    if (!wrong && version >= '2')
        wrong = take_block(&bytes, 8, block);
    if (!wrong)
        wrong = check_block(block);
    if (!wrong && version >= '2')
        wrong = take_footer(bytes, &footer);
    if (wrong || footer.n == 0)
        return wrong;
    *has_rule = true;
    return tz_rule_parse(footer, rule) ? NULL : "its last line is no rule";
}

int tz_read(struct slice name, struct slice bytes, struct error *error, struct tz **ret)
{
    struct block block;
    struct tz_rule rule;
    struct tz *tz = NULL;
    bool has_rule;

    assert(tz_name_valid(name) && ret);
    const char *wrong = parse(bytes, &block, &rule, &has_rule);
    if (!wrong) {
        tz = tz_allocate(name, block.time_count + 1 + 2 * UNROLLED_YEARS,
                         block.kind_count + 2);
        if (!tz)
            return error_set(error, -HF_NOMEM, NULL, "no memory for a time zone");
        wrong = fill(tz, &block, has_rule ? &rule : NULL);
    }
    if (wrong) {
        tz_free(tz);
        return error_set(error, -HF_INVALID, "timeZone",
                         "\"%.*s\" is no time zone that can be used: %s", (int)name.n,
                         name.p, wrong);
    }
    *ret = tz;
    return 0;
}
