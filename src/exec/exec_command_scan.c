/* SPDX-License-Identifier: Apache-2.0
 *
 * exec_command_scan.c -- records as the caller sees them, without a loop. */
#include <unistd.h>

#include "base/host.h"
#include "capture.h"
#include "exec_command.h"

enum { ARENA_BYTES = 64 << 10, ARENA_CAP_BYTES = 8 << 20 };

static void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static int scan_one(int records, int64_t job_id, const struct host *self, bool look_only,
                    struct arena *arena, struct error *error,
                    struct exec_command_found *found)
{
    struct command_start start;

    *found = (struct exec_command_found){ .job_id = job_id };
    cleanup(close_fd) int record = command_record_open(records, job_id, error);
    if (record < 0)
        return record;
    int r = look_only ? command_record_read(record, self, arena, error, &found->state,
                                            &start, &found->outcome)
                      : command_record_settle(record, self, arena, error, &found->state,
                                              &start, &found->outcome);
    if (r == 0)
        r = capture_read(record, "stdout", arena, &found->outcome.out);
    return r < 0 ? r : capture_read(record, "stderr", arena, &found->outcome.err);
}

int exec_command_scan(const char *state_dir, bool look_only,
                      int (*each)(void *arg, const struct exec_command_found *found),
                      void *arg, struct error *error)
{
    struct arena ids, arena;
    struct host self;
    int64_t *list = NULL;
    size_t count = 0;

    cleanup(close_fd) int records = command_records_open(state_dir, false, NULL);
    if (records == -HF_NOT_FOUND)
        return 0; /* there never was a command */
    if (records < 0)
        return command_records_open(state_dir, false, error);
    int r = host_identify(&self, error);
    arena_init(&ids, ARENA_BYTES, 512 << 20);
    arena_init(&arena, ARENA_BYTES, ARENA_CAP_BYTES);
    if (r == 0)
        r = command_records_list(records, &ids, error, &list, &count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct exec_command_found found;
        arena_reset(&arena);
        r = scan_one(records, list[i], &self, look_only, &arena, error, &found);
        r = r < 0 ? r : each(arg, &found);
    }
    arena_release(&arena);
    arena_release(&ids);
    return r;
}

int exec_command_output(const char *state_dir, int64_t job_id, struct arena *arena,
                        struct error *error, struct command_output *ret_out,
                        struct command_output *ret_err)
{
    cleanup(close_fd) int records = command_records_open(state_dir, false, error);
    if (records < 0)
        return records;
    cleanup(close_fd) int record = command_record_open(records, job_id, error);
    if (record < 0)
        return record;
    int r = capture_read(record, "stdout", arena, ret_out);
    if (r == 0)
        r = capture_read(record, "stderr", arena, ret_err);
    return r < 0 ? error_set(error, r, NULL, "the output of job %lld cannot be read: %m",
                             (long long)job_id)
                 : 0;
}

int exec_command_forget(const char *state_dir, int64_t job_id, struct error *error)
{
    cleanup(close_fd) int records = command_records_open(state_dir, false, error);

    if (records < 0)
        return records;
    return command_record_delete(records, job_id, error);
}
