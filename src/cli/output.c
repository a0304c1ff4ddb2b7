/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c -- tables and lines for people, JSON for programs.
 *
 * Texts of jobs are anyone's: a control character in one could move the cursor
 * or colour the screen of whoever lists them, so none reaches a terminal.  The only
 * escapes written are our own colours, and those only to a terminal whose owner did
 * not ask for none (NO_COLOR). */
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli.h"

#define TABLE_BYTES ((size_t)64 << 20)

/* Cells longer than this are cut, so that a line stays a line. */
enum { CELL_BYTES = 60, COLUMNS_MAX = 16, COLUMN_LEAST = 8, BAR_WIDTH = 30 };

/* Bytes that are no text, and the control characters of both kinds: those below
 * space, and U+0080 to U+009F, which some terminals obey as well. */
static void add_tame(struct buf *buf, struct slice text)
{
    for (size_t i = 0; i < text.n;) {
        const unsigned char *p = (const unsigned char *)text.p + i;
        size_t step = utf8_step(text.p + i, text.n - i);
        bool wild = step == 0 || *p < 0x20 || *p == 0x7f ||
                    (step == 2 && p[0] == 0xc2 && p[1] < 0xa0);
        if (wild)
            buf_byte(buf, '?');
        else
            buf_add(buf, (struct slice){ text.p + i, step });
        i += step ? step : 1;
    }
}

/* ---- the terminal ---- */

static bool coloured(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no && no[0]) && !(term && strcmp(term, "dumb") == 0) &&
           isatty(STDOUT_FILENO);
}

/* 0: no matter. */
static int terminal_width(void)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;

    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 0)
        return size.ws_col;
    int width = columns ? atoi(columns) : 0;
    return width > 0 ? width : 0;
}

static const char *colour_of(const char *state)
{
    static const struct {
        const char *word, *colour;
    } colours[] = {
        { "completed", "\033[32m" }, { "failed", "\033[31m" },
        { "running", "\033[36m" },   { "cancelling", "\033[33m" },
        { "cancelled", "\033[2m" },  { "overdue", "\033[1;31m" },
        { "dead", "\033[31m" },      { "failing", "\033[31m" },
        { "disabled", "\033[31m" },  { "delivered", "\033[32m" },
        { "deleting", "\033[33m" },
    };
    for (size_t i = 0; i < array_len(colours); i++)
        if (strcmp(colours[i].word, state) == 0)
            return colours[i].colour;
    return NULL;
}

/* ---- tables ---- */

void table_init(struct table *table, const char *const *titles)
{
    *table = (struct table){ 0 };
    buf_init(&table->cells, TABLE_BYTES);
    for (; titles[table->columns]; table->columns++)
        table_text(table, titles[table->columns]);
    assert(table->columns > 0 && table->columns <= COLUMNS_MAX);
}

void table_text(struct table *table, const char *text)
{
    struct slice cell = slice_of(text && text[0] ? text : "-");
    bool cut = cell.n > CELL_BYTES;

    if (cut)
        cell.n = utf8_fit(cell, CELL_BYTES - 3);
    add_tame(&table->cells, cell);
    if (cut)
        buf_text(&table->cells, "...");
    buf_byte(&table->cells, '\0');
    table->count++;
}

void table_int(struct table *table, int64_t n)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)n);
    table_text(table, text);
}

void table_time(struct table *table, const char *time)
{
    char now[TIME_TEXT_BYTES], text[16];

    if (!time || strlen(time) < strlen("2026-08-01T12:34:56") || terminal_width() == 0) {
        table_text(table, time);
        return;
    }
    time_text(clock_wall_us(&clock_system), now);
    if (strncmp(time, now, strlen("2026-08-01")) == 0)
        snprintf(text, sizeof(text), "%.8s", time + strlen("2026-08-01T"));
    else if (strncmp(time, now, strlen("2026-")) == 0)
        snprintf(text, sizeof(text), "%.5s %.5s", time + strlen("2026-"),
                 time + strlen("2026-08-01T"));
    else
        snprintf(text, sizeof(text), "%.10s", time);
    table_text(table, text);
}

/* Characters, not bytes. */
static int width_of(const char *cell)
{
    int width = 0;
    for (; *cell; cell++)
        width += ((unsigned char)*cell & 0xc0) != 0x80;
    return width;
}

/* Takes from the widest until all fit, or nothing more can be taken. */
static void fit_columns(int *widths, size_t columns, int room)
{
    int total = 0;
    for (size_t i = 0; i < columns; i++)
        total += widths[i] + (i + 1 < columns ? 2 : 0);
    while (room > 0 && total > room) {
        size_t widest = 0;
        for (size_t i = 1; i < columns; i++)
            if (widths[i] >= widths[widest])
                widest = i;
        if (widths[widest] <= COLUMN_LEAST)
            return;
        widths[widest]--;
        total--;
    }
}

/* The bytes of the first `count` characters. */
static size_t bytes_of(const char *cell, int count)
{
    size_t n = 0;
    for (; cell[n] && count > 0; count--)
        do
            n++;
        while (((unsigned char)cell[n] & 0xc0) == 0x80);
    return n;
}

/* A cell in its column; one that is cut ends with a dot. */
static void print_cell(const char *cell, int width, bool last, const char *colour)
{
    int has = width_of(cell);
    bool cut = has > width;

    printf("%s%.*s%s%s", colour ? colour : "",
           (int)bytes_of(cell, cut ? width - 1 : width), cell, cut ? "." : "",
           colour ? "\033[0m" : "");
    if (!last)
        printf("%*s", width - (cut ? width : has) + 2, "");
}

static void print_rows(const struct table *table, const char *cell, const int *widths)
{
    bool colours = coloured();
    size_t state = COLUMNS_MAX;

    for (size_t i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        size_t column = i % table->columns;
        bool last = column + 1 == table->columns;
        if (i < table->columns && strcmp(cell, "STATE") == 0)
            state = column;
        const char *colour = !colours             ? NULL
                             : i < table->columns ? "\033[1m"
                             : column == state    ? colour_of(cell)
                                                  : NULL;
        print_cell(cell, widths[column], last, colour);
        if (last)
            printf("\n");
    }
}

int table_print(struct table *table)
{
    int widths[COLUMNS_MAX] = { 0 };
    struct slice all;

    int r = buf_end(&table->cells, &all);
    assert(r < 0 || table->count % table->columns == 0);
    const char *cell = all.p;
    for (size_t i = 0; r == 0 && i < table->count; i++, cell += strlen(cell) + 1) {
        int width = width_of(cell);
        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }
    if (r == 0) {
        fit_columns(widths, table->columns, terminal_width());
        print_rows(table, all.p, widths);
    }
    buf_release(&table->cells);
    return r;
}

int table_print_page(struct cli *cli, struct table *table, struct slice page,
                     const char *none)
{
    int r = 0;

    if (table->count > table->columns) {
        r = table_print(table);
    } else {
        buf_release(&table->cells);
        printf("%s\n", none);
    }
    if (r == 0 && member_raw(page, "nextCursor").p)
        printf("More with --cursor %s\n", member(cli, page, "nextCursor"));
    return r;
}

/* ---- lines ---- */

void print_field(const char *name, const char *value)
{
    struct buf buf;
    struct slice text;

    if (!value)
        return;
    buf_init(&buf, TABLE_BYTES);
    add_tame(&buf, slice_of(value));
    if (buf_end(&buf, &text) == 0)
        printf("%-18s %s\n", name, text.p);
    buf_release(&buf);
}

void print_line(const char *format, ...)
{
    struct buf wild, tame;
    struct slice text;
    va_list args;

    buf_init(&wild, TABLE_BYTES);
    buf_init(&tame, TABLE_BYTES);
    va_start(args, format);
    buf_vprintf(&wild, format, args);
    va_end(args);
    if (buf_end(&wild, &text) == 0)
        add_tame(&tame, text);
    if (buf_end(&tame, &text) == 0)
        printf("%s\n", text.p);
    buf_release(&wild);
    buf_release(&tame);
}

void print_number(const char *name, struct slice object, const char *member)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)member_int(object, member));
    print_field(name, member_raw(object, member).p ? text : NULL);
}

void print_json(struct slice json)
{
    fwrite(json.p, 1, json.n, stdout);
    putchar('\n');
}

int print_json_buf(struct buf *buf)
{
    struct slice text;
    int r = buf_end(buf, &text);
    if (r == 0)
        print_json(text);
    buf_release(buf);
    return r;
}

/* ---- progress ---- */

void progress_show(const char *what, int64_t done, int64_t total)
{
    char bar[BAR_WIDTH + 1];

    if (!isatty(STDERR_FILENO))
        return;
    int filled = total > 0 ? (int)(done * BAR_WIDTH / total) : 0;
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    if (total > 0)
        fprintf(stderr, "\r%s [%s] %lld of %lld\033[K", what, bar, (long long)done,
                (long long)total);
    else
        fprintf(stderr, "\r%s %lld\033[K", what, (long long)done);
}

void progress_end(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}
