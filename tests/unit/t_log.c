/* SPDX-License-Identifier: Apache-2.0
 *
 * An event reaches who wants it, as one line, whatever its fields hold. */
#include "base/log.h"
#include "test.h"

struct collector {
    struct log log;
    struct buf lines;
    int events;
};

static void collect(struct log *log, enum level level, const char *event,
                    const struct log_field *fields)
{
    struct collector *collector = (struct collector *)log;

    collector->events++;
    log_line(&collector->lines, 0, level, event, fields);
}

static void collector_init(struct collector *collector, enum level least)
{
    *collector = (struct collector){ .log = { .least = least, .event = collect } };
    buf_init(&collector->lines, 10000);
}

static void collector_release(struct collector *collector)
{
    buf_release(&collector->lines);
}

TEST(an_event_is_one_line_of_logfmt)
{
    cleanup(collector_release) struct collector to;

    collector_init(&to, LEVEL_DEBUG);
    log_event(&to.log, LEVEL_WARN, "lease_lost", log_int("job", -42),
              log_text("owner", "node-3"));
    check_str(to.lines.p,
              "1970-01-01T00:00:00.000Z warn lease_lost job=-42 owner=node-3\n");
}

TEST(an_event_may_have_no_fields)
{
    cleanup(collector_release) struct collector to;

    collector_init(&to, LEVEL_DEBUG);
    log_event(&to.log, LEVEL_INFO, "ready");
    check_str(to.lines.p, "1970-01-01T00:00:00.000Z info ready\n");
}

TEST(values_that_are_not_one_plain_word_are_quoted)
{
    cleanup(collector_release) struct collector to;

    collector_init(&to, LEVEL_DEBUG);
    log_event(&to.log, LEVEL_ERROR, "e", log_text("a", "two words"), log_text("b", ""),
              log_text("c", "x=y"), log_text("d", "say \"hi\""),
              log_text("e", "back\\slash"), log_slice("f", (struct slice){ NULL, 0 }),
              log_text("g", "né"));
    check_str(to.lines.p,
              "1970-01-01T00:00:00.000Z error e a=\"two words\" b=\"\" c=\"x=y\" "
              "d=\"say \\\"hi\\\"\" e=\"back\\\\slash\" f=\"\" g=\"né\"\n");
}

TEST(no_field_can_forge_a_second_line)
{
    cleanup(buf_release) struct buf text, json;
    const struct log_field fields[] = {
        log_slice("a", SLICE("x\n1970 error forged\r\n\0\x1b[31m\xFF")), { .key = NULL }
    };

    buf_init(&text, 1000);
    buf_init(&json, 1000);
    log_line(&text, 0, LEVEL_INFO, "e", fields);
    log_line_json(&json, 0, LEVEL_INFO, "e", fields);
    check(strchr(text.p, '\n') == text.p + text.n - 1);
    check(strchr(json.p, '\n') == json.p + json.n - 1);
    check(!strchr(text.p, '\r') && !strchr(text.p, '\x1b') && !strchr(json.p, '\x1b'));
}

TEST(an_event_is_one_json_object)
{
    cleanup(buf_release) struct buf buf;
    const struct log_field fields[] = { log_int("job", 7),
                                        log_text("why", "a \"b\""),
                                        { .key = NULL } };

    buf_init(&buf, 1000);
    log_line_json(&buf, 1500, LEVEL_DEBUG, "tick", fields);
    check_str(buf.p, "{\"time\":\"1970-01-01T00:00:00.001Z\",\"level\":\"debug\","
                     "\"event\":\"tick\",\"job\":7,\"why\":\"a \\\"b\\\"\"}\n");
}

TEST(what_is_below_the_least_level_is_not_told)
{
    cleanup(collector_release) struct collector to;

    collector_init(&to, LEVEL_WARN);
    log_event(&to.log, LEVEL_DEBUG, "a");
    log_event(&to.log, LEVEL_INFO, "b");
    check_int(to.events, 0);
    log_event(&to.log, LEVEL_WARN, "c");
    log_event(&to.log, LEVEL_ERROR, "d");
    check_int(to.events, 2);
}

TEST(no_sink_is_silence)
{
    log_event(NULL, LEVEL_ERROR, "nobody_hears", log_int("n", 1));
}
