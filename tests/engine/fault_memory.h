/* SPDX-License-Identifier: Apache-2.0
 *
 * fault_memory.h -- our own allocations are counted, and one of them fails.
 *
 * Needs wrap=malloc,calloc,realloc,reallocarray,strdup,strndup,asprintf,realpath,free. */
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
char *__real_realpath(const char *path, char *to);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);
int __wrap_asprintf(char **ret, const char *format, ...);
char *__wrap_realpath(const char *path, char *to);
void __wrap_free(void *p);

static size_t memory_fails_in; /* 1: the next; 0: it does not */
static size_t memory_failures;
static int64_t pieces; /* of memory that we have */

static bool no_memory(void)
{
    if (memory_fails_in == 0 || --memory_fails_in > 0)
        return false;
    memory_failures++;
    return true;
}

static void *counted(void *p)
{
    pieces += p != NULL;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return no_memory() ? NULL : counted(__real_malloc(n));
}
void *__wrap_calloc(size_t n, size_t size)
{
    return no_memory() ? NULL : counted(__real_calloc(n, size));
}
void *__wrap_realloc(void *p, size_t n)
{
    if (no_memory())
        return NULL;
    return p ? __real_realloc(p, n) : counted(__real_realloc(p, n));
}
void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    if (no_memory())
        return NULL;
    return p ? __real_reallocarray(p, n, size) : counted(__real_reallocarray(p, n, size));
}
char *__wrap_strdup(const char *text)
{
    return no_memory() ? NULL : counted(__real_strdup(text));
}
char *__wrap_strndup(const char *text, size_t n)
{
    return no_memory() ? NULL : counted(__real_strndup(text, n));
}
int __wrap_asprintf(char **ret, const char *format, ...)
{
    va_list args;
    if (no_memory())
        return -1;
    va_start(args, format);
    int n = vasprintf(ret, format, args);
    va_end(args);
    pieces += n >= 0;
    return n;
}
char *__wrap_realpath(const char *path, char *to)
{
    if (no_memory()) {
        errno = ENOMEM;
        return NULL;
    }
    return to ? __real_realpath(path, to) : counted(__real_realpath(path, to));
}
void __wrap_free(void *p)
{
    pieces -= p != NULL;
    __real_free(p);
}
