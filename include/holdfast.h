/* SPDX-License-Identifier: Apache-2.0
 * holdfast.h -- placeholder: the error codes; the API follows below them. */
#pragma once

/* Error codes.  Functions return 0 or the negative of one of these. */
enum hf_status {
    HF_OK = 0,
    HF_NOMEM,       /* no memory */
    HF_SYSTEM,      /* a system call failed; errno says why */
    HF_INVALID,     /* an argument or field is not acceptable; nothing was done */
    HF_TOO_LARGE,   /* over a limit; nothing was done */
    HF_NOT_FOUND,   /* no such job, queue, reservation, ... */
    HF_CONFLICT,    /* the thing is not in a state that allows this */
    HF_DUPLICATE,   /* another live job holds this unique key */
    HF_MISMATCH,    /* idempotency key used before with another body */
    HF_LATE,        /* the run is no longer yours: reaped, cancelled or finished */
    HF_TIMEOUT,     /* waited as long as asked, in vain */
    HF_BUSY,        /* too much is under way; try again later */
    HF_CLOSED,      /* this handle is shutting down */
    HF_LOCKED,      /* another scheduler has this store open */
    HF_READONLY,    /* the store cannot be written */
    HF_FULL,        /* no space left on the store's disk */
    HF_IO,          /* the store's disk fails; it is not trusted until reopened */
    HF_CORRUPT,     /* the store is damaged */
    HF_FOREIGN,     /* the database exists but is not a Holdfast store */
    HF_VERSION,     /* the store has another schema version than this program */
    HF_UNAVAILABLE, /* the database cannot be reached now; nothing was done */
    HF_UNKNOWN,     /* the connection broke during COMMIT: done or not done */
    HF_INTERNAL     /* a defect in Holdfast */
};
