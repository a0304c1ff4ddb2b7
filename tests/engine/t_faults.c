/* SPDX-License-Identifier: Apache-2.0 */
/* test: lite wrap=malloc,calloc,realloc,reallocarray,strdup,strndup,asprintf,realpath,free,db_run,db_post,db_next */
/* Errors instead of crashes: the Nth read, write, sync or allocation fails, for every
 * N until all is done without it.
 *
 * A command is then answered with an error and has changed nothing, or with success
 * and its effect is on the disk; the engine goes on.  Only where nobody can know (the
 * disk failed in COMMIT) is it answered as unknown: then the store is not trusted, and
 * the next open finds the transaction there as a whole, or not at all.  A duty that
 * fails is done later.  Nothing is leaked.
 *
 * HF_FAULT is a part of the name of what to try only. */
#include "fault_commands.h"
#include "fault_duties.h"
#include "fault_memory.h"
#include "rows.h"
#include "used.h"

/* ---- faults ---- */

struct fault {
    const char *name;
    enum crash_call call;
    int code; /* SQLite's; 0: our memory */
    bool lasting;
    int answers[3]; /* what a command may be answered with, besides success */
    int must; /* what one that changes something is answered with at some time; 0: it may
                 be that a second pass has always helped */
};

static const struct fault read_error = { "read", CRASH_READ, SQLITE_IOERR_READ,
                                         false,  { -HF_IO }, -HF_IO };
static const struct fault write_error = {
    "write", CRASH_WRITE, SQLITE_IOERR_WRITE, false, { -HF_IO, -HF_UNKNOWN }, -HF_UNKNOWN
};
static const struct fault disk_full = { "write, disk full", CRASH_WRITE,
                                        SQLITE_FULL,        true,
                                        { -HF_FULL },       -HF_FULL };
static const struct fault sync_error = { "sync", CRASH_SYNC,      SQLITE_IOERR_FSYNC,
                                         false,  { -HF_UNKNOWN }, -HF_UNKNOWN };
static const struct fault no_room = { "allocation", CRASH_CALLS,   0,
                                      false,        { -HF_NOMEM }, 0 };

struct attempt {
    const struct fault *fault;
    const char *name;
    size_t nth;
    struct crash_disk *disk, *image;
    struct world w;
    int64_t pieces; /* before */
};

#define expect(a, cond)                                                                  \
    do {                                                                                 \
        if (!(cond))                                                                     \
            fail("%s, %s %zu: %s is not so", (a)->name, (a)->fault->name, (a)->nth,      \
                 #cond);                                                                 \
    } while (0)

static void arm(struct attempt *a)
{
    memory_failures = 0;
    if (a->fault->code == 0)
        memory_fails_in = a->nth;
    else
        crash_disk_fail(a->disk, a->fault->call, a->nth, a->fault->code,
                        a->fault->lasting);
}

/* Whether something failed. */
static bool disarm(struct attempt *a)
{
    size_t failures = memory_failures + crash_disk_failures(a->disk);
    memory_fails_in = 0;
    crash_disk_fail(a->disk, CRASH_CALLS, 0, 0, false);
    return failures > 0;
}

static void begin(struct attempt *a, const struct fault *fault, const char *name,
                  size_t nth, const struct crash_disk *from)
{
    a->fault = fault;
    a->name = name;
    a->nth = nth;
    a->disk = crash_disk_new("disk", true, NULL);
    a->image = crash_disk_new("image", false, NULL);
    crash_disk_cut(from, CRASH_KEEP, 0, a->disk);
    fault_world(&a->w, "disk");
    a->pieces = pieces; /* the harness keeps some of its own */
}

static void end(struct attempt *a)
{
    engine_close(a->w.engine);
    arena_release(&a->w.arena);
    crash_disk_free(a->disk);
    crash_disk_free(a->image);
    if (pieces != a->pieces)
        fail("%s, %s %zu: %lld pieces of memory are lost", a->name, a->fault->name,
             a->nth, (long long)(pieces - a->pieces));
}

/* Nothing is in memory that could be read.  Where a write or a sync fails once, every
 * commit folds the log back, so that it may fail there, too; what others have written
 * into it is folded back before. */
static void cool(struct attempt *a)
{
    bool folds = a->fault == &write_error || a->fault == &sync_error;
    check_ok(db_script(
        a->w.engine->store->db,
        folds ? "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA wal_autocheckpoint = 1;"
                " PRAGMA shrink_memory"
              : "PRAGMA shrink_memory"));
}

/* The verifier has nothing new to say of rows that it has seen. */
static void check_clean_once(struct world *w)
{
    static uint64_t seen[4096];
    static size_t count;
    uint64_t rows = rows_on(fx.url, w->vfs, ROWS_OF_ALL);
    for (size_t i = 0; i < count; i++)
        if (seen[i] == rows)
            return;
    check_clean(w);
    if (count < array_len(seen))
        seen[count++] = rows;
}

static uint64_t rows_left(struct attempt *a, enum crash_loss loss)
{
    crash_disk_cut(a->disk, loss, a->nth, a->image);
    return rows_on(fx.url, "image", ROWS_OF_ALL);
}

/* The plug is pulled, and the next one opens what is there. */
static void open_again(struct attempt *a)
{
    struct world *w = &a->w;
    crash_disk_stop_after(a->disk, 0);
    engine_abandon(w->engine);
    w->engine = NULL;
    crash_disk_restart(a->disk, (enum crash_loss)(a->nth % 3), a->nth);
    world_open(w);
}

/* ---- commands ---- */

static int perform(struct world *w, const struct fault_command *what)
{
    struct command *c = what->make();
    int r = world_apply(w, c);
    use_op(c);
    command_free(c);
    return r;
}

/* The rows before and after the command when nothing fails. */
static void foresee(const struct fault_command *what, const struct fault *fault,
                    uint64_t *before, uint64_t *after)
{
    static struct attempt a;
    begin(&a, fault, what->name, 0, fx.sound);
    world_open(&a.w);
    if (what->first)
        what->first(&a.w);
    cool(&a);
    *before = rows_on(fx.url, "disk", ROWS_OF_ALL);
    if (perform(&a.w, what) < 0)
        fail("%s: %s", what->name, a.w.error.text);
    *after = rows_on(fx.url, "disk", ROWS_OF_ALL);
    end(&a);
}

static bool answered_as_it_must; /* since the command's first attempt */

static bool allowed(const struct fault *fault, int r)
{
    for (size_t i = 0; i < array_len(fault->answers); i++)
        if (r == fault->answers[i])
            return true;
    return r == 0;
}

/* The answer; *ret_failed: whether the fault came to pass. */
static int perform_faulty(struct attempt *a, const struct fault_command *what,
                          bool *ret_failed)
{
    struct command *c = what->make();
    c->mail.next = NULL;
    arm(a);
    engine_apply(a->w.engine, c);
    *ret_failed = disarm(a);
    int r = c->result;
    if (!allowed(a->fault, r))
        fail("%s, %s %zu: answered with %s: %s", what->name, a->fault->name, a->nth,
             status_of(r)->name, c->error.text);
    expect(a, r == 0 || c->error.text[0]);
    answered_as_it_must = answered_as_it_must || r == a->fault->must;
    command_free(c);
    return r;
}

static void judge_unknown(struct attempt *a, const struct fault_command *what,
                          uint64_t before, uint64_t after)
{
    expect(a, a->w.engine->broken == -HF_IO);
    expect(a, perform(&a->w, what) == -HF_IO); /* it is not trusted any more */
    for (int loss = CRASH_KEEP; loss <= CRASH_MIX; loss++) {
        uint64_t rows = rows_left(a, (enum crash_loss)loss);
        expect(a, rows == before || rows == after);
    }
    open_again(a);
}

/* Tries from `nth` on, as long as one engine lasts: after an error that changed
 * nothing it goes on with the next.  Returns where to begin with a new one; 0 when
 * the command was done and nothing failed. */
static size_t try_command(const struct fault_command *what, const struct fault *fault,
                          size_t nth, uint64_t before, uint64_t after)
{
    static struct attempt a;
    bool failed = true, untouched = true;
    int r = 0;
    begin(&a, fault, what->name, nth, fx.sound);
    world_open(&a.w);
    if (what->first)
        what->first(&a.w);
    for (;; a.nth++, untouched = false) {
        cool(&a);
        r = perform_faulty(&a, what, &failed);
        if (r == 0 || r == -HF_UNKNOWN)
            break;
        expect(&a, a.w.engine->broken == 0);
        expect(&a, rows_on(fx.url, "disk", ROWS_OF_ALL) == before);
    }
    nth = failed ? a.nth + 1 : 0;
    if (r == -HF_UNKNOWN) {
        judge_unknown(&a, what, before, after);
    } else {
        /* Errors before, or a second try inside, may have used up ids. */
        uint64_t rows = rows_on(fx.url, "disk", ROWS_OF_ALL);
        bool exact = untouched && fault->code != 0;
        expect(&a, exact ? rows == after : rows != before || before == after);
        expect(&a, rows_left(&a, CRASH_LOSE) == rows);
        if (!untouched)
            nth = a.nth; /* once more, where nothing has failed before */
    }
    check_clean_once(&a.w);
    end(&a);
    return nth;
}

static bool wanted(const char *name)
{
    const char *only = getenv("HF_FAULT");
    return !only || strstr(name, only);
}

static void try_commands(const struct fault *fault)
{
    size_t tried = 0;
    fixture_make();
    for (size_t i = 0; i < array_len(fault_commands); i++) {
        const struct fault_command *what = &fault_commands[i];
        uint64_t before = 0, after = 0;
        if (!wanted(what->name))
            continue;
        foresee(what, fault, &before, &after);
        answered_as_it_must = before == after;
        for (size_t nth = 1, next; nth != 0; nth = next) {
            next = try_command(what, fault, nth, before, after);
            tried += next > nth ? next - nth : 0;
        }
        if (!answered_as_it_must)
            fail("%s, %s: no attempt was answered with %s", what->name, fault->name,
                 status_of(fault->must)->name);
    }
    fixture_free();
    test_note("%zu failed, one at a time: %s", tried, fault->name);
}

TEST_SLOW(a_command_survives_every_read_error, 300)
{
    try_commands(&read_error);
}
TEST_SLOW(a_command_survives_every_write_error, 300)
{
    try_commands(&write_error);
}
TEST_SLOW(a_command_survives_a_full_disk_and_works_when_there_is_room, 300)
{
    try_commands(&disk_full);
}
TEST_SLOW(a_command_survives_every_sync_error, 300)
{
    try_commands(&sync_error);
}
TEST_SLOW(a_command_survives_every_lack_of_memory, 300)
{
    try_commands(&no_room);
}

/* ---- piles ---- */

static int64_t accepted(struct world *w)
{
    struct queue_counts *list = NULL;
    size_t count = 0;
    int64_t sum = 0;
    check_ok(store_counts(w->engine->store, &w->arena, &list, &count));
    for (size_t i = 0; i < count; i++)
        sum += list[i].count[COUNT_ACCEPTED];
    return sum;
}

/* Each member of a pile is answered for itself: what was told is what is there. */
static void judge_pile(struct attempt *a, struct test_pile *pile, int64_t jobs_before)
{
    struct world *w = &a->w;
    int64_t made = 0;
    for (size_t i = 0; i < pile->count; i++) {
        struct command *c = pile->list[i];
        bool ok = c->result == 0;
        expect(a, ok || allowed(a->fault, c->result));
        if (c->op == OP_ENQUEUE && ok) {
            made += (int64_t)c->enqueue.count;
            expect(a, state_of(w, c->enqueue.out[0].id) == JOB_QUEUED);
        } else if (c->op == OP_COMPLETE) {
            expect(a, ok == (state_of(w, c->complete.job_id) == JOB_COMPLETED));
        } else if (c->op == OP_CANCEL) {
            expect(a, ok == (state_of(w, c->cancel.job_id) == JOB_CANCELLED));
        } else if (c->op == OP_FAIL) {
            expect(a, ok == (state_of(w, c->fail.job_id) == JOB_FAILED));
        } else if (c->op == OP_CLAIM) {
            expect(a, ok == (state_of(w, c->claim.job_id) == JOB_RUNNING));
        }
        made += c->op == OP_FAIL && ok; /* its retry */
    }
    expect(a, accepted(w) == jobs_before + made);
}

static bool try_pile(const struct fault *fault, size_t nth)
{
    static struct attempt a;
    struct test_pile pile = { .count = 0 };
    begin(&a, fault, "a pile", nth, fx.sound);
    world_open(&a.w);
    cool(&a);
    int64_t before = accepted(&a.w);
    pile_add(&pile, fault_enqueue_large());
    pile_add(&pile, fault_enqueue_batch());
    pile_add(&pile, fault_complete());
    pile_add(&pile, make_fail("s1", fx.running[1], ERROR_NETWORK, "Broken"));
    pile_add(&pile, fault_cancel_waiting());
    pile_add(&pile, make_claim_of("s1", fx.waiting[1]));
    arm(&a);
    pile_apply(&a.w, &pile);
    bool failed = disarm(&a);
    if (pile.list[0]->result == -HF_UNKNOWN)
        open_again(&a);
    else
        judge_pile(&a, &pile, before);
    pile_free(&pile);
    check_clean_once(&a.w);
    end(&a);
    return failed;
}

TEST_SLOW(each_command_of_a_pile_is_answered_for_itself, 300)
{
    static const struct fault *const faults[] = { &read_error, &disk_full, &sync_error,
                                                  &no_room };
    size_t tried = 0;
    fixture_make();
    for (size_t i = 0; i < array_len(faults); i++)
        for (size_t nth = 1; try_pile(faults[i], nth); nth++)
            tried++;
    fixture_free();
    test_note("%zu failed, one at a time", tried);
}

/* ---- duties ---- */

static bool try_duty(const struct fault_duty *what, const struct fault *fault, size_t nth)
{
    static struct attempt a;
    struct world *w = &a.w;
    begin(&a, fault, what->name, nth, what->crashed ? fx.crashed : fx.sound);
    if (what->before)
        what->before(w);
    world_open_cold(w);
    if (!what->cold)
        world_settle(w);
    cool(&a);
    arm(&a);
    what->drive(w);
    bool failed = disarm(&a);
    check_clean_once(w);
    bool more = w->engine->broken;
    if (more)
        open_again(&a);
    for (int i = 0; i < 12 && !what->done(w); i++, more = true)
        what->drive(w);
    expect(&a, what->done(w));
    if (more)
        check_clean_once(w);
    end(&a);
    return failed;
}

static void try_duties(const struct fault *fault)
{
    size_t tried = 0;
    fixture_make();
    for (size_t i = 0; i < array_len(fault_duties); i++)
        for (size_t nth = 1; wanted(fault_duties[i].name); nth++, tried++)
            if (!try_duty(&fault_duties[i], fault, nth))
                break;
    fixture_free();
    test_note("%zu failed, one at a time: %s", tried, fault->name);
}

TEST_SLOW(a_duty_survives_every_read_error, 300)
{
    try_duties(&read_error);
}
TEST_SLOW(a_duty_survives_every_write_error, 300)
{
    try_duties(&write_error);
}
TEST_SLOW(a_duty_survives_a_full_disk_and_is_done_when_there_is_room, 300)
{
    try_duties(&disk_full);
}
TEST_SLOW(a_duty_survives_every_sync_error, 300)
{
    try_duties(&sync_error);
}
TEST_SLOW(a_duty_survives_every_lack_of_memory, 300)
{
    try_duties(&no_room);
}

/* ---- opening and closing ---- */

/* Opening fails with a sentence, or not; the next one opens what is there. */
static bool try_open(const struct fault *fault, size_t nth, bool new_store)
{
    static struct attempt a;
    begin(&a, fault, new_store ? "creation" : "opening", nth, fx.crashed);
    if (new_store) {
        struct crash_disk *empty = crash_disk_new("empty", false, NULL);
        crash_disk_cut(empty, CRASH_KEEP, 0, a.disk);
        crash_disk_free(empty);
    }
    arm(&a);
    int r = world_try_open(&a.w);
    bool failed = disarm(&a);
    expect(&a, r <= 0 && (r == 0 || a.w.error.text[0]));
    if (r < 0)
        a.w.engine = NULL;
    open_again(&a);
    check_clean_once(&a.w);
    expect(&a, new_store || recovery_done(&a.w));
    expect(&a, enqueue_kind(&a.w, "work") > 0);
    end(&a);
    return failed;
}

/* A close that cannot hand its work over is a crash like any other. */
static bool try_close(const struct fault *fault, size_t nth)
{
    static struct attempt a;
    struct world *w = &a.w;
    begin(&a, fault, "closing", nth, fx.sound);
    world_open(w);
    drive_node(w);
    expect(&a, node_done(w));
    int64_t id = w->started[0];
    cool(&a);
    arm(&a);
    engine_close(w->engine);
    bool failed = disarm(&a);
    w->engine = NULL;
    w->capacity = 0;
    open_again(&a);
    struct job_row row = look(w, id);
    expect(&a, row.job.state == JOB_FAILED && retry_of(w, id) != 0);
    expect(&a,
           row.run.error.type == ERROR_INTERRUPTED || row.run.error.type == ERROR_CRASH);
    check_clean_once(w);
    end(&a);
    return failed;
}

TEST_SLOW(opening_and_closing_survive_every_error, 300)
{
    static const struct fault *const faults[] = { &read_error, &write_error, &disk_full,
                                                  &sync_error, &no_room };
    size_t tried = 0;
    fixture_make();
    for (size_t i = 0; i < array_len(faults); i++) {
        for (size_t nth = 1; try_open(faults[i], nth, false); nth++)
            tried++;
        for (size_t nth = 1; try_open(faults[i], nth, true); nth++)
            tried++;
        for (size_t nth = 1; try_close(faults[i], nth); nth++)
            tried++;
    }
    fixture_free();
    test_note("%zu failed, one at a time", tried);
}

/* ---- all of it ---- */

TEST(every_command_is_here_and_all_that_is_written)
{
    uint64_t before, after;
    fixture_make();
    used = (struct used){ 0 };
    for (size_t i = 0; i < array_len(fault_commands); i++)
        foresee(&fault_commands[i], &read_error, &before, &after);
    for (size_t i = 0; i < array_len(fault_duties); i++)
        check(!try_duty(&fault_duties[i], &read_error, SIZE_MAX));
    check(!try_open(&read_error, SIZE_MAX, true));
    check(!try_close(&read_error, SIZE_MAX));
    fixture_free();
    check_all_used();
}
