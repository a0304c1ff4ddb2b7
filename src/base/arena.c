/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.c -- memory that is given back all at once. */
#include "arena.h"

#include <stdalign.h>

struct arena_block {
    struct arena_block *next; /* older */
    size_t room, used;        /* bytes in `space` */
    alignas(max_align_t) char space[];
};

static void arena_check(const struct arena *arena)
{
    assert(arena);
    assert(arena->taken <= arena->cap);
    assert((arena->blocks == NULL) == (arena->taken == 0));
    assert(!arena->blocks || arena->blocks->used <= arena->blocks->room);
}

void arena_init(struct arena *arena, size_t block_bytes, size_t cap)
{
    assert(arena);
    assert(block_bytes > 0 && block_bytes <= cap && cap < SIZE_MAX / 4);
    *arena = (struct arena){ .block_bytes = block_bytes, .cap = cap };
}

/* Frees all blocks except, if wanted, one of ordinary size: a large one must
 * not be held for ever because one request needed it. */
static void drop_blocks(struct arena *arena, bool keep_one)
{
    struct arena_block *kept = NULL;

    arena_check(arena);
    while (arena->blocks) {
        struct arena_block *block = arena->blocks;
        arena->blocks = block->next;
        if (keep_one && !kept && block->room == arena->block_bytes)
            kept = block;
        else
            free(block);
    }
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
    }
    arena->blocks = kept;
    arena->taken = kept ? kept->room : 0;
    arena->failed = false;
}

void arena_release(struct arena *arena)
{
    drop_blocks(arena, false);
    assert(!arena->blocks);
}

void arena_reset(struct arena *arena)
{
    drop_blocks(arena, true);
    arena_check(arena);
}

/* A new block with room for `bytes`.  A large one goes behind the newest, whose
 * rest stays in use. */
static struct arena_block *add_block(struct arena *arena, size_t bytes)
{
    size_t room = bytes > arena->block_bytes ? bytes : arena->block_bytes;

    arena_check(arena);
    if (room > arena->cap - arena->taken)
        room = bytes; /* the last block may be a small one */
    if (room == 0 || room > arena->cap - arena->taken)
        return NULL;
    struct arena_block *block = malloc(sizeof(*block) + room);
    if (!block)
        return NULL;
    block->room = room;
    block->used = 0;
    block->next = arena->blocks;
    arena->blocks = block;
    if (block->next && bytes > arena->block_bytes) {
        arena->blocks = block->next;
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    }
    arena->taken += room;
    return block;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    const size_t align = alignof(max_align_t);
    struct arena_block *block = arena->blocks;

    arena_check(arena);
    if (arena->failed || bytes > arena->cap) {
        arena->failed = true;
        return NULL;
    }
    size_t size = bytes == 0 ? align : (bytes + align - 1) / align * align;
    if (!block || size > block->room - block->used)
        block = add_block(arena, size);
    if (!block) {
        arena->failed = true;
        return NULL;
    }
    void *p = block->space + block->used;
    block->used += size;
    assert((uintptr_t)p % align == 0);
    return memset(p, 0, size);
}

void *arena_alloc_many(struct arena *arena, size_t count, size_t bytes)
{
    size_t product;

    arena_check(arena);
    if (__builtin_mul_overflow(count, bytes, &product))
        product = SIZE_MAX; /* beyond every cap */
    return arena_alloc(arena, product);
}

struct slice arena_dup(struct arena *arena, struct slice bytes)
{
    assert(bytes.p || bytes.n == 0);
    if (!bytes.p)
        return (struct slice){ NULL, 0 };
    char *copy = arena_alloc(arena, bytes.n + 1);
    if (!copy)
        return (struct slice){ NULL, 0 };
    if (bytes.n > 0)
        memcpy(copy, bytes.p, bytes.n);
    return (struct slice){ copy, bytes.n };
}

int arena_end(const struct arena *arena)
{
    arena_check(arena);
    return arena->failed ? -HF_NOMEM : 0;
}
