/* SPDX-License-Identifier: Apache-2.0
 *
 * crash_vfs.h -- a disk in memory that loses power where the test wants it to.
 *
 * Why it exists: what survives a crash is decided between the page cache and the
 * platter, and no test on a real file system can ask for each of the answers.
 * Here the disk is a SQLite VFS of its own name; it knows for every byte whether
 * it has been synced, and gives out the disk as it may look after the plug was
 * pulled.
 *
 * CHANGES.  Whatever alters the disk is numbered from 1 on: a file made or
 * deleted, a write, a truncation, a sync.  `point n` is the moment after change n
 * and before the next.  A disk that records keeps all changes, so that every
 * point of a long run can be looked at afterwards: replay the changes one by one
 * into a second disk, and cut.  Nothing is run a second time for it.
 *
 * A CUT is the disk after the power came back.  What was synced is there.  Of
 * what was not, one of these:
 *   CRASH_KEEP  all of it: a process was killed, the machine went on
 *   CRASH_LOSE  none of it
 *   CRASH_MIX   chosen by the seed, sector by sector (512 bytes): each holds what
 *               it held after one of the writes since the last sync, so later
 *               ones are there while earlier ones are lost, and a write is torn
 *               at any border.  The size is one of those it had; what lies between
 *               and never arrived reads as zeros.  Files that were made or deleted
 *               are so in order, up to some point (file systems journal that).
 *
 * The directory is synced by a delete that asks for it and by the first sync of a
 * new journal or log, as SQLite does on Unix.  Shared memory (the -shm file) is
 * memory: it never survives.
 *
 * Threads: none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum crash_loss { CRASH_KEEP, CRASH_LOSE, CRASH_MIX };

struct crash_disk;

/* An empty disk, behind the VFS `name` (static text, one disk each).  A recording
 * one keeps its changes, stamped with *clock where there is one. */
struct crash_disk *crash_disk_new(const char *name, bool record, const int64_t *clock);
/* Every connection must be closed. */
void crash_disk_free(struct crash_disk *disk);

/* ---- stopping the world ---- */

/* Everything that is asked of the disk after change n is made fails, and alters
 * nothing; SIZE_MAX: never. */
void crash_disk_stop_after(struct crash_disk *disk, size_t n);
bool crash_disk_stopped(const struct crash_disk *disk);

/* The machine comes back with what the cut leaves of it.  Every connection must be
 * closed.  This is a change, too. */
void crash_disk_restart(struct crash_disk *disk, enum crash_loss loss, uint64_t seed);

/* ---- looking at it afterwards ---- */

/* How many changes there are, and when one was made. */
size_t crash_disk_changes(const struct crash_disk *disk);
int64_t crash_disk_time(const struct crash_disk *disk, size_t n);
/* Whether change n is a sync: all that was written to that file is safe. */
bool crash_disk_is_sync(const struct crash_disk *disk, size_t n);

/* Makes change n of `recorded` on `disk`, which has made those before it.  `recorded`
 * must outlive it. */
void crash_disk_replay(struct crash_disk *disk, const struct crash_disk *recorded,
                       size_t n);

/* Whether all that was written is synced: then every cut leaves the same. */
bool crash_disk_is_safe(const struct crash_disk *disk);

/* Forgets the changes so far, if all of them are synced: for a long run that is not
 * looked at afterwards, but may lose what it has not synced. */
void crash_disk_forget(struct crash_disk *disk);

/* Fills `to`, whatever was on it, with what is left of `disk`. */
void crash_disk_cut(const struct crash_disk *disk, enum crash_loss loss, uint64_t seed,
                    struct crash_disk *to);

/* True if both hold the same files with the same bytes. */
bool crash_disk_same(const struct crash_disk *a, const struct crash_disk *b);

/* A number for all that a cut without loss, or one with all loss, would show. */
uint64_t crash_disk_version(const struct crash_disk *disk, enum crash_loss loss);

/* ---- errors instead of crashes ---- */

enum crash_call { CRASH_READ, CRASH_WRITE, CRASH_SYNC, CRASH_CALLS };

/* The nth call of a kind from now on, and all after it if `lasting`, fail with
 * SQLite's `code`.  A write that fails has written half of it.  nth 0: no more
 * failures. */
void crash_disk_fail(struct crash_disk *disk, enum crash_call call, size_t nth, int code,
                     bool lasting);
/* How many calls failed since then. */
size_t crash_disk_failures(const struct crash_disk *disk);
