/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c -- /proc/self, and what the kernel counts. */
#include "process.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

static void read_memory(struct process_figures *ret)
{
    long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return;
    if (fscanf(file, "%lld %lld", &pages, &resident) == 2) {
        ret->virtual_bytes = pages * sysconf(_SC_PAGESIZE);
        ret->resident_bytes = resident * sysconf(_SC_PAGESIZE);
    }
    fclose(file);
}

static int64_t microseconds(struct timeval t)
{
    return t.tv_sec * US_PER_S + t.tv_usec;
}

static void read_descriptors(struct process_figures *ret)
{
    struct rlimit limit;
    DIR *folder = opendir("/proc/self/fd");
    if (folder) {
        while (readdir(folder))
            ret->open_fds++;
        ret->open_fds -= 3; /* ".", ".." and the folder itself */
        closedir(folder);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        ret->max_fds = (int64_t)limit.rlim_cur;
}

/* The start is kept as a time after the boot, in ticks. */
static void read_start(struct process_figures *ret)
{
    struct host_stat stat;
    struct timespec wall, boot;
    if (host_read_stat(getpid(), &stat) < 0 || clock_gettime(CLOCK_REALTIME, &wall) < 0 ||
        clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
        return;
    int64_t booted =
        (wall.tv_sec - boot.tv_sec) * US_PER_S + (wall.tv_nsec - boot.tv_nsec) / 1000;
    ret->threads = stat.threads;
    ret->started_at = booted + stat.start_ticks * US_PER_S / sysconf(_SC_CLK_TCK);
}

void process_figures(struct process_figures *ret)
{
    struct rusage usage;
    *ret = (struct process_figures){ 0 };
    read_memory(ret);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        ret->cpu_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    read_descriptors(ret);
    read_start(ret);
}
