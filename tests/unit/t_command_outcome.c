/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes to a supervisor and what comes back: the same on the other side, and
 * each end with its meaning. */
#include <signal.h>
#include <stdio.h>

#include "exec/command_outcome.h"
#include "exec/command_setup.h"
#include "test.h"

static struct arena arena;

static void empty_arena(size_t block_bytes)
{
    if (arena.cap > 0)
        arena_release(&arena);
    arena_init(&arena, block_bytes, 64 << 20);
}

static struct slice written(struct buf *buf)
{
    struct slice text;

    empty_arena(64 << 10);
    check_ok(buf_end(buf, &text));
    return text;
}

TEST(every_end_for_every_reason_has_its_meaning)
{
    enum {
        NONE = HF_FAILURE_NONE,
        OTHER = HF_FAILURE_OTHER,
        CRASH = HF_FAILURE_CRASH,
        LATE = HF_FAILURE_TIMEOUT,
        CANCEL = HF_FAILURE_CANCELLED,
        BREAK = HF_FAILURE_INTERRUPTED
    };
    /* By cause: none, deadline, cancel, interrupt, lease. */
    static const struct {
        int end, exit_code, failure[5];
    } cases[] = {
        { COMMAND_EXITED, 0, { NONE, LATE, NONE, NONE, NONE } },
        { COMMAND_EXITED, 1, { OTHER, LATE, CANCEL, BREAK, BREAK } },
        { COMMAND_SIGNALLED, 0, { CRASH, LATE, CANCEL, BREAK, BREAK } },
        { COMMAND_NOT_STARTED, 0, { OTHER, OTHER, OTHER, OTHER, OTHER } },
        { COMMAND_LOST, 0, { CRASH, CRASH, CRASH, CRASH, CRASH } },
    };

    for (size_t i = 0; i < array_len(cases); i++)
        for (int cause = 0; cause < 5; cause++) {
            struct command_outcome o = { .end = (enum command_end)cases[i].end,
                                         .exit_code = cases[i].exit_code,
                                         .cause = (enum command_cause)cause };
            check_int(command_outcome_failure(&o), cases[i].failure[cause]);
        }
}

TEST(every_outcome_is_a_sentence)
{
    static const char *const sentences[] = {
        "The command was ended by SIGKILL.",
        "The command was stopped at its deadline; it was ended by SIGKILL.",
        "The command was stopped because the job was cancelled; it was ended by SIGKILL.",
        "The command was stopped by a shutdown; it was ended by SIGKILL.",
        ("The command was stopped because no scheduler renewed the node's lease; it was "
         "ended by SIGKILL."),
    };
    char name[COMMAND_SIGNAL_TEXT_BYTES];

    for (int cause = 0; cause < (int)array_len(sentences); cause++) {
        struct command_outcome o = { .end = COMMAND_SIGNALLED,
                                     .signal = SIGKILL,
                                     .cause = (enum command_cause)cause };
        struct buf buf;
        buf_init(&buf, 1000);
        command_outcome_sentence(&o, &buf);
        check_str(buf.p, sentences[cause]);
        buf_release(&buf);
    }
    check_str(command_signal_text(99, name), "signal 99");
}

TEST(an_outcome_comes_back_as_it_was_written)
{
    char deep[2 * LIMIT_JSON_DEPTH + 1];
    struct command_outcome o = {
        .end = COMMAND_SIGNALLED, .signal = 9, .cause = COMMAND_CAUSE_LEASE,
        .started_us = 1, .ended_us = INT64_MAX, .duration_us = 3,
        .result_too_large = true, .error = SLICE("a \"sentence\"\n"),
        .progress = { 40, SLICE("caf\xc3\xa9") },
    }, got = { 0 };
    struct buf buf;

    memset(deep, '[', LIMIT_JSON_DEPTH);
    memset(deep + LIMIT_JSON_DEPTH, ']', LIMIT_JSON_DEPTH);
    o.result = (struct slice){ deep, 2 * LIMIT_JSON_DEPTH };
    buf_init(&buf, 1 << 20);
    command_outcome_write(&o, &buf);
    check_ok(command_outcome_read(written(&buf), &arena, NULL, &got));
    check_int(got.end, o.end);
    check_int(got.signal, 9);
    check_int(got.cause, COMMAND_CAUSE_LEASE);
    check_int(got.ended_us, INT64_MAX);
    check(got.result_too_large);
    check_slice(got.error, "a \"sentence\"\n");
    check_int(got.progress.percent, 40);
    check_slice(got.progress.text, "caf\xc3\xa9");
    check(slice_equal(got.result, o.result));

    /* Whatever is cut off, or comes from somewhere else, is refused. */
    struct slice text = written(&buf);
    for (size_t n = 0; n + 2 * LIMIT_JSON_DEPTH + 1 < text.n; n++)
        check_err(command_outcome_read((struct slice){ text.p, n }, &arena, NULL, &got),
                  -HF_INVALID);
    check_err(command_outcome_read(SLICE("{\"end\":\"vanished\"}"), &arena, NULL, &got),
              -HF_INVALID);
    check_err(command_outcome_read(SLICE("[]"), &arena, NULL, &got), -HF_INVALID);
    buf_release(&buf);
}

TEST(an_order_comes_back_byte_for_byte)
{
    static const char *const argv[] = { "/bin/\xff", "", "a=b", "two\nlines", NULL };
    static const char *const env[] = { "A=", "B==\xfe", NULL };
    struct command_setup setup;
    struct command_order order = { .job_id = INT64_MAX,
                                   .setup = &setup,
                                   .deadline_ms = 7,
                                   .lease_ms = 8,
                                   .lease_until_us = 9 },
                         got = { 0 };
    struct buf buf;

    command_setup_init(&setup);
    setup.argv = argv;
    setup.env = env;
    order.env = env + 1;
    setup.directory = "/d=\xff";
    setup.umask = 077;
    setup.limits[COMMAND_LIMIT_MEMORY_BYTES] = 0;
    setup.limits[COMMAND_LIMIT_CORE_BYTES] = INT64_MAX;
    buf_init(&buf, 1 << 20);
    command_order_write(&order, &buf);
    check_ok(command_order_read(written(&buf), &arena, NULL, &got));
    check_int(got.job_id, INT64_MAX);
    check_int(got.deadline_ms, 7);
    check_int(got.lease_ms, 8);
    check_int(got.lease_until_us, 9);
    check_int(got.setup->umask, 077);
    check_int(got.setup->grace_ms, DEFAULT_COMMAND_GRACE_MS);
    check_str(got.setup->directory, "/d=\xff");
    check_str(got.setup->user, NULL);
    for (int i = 0; i < COMMAND_LIMITS; i++)
        check_int(got.setup->limits[i], setup.limits[i]);
    for (size_t i = 0; i < array_len(argv); i++)
        check_str(got.setup->argv[i], argv[i]);
    for (size_t i = 0; i < array_len(env); i++)
        check_str(got.setup->env[i], env[i]);
    check_str(got.env[0], env[1]);
    check_str(got.env[1], NULL);
    buf_release(&buf);
}

TEST(an_order_of_another_version_is_refused_with_a_sentence)
{
    static const struct slice texts[] = {
        { "", 0 },
        { "job=1\0deadline_ms=1\0", 20 },
        { "job=1\0deadline_ms=1\0arg=x", 25 },
        { "job=1\0deadline_ms=1\0arg=x\0new=1\0", 32 },
        { "job=x\0deadline_ms=1\0arg=x\0", 26 },
        { "job=0\0deadline_ms=1\0arg=x\0", 26 },
        { "job=1\0deadline_ms=1\0arg\0", 24 },
    };
    struct command_order order;

    empty_arena(64 << 10);
    for (size_t i = 0; i < array_len(texts); i++) {
        struct error error = { 0 };
        check_err(command_order_read(texts[i], &arena, &error, &order), -HF_INVALID);
        check(strstr(error.text, "another version") != NULL);
    }
}

TEST(the_environment_is_what_was_asked_for_and_little_else)
{
    static const char *const inherited[] = { "PATH=/bin",    "HOLDFAST_TOKEN=x",
                                             "PGPASSWORD=y", "HOME=/root",
                                             "PATHS=z",      "USER=root",
                                             "LANG=C",       NULL };
    static const char *const env[] = { "A=1", "LANG=de", "B=2", NULL };
    static const char *const run_env[] = { "B=3", "AB=4", NULL };
    struct command_setup setup;
    struct command_order order = { .setup = &setup };
    static const char *const expected[] = { "PATH=/bin", "HOME=/home/x", "USER=x",
                                            "LANG=de",   "LOGNAME=x",    "A=1",
                                            "B=3",       "AB=4",         NULL };

    empty_arena(4096);
    command_setup_init(&setup);
    setup.env = env;
    order.env = run_env;
    char **vars =
        command_environment(&order, (char *const *)inherited, "x", "/home/x", &arena);
    check(vars != NULL);
    for (size_t i = 0; i < array_len(expected); i++)
        check_str(vars[i], expected[i]);
}
