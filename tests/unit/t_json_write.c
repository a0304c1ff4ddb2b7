/* SPDX-License-Identifier: Apache-2.0
 *
 * What is written is JSON, and misuse of the writer is noticed at once. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "test.h"

static const char *finished(struct json_writer *w)
{
    struct slice text;

    json_finish(w);
    check_ok(buf_end(w->buf, &text));
    check_ok(json_check(text, LIMIT_JSON_DEPTH, NULL));
    return text.p;
}

TEST(commas_and_colons_stand_where_they_belong)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 10000);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_int(&w, "a", 1);
    json_key(&w, "b");
    json_begin_array(&w);
    json_int(&w, -1);
    json_str(&w, SLICE("x\"y"));
    json_bool(&w, true);
    json_begin_array(&w);
    json_end_array(&w);
    json_begin_object(&w);
    json_end_object(&w);
    json_raw(&w, SLICE("0.10"));
    json_end_array(&w);
    json_key_slice(&w, SLICE("c\n"));
    json_begin_object(&w);
    json_put_bool(&w, "d", false);
    json_end_object(&w);
    json_put_null(&w, "e");
    json_end_object(&w);
    check_str(finished(&w), "{\"a\":1,\"b\":[-1,\"x\\\"y\",true,[],{},0.10],\"c\\n\":"
                            "{\"d\":false},\"e\":null}");
}

TEST(an_array_may_follow_an_object_and_the_other_way_round)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 10000);
    struct json_writer w = json_writer(&buf);
    json_begin_array(&w);
    json_begin_object(&w);
    json_put_int(&w, "a", 1);
    json_end_object(&w);
    json_begin_array(&w);
    json_int(&w, 2);
    json_end_array(&w);
    json_begin_object(&w);
    json_put_int(&w, "b", 3);
    json_end_object(&w);
    json_end_array(&w);
    check_str(finished(&w), "[{\"a\":1},[2],{\"b\":3}]");
}

TEST(absent_things_are_null)
{
    cleanup(buf_release) struct buf buf;
    const struct slice absent = { NULL, 0 };

    buf_init(&buf, 10000);
    struct json_writer w = json_writer(&buf);
    json_begin_object(&w);
    json_put_str(&w, "text", absent);
    json_put_text(&w, "word", NULL);
    json_put_raw(&w, "payload", absent);
    json_put_id(&w, "id", 0);
    json_put_time(&w, "time", 0);
    json_put_str(&w, "empty", SLICE(""));
    json_end_object(&w);
    check_str(finished(&w), "{\"text\":null,\"word\":null,\"payload\":null,\"id\":null,"
                            "\"time\":null,\"empty\":\"\"}");
}

TEST(ids_are_strings_and_times_are_rfc_3339)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 10000);
    struct json_writer w = json_writer(&buf);
    json_begin_array(&w);
    json_id(&w, INT64_C(9007199254740993));
    json_time(&w, 1500 * US_PER_MS);
    json_end_array(&w);
    check_str(finished(&w), "[\"9007199254740993\",\"1970-01-01T00:00:01.500Z\"]");
}

TEST(a_value_may_stand_alone_and_behind_other_text)
{
    cleanup(buf_release) struct buf buf;
    struct slice text;

    buf_init(&buf, 10000);
    buf_text(&buf, "data: [");
    struct json_writer w = json_writer(&buf);
    json_int(&w, 5);
    json_finish(&w);
    check_ok(buf_end(&buf, &text));
    check_slice(text, "data: [5");
}

TEST(a_writer_over_the_cap_fails_at_the_end_only)
{
    cleanup(buf_release) struct buf buf;
    struct slice text;

    buf_init(&buf, 10);
    struct json_writer w = json_writer(&buf);
    json_begin_array(&w);
    for (int i = 0; i < 100; i++)
        json_int(&w, i);
    json_end_array(&w);
    json_finish(&w);
    check_err(buf_end(&buf, &text), -HF_TOO_LARGE);
}

TEST(objects_and_arrays_nest_in_any_order)
{
    cleanup(buf_release) struct buf buf;

    buf_init(&buf, 10000);
    struct json_writer w = json_writer(&buf);
    for (int depth = 0; depth < 63; depth++) {
        if (depth % 3 == 0) {
            json_begin_array(&w);
        } else {
            json_begin_object(&w);
            json_key(&w, "k");
        }
    }
    json_int(&w, 1);
    for (int depth = 62; depth >= 0; depth--) {
        if (depth % 3 == 0)
            json_end_array(&w);
        else
            json_end_object(&w);
    }
    check(strstr(finished(&w), "[{\"k\":{\"k\":[{\"k\":") != NULL);
}

static void value_without_key(struct json_writer *w)
{
    json_begin_object(w);
    json_int(w, 1);
}

static void key_in_array(struct json_writer *w)
{
    json_begin_array(w);
    json_key(w, "k");
}

static void key_behind_key(struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, "k");
    json_key(w, "l");
}

static void end_behind_key(struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, "k");
    json_end_object(w);
}

static void wrong_bracket(struct json_writer *w)
{
    json_begin_object(w);
    json_end_array(w);
}

static void bracket_too_many(struct json_writer *w)
{
    json_begin_array(w);
    json_end_array(w);
    json_end_array(w);
}

static void two_values(struct json_writer *w)
{
    json_int(w, 1);
    json_int(w, 2);
}

static void unfinished(struct json_writer *w)
{
    json_begin_array(w);
    json_int(w, 1);
    json_finish(w);
}

static void nothing(struct json_writer *w)
{
    json_finish(w);
}

TEST(what_is_misplaced_is_a_defect)
{
    static void (*const misuses[])(struct json_writer *) = {
        value_without_key, key_in_array, key_behind_key, end_behind_key, wrong_bracket,
        bracket_too_many,  two_values,   unfinished,     nothing,
    };

    for (size_t i = 0; i < array_len(misuses); i++) {
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0) {
            struct buf buf;
            signal(SIGABRT, SIG_DFL);
            buf_init(&buf, 1000);
            struct json_writer w = json_writer(&buf);
            misuses[i](&w);
            _exit(0);
        }
        int status = 0;
        check_int(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            fail("misuse %zu went unnoticed", i);
    }
}
