/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_run.h -- plays histories, each in a process of its own, and makes one that
 * fails short. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SIM_EXIT_BROKEN = 3 };

/* What is counted, to see that a world was not a quiet one. */
enum saw {
    SAW_COMMANDS,
    SAW_REFUSALS,
    SAW_JOBS,
    SAW_RETRIES,
    SAW_LATE,
    SAW_TIMEOUTS,
    SAW_DEATHS,
    SAW_CRASHES,
    SAW_INTERRUPTED,
    SAW_CUTS,
    SAW_DISK_ERRORS,
    SAW_CLOSES,
    SAW_RECOVERED,
    SAW_POISON,
    SAW_JUMPS,
    SAW_SECOND_PASSES,
    SAW_REBIRTHS,
    SAW_CHECKS,
    SAW_ALL
};
extern const char *const sim_saw_names[SAW_ALL];

/* Between a history's process and its parent. */
struct shared {
    char rule[64]; /* that was broken; "" for none */
    char text[1200];
    size_t step; /* at which it was, from 0; as many as there are: in the calm */
    size_t done; /* steps that are over */
    uint64_t saw[SAW_ALL];
};

/* Plays the history of a seed.  If it breaks a rule: prints the command that plays
 * it again and a short history that breaks the same rule, and fails the test. */
void sim_run(uint64_t seed, size_t steps, struct shared *ret);

/* The history of a seed in words. */
void sim_story(uint64_t seed, size_t steps, FILE *to);
