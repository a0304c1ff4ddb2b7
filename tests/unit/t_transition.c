/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a job, cell by cell, against the same table written down a second
 * time as text; and the two promises the table must keep whatever is changed in
 * it: nothing goes back from running (I3), nothing leaves a terminal state. */
#include <stdio.h>

#include "base/status.h"
#include "engine/transition.h"
#include "test.h"

/* A state is where the job goes, "." a conflict, "late" the refusal of a report
 * about a run that is no longer running. */
static const char *const rows[] = {
    "          scheduled  queued     running     cancelling  completed  failed  cancelled",
    "due       queued     queued     .           .           .          .       .",
    "claim     .          running    .           .           .          .       .",
    "complete  late       late       completed   completed   late       late    late",
    "fail      late       late       failed      cancelled   late       late    late",
    "timeout   late       late       failed      cancelled   late       late    late",
    "interrupt late       late       failed      cancelled   late       late    late",
    "crash     late       late       failed      failed      late       late    late",
    "cancel    cancelled  cancelled  cancelling  cancelling  .          .       cancelled",
    "expire    cancelled  cancelled  .           .           .          .       .",
    "change    scheduled  queued     .           .           .          .       .",
    "retry     queued     queued     running     cancelling  completed  failed  cancelled",
};

enum { WORD_BYTES = 16 };

/* The next word of a row; false at its end. */
static bool next_word(const char **row, char word[WORD_BYTES])
{
    int used = 0;

    if (sscanf(*row, "%15s%n", word, &used) != 1)
        return false;
    *row += used;
    return true;
}

static enum job_event event_named(const char *name)
{
    for (int event = 0; event < JOB_EVENTS; event++)
        if (strcmp(job_event_name((enum job_event)event), name) == 0)
            return (enum job_event)event;
    fail("there is no event called %s", name);
}

static void check_cell(const char *wanted, int state, enum job_event event)
{
    struct transition cell = transition(state, event);
    const char *got = cell.next                      ? job_state_name(cell.next)
                      : cell.refusal == -HF_CONFLICT ? "."
                      : cell.refusal == -HF_LATE     ? "late"
                                                     : "something else";
    if (!got || strcmp(got, wanted) != 0)
        fail("%s on a %s job leads to %s, not %s", job_event_name(event),
             job_state_name(state), got ? got : "no state", wanted);
}

TEST(every_cell_is_as_written_down_here)
{
    int states[JOB_STATE_MAX];
    bool seen[JOB_EVENTS] = { false };
    char word[WORD_BYTES];
    const char *header = rows[0];

    for (int i = 0; i < JOB_STATE_MAX; i++) {
        check(next_word(&header, word));
        states[i] = job_state_from_name(slice_of(word));
        check_int(states[i], i + 1);
    }
    check(!next_word(&header, word));
    for (size_t r = 1; r < array_len(rows); r++) {
        const char *row = rows[r];
        check(next_word(&row, word));
        enum job_event event = event_named(word);
        check(!seen[event]);
        seen[event] = true;
        for (int i = 0; i < JOB_STATE_MAX; i++) {
            check(next_word(&row, word));
            check_cell(word, states[i], event);
        }
        check(!next_word(&row, word));
    }
    check_int(array_len(rows) - 1, JOB_EVENTS); /* so no event was left out */
}

TEST(every_cell_is_a_state_or_a_refusal_and_never_both)
{
    for (int event = 0; event < JOB_EVENTS; event++) {
        for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++) {
            struct transition cell = transition(state, (enum job_event)event);
            check(cell.next >= 0 && cell.next <= JOB_STATE_MAX);
            if (cell.next)
                check_int(cell.refusal, 0);
            else
                check(cell.refusal == -HF_CONFLICT || cell.refusal == -HF_LATE);
        }
    }
}

TEST(there_is_no_arrow_from_running_back_to_waiting)
{
    for (int event = 0; event < JOB_EVENTS; event++) {
        check(!job_state_waiting(transition(JOB_RUNNING, (enum job_event)event).next));
        check(!job_state_waiting(transition(JOB_CANCELLING, (enum job_event)event).next));
        check(transition(JOB_CANCELLING, (enum job_event)event).next != JOB_RUNNING);
    }
}

TEST(nothing_leaves_a_terminal_state)
{
    for (int state = JOB_COMPLETED; state <= JOB_CANCELLED; state++) {
        for (int event = 0; event < JOB_EVENTS; event++) {
            int next = transition(state, (enum job_event)event).next;
            check(next == 0 || next == state);
        }
    }
}

TEST(only_a_claim_makes_a_job_run)
{
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
        for (int event = 0; event < JOB_EVENTS; event++)
            if (transition(state, (enum job_event)event).next == JOB_RUNNING)
                check((state == JOB_QUEUED && event == ON_CLAIM) || state == JOB_RUNNING);
}

TEST(a_report_about_a_run_that_is_over_is_late_and_changes_nothing)
{
    static const enum job_event reports[] = { ON_COMPLETE, ON_FAIL, ON_TIMEOUT,
                                              ON_INTERRUPT, ON_CRASH };
    for (size_t i = 0; i < array_len(reports); i++)
        for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
            if (!job_state_busy(state))
                check_int(transition(state, reports[i]).refusal, -HF_LATE);
}

TEST(every_state_can_be_reached_and_every_live_one_can_end)
{
    bool reached[JOB_STATE_MAX + 1] = { false };

    reached[JOB_SCHEDULED] = reached[JOB_QUEUED] = true; /* by enqueueing */
    for (int round = 0; round < JOB_STATE_MAX; round++)
        for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++)
            for (int event = 0; reached[state] && event < JOB_EVENTS; event++)
                reached[transition(state, (enum job_event)event).next] = true;
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX; state++) {
        bool ends = false;
        for (int event = 0; event < JOB_EVENTS; event++)
            ends |= job_state_terminal(transition(state, (enum job_event)event).next);
        check(reached[state]);
        check(ends);
    }
}
