/* SPDX-License-Identifier: Apache-2.0
 *
 * The first and the last of a stream: byte for byte, also while it is written,
 * and without a disk to write to. */
/* test: wrap=pread64 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "exec/capture.h"
#include "test.h"

static struct arena arena;

static int folder(void)
{
    int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    check(dir >= 0);
    arena_init(&arena, 256 << 10, 1 << 30);
    return dir;
}

/* Byte number `n` of the stream that all tests write. */
static char byte_at(int64_t n)
{
    return (char)(n * 31 + n / 251 + n / 65521);
}

static void write_stream(struct capture *capture, size_t n)
{
    static char chunk[CAPTURE_CHUNK_BYTES];

    for (size_t i = 0; i < n; i++)
        chunk[i] = byte_at(capture->total + (int64_t)i);
    capture_write(capture, (struct slice){ chunk, n });
}

static void check_range(struct slice bytes, int64_t from)
{
    for (size_t i = 0; i < bytes.n; i++)
        if (bytes.p[i] != byte_at(from + (int64_t)i))
            fail("byte %lld is wrong", (long long)(from + (int64_t)i));
}

/* Everything that must hold of an output, whole or not. */
static void check_output(const struct command_output *output)
{
    int64_t head =
        output->total < LIMIT_OUTPUT_BYTES ? output->total : LIMIT_OUTPUT_BYTES;

    check_int(output->head.n, head);
    check(output->tail.n <= LIMIT_OUTPUT_BYTES);
    check_range(output->head, 0);
    check_range(output->tail, output->total - (int64_t)output->tail.n);
}

TEST(whatever_the_length_the_first_and_the_last_are_exact)
{
    static const int64_t lengths[] = { 0,      1,      65535,  65536,  65537,  131071,
                                       131072, 131073, 196608, 262144, 262145, 1000000 };
    int dir = folder();
    struct rng rng;

    rng_seed(&rng, 1);
    for (size_t i = 0; i < array_len(lengths); i++) {
        struct capture capture;
        struct command_output output;
        check_ok(capture_create(dir, "stdout", &capture));
        while (capture.total < lengths[i]) {
            int64_t left = lengths[i] - capture.total;
            int64_t n = rng_between(&rng, 1, CAPTURE_CHUNK_BYTES);
            write_stream(&capture, (size_t)(n < left ? n : left));
        }
        capture_finish(&capture);
        check_ok(capture_read(dir, "stdout", &arena, &output));
        check_int(output.total, lengths[i]);
        check(!output.lost);
        check_output(&output);
        int64_t rest = lengths[i] - LIMIT_OUTPUT_BYTES;
        rest = rest < 0 ? 0 : rest;
        check_int(output.tail.n, rest < LIMIT_OUTPUT_BYTES ? rest : LIMIT_OUTPUT_BYTES);
        check_int(unlinkat(dir, "stdout", 0), 0);
    }
}

TEST(a_reader_beside_the_writer_sees_nothing_that_was_not_written)
{
    int dir = folder(), seen = 0;
    struct capture capture;
    struct command_output output;

    check_ok(capture_create(dir, "stdout", &capture));
    pid_t writer = fork();
    check(writer >= 0);
    if (writer == 0) {
        struct rng rng;
        rng_seed(&rng, 2);
        while (capture.total < 64 << 20)
            write_stream(&capture, (size_t)rng_between(&rng, 1, CAPTURE_CHUNK_BYTES));
        _exit(0);
    }
    int64_t last = 0;
    do {
        arena_reset(&arena);
        check_ok(capture_read(dir, "stdout", &arena, &output));
        check_output(&output);
        check(output.total >= last);
        seen += output.total > last;
        last = output.total;
    } while (waitpid(writer, NULL, WNOHANG) == 0);
    check_ok(capture_read(dir, "stdout", &arena, &output));
    check_int(output.tail.n, LIMIT_OUTPUT_BYTES);
    check_output(&output);
    test_note("read at %d different lengths", seen);
}

ssize_t __real_pread64(int fd, void *out, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *out, size_t n, off_t at);

static struct capture *overtaker; /* writes a whole ring just before it is read */
static int overtakes;

ssize_t __wrap_pread64(int fd, void *out, size_t n, off_t at)
{
    if (overtaker && at > LIMIT_OUTPUT_BYTES && overtakes > 0) {
        overtakes--;
        for (int i = 0; i < 5; i++)
            write_stream(overtaker, CAPTURE_CHUNK_BYTES);
    }
    return __real_pread64(fd, out, n, at);
}

TEST(a_reader_that_is_overtaken_reads_again_or_gives_less)
{
    int dir = folder();
    struct capture capture;
    struct command_output output;

    check_ok(capture_create(dir, "stdout", &capture));
    for (int i = 0; i < 10; i++)
        write_stream(&capture, CAPTURE_CHUNK_BYTES);
    overtaker = &capture;
    overtakes = 1;
    check_ok(capture_read(dir, "stdout", &arena, &output));
    check_int(overtakes, 0);
    check_int(output.total, capture.total);
    check_int(output.tail.n, LIMIT_OUTPUT_BYTES);
    check_output(&output);

    overtakes = 1000;
    check_ok(capture_read(dir, "stdout", &arena, &output));
    check(overtakes > 0 && output.tail.n < LIMIT_OUTPUT_BYTES);
    check_output(&output);
}

TEST(what_a_full_disk_does_not_take_is_told_as_lost)
{
    int dir = folder();
    struct capture capture;
    struct command_output output;
    const struct rlimit small = { 40960, 40960 };

    signal(SIGXFSZ, SIG_IGN);
    check_int(setrlimit(RLIMIT_FSIZE, &small), 0);
    check_ok(capture_create(dir, "stdout", &capture));
    for (int i = 0; i < 10; i++)
        write_stream(&capture, CAPTURE_CHUNK_BYTES);
    check(capture.lost);
    capture_finish(&capture);
    check_ok(capture_read(dir, "stdout", &arena, &output));
    check(output.lost);
    check_int(output.total, 10 * CAPTURE_CHUNK_BYTES);
    check_int(output.head.n, LIMIT_OUTPUT_BYTES);
    check_range((struct slice){ output.head.p, 30000 }, 0);
    check_int(output.head.p[50000], 0);
}

TEST(no_file_and_no_file_of_ours_are_no_output)
{
    int dir = folder();
    struct command_output output;

    check_ok(capture_read(dir, "stdout", &arena, &output));
    check_int(output.total, 0);
    int fd = openat(dir, "stdout", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    check_int(write(fd, "anything that is longer than a header", 37), 37);
    close(fd);
    check_ok(capture_read(dir, "stdout", &arena, &output));
    check_int(output.total, 0);
    check_slice(output.head, "");
    struct capture capture;
    check(capture_create(dir, "stdout", &capture) < 0); /* it is there */
}
