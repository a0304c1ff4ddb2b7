/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.h -- memory that is given back all at once.
 *
 * Why it exists: everything that belongs to one request or one pile of
 * commands dies together.  An arena owns it, so that no string has an owner of
 * its own and no error path has anything to free.
 *
 * Failure is sticky, as in buf.h: once an allocation failed every later one
 * fails too, so a function may ask for all it needs and look once, either at
 * the last pointer or at arena_end().
 *
 * An arena takes memory in blocks and keeps one over a reset: a
 * request of ordinary size costs no malloc at all.
 *
 * Threads: belongs to one at a time. */
#pragma once

#include "base.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first, large ones behind it */
    size_t block_bytes;         /* what an ordinary block holds */
    size_t cap;                 /* most bytes in all blocks together */
    size_t taken;               /* bytes in all blocks */
    bool failed;
};

/* An empty arena that takes blocks of `block_bytes` and at most `cap` bytes.
 * Allocates nothing yet. */
void arena_init(struct arena *arena, size_t block_bytes, size_t cap);

/* Frees everything; the arena is empty and usable again.  Good for cleanup(). */
void arena_release(struct arena *arena);

/* Forgets what was allocated, and a failure; keeps one block. */
void arena_reset(struct arena *arena);

/* `bytes` zeroed bytes, aligned for any type; NULL, and the arena is failed, if
 * there is no memory or the cap is reached.  0 bytes give a valid pointer. */
must_check void *arena_alloc(struct arena *arena, size_t bytes);

/* The same for `count` objects; an overflow of the product is a failure. */
must_check void *arena_alloc_many(struct arena *arena, size_t count, size_t bytes);

#define arena_new(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define arena_array(arena, T, count) ((T *)arena_alloc_many((arena), (count), sizeof(T)))

/* A copy, with a NUL behind it.  The copy of an absent slice is absent, as is
 * the answer of a failed arena. */
must_check struct slice arena_dup(struct arena *arena, struct slice bytes);

/* 0, or -HF_NOMEM if any allocation failed since the last reset. */
must_check int arena_end(const struct arena *arena);
