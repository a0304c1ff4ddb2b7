/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.h -- every maximum and every default, in one place, with its reason.
 *
 * Whatever comes from outside is held against one of these before anything is
 * allocated for it, and every buffer, queue and loop is born with one.  Over a
 * limit is an error with a sentence, never a silent cut.
 *
 * LIMIT_ is the largest acceptable value, LEAST_ the smallest where it is not
 * 0 or 1, DEFAULT_ what applies when nobody says otherwise.  The unit is the
 * last word of the name.  What an operator can set (configuration) has its
 * DEFAULT_ here and its range in the table of settings. */
#pragma once

#include "base.h"

/* Texts.  Names appear in URLs, metric labels and file names, so they are
 * [A-Za-z0-9._-] only and need no escaping anywhere; 100 is what such surfaces
 * show without wrapping.  Other texts are indexed, and 500 bytes keep an index
 * entry well below a third of a PostgreSQL page. */
enum {
    LIMIT_NAME_BYTES = 100,     /* project, queue, kind, endpoint, ... */
    LIMIT_TEXT_BYTES = 500,     /* unique key, holder, idempotency key, reason */
    LIMIT_PROGRESS_BYTES = 500, /* one line on the dashboard */
    LIMIT_URL_BYTES = 4096,     /* twice what browsers and proxies agree on */
    LIMIT_CRON_BYTES = 500,     /* a long list of minutes fits; a program does not */
    LIMIT_ZONE_BYTES = 64,      /* the longest IANA name has 32 */
    LIMIT_PATH_BYTES = 4096,    /* PATH_MAX of Linux */
};

/* A zone's file.  The largest of the system has 4 KiB; the numbers in one bound its
 * own memory, so this bounds all of it. */
enum {
    LIMIT_ZONE_FILE_BYTES = 256 << 10,
    LIMIT_ZONE_WORD_BYTES = 15, /* CEST, +0545: people see these in tables */
};

/* A job's data.  1 MiB is copied through memory several times in a request;
 * more belongs in a file or an object store, with its address in the payload.
 * Beyond 512 bytes inline, rewriting the job's row costs more than reading a
 * second table. */
enum {
    LIMIT_PAYLOAD_BYTES = 1 << 20,
    LIMIT_RESULT_BYTES = 1 << 20,
    LIMIT_PAYLOAD_INLINE_BYTES = 512,
    LIMIT_OUTPUT_BYTES = 64 << 10, /* of a command's or a response's text kept */
    LIMIT_JSON_DEPTH = 64,         /* the checker recurses; people stay below 10 */
    LIMIT_DOCUMENT_DEPTH = 68,     /* of a request that has such JSON inside */
};

/* Metadata is for searching, not for storage: all of it is read for each row
 * of a list. */
enum {
    LIMIT_METADATA_ENTRIES = 32,
    LIMIT_METADATA_KEY_BYTES = 100,
    LIMIT_METADATA_VALUE_BYTES = 500,
    LIMIT_METADATA_BYTES = 4096, /* the whole object, as JSON text */
};

/* An error is written in the transaction that fails a run, with hundreds of
 * others; a stack trace fits into its details. */
enum {
    LIMIT_ERROR_MESSAGE_BYTES = 4096,
    LIMIT_ERROR_CLASS_BYTES = 200,
    LIMIT_ERROR_DETAILS_BYTES = 64 << 10,
};

/* Order and retries.  Nine priorities are as many as people can tell apart.
 * A hundred retries outlive any outage worth waiting for; 30 days between two
 * is where a schedule is the better tool. */
enum {
    LEAST_PRIORITY = 1,
    LIMIT_PRIORITY = 9,
    DEFAULT_PRIORITY = 5,
    LIMIT_RETRIES = 100,
    DEFAULT_RETRIES = 3,
    LIMIT_RETRY_DELAYS = 20, /* entries; the last one repeats */
    LIMIT_RETRY_DELAY_SECONDS = 30 * 86400,
    DEFAULT_CRASHES = 3, /* in a row along a chain, then the job is poison */
    LIMIT_CRASHES = 100,
};

/* Deadlines of a run.  An HTTP call that is silent for half an hour has lost
 * its connection; other work may take days, but a week without a deadline is
 * a stuck slot. */
enum {
    DEFAULT_HTTP_DEADLINE_MS = 60 * 1000,
    LIMIT_HTTP_DEADLINE_MS = 1800 * 1000,
    DEFAULT_DEADLINE_MS = 1800 * 1000,
    LIMIT_DEADLINE_MS = 7 * 86400 * 1000,
    LIMIT_DAY_MS = 86400 * 1000,
    DEFAULT_STALE_MS = 1800 * 1000, /* a warning, long before the deadline of long work */
    LEAST_STALE_MS = 1000,
    LIMIT_DELAY_SECONDS = 10 * 366 * 86400, /* enqueue for later: ten years */
};

/* Schedules.  A second is as often as a queue is the right tool; below a year's interval
 * nobody means a date.  Jitter spreads what would start together, and stays within a
 * day, so that a daily job keeps its day. */
enum {
    LEAST_EVERY_MS = 1000,
    LIMIT_EVERY_SECONDS = 366 * 86400,
    LIMIT_JITTER_MS = 86400 * 1000,
    LIMIT_EXPIRE_SECONDS = 366 * 86400,   /* of a fire's job that nobody starts */
    LIMIT_MISFIRES = 100,                 /* of fire times that passed while down */
    DEFAULT_MISFIRE_GRACE_MS = 30 * 1000, /* a restart is no misfire */
    LEAST_MISFIRE_GRACE_MS = 1000,
    LIMIT_MISFIRE_GRACE_MS = 3600 * 1000,
    DEFAULT_PREVIEW_TIMES = 10,
    LIMIT_PREVIEW_TIMES = 1000,
};

/* Holds and waits.  A reservation stops a whole queue, so it is short and is
 * renewed by those who need longer.  A wait holds a connection open; ten
 * minutes is the longest that proxies let one be silent. */
enum {
    DEFAULT_RESERVATION_MS = 300 * 1000,
    LIMIT_RESERVATION_MS = 600 * 1000,
    DEFAULT_WAIT_MS = 30 * 1000,
    LIMIT_WAIT_MS = 600 * 1000,
    DEFAULT_LEASE_MS = 30 * 1000, /* three beats; a dead owner is seen after one */
    LEAST_LEASE_MS = 1000,
    LIMIT_LEASE_MS = 600 * 1000,
};

/* Jobs at once.  A slot is a thread, a process or a transfer of one node; a limit over
 * all nodes counts remote workers too. */
enum {
    LIMIT_SLOTS = 10000,
    LIMIT_CONCURRENCY = 1000 * 1000,
};

/* Sizes of piles.  The pool bounds the memory of everything that waits for a
 * commit; a full pool is -HF_BUSY.  A pile is one transaction: the more it
 * holds the longer its members wait for each other, and beyond some thousands
 * the fsync is no longer what they wait for. */
enum {
    LIMIT_COMMANDS = 65536,
    LIMIT_COMMANDS_BYTES = 256 << 20, /* a few batches; or jobs of 4 KiB in full number */
    LIMIT_PILE_COMMANDS = 4096,
    LIMIT_BATCH_JOBS = 10000,
    LIMIT_CLAIM_JOBS = 1000,
    LIMIT_CLAIM_QUEUES = 100,
    LIMIT_BEAT_RUNS = 10000,
    RECOVERY_CHUNK_JOBS = 500, /* keeps the store free for claims in between */
    LEAST_RECOVERY_CHUNK_JOBS = 100,
    RECOVERY_CHUNK_US = 15 * 1000, /* as long, or twice as long, where 500 take longer */
    LIMIT_RECOVERY_LOG_LINES = 1000,
};

/* What a client may send at once, and how much it is given back.  A batch is
 * larger than a job's body because it is many. */
enum {
    LIMIT_BODY_BYTES = 2 << 20,
    LIMIT_BATCH_BODY_BYTES = 64 << 20,
    DEFAULT_PAGE_ITEMS = 50,
    LIMIT_PAGE_ITEMS = 1000,
    LIMIT_METRIC_QUEUES = 200, /* with series of their own in /metrics; others are one */
    LIMIT_METRIC_KINDS = 100,  /* the same */
    LIMIT_HEADERS = 100,       /* of an endpoint or an http job */
    LIMIT_HEADER_BYTES = 8192, /* one header, name and value */
};

/* Tokens are kept in memory, and all are compared with what a request brings, so that
 * the time it takes tells nothing. */
enum {
    LIMIT_TOKENS = 1000,
    LIMIT_TOKEN_BYTES = 200,
};

/* What the other end of an outgoing request may send before it is hung up on: a
 * response is read to its end so that the server can finish its work, but a stream
 * without end is none.  The head is kept whole, so it is smaller. */
enum {
    LIMIT_FETCH_BODY_BYTES = 16 << 20,
    LIMIT_FETCH_HEAD_BYTES = 64 << 10,
    LIMIT_REDIRECTS = 20, /* as browsers have it */
    DEFAULT_REDIRECTS = 5,
    DEFAULT_CONNECT_MS = 10 * 1000, /* a lost SYN is repeated after 1, 3 and 7 s */
    LIMIT_DENY_NETWORKS = 256,      /* each is compared with each new connection */
};

/* A command's words.  The kernel takes 128 KiB for one and 2 MiB in all; a line
 * of a configuration file that long is a mistake. */
enum {
    LIMIT_ARGV_BYTES = 32 << 10,
};

/* One line of the log.  Longer ones are cut by the journal anyway, and a line
 * may not be a way to fill a disk. */
enum {
    LIMIT_LOG_LINE_BYTES = 16 << 10,
};

/* The configuration file is written by hand; whoever generates one with more than a
 * mebibyte has generated the wrong thing. */
enum {
    LIMIT_CONFIG_FILE_BYTES = 1 << 20,
    LIMIT_CONFIG_LINE_BYTES = 16 << 10,
};

/* Times that can be shown: the years 0000 to 9999, as RFC 3339 has them. */
#define LEAST_TIME_US (-INT64_C(62167219200) * US_PER_S)
#define LIMIT_TIME_US (INT64_C(253402300800) * US_PER_S - 1)

/* Webhooks are kept in memory, and each event is held against all of them.  What is
 * given out at once to be sent is bounded in number by the sender's room, and in bytes
 * here; a webhook's part of it, so that one slow receiver has not all of it. */
enum {
    LIMIT_WEBHOOKS = 1000,
    LIMIT_WEBHOOK_EVENTS = 100, /* types and patterns of one */
    DEFAULT_WEBHOOK_TIMEOUT_MS = 15 * 1000,
    LEAST_WEBHOOK_TIMEOUT_MS = 1000,
    LIMIT_WEBHOOK_TIMEOUT_MS = 60 * 1000,
    LIMIT_IN_FLIGHT = 64,
    LIMIT_DELIVERY_BODY_BYTES = 256 << 10, /* what receivers take without asking */
    LIMIT_DELIVERIES_BYTES = 8 << 20,
    LIMIT_DELIVERIES = 1000, /* taken or reported at once */
    LIMIT_DELIVERY_ERROR_BYTES = 500,
    LIMIT_DELIVERY_RESPONSE_BYTES = 8 << 10, /* kept of a try, as JSON */
    LIMIT_DELIVERY_TRIES_KEPT = 12,
};
