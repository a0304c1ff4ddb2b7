/* SPDX-License-Identifier: Apache-2.0
 *
 * config_reload.c -- what a new configuration changes in the one that runs.
 *
 * An operator who sends SIGHUP wants to know what came of it: each difference is one
 * sentence, also where it has to wait for a restart. */
#include <stdio.h>

#include "daemon/config.h"

struct reload {
    struct config *running;
    const struct config *fresh;
    void (*tell)(void *arg, const char *name, bool effective, const char *sentence);
    void *arg;
    struct buf sentence;
};

enum { SENTENCE_BYTES = 64 << 10 };

static void tell(struct reload *r, const char *name, bool effective)
{
    struct slice text;

    r->tell(r->arg, name, effective,
            buf_end(&r->sentence, &text) == 0 ? text.p : "It has changed.");
    buf_reset(&r->sentence);
}

static void show(struct reload *r, const struct knob *knob, const void *object)
{
    size_t before = r->sentence.n;

    knob_show(knob, object, &r->sentence);
    if (r->sentence.n == before)
        buf_text(&r->sentence, "not set");
}

/* ---- settings ---- */

static void reload_setting(struct reload *r, size_t i)
{
    const struct knob *knob = config_setting(i);
    const void *fresh = config_object(r->fresh, i);
    void *running = (void *)config_object(r->running, i);
    bool effective = knob->is & KNOB_RELOAD, secret = knob->is & KNOB_SECRET;

    if (knob_equal(knob, running, fresh)) {
        r->running->sources[i] = r->fresh->sources[i]; /* its line may have moved */
        return;
    }
    buf_printf(&r->sentence, "%s ", knob->name);
    if (secret) {
        buf_text(&r->sentence, "has changed (");
    } else {
        buf_text(&r->sentence, effective ? "is now " : "is to be ");
        show(r, knob, fresh);
        buf_text(&r->sentence, " (");
    }
    config_show_source(r->fresh, i, &r->sentence);
    buf_text(&r->sentence, ")");
    if (!secret) {
        buf_text(&r->sentence, effective ? ", before " : ", is still ");
        show(r, knob, running);
    }
    buf_text(&r->sentence, effective ? "." : ", and needs a restart.");
    if (effective) {
        knob_copy(knob, fresh, running);
        r->running->sources[i] = r->fresh->sources[i];
    }
    tell(r, knob->name, effective);
}

/* ---- sections ---- */

static const void *find_item(const struct config *config, enum config_section kind,
                             const char *name)
{
    for (size_t i = 0; i < config_section_count(config, kind); i++)
        if (strcmp(config_section_item(config, kind, i), name) == 0)
            return config_section_item(config, kind, i);
    return NULL;
}

static void tell_item(struct reload *r, enum config_section kind, const char *item,
                      const char *before)
{
    const struct section_row *row = config_section_row(kind);
    char name[LIMIT_NAME_BYTES + 20];

    snprintf(name, sizeof(name), "[%s %s]", row->word, item);
    if (!before) {
        buf_printf(&r->sentence, "%s is new.", name);
        tell(r, name, true);
    }
    for (size_t i = 0; before && i < row->key_count; i++) {
        const struct knob *key = &row->keys[i];
        if (knob_equal(key, before, item))
            continue;
        buf_printf(&r->sentence, "%s %s is now ", name, key->name);
        show(r, key, item);
        buf_text(&r->sentence, ", before ");
        show(r, key, before);
        buf_text(&r->sentence, ".");
        tell(r, name, true);
    }
}

static void tell_sections(struct reload *r, enum config_section kind)
{
    const struct section_row *row = config_section_row(kind);
    char name[LIMIT_NAME_BYTES + 20];

    for (size_t i = 0; i < config_section_count(r->fresh, kind); i++) {
        const char *item = config_section_item(r->fresh, kind, i);
        tell_item(r, kind, item, find_item(r->running, kind, item));
    }
    for (size_t i = 0; i < config_section_count(r->running, kind); i++) {
        const char *item = config_section_item(r->running, kind, i);
        if (find_item(r->fresh, kind, item))
            continue;
        snprintf(name, sizeof(name), "[%s %s]", row->word, item);
        buf_printf(&r->sentence, "%s is gone; %s.", name,
                   kind == SECTION_QUEUE
                       ? "its settings stay as they are, and may be changed by the API"
                       : "jobs of this kind now wait for a remote worker");
        tell(r, name, true);
    }
}

#define SWAP(a, b)                                                                       \
    do {                                                                                 \
        __typeof__(a) swap = (a);                                                        \
        (a) = (b);                                                                       \
        (b) = swap;                                                                      \
    } while (0)

static void swap_sections(struct config *a, struct config *b)
{
    SWAP(a->queues, b->queues);
    SWAP(a->queue_count, b->queue_count);
    SWAP(a->queue_sources, b->queue_sources);
    SWAP(a->commands, b->commands);
    SWAP(a->command_count, b->command_count);
    SWAP(a->command_sources, b->command_sources);
}

void config_reload(struct config *running, struct config *fresh,
                   void (*on_change)(void *arg, const char *name, bool effective,
                                     const char *sentence),
                   void *arg)
{
    struct reload r = { running, fresh, on_change, arg, { 0 } };

    buf_init(&r.sentence, SENTENCE_BYTES);
    for (size_t i = 0; i < config_settings(); i++)
        reload_setting(&r, i);
    for (int kind = 0; kind < CONFIG_SECTION_KINDS; kind++)
        tell_sections(&r, (enum config_section)kind);
    swap_sections(running, fresh);
    memcpy(running->file, fresh->file, sizeof(running->file));
    buf_release(&r.sentence);
    config_free(fresh);
}
