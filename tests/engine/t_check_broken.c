/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores that were tampered with: for every rule of the verifier, one that breaks
 * it.  The verifier names the invariant and the subject, and nothing besides. */
#include "crash.h"
#include "world_check.h"

/* One job of each sort, and a queue that is held. */
struct scene {
    struct world world;
    struct named {
        const char *name;
        int64_t id;
    } names[20];
    size_t count;
};

static void note(struct scene *s, const char *name, int64_t id)
{
    check(s->count < array_len(s->names));
    s->names[s->count++] = (struct named){ name, id };
}

static int64_t id_of(struct scene *s, const char *name, size_t n)
{
    for (size_t i = 0; i < s->count; i++)
        if (strlen(s->names[i].name) == n && memcmp(s->names[i].name, name, n) == 0)
            return s->names[i].id;
    fail("there is no %.*s in the scene", (int)n, name);
}

static int64_t reserve(struct world *w, const char *queue)
{
    struct command *c = command_new(OP_RESERVE);
    c->reserve.queue = slice_of(queue);
    c->reserve.holder = SLICE("a caller");
    c->reserve.wait_us = 30 * US_PER_S;
    check_ok(world_apply(w, c));
    int64_t id = c->reserve.out.id;
    command_free(c);
    return id;
}

static void set_jobs(struct scene *s)
{
    struct world *w = &s->world;
    int64_t id = enqueue_kind(w, "crawl"), retry = 0;
    note(s, "completed", id);
    check_int(claim_one(w, "s1"), id);
    check_ok(complete(w, "s1", id));

    note(s, "failed", id = enqueue_kind(w, "crawl"));
    check_int(claim_one(w, "s1"), id);
    check_ok(fail_run(w, "s1", id, ERROR_NETWORK, &retry));
    note(s, "retry", retry);

    note(s, "final", id = enqueue_kind(w, "crawl"));
    check_int(claim_one(w, "s1"), id);
    check_ok(fail_run(w, "s1", id, ERROR_PERMANENT, NULL));

    note(s, "running", id = enqueue_kind(w, "crawl"));
    check_int(claim_one(w, "s1"), id);

    note(s, "cancelled", id = enqueue_kind(w, "crawl"));
    check_ok(cancel(w, id));
    note(s, "queued", enqueue_kind(w, "crawl"));

    struct new_job keyed = job_of_kind("crawl");
    keyed.unique_key = SLICE("a source");
    note(s, "keyed", enqueue(w, keyed));

    static char payload[2000];
    memset(payload, ' ', sizeof(payload));
    payload[0] = '1';
    struct new_job large = job_of_kind("crawl");
    large.payload = (struct slice){ payload, sizeof(payload) };
    note(s, "large", enqueue(w, large));
}

static void scene_open(struct scene *s)
{
    struct world *w = &s->world;
    struct error error = { 0 };
    s->count = 0;
    world_init(w);
    check_ok(host_identify(&w->host, &error)); /* so that this process is seen to live */
    world_open(w);
    set_jobs(s);
    note(s, "hold", reserve(w, "gpu"));
    note(s, "line", reserve(w, "gpu"));
    struct queue_entry *entry = NULL;
    check_ok(store_queue(w->engine->store, SLICE("default"), false, &entry));
    note(s, "queue", entry->queue.id);
    note(s, "now", w->wall);
}

/* Rows that a constraint would refuse. */
/* clang-format off */
#define LOOSEN \
    "{sqlite:PRAGMA ignore_check_constraints = ON}" \
    "{postgres:ALTER TABLE jobs DROP CONSTRAINT jobs_check, DROP CONSTRAINT jobs_check1, " \
    "DROP CONSTRAINT jobs_state_check, DROP CONSTRAINT jobs_priority_check; " \
    "ALTER TABLE runs DROP CONSTRAINT runs_check; " \
    "ALTER TABLE reservations DROP CONSTRAINT reservations_check, " \
    "DROP CONSTRAINT reservations_state_check};"
/* The counts are made to fit, so that they are not what is found. */
#define RECOUNT \
    "DELETE FROM counters; INSERT INTO counters (shard, queue_id, accepted, scheduled, queued, " \
    "running, cancelling, completed, failed, cancelled) SELECT 0, queue_id, " \
    "sum(CASE WHEN state BETWEEN 1 AND 7 THEN 1 ELSE 0 END), " \
    "sum(CASE WHEN state = 1 THEN 1 ELSE 0 END), sum(CASE WHEN state = 2 THEN 1 ELSE 0 END), " \
    "sum(CASE WHEN state = 3 THEN 1 ELSE 0 END), sum(CASE WHEN state = 4 THEN 1 ELSE 0 END), " \
    "sum(CASE WHEN state = 5 THEN 1 ELSE 0 END), sum(CASE WHEN state = 6 THEN 1 ELSE 0 END), " \
    "sum(CASE WHEN state = 7 THEN 1 ELSE 0 END) FROM jobs GROUP BY queue_id;"
/* A scheduler that has been alive for long enough to have seen to it. */
#define OLD_SCHEDULER "UPDATE owners SET started_at = 1 WHERE type = 1;"
#define NEW_RUN "INSERT INTO runs (job_id, owner_id, started_at, deadline_at, attention_at, executor"
/* clang-format on */

/* $name in a script is the id of that name. */
static void tamper(struct scene *s, const char *script)
{
    struct buf text;
    struct slice whole = { 0 };
    buf_init(&text, 1 << 16);
    while (*script) {
        size_t n = strcspn(script, "$");
        buf_add(&text, (struct slice){ script, n });
        script += n;
        if (*script == '$') {
            n = strspn(++script, "abcdefghijklmnopqrstuvwxyz");
            buf_int(&text, id_of(s, script, n));
            script += n;
        }
    }
    check_ok(buf_end(&text, &whole));
    run_sql(&s->world, whole.p);
    buf_release(&text);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* What was found, as "I3 completed, I4 retry"; what is missing in the schema is
 * left out, and each sentence must name its subject. */
static const char *summary(struct scene *s, const struct findings *found)
{
    char lines[WORLD_FINDINGS][100];
    size_t n = 0;
    for (size_t i = 0; i < found->count; i++) {
        const char *name = NULL;
        char number[24];
        int64_t id = found->list[i].job_id           ? found->list[i].job_id
                     : found->list[i].reservation_id ? found->list[i].reservation_id
                                                     : found->list[i].queue_id;
        if (id == 0)
            continue;
        snprintf(number, sizeof(number), "%lld", (long long)id);
        for (size_t k = 0; k < s->count && !name; k++)
            if (s->names[k].id == id)
                name = s->names[k].name;
        if (!strstr(found->list[i].sentence, number) &&
            !strstr(found->list[i].sentence, "ueue "))
            fail("this does not say what it is about: %s", found->list[i].sentence);
        if (strpbrk(found->list[i].sentence, "{}"))
            fail("this is not for a person: %s", found->list[i].sentence);
        snprintf(lines[n++], sizeof(lines[0]), "I%d %s", found->list[i].invariant,
                 name ? name : number);
    }
    qsort(lines, n, sizeof(lines[0]), by_text);
    struct buf text;
    struct slice whole = { 0 };
    buf_init(&text, 1 << 16);
    for (size_t i = 0; i < n; i++)
        buf_printf(&text, "%s%s", i ? ", " : "", lines[i]);
    check_ok(buf_end(&text, &whole));
    whole = arena_dup(&s->world.arena, whole);
    buf_release(&text);
    return whole.p;
}

/* Tampers, and expects exactly these findings. */
static void broken(const char *wanted, const char *script)
{
    static struct scene s;
    struct findings found;
    scene_open(&s);
    tamper(&s, script);
    check_world(&s.world, &found);
    check_str(summary(&s, &found), wanted);
    world_crash(&s.world);
    arena_release(&s.world.arena);
}

#define BROKEN(name, wanted, script)                                                     \
    TEST(name)                                                                           \
    {                                                                                    \
        broken(wanted, script);                                                          \
    }

BROKEN(the_scene_itself_is_clean, "", "SELECT 1")

/* ---- I2 ---- */

BROKEN(an_open_run_of_a_job_that_is_over_is_named, "I2 completed, I3 completed",
       "UPDATE runs SET finished_at = NULL, outcome = NULL WHERE job_id = $completed")
BROKEN(an_open_run_of_a_failed_job_is_named, "I2 final, I3 final",
       "UPDATE runs SET finished_at = NULL, outcome = NULL WHERE job_id = $final")
BROKEN(an_open_run_of_a_waiting_job_is_named, "I2 queued, I3 queued",
       NEW_RUN ") VALUES ($queued, 1, 1, 1, 1, 1)")
BROKEN(a_job_that_runs_without_a_run_for_days_is_named, "I2 queued",
       OLD_SCHEDULER "UPDATE jobs SET state = 3, run_at = 1 WHERE id = $queued;" RECOUNT)
BROKEN(a_job_that_runs_on_after_its_run_for_days_is_named, "I2 running",
       OLD_SCHEDULER
       "UPDATE runs SET finished_at = 1, outcome = 5 WHERE job_id = $running")
BROKEN(a_job_that_runs_for_a_dead_owner_for_days_is_named, "I2 running",
       OLD_SCHEDULER "UPDATE runs SET started_at = 1 WHERE job_id = $running;"
                     "UPDATE owners SET state = 3, ended_at = 1 WHERE session = 's1'")
BROKEN(a_job_that_runs_for_nobody_known_for_days_is_named, "I2 running",
       OLD_SCHEDULER "UPDATE runs SET started_at = 1 WHERE job_id = $running;"
                     "DELETE FROM owners WHERE session = 's1'")

/* ---- I3 ---- */

BROKEN(a_waiting_job_that_has_run_is_named, "I3 queued",
       NEW_RUN ", finished_at, outcome) VALUES ($queued, 1, 1, 1, 1, 1, 2, 6)")
BROKEN(a_completed_job_without_a_run_is_named, "I3 completed",
       "DELETE FROM runs WHERE job_id = $completed")
BROKEN(a_completed_job_whose_run_failed_is_named, "I3 completed",
       "UPDATE runs SET outcome = 6 WHERE job_id = $completed")
BROKEN(a_failed_job_whose_run_completed_is_named, "I3 final",
       "UPDATE runs SET outcome = 5 WHERE job_id = $final")
BROKEN(a_cancelled_job_whose_run_completed_is_named, "I3 cancelled",
       NEW_RUN ", finished_at, outcome) VALUES ($cancelled, 1, 1, 1, 1, 1, 2, 5)")
BROKEN(a_cancelled_job_whose_run_is_open_is_named, "I2 cancelled, I3 cancelled",
       NEW_RUN ") VALUES ($cancelled, 1, 1, 1, 1, 1)")
BROKEN(an_end_without_an_outcome_is_named, "I3 running",
       LOOSEN "UPDATE runs SET finished_at = $now WHERE job_id = $running")
BROKEN(an_outcome_without_an_end_is_named, "I3 running",
       LOOSEN "UPDATE runs SET outcome = 5 WHERE job_id = $running")
BROKEN(an_outcome_that_is_none_is_named, "I3 running",
       "UPDATE runs SET finished_at = $now, outcome = 3 WHERE job_id = $running")
BROKEN(a_run_without_its_job_is_named, "I3 completed",
       "DELETE FROM jobs WHERE id = $completed;" RECOUNT)
BROKEN(a_job_with_two_runs_is_named, "I3 completed",
       "CREATE TABLE others AS SELECT * FROM runs; DROP TABLE runs;"
       "ALTER TABLE others RENAME TO runs;"
       "INSERT INTO runs SELECT * FROM runs WHERE job_id = $completed")
BROKEN(
    a_retry_of_a_job_that_still_runs_is_named, "I3 retry, I4 retry",
    "UPDATE jobs SET state = 3, retry_state = 0 WHERE id = $failed;"
    "UPDATE runs SET finished_at = NULL, outcome = NULL WHERE job_id = $failed;" RECOUNT)

/* ---- I4 ---- */

BROKEN(a_failed_job_without_retry_and_reason_is_named, "I4 final",
       LOOSEN "UPDATE jobs SET retry_state = 0 WHERE id = $final")
BROKEN(a_job_given_up_without_a_reason_is_named, "I4 final",
       LOOSEN "UPDATE jobs SET retry_reason = 0 WHERE id = $final")
BROKEN(a_job_given_up_for_a_reason_that_is_none_is_named, "I4 final",
       "UPDATE jobs SET retry_reason = 99 WHERE id = $final")
BROKEN(a_completed_job_that_was_given_up_is_named, "I4 completed",
       "UPDATE jobs SET retry_state = 3, retry_reason = 1 WHERE id = $completed")
BROKEN(a_cancelled_job_whose_retry_is_pending_is_named, "I4 cancelled",
       "UPDATE jobs SET retry_state = 1 WHERE id = $cancelled")
BROKEN(a_live_job_that_says_it_was_retried_is_named, "I4 queued, I4 queued",
       "UPDATE jobs SET retry_state = 2 WHERE id = $queued")
BROKEN(a_lost_retry_is_named, "I4 failed", "DELETE FROM jobs WHERE id = $retry;" RECOUNT)
BROKEN(a_retry_of_a_job_that_was_given_up_is_named, "I4 retry",
       "UPDATE jobs SET retry_state = 3, retry_reason = 1 WHERE id = $failed")
BROKEN(a_retry_of_a_job_whose_retry_is_pending_is_named, "I4 retry",
       "UPDATE jobs SET retry_state = 1 WHERE id = $failed")
BROKEN(
    a_second_retry_is_named, "I4 failed",
    "DROP INDEX jobs_one_retry; UPDATE jobs SET retry_of = $failed, root_id = $failed, "
    "attempt = 2, position = (SELECT o.position FROM jobs o WHERE o.id = $failed) "
    "WHERE id = $queued")
BROKEN(
    a_retry_without_its_original_is_named, "I4 retry",
    "DELETE FROM jobs WHERE id = $failed; DELETE FROM runs WHERE job_id = $failed;" RECOUNT)
BROKEN(a_gap_in_the_attempts_is_named, "I4 retry",
       "UPDATE jobs SET attempt = 3 WHERE id = $retry")
BROKEN(a_first_attempt_that_is_not_the_first_is_named, "I4 queued",
       "UPDATE jobs SET attempt = 2 WHERE id = $queued")
BROKEN(a_chain_with_two_roots_is_named, "I4 retry",
       "UPDATE jobs SET root_id = id WHERE id = $retry")
BROKEN(a_root_that_is_another_job_is_named, "I4 queued",
       "UPDATE jobs SET root_id = $completed WHERE id = $queued")
BROKEN(retries_that_multiply_are_named, "I4 retry",
       "UPDATE jobs SET retries_left = 9 WHERE id = $retry")
BROKEN(a_chain_that_bites_its_tail_is_named, "I3 failed, I4 failed, I4 failed",
       "UPDATE jobs SET retry_of = $retry WHERE id = $failed")
BROKEN(a_job_that_is_its_own_retry_is_named, "I3 queued, I4 queued, I4 queued",
       "UPDATE jobs SET retry_of = id WHERE id = $queued")

/* ---- I5 ---- */

BROKEN(two_live_jobs_of_one_source_are_named, "I5 queued",
       "DROP INDEX jobs_one_live_per_key;"
       "UPDATE jobs SET unique_key = 'a source' WHERE id = $queued")
BROKEN(a_running_job_and_a_scheduled_retry_of_one_source_are_named, "I5 retry",
       "DROP INDEX jobs_one_live_per_key;"
       "UPDATE jobs SET unique_key = 'another' WHERE id IN ($failed, $retry, $running)")

/* ---- I6 ---- */

BROKEN(a_queue_held_twice_is_named, "I6 hold",
       "DROP INDEX reservations_one_per_queue;"
       "UPDATE reservations SET state = 2 WHERE id = $line")
BROKEN(a_reservation_that_never_expires_is_named, "I6 hold",
       LOOSEN "UPDATE reservations SET expires_at = NULL WHERE id = $hold")
BROKEN(a_reservation_that_expires_too_late_is_named, "I6 hold",
       "UPDATE reservations SET expires_at = expires_at + 86400000000 WHERE id = $hold")
BROKEN(a_reservation_that_waits_for_ever_is_named, "I6 line",
       "UPDATE reservations SET wait_until = wait_until + 86400000000 WHERE id = $line")
BROKEN(a_reservation_held_long_after_its_end_is_named, "I6 hold",
       OLD_SCHEDULER "UPDATE reservations SET expires_at = 2 WHERE id = $hold")
BROKEN(a_reservation_that_waits_long_after_its_end_is_named, "I6 line",
       OLD_SCHEDULER "UPDATE reservations SET wait_until = 2 WHERE id = $line")
BROKEN(a_reservation_that_waits_behind_nobody_is_named, "I6 line",
       OLD_SCHEDULER "UPDATE reservations SET state = 4, ended_at = 2 WHERE id = $hold;"
                     "UPDATE reservations SET created_at = 1 WHERE id = $line")
BROKEN(a_reservation_in_a_state_that_is_none_is_named, "I6 line",
       LOOSEN "UPDATE reservations SET state = 9 WHERE id = $line")

/* ---- I8 ---- */

BROKEN(a_retry_that_lost_its_place_in_line_is_named, "I8 retry",
       "UPDATE jobs SET position = position + 1 WHERE id = $retry")
BROKEN(a_job_that_jumped_the_line_is_named, "I8 queued",
       "UPDATE jobs SET position = 1 WHERE id = $queued")
BROKEN(a_priority_that_is_none_is_named, "I8 queued",
       LOOSEN "UPDATE jobs SET priority = 12 WHERE id = $queued")
BROKEN(a_retry_of_another_kind_is_named, "I8 retry",
       "UPDATE jobs SET kind = 'other' WHERE id = $retry")
BROKEN(a_retry_in_another_project_is_named, "I8 retry",
       "INSERT INTO projects (id, name, created_at) VALUES (77, 'p', 1);"
       "UPDATE jobs SET project_id = 77 WHERE id = $retry")
BROKEN(a_job_of_a_project_that_is_gone_is_named, "I10 final",
       "UPDATE jobs SET project_id = 77 WHERE id = $final")
BROKEN(a_retry_that_lost_its_key_is_named, "I8 retry",
       "UPDATE jobs SET unique_key = 'was there' WHERE id = $failed")
BROKEN(a_retry_with_another_external_id_is_named, "I8 retry",
       "UPDATE jobs SET external_id = 'mine' WHERE id = $retry")
BROKEN(a_retry_with_another_payload_is_named, "I8 retry",
       "UPDATE jobs SET payload = '2' WHERE id = $retry")

/* ---- I10 ---- */

BROKEN(a_count_that_is_wrong_is_named, "I10 queue, I10 queue",
       "UPDATE counters SET queued = queued + 1 WHERE queue_id = $queue")
BROKEN(a_job_that_was_removed_by_hand_is_named, "I10 queue",
       "DELETE FROM jobs WHERE id = $queued")
BROKEN(an_accepted_job_that_is_nowhere_is_named, "I10 queue",
       "UPDATE counters SET accepted = accepted + 1 WHERE queue_id = $queue")
BROKEN(a_negative_count_is_named, "I10 queue",
       "UPDATE counters SET accepted = accepted - 1, pruned = pruned - 1 "
       "WHERE queue_id = $queue")
BROKEN(counts_that_are_gone_are_named,
       "I10 queue, I10 queue, I10 queue, I10 queue, "
       "I10 queue, I10 queue, I10 queue",
       "DELETE FROM counters; UPDATE jobs SET state = 4 WHERE id = $running;"
       "INSERT INTO counters (shard, queue_id, accepted) VALUES (0, $queue, 8)")
BROKEN(jobs_of_a_queue_that_is_gone_are_named, "I10 queue",
       "DELETE FROM queues WHERE id = $queue")
BROKEN(counts_of_a_queue_that_never_was_are_named, "I10 77, I10 77, I10 77",
       "INSERT INTO counters (shard, queue_id, queued) VALUES (0, 77, 1)")
BROKEN(a_job_in_a_state_that_is_none_is_named, "I10 queued",
       LOOSEN "UPDATE jobs SET state = 9 WHERE id = $queued;" RECOUNT)
BROKEN(a_payload_that_is_gone_is_named, "I10 large",
       "DELETE FROM payloads WHERE root_id = $large")
BROKEN(a_payload_of_a_job_that_is_gone_is_named, "I10 777",
       "INSERT INTO payloads (root_id, payload) VALUES (777, '1')")
BROKEN(a_payload_that_nobody_uses_is_named, "I10 completed",
       "INSERT INTO payloads (root_id, payload) VALUES ($completed, '1')")
