/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c -- decides whether bytes are JSON.
 *
 * One function per rule of the grammar.  Each leaves `p` behind what it has
 * read, or returns false with the culprit at `p` and the reason in `why`.
 * Values nest, so the functions do: the depth is bounded by the caller. */
#include "json.h"

#include "json_string.h"
#include "limits.h"

struct checker {
    const char *p, *end;
    const char *why;
    int depth, depth_max;
};

static bool check_value(struct checker *c);

static bool refuse(struct checker *c, const char *why)
{
    assert(c->p <= c->end);
    c->why = c->p == c->end ? "the text ends too early" : why;
    return false;
}

static void skip_space(struct checker *c)
{
    while (c->p < c->end &&
           (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
        c->p++;
}

static bool is_next(const struct checker *c, char wanted)
{
    assert(c->p <= c->end);
    return c->p < c->end && *c->p == wanted;
}

static bool check_word(struct checker *c, const char *word)
{
    for (; *word; word++, c->p++)
        if (!is_next(c, *word))
            return refuse(c, "a value must begin here, and true, false and null are the "
                             "only words");
    return true;
}

static bool check_string(struct checker *c)
{
    const char *at = NULL, *end = json_string_scan(c->p, c->end, &at, &c->why);

    if (!end)
        c->p = at;
    else
        c->p = end;
    return end != NULL;
}

/* One or more digits. */
static bool check_digits(struct checker *c)
{
    const char *start = c->p;

    while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
        c->p++;
    return c->p > start || refuse(c, "a digit must stand here");
}

static bool check_number(struct checker *c)
{
    if (is_next(c, '-'))
        c->p++;
    if (is_next(c, '0')) {
        c->p++;
        if (c->p < c->end && *c->p >= '0' && *c->p <= '9')
            return refuse(c, "a number has no leading zeros");
    } else if (!check_digits(c)) {
        return false;
    }
    if (is_next(c, '.')) {
        c->p++;
        if (!check_digits(c))
            return false;
    }
    if (is_next(c, 'e') || is_next(c, 'E')) {
        c->p++;
        if (is_next(c, '+') || is_next(c, '-'))
            c->p++;
        return check_digits(c);
    }
    return true;
}

/* One `key: value` of an object. */
static bool check_member(struct checker *c)
{
    if (!is_next(c, '"'))
        return refuse(c, "a key in double quotes must stand here");
    if (!check_string(c))
        return false;
    skip_space(c);
    if (!is_next(c, ':'))
        return refuse(c, "a colon must follow a key");
    c->p++;
    return check_value(c);
}

/* The bracket is at `p`; `close` is its partner. */
static bool check_container(struct checker *c, char close)
{
    assert(is_next(c, close == '}' ? '{' : '['));
    if (c->depth == c->depth_max)
        return refuse(c, "it is nested too deep");
    c->depth++;
    c->p++;
    skip_space(c);
    if (!is_next(c, close)) {
        for (;;) {
            if (!(close == '}' ? check_member(c) : check_value(c)))
                return false;
            skip_space(c);
            if (!is_next(c, ','))
                break;
            c->p++;
            skip_space(c);
        }
        if (!is_next(c, close))
            return refuse(c, close == '}'
                                 ? "a comma or a closing brace must stand here"
                                 : "a comma or a closing bracket must stand here");
    }
    c->p++;
    c->depth--;
    return true;
}

static bool check_value(struct checker *c)
{
    skip_space(c);
    if (c->p == c->end)
        return refuse(c, "");
    switch (*c->p) {
    case '{':
        return check_container(c, '}');
    case '[':
        return check_container(c, ']');
    case '"':
        return check_string(c);
    case 't':
        return check_word(c, "true");
    case 'f':
        return check_word(c, "false");
    case '-':
    case '0' ... '9':
        return check_number(c);
    default:
        return check_word(c, "null");
    }
}

int json_check(struct slice text, int depth_max, struct error *error)
{
    struct checker c = { .depth_max = depth_max };

    assert(text.p || text.n == 0);
    assert(depth_max >= 1 && depth_max <= LIMIT_DOCUMENT_DEPTH);
    c.p = text.p ? text.p : "";
    c.end = c.p + text.n;
    const char *start = c.p;
    bool good = check_value(&c);
    if (good) {
        skip_space(&c);
        good = c.p == c.end || refuse(&c, "one value is enough");
    }
    assert(c.p >= start && c.p <= c.end);
    if (good)
        return 0;
    return error_set(error, -HF_INVALID, NULL, "not valid JSON at byte %zu: %s",
                     (size_t)(c.p - start), c.why);
}
