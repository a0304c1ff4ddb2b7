/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena's promises: what it gives is zeroed, aligned and apart from
 * everything else; its failure sticks; and an ordinary request costs no
 * malloc. */
/* test: wrap=malloc */
#include <stdalign.h>

#include "base/arena.h"
#include "test.h"

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

static bool out_of_memory;
static int mallocs;

void *__wrap_malloc(size_t n)
{
    mallocs++;
    return out_of_memory ? NULL : __real_malloc(n);
}

TEST(what_is_allocated_is_zeroed_aligned_and_does_not_overlap)
{
    cleanup(arena_release) struct arena arena;
    unsigned char *given[300];

    arena_init(&arena, 1000, 1 << 20);
    for (size_t i = 0; i < array_len(given); i++) {
        given[i] = arena_alloc(&arena, i);
        check(given[i] != NULL);
        check_int((uintptr_t)given[i] % alignof(max_align_t), 0);
        for (size_t k = 0; k < i; k++)
            check_int(given[i][k], 0);
        memset(given[i], (int)(i & 255), i);
    }
    for (size_t i = 0; i < array_len(given); i++)
        for (size_t k = 0; k < i; k++)
            check_int(given[i][k], i & 255);
}

TEST(nothing_is_a_thing_of_its_own_too)
{
    cleanup(arena_release) struct arena arena;

    arena_init(&arena, 100, 1000);
    void *a = arena_alloc(&arena, 0), *b = arena_alloc(&arena, 0);
    check(a && b && a != b);
}

TEST(a_reset_arena_gives_zeroed_memory_without_asking_for_more)
{
    cleanup(arena_release) struct arena arena;

    arena_init(&arena, 4096, 1 << 20);
    memset(arena_alloc(&arena, 1000), 255, 1000);
    int before = mallocs;
    for (int round = 0; round < 100; round++) {
        arena_reset(&arena);
        for (int i = 0; i < 4; i++) {
            unsigned char *p = arena_alloc(&arena, 1000);
            for (int k = 0; k < 1000; k++)
                check_int(p[k], 0);
            memset(p, 255, 1000);
        }
    }
    check_int(mallocs, before);
}

TEST(a_large_allocation_does_not_waste_the_block_in_use_nor_outlive_a_reset)
{
    cleanup(arena_release) struct arena arena;

    arena_init(&arena, 4096, 1 << 20);
    char *small = arena_alloc(&arena, 16);
    char *large = arena_alloc(&arena, 100000);
    char *next = arena_alloc(&arena, 16);
    check(small && large);
    check(next == small + 16);
    check(arena.taken >= 104096);
    arena_reset(&arena);
    check_int(arena.taken, 4096);

    arena_release(&arena);
    check(arena_alloc(&arena, 100000) != NULL); /* as the first one, too */
    arena_reset(&arena);
    check_int(arena.taken, 0);
}

TEST(the_cap_is_the_most_it_takes)
{
    cleanup(arena_release) struct arena arena;
    size_t got = 0;

    arena_init(&arena, 1000, 10000);
    while (arena_alloc(&arena, 160))
        got += 160;
    check(arena.taken <= 10000);
    check(got >= 9000);
    check_err(arena_end(&arena), -HF_NOMEM);
}

TEST(the_cap_is_used_up_even_if_the_last_block_is_a_small_one)
{
    cleanup(arena_release) struct arena arena;
    size_t got = 0;

    arena_init(&arena, 1000, 1500);
    while (arena_alloc(&arena, 160))
        got += 160;
    check(got >= 1400 && arena.taken <= 1500);
}

TEST(failure_sticks_until_a_reset)
{
    cleanup(arena_release) struct arena arena;

    arena_init(&arena, 1000, 10000);
    check(arena_alloc(&arena, 16) != NULL);
    check(arena_alloc(&arena, 20000) == NULL);
    check(arena_alloc(&arena, 1) == NULL); /* would fit */
    check(arena_dup(&arena, SLICE("x")).p == NULL);
    check_err(arena_end(&arena), -HF_NOMEM);
    arena_reset(&arena);
    check_ok(arena_end(&arena));
    check(arena_alloc(&arena, 1) != NULL);
}

TEST(no_memory_is_an_answer_and_no_abort)
{
    cleanup(arena_release) struct arena arena;

    arena_init(&arena, 1000, 1 << 20);
    check(arena_alloc(&arena, 900) != NULL);
    out_of_memory = true;
    void *p = arena_alloc(&arena, 900);
    out_of_memory = false;
    check(p == NULL);
    check(arena_alloc(&arena, 1) == NULL);
    check_err(arena_end(&arena), -HF_NOMEM);
}

TEST(sizes_that_overflow_are_failures)
{
    cleanup(arena_release) struct arena arena;

    arena_init(&arena, 1000, 1 << 20);
    check(arena_alloc(&arena, SIZE_MAX) == NULL);
    arena_reset(&arena);
    check(arena_alloc_many(&arena, SIZE_MAX / 4 + 2, 4) == NULL); /* wraps to 4 */
    arena_reset(&arena);
    check(arena_array(&arena, uint64_t, 100) != NULL);
}

TEST(a_copy_is_terminated_and_an_absent_one_stays_absent)
{
    cleanup(arena_release) struct arena arena;
    char word[] = "word";

    arena_init(&arena, 1000, 10000);
    struct slice copy = arena_dup(&arena, (struct slice){ word, 3 });
    word[0] = 'X';
    check_str(copy.p, "wor");
    check_int(copy.n, 3);
    check(arena_dup(&arena, (struct slice){ NULL, 0 }).p == NULL);
    check_ok(arena_end(&arena));
    copy = arena_dup(&arena, SLICE(""));
    check(copy.p && copy.n == 0);
    check(arena_dup(&arena, SLICE("a\0b")).p[2] == 'b');
    /* Also one that ends where the next thing would begin. */
    copy = arena_dup(&arena, SLICE("0123456789abcdef"));
    memset(arena_alloc(&arena, 16), 'x', 16);
    check_str(copy.p, "0123456789abcdef");
}
