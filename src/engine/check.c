/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/check.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/limits.h"

/* Rows of one answer: PostgreSQL sends it whole. */
enum { CHECK_ROWS = 10000, CHECK_COLUMNS = 3, SENTENCE_BYTES = 1000 };

#define CHECK_ARENA_BYTES ((size_t)256 << 20)
/* A reservation is overdue only after the longest lease of a scheduler that may
 * have died meanwhile, and the longest poll of one that lives. */
#define LONG_OVER_US (900 * US_PER_S)
/* A ghost has outlived the longest zombie_run_threshold_ms, and the longest
 * cleanup_interval_ms behind it. */
#define GHOST_US (9 * US_PER_DAY)
/* No reservation reaches further ahead; an hour is left to clocks that differ. */
#define FAR_AHEAD_US (LIMIT_RESERVATION_MS * US_PER_MS + 3600 * US_PER_S)

/* ---- the rules ---- */

enum subject { SUBJECT_job, SUBJECT_reservation, SUBJECT_schedule, SUBJECT_delivery };

struct rule {
    int invariant;
    const char *sentence;
};

#define ENTRY(invariant, condition, sentence) { invariant, sentence },
#define LIST(name, what)                                                                 \
    static const struct rule rules_##name[] = { CHECK_##name##_RULES(ENTRY) };
CHECK_PASSES(LIST)

#define PASS(name, what)                                                                 \
    { SQL_CHECK_##name, SUBJECT_##what, rules_##name, array_len(rules_##name) },
static const struct pass {
    enum sql sql;
    enum subject subject;
    const struct rule *rules;
    size_t rule_count;
} passes[] = { CHECK_PASSES(PASS) };

struct check {
    struct store *store;
    struct arena arena; /* what is small: owners, queues' counts, the catalog */
    struct buf sentence;
    const struct host *host;
    int64_t now;
    int64_t scheduler_since; /* a scheduler is surely alive since then; 0: none is */
    void (*on_violation)(void *arg, const struct check_finding *finding);
    void *arg;
    struct check_report report;
};

/* ---- sentences ---- */

/* From memory: no statement may be run while rows are open. */
static const char *queue_name(const struct check *c, int64_t id)
{
    for (size_t i = 0; i < c->store->queue_count; i++)
        if (c->store->queues[i]->queue.id == id)
            return c->store->queues[i]->queue.name;
    return NULL;
}

/* One word in braces: id, x or y, and how to show it. */
static void show(struct check *c, const char *word, const int64_t *values)
{
    int64_t value = word[0] == 'i' ? values[0] : (word[0] == 'x' ? values[1] : values[2]);
    const char *dot = memchr(word, '.', strcspn(word, "}"));
    const char *name = NULL;
    if (dot && dot[1] == 's')
        name = value == 0 ? "not known" : job_state_name((int)value);
    else if (dot)
        name = queue_name(c, value);
    if (name)
        buf_text(&c->sentence, name);
    else
        buf_int(&c->sentence, value);
}

static void say(struct check *c, const char *sentence, const int64_t *values)
{
    while (*sentence) {
        size_t n = strcspn(sentence, "{");
        buf_add(&c->sentence, (struct slice){ sentence, n });
        sentence += n;
        if (*sentence == '{') {
            show(c, sentence + 1, values);
            sentence += strcspn(sentence, "}") + 1;
        }
    }
}

/* Tells of a violation in the sentence that was built. */
static int tell_of(struct check *c, struct check_finding finding)
{
    struct slice text = { 0 };
    int r = buf_end(&c->sentence, &text);
    if (r < 0)
        return r;
    finding.sentence = text.p;
    c->report.violations++;
    if (c->on_violation)
        c->on_violation(c->arg, &finding);
    buf_reset(&c->sentence);
    return 0;
}

/* ---- passes ---- */

static int tell_of_row(struct check *c, const struct pass *pass, struct db_rows *rows,
                       const int64_t *values)
{
    struct check_finding finding = { 0 };
    if (pass->subject == SUBJECT_job) {
        finding.job_id = values[0];
    } else if (pass->subject == SUBJECT_reservation) {
        finding.reservation_id = values[0];
        finding.queue_id = values[1];
    }
    int r = 0;
    for (size_t i = 0; i < pass->rule_count && r == 0; i++) {
        if (!db_get_int(rows, CHECK_COLUMNS + (int)i))
            continue;
        say(c, pass->rules[i].sentence, values);
        finding.invariant = pass->rules[i].invariant;
        r = tell_of(c, finding);
    }
    return r;
}

/* A moment that is surely past for a scheduler that lives; 0 if none does, and
 * then nothing is before it. */
static int64_t long_ago(const struct check *c, int64_t us)
{
    bool long_enough = c->scheduler_since != 0 && c->scheduler_since < c->now - us;
    return long_enough ? c->now - us : 0;
}

static int run_pass(struct check *c, const struct pass *pass)
{
    int64_t after = INT64_MIN;
    size_t n = CHECK_ROWS;
    int r = 0;
    while (r >= 0 && n == CHECK_ROWS) {
        struct db_value values[] = {
            db_int(after), db_int(CHECK_ROWS),
            db_int(long_ago(c, pass->sql == SQL_CHECK_GHOST ? GHOST_US : LONG_OVER_US)),
            db_int(c->now + FAR_AHEAD_US)
        };
        struct db_rows rows;
        n = 0;
        r = db_query(c->store->db, (int)pass->sql, values, 1, &rows);
        while (r >= 0 && (r = db_next(&rows)) > 0) {
            int64_t row[CHECK_COLUMNS];
            for (int i = 0; i < CHECK_COLUMNS; i++)
                row[i] = db_get_int(&rows, i);
            after = row[0];
            n++;
            r = tell_of_row(c, pass, &rows, row);
        }
        db_done(&rows);
    }
    return r < 0 ? r : 0;
}

/* ---- counts (I10) ---- */

static int compare_counts(struct check *c, int64_t queue_id, const int64_t *kept,
                          const int64_t *there)
{
    struct check_finding finding = { .invariant = 10, .queue_id = queue_id };
    const char *name = queue_name(c, queue_id);
    char number[24];
    int64_t sum = kept[COUNT_PRUNED];
    int r = 0;
    if (!name) {
        snprintf(number, sizeof(number), "%lld", (long long)queue_id);
        name = number;
        buf_printf(&c->sentence,
                   "There are jobs or counts of queue %s, which is not there.", name);
        r = tell_of(c, finding);
    }
    for (int state = JOB_SCHEDULED; state <= JOB_STATE_MAX && r == 0; state++) {
        int64_t count = kept[COUNT_ACCEPTED + state];
        sum += count;
        if (count == there[state])
            continue;
        buf_printf(&c->sentence, "Queue %s counts %lld %s jobs, but there are %lld.",
                   name, (long long)count, job_state_name(state),
                   (long long)there[state]);
        r = tell_of(c, finding);
    }
    if (r == 0 && kept[COUNT_PRUNED] < 0) {
        buf_printf(&c->sentence, "Queue %s counts %lld pruned jobs.", name,
                   (long long)kept[COUNT_PRUNED]);
        r = tell_of(c, finding);
    }
    if (r == 0 && kept[COUNT_ACCEPTED] != sum) {
        buf_printf(
            &c->sentence,
            "Queue %s has accepted %lld jobs, but live, terminal and pruned ones are "
            "%lld together.",
            name, (long long)kept[COUNT_ACCEPTED], (long long)sum);
        r = tell_of(c, finding);
    }
    return r;
}

/* How many jobs of each state each queue has, by looking. */
struct recount {
    int64_t queue_id;
    int64_t there[JOB_STATE_MAX + 1];
    struct recount *next;
};

static int recount(struct check *c, struct recount **ret)
{
    struct recount *first = NULL, *last = NULL;
    struct db_rows rows;
    int r = db_query(c->store->db, SQL_CHECK_RECOUNT, NULL, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        int64_t queue_id = db_get_int(&rows, 0), state = db_get_int(&rows, 1);
        if (!last || last->queue_id != queue_id) {
            struct recount *fresh = arena_new(&c->arena, struct recount);
            if (!fresh) {
                r = -HF_NOMEM;
                break;
            }
            fresh->queue_id = queue_id;
            if (last)
                last->next = fresh;
            else
                first = fresh;
            last = fresh;
        }
        if (state >= JOB_SCHEDULED && state <= JOB_STATE_MAX)
            last->there[state] = db_get_int(&rows, 2);
        c->report.jobs += db_get_int(&rows, 2);
    }
    db_done(&rows);
    *ret = first;
    return r < 0 ? r : 0;
}

/* Both lists are sorted by queue; a queue may be in one only. */
static int check_counts(struct check *c)
{
    static const int64_t none[COUNTERS] = { 0 };
    struct queue_counts *kept = NULL;
    struct recount *there = NULL;
    size_t count = 0, i = 0;
    int r = store_counts(c->store, &c->arena, &kept, &count);
    if (r == 0)
        r = recount(c, &there);
    while (r == 0 && (i < count || there)) {
        if (i < count && (!there || kept[i].queue_id < there->queue_id)) {
            r = compare_counts(c, kept[i].queue_id, kept[i].count, none);
            i++;
        } else if (i == count || there->queue_id < kept[i].queue_id) {
            r = compare_counts(c, there->queue_id, none, there->there);
            there = there->next;
        } else {
            r = compare_counts(c, there->queue_id, kept[i].count, there->there);
            i++;
            there = there->next;
        }
    }
    return r;
}

/* ---- the schema ---- */

struct catalog_entry {
    struct slice table, name, columns;
    bool unique, partial;
    struct catalog_entry *next;
};

static int read_catalog(struct check *c, enum sql sql, struct catalog_entry **ret)
{
    struct catalog_entry *list = NULL;
    struct db_rows rows;
    int r = db_query(c->store->db, (int)sql, NULL, 1, &rows);
    while (r >= 0 && (r = db_next(&rows)) > 0) {
        struct catalog_entry *e = arena_new(&c->arena, struct catalog_entry);
        if (!e) {
            r = -HF_NOMEM;
            break;
        }
        e->table = arena_dup(&c->arena, db_get_text(&rows, 0));
        e->name = arena_dup(&c->arena, db_get_text(&rows, 1));
        if (sql == SQL_CHECK_CATALOG) {
            e->unique = db_get_int(&rows, 2) != 0;
            e->partial = db_get_int(&rows, 3) != 0;
            e->columns = arena_dup(&c->arena, db_get_text(&rows, 4));
        }
        e->next = list;
        list = e;
    }
    db_done(&rows);
    *ret = list;
    return r < 0 ? r : arena_end(&c->arena);
}

static const struct wanted_index {
    const char *name, *table, *columns, *purpose;
    int invariant;
    bool unique, partial;
} wanted_indexes[] = {
#define INDEX(invariant, name, table, unique, partial, columns, purpose)                 \
    { name, table, columns, purpose, invariant, unique, partial },
    CHECK_INDEXES(INDEX)
};

static bool is_index(const struct catalog_entry *e, const struct wanted_index *w)
{
    return slice_equal(e->table, slice_of(w->table)) &&
           (!w->name || slice_equal(e->name, slice_of(w->name))) &&
           slice_equal(e->columns, slice_of(w->columns)) && e->unique >= w->unique &&
           e->partial == w->partial;
}

static int check_indexes(struct check *c)
{
    struct catalog_entry *list = NULL;
    int r = read_catalog(c, SQL_CHECK_CATALOG, &list);
    for (size_t i = 0; i < array_len(wanted_indexes) && r == 0; i++) {
        const struct wanted_index *w = &wanted_indexes[i];
        const struct catalog_entry *e = list;
        while (e && !is_index(e, w))
            e = e->next;
        if (e)
            continue;
        buf_printf(&c->sentence,
                   "The %s %s of table %s (%s) is missing or is another: %s.",
                   w->name ? "index" : "unique", w->name ? w->name : "key", w->table,
                   w->columns, w->purpose);
        r = tell_of(c, (struct check_finding){ .invariant = w->invariant });
    }
    return r;
}

static const struct wanted_constraint {
    int invariant;
    const char *name, *table, *text, *purpose;
} wanted_constraints[] = {
#define CONSTRAINT(invariant, name, table, text, purpose)                                \
    { invariant, name, table, text, purpose },
    CHECK_CONSTRAINTS(CONSTRAINT)
};

/* PostgreSQL gives each a name; SQLite keeps the text of the table. */
static bool is_constraint(const struct check *c, const struct catalog_entry *e,
                          const struct wanted_constraint *w)
{
    if (!slice_equal(e->table, slice_of(w->table)) || !e->name.p)
        return false;
    if (db_engine(c->store->db) == DB_POSTGRES)
        return slice_equal(e->name, slice_of(w->name));
    return strstr(e->name.p, w->text) != NULL; /* arena_dup() terminates */
}

static int check_constraints(struct check *c)
{
    struct catalog_entry *list = NULL;
    int r = read_catalog(c, SQL_CHECK_CONSTRAINTS, &list);
    for (size_t i = 0; i < array_len(wanted_constraints) && r == 0; i++) {
        const struct wanted_constraint *w = &wanted_constraints[i];
        const struct catalog_entry *e = list;
        while (e && !is_constraint(c, e, w))
            e = e->next;
        if (e)
            continue;
        buf_printf(&c->sentence, "The constraint of table %s, %s, is missing: %s.",
                   w->table, w->text, w->purpose);
        r = tell_of(c, (struct check_finding){ .invariant = w->invariant });
    }
    return r;
}

/* ---- who is alive, and what awaits recovery ---- */

static bool same_place(const struct check *c, const struct owner *owner)
{
    return owner->boot_id.n > 0 &&
           slice_equal(owner->boot_id, slice_of(c->host->boot_id)) &&
           owner->pid_namespace == c->host->pid_ns;
}

/* Beyond doubt: nothing else makes a delay a violation. */
static bool surely_alive(const struct check *c, const struct owner *owner)
{
    if (owner->state != OWNER_ALIVE)
        return false;
    if (owner->lease_until != 0)
        return owner->lease_until > c->now;
    return same_place(c, owner) && host_process_alive(owner->pid, owner->process_start);
}

/* From another place (a container, say) a node on SQLite is known by its beats. */
static bool seems_alive(const struct check *c, const struct owner *owner)
{
    if (owner->state != OWNER_ALIVE || owner->lease_until != 0 || same_place(c, owner))
        return surely_alive(c, owner);
    return owner->seen_at > c->now - LIMIT_LEASE_MS * US_PER_MS;
}

static int look_for_scheduler(struct check *c)
{
    struct owner *owners = NULL;
    size_t count = 0;
    int r = store_owners(c->store, false, &c->arena, &owners, &count);
    for (size_t i = 0; i < count && r == 0; i++) {
        const struct owner *owner = &owners[i];
        if (owner->type != OWNER_NODE)
            continue;
        c->report.scheduler |= seems_alive(c, owner);
        if (surely_alive(c, owner) &&
            (c->scheduler_since == 0 || owner->started_at < c->scheduler_since))
            c->scheduler_since = owner->started_at;
    }
    return r;
}

/* Runs whose owner is alive in its row only. */
static int count_abandoned(struct check *c)
{
    struct owner *owners = NULL;
    size_t count = 0;
    int r = store_owners(c->store, true, &c->arena, &owners, &count);
    for (size_t i = 0; i < count && r == 0; i++) {
        int64_t open = 0;
        if (owners[i].state != OWNER_ALIVE || seems_alive(c, &owners[i]))
            continue;
        r = store_int(c->store, SQL_CHECK_OPEN_OF_OWNER,
                      (struct db_value[]){ db_int(owners[i].id) }, 0, &open);
        c->report.awaiting += open;
    }
    return r;
}

static int count_awaiting(struct check *c)
{
    struct db_rows rows;
    struct db_value now = db_int(c->now);
    int r = db_query(c->store->db, SQL_CHECK_AWAITING, &now, 1, &rows);
    if (r >= 0 && (r = db_next(&rows)) > 0) {
        c->report.awaiting += db_get_int(&rows, 0) + db_get_int(&rows, 1);
        if (!c->report.scheduler)
            c->report.awaiting += db_get_int(&rows, 2);
    }
    db_done(&rows);
    return r < 0 ? r : count_abandoned(c);
}

/* ---- all of it ---- */

static int check_all(struct check *c)
{
    int r = store_queues_reload(c->store);
    if (r == 0)
        r = look_for_scheduler(c);
    if (r == 0)
        r = check_indexes(c);
    if (r == 0)
        r = check_constraints(c);
    for (size_t i = 0; i < array_len(passes) && r == 0; i++)
        r = run_pass(c, &passes[i]);
    if (r == 0)
        r = check_counts(c);
    return r == 0 ? count_awaiting(c) : r;
}

int check_store_from(struct store *store, const struct host *host, int64_t now,
                     void (*on_violation)(void *arg, const struct check_finding *finding),
                     void *arg, struct check_report *ret)
{
    assert(store->role == STORE_READER); /* a snapshot, and plans for whole tables */
    struct check c = {
        .store = store, .host = host, .now = now, .on_violation = on_violation, .arg = arg
    };
    bool begun = !store->open;
    int r = begun ? store_begin(store, now) : 0;
    if (r < 0)
        return r;
    arena_init(&c.arena, 64 << 10, CHECK_ARENA_BYTES);
    buf_init(&c.sentence, SENTENCE_BYTES);
    r = check_all(&c);
    buf_release(&c.sentence);
    arena_release(&c.arena);
    if (begun)
        store_rollback(store);
    if (r == 0)
        *ret = c.report;
    return r;
}

int check_store(struct store *store, int64_t now,
                void (*on_violation)(void *arg, const struct check_finding *finding),
                void *arg, struct check_report *ret)
{
    struct host host = { 0 };
    struct error error = { 0 };
    int64_t theirs = 0;
    /* Without /proc nobody is judged by their process. */
    if (host_identify(&host, &error) < 0)
        host = (struct host){ .boot_id = "unknown" };
    bool begun = !store->open;
    int r = begun ? store_begin(store, now) : 0;
    if (r < 0)
        return r;
    r = store_int(store, SQL_DB_NOW, NULL, 0, &theirs);
    if (r == 0)
        r = check_store_from(store, &host, theirs ? theirs : now, on_violation, arg, ret);
    if (begun)
        store_rollback(store);
    return r;
}
