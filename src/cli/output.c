/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c -- tables for people, JSON for programs.
 *
 * Texts of jobs are anyone's: a control character in one could move the cursor
 * or colour the screen of whoever lists them, so none reaches a terminal. */
#include <stdio.h>

#include "base/text.h"
#include "cli.h"

#define TABLE_BYTES ((size_t)64 << 20)

/* Cells longer than this are cut, so that a line stays a line. */
enum { CELL_BYTES = 60, COLUMNS_MAX = 16 };

static void add_tame(struct buf *buf, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        buf_byte(buf, c < 0x20 || c == 0x7f ? '?' : (char)c);
    }
}

void table_init(struct table *table, const char *const *titles)
{
    *table = (struct table){ 0 };
    buf_init(&table->cells, TABLE_BYTES);
    for (; titles[table->columns]; table->columns++)
        table_text(table, titles[table->columns]);
    assert(table->columns > 0 && table->columns <= COLUMNS_MAX);
}

void table_text(struct table *table, const char *text)
{
    struct slice cell = slice_of(text && text[0] ? text : "-");
    bool cut = cell.n > CELL_BYTES;

    add_tame(&table->cells, cell.p, cut ? utf8_fit(cell, CELL_BYTES - 3) : cell.n);
    if (cut)
        buf_text(&table->cells, "...");
    buf_byte(&table->cells, '\0');
    table->count++;
}

void table_int(struct table *table, int64_t n)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)n);
    table_text(table, text);
}

void table_time(struct table *table, int64_t time_us)
{
    char text[TIME_TEXT_BYTES];
    table_text(table, time_us ? time_text(time_us, text) : NULL);
}

/* Characters, not bytes. */
static int width_of(const char *cell)
{
    int width = 0;
    for (; *cell; cell++)
        width += ((unsigned char)*cell & 0xc0) != 0x80;
    return width;
}

int table_print(struct table *table)
{
    int widths[COLUMNS_MAX] = { 0 };
    struct slice all;

    int r = buf_end(&table->cells, &all);
    assert(r < 0 || table->count % table->columns == 0);
    const char *cell = all.p;
    for (size_t i = 0; r == 0 && i < table->count; i++, cell += strlen(cell) + 1) {
        int width = width_of(cell);
        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }
    cell = all.p;
    for (size_t i = 0; r == 0 && i < table->count; i++, cell += strlen(cell) + 1) {
        bool last = (i + 1) % table->columns == 0;
        int pad = last ? 0 : widths[i % table->columns] - width_of(cell) + 2;
        printf("%s%*s%s", cell, pad, "", last ? "\n" : "");
    }
    buf_release(&table->cells);
    return r;
}

void print_field(const char *name, const char *value)
{
    struct buf buf;
    struct slice text;

    if (!value)
        return;
    buf_init(&buf, TABLE_BYTES);
    add_tame(&buf, value, strlen(value));
    if (buf_end(&buf, &text) == 0)
        printf("%-18s %s\n", name, text.p);
    buf_release(&buf);
}

void print_time(const char *name, int64_t time_us)
{
    char text[TIME_TEXT_BYTES];
    if (time_us)
        print_field(name, time_text(time_us, text));
}

int print_json(struct buf *buf)
{
    struct slice text;
    int r = buf_end(buf, &text);
    if (r == 0) {
        fwrite(text.p, 1, text.n, stdout);
        putchar('\n');
    }
    buf_release(buf);
    return r;
}

/* ---- jobs ---- */

static void put_raw(struct json_writer *w, const char *key, const char *json)
{
    json_put_raw(w, key, slice_of(json));
}

static void put_error(struct json_writer *w, const struct hf_job *job)
{
    if (job->failure == HF_FAILURE_NONE) {
        json_put_null(w, "error");
        return;
    }
    json_key(w, "error");
    json_begin_object(w);
    json_put_text(w, "type", hf_failure_name(job->failure));
    json_put_text(w, "class", job->failure_class);
    json_put_text(w, "message", job->failure_message);
    put_raw(w, "details", job->failure_details);
    json_end_object(w);
}

static void put_progress(struct json_writer *w, const struct hf_job *job)
{
    if (job->started_at_us == 0) {
        json_put_null(w, "progress");
        return;
    }
    json_key(w, "progress");
    json_begin_object(w);
    json_put_int(w, "percent", job->progress_percent);
    json_put_text(w, "text", job->progress_text);
    json_end_object(w);
}

void put_job(struct json_writer *w, const struct hf_job *job)
{
    json_begin_object(w);
    json_put_id(w, "id", job->id);
    json_put_text(w, "project", job->project);
    json_put_text(w, "queue", job->queue);
    json_put_text(w, "kind", job->kind);
    json_put_text(w, "state", hf_state_name(job->state));
    put_raw(w, "payload", job->payload);
    put_raw(w, "metadata", job->metadata);
    json_put_int(w, "priority", job->priority);
    json_put_time(w, "runAt", job->run_at_us);
    json_put_time(w, "expiresAt", job->expires_at_us);
    json_put_text(w, "uniqueKey", job->unique_key);
    json_put_int(w, "attempt", job->attempt);
    json_put_int(w, "maxRetries", job->max_retries);
    json_put_int(w, "retriesLeft", job->retries_left);
    json_put_id(w, "retryOf", job->retry_of);
    json_put_id(w, "retriedBy", job->retried_by);
    json_put_text(w, "retryState", hf_retry_state_name(job->retry_state));
    json_put_text(w, "retryReason", job->retry_reason);
    json_put_time(w, "nextRetryAt", job->next_retry_at_us);
    json_put_time(w, "lastRetryAt", job->last_retry_at_us);
    json_put_int(w, "maxExecutionTimeMs", job->max_execution_ms);
    json_put_time(w, "createdAt", job->created_at_us);
    json_put_time(w, "startedAt", job->started_at_us);
    json_put_time(w, "finishedAt", job->finished_at_us);
    json_put_bool(w, "overdue", job->overdue);
    put_error(w, job);
    put_raw(w, "result", job->result);
    put_progress(w, job);
    json_put_text(w, "owner", job->owner);
    json_end_object(w);
}
