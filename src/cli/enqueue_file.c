/* SPDX-License-Identifier: Apache-2.0
 *
 * enqueue_file.c -- many jobs out of a file, one JSON object a line.
 *
 * They go in batches, each all or nothing, so that after an error there is one line
 * to name and one to go on from.  Every batch has an idempotency key made of the
 * run's own and its first line: whoever goes on from that line with the same key gets
 * the same batch, and one whose answer was lost is not made twice. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/rng.h"
#include "cli.h"

enum {
    BATCH_LINES = 1000,
    BATCH_BYTES = 8 << 20,
    LINE_BYTES_MAX = LIMIT_BODY_BYTES,
    KEY_BYTES = 200
};

struct feed {
    struct cli *cli;
    const char *path;
    FILE *file;
    char *line; /* getline's */
    size_t line_room;
    int64_t line_number; /* of what was read last */
    int64_t bytes, size; /* for the bar; 0: not known */
    const char *key;

    struct buf body;
    int64_t lines[BATCH_LINES]; /* the number of each job's line */
    size_t count;
    int64_t enqueued;
    bool ended;
};

/* What to type to go on. */
static int stop(struct feed *feed, int code, int64_t line, const char *text)
{
    int64_t from = feed->count ? feed->lines[0] : feed->line_number;
    bool same_file = strcmp(feed->path, "-") != 0;

    progress_end();
    return cli_fail(feed->cli, code,
                    "%s:%lld: %.300s %lld jobs before line %lld are enqueued; go on with "
                    "--file %s --from-line %lld --idempotency-key %s",
                    feed->path, (long long)line, text, (long long)feed->enqueued,
                    (long long)from, same_file ? feed->path : "FILE", (long long)from,
                    feed->key);
}

/* ---- batches ---- */

/* The line to blame: the API says jobs[7]. */
static int64_t blamed_line(const struct feed *feed)
{
    size_t i = 0;
    if (sscanf(feed->cli->error.field, "jobs[%zu]", &i) == 1 && i < feed->count)
        return feed->lines[i];
    return feed->lines[0];
}

/* The API's sentence begins with the place in the batch, which says nothing here. */
static const char *without_place(const char *text)
{
    size_t i = 0;
    int n = 0;
    return sscanf(text, "Job %zu of the batch: %n", &i, &n) == 1 && n > 0 ? text + n
                                                                          : text;
}

static int send_batch(struct feed *feed)
{
    cleanup(buf_release) struct buf answer;
    struct ask ask = ask_for("POST", "jobs/batch");
    struct slice made = { 0 };
    char key[KEY_BYTES + 32], text[sizeof(feed->cli->error.text)];

    buf_init(&answer, CLI_ANSWER_BYTES);
    if (feed->count == 0)
        return 0;
    buf_text(&feed->body, "]}");
    snprintf(key, sizeof(key), "%s.%lld", feed->key, (long long)feed->lines[0]);
    ask.idempotency_key = key;
    int r = buf_end(&feed->body, &ask.body);
    if (r == 0)
        r = cli_ask(feed->cli, &ask, &answer, &made);
    if (r < 0) {
        snprintf(text, sizeof(text), "%s",
                 feed->cli->error.text[0] ? without_place(feed->cli->error.text)
                                          : status_of(r)->title);
        return stop(feed, r, blamed_line(feed), text);
    }
    if (feed->cli->json)
        print_json(made);
    feed->enqueued += (int64_t)feed->count;
    feed->count = 0;
    progress_show("enqueueing", feed->size ? feed->bytes : feed->enqueued, feed->size);
    return 0;
}

static int add_line(struct feed *feed, struct slice line)
{
    struct error error = { 0 };

    if (line.n > LINE_BYTES_MAX)
        return stop(feed, -HF_TOO_LARGE, feed->line_number, "The line is over 2 MiB.");
    if (json_check(line, LIMIT_DOCUMENT_DEPTH, &error) < 0)
        return stop(feed, -HF_INVALID, feed->line_number, error.text);
    if (json_kind_of(line) != JSON_KIND_OBJECT)
        return stop(feed, -HF_INVALID, feed->line_number,
                    "A job must be an object such as {\"kind\":\"crawl\"}.");
    if (feed->count == 0) {
        buf_reset(&feed->body);
        buf_text(&feed->body, "{\"jobs\":[");
    } else {
        buf_byte(&feed->body, ',');
    }
    buf_add(&feed->body, line);
    feed->lines[feed->count++] = feed->line_number;
    return feed->count == BATCH_LINES || feed->body.n > BATCH_BYTES ? send_batch(feed)
                                                                    : 0;
}

/* ---- lines ---- */

static int read_line(struct feed *feed, int64_t first)
{
    errno = 0;
    ssize_t n = getline(&feed->line, &feed->line_room, feed->file);
    if (n < 0) {
        feed->ended = true;
        return errno ? stop(feed, -HF_SYSTEM, feed->line_number, strerror(errno)) : 0;
    }
    feed->line_number++;
    feed->bytes += n;
    if (feed->line_number < first)
        return 0;
    struct slice line = json_trim((struct slice){ feed->line, (size_t)n });
    return line.n == 0 ? 0 : add_line(feed, line);
}

static int make_key(struct cli *cli, char out[KEY_BYTES])
{
    const char *given = cli_option(cli, "idempotency-key");
    struct rng rng;

    if (given && strlen(given) >= KEY_BYTES)
        return cli_refuse(cli,
                          "--idempotency-key must have fewer than %d bytes with --file.",
                          KEY_BYTES);
    if (given) {
        snprintf(out, KEY_BYTES, "%s", given);
        return 0;
    }
    int r = rng_seed_system(&rng);
    if (r == 0)
        snprintf(out, KEY_BYTES, "%016llx", (unsigned long long)rng_next(&rng));
    return r;
}

/* Everything else about a job stands in its line. */
static int check_options(struct cli *cli)
{
    static const char *const good[] = { "file", "from-line", "idempotency-key" };
    for (size_t i = 0; cli->command->options[i].name; i++) {
        bool fine = !cli->values[i];
        for (size_t k = 0; k < array_len(good); k++)
            fine = fine || strcmp(good[k], cli->command->options[i].name) == 0;
        if (!fine)
            return cli_refuse(cli,
                              "--%s does not go with --file: each line is a whole job.",
                              cli->command->options[i].name);
    }
    return 0;
}

int enqueue_file(struct cli *cli, const char *path)
{
    char key[KEY_BYTES];
    struct stat st = { 0 };
    int64_t first = 1;

    int r = check_options(cli);
    if (r == 0)
        r = cli_number(cli, "from-line", 1, INT64_MAX, &first);
    if (r == 0)
        r = make_key(cli, key);
    if (r < 0)
        return r;
    struct feed *feed = new (struct feed);
    if (!feed)
        return -HF_NOMEM;
    *feed = (struct feed){ .cli = cli, .path = path, .key = key };
    feed->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!feed->file) {
        free(feed);
        return cli_fail(cli, errno == ENOENT ? -HF_NOT_FOUND : -HF_SYSTEM,
                        "%s cannot be read: %s.", path, strerror(errno));
    }
    if (fstat(fileno(feed->file), &st) == 0 && S_ISREG(st.st_mode))
        feed->size = st.st_size;
    buf_init(&feed->body, LIMIT_BATCH_BODY_BYTES);
    while (r == 0 && !feed->ended)
        r = read_line(feed, first);
    if (r == 0)
        r = send_batch(feed);
    progress_end();
    if (r == 0 && !cli->json)
        printf("%lld jobs enqueued\n", (long long)feed->enqueued);
    buf_release(&feed->body);
    free(feed->line);
    if (feed->file != stdin)
        fclose(feed->file);
    free(feed);
    return r;
}
