/* SPDX-License-Identifier: Apache-2.0
 *
 * What a configuration file may say, and what it is told when it says something
 * else: each wrong line with its place and with what would be right. */
#include <sys/stat.h>
#include <unistd.h>

#include "configs.h"
#include "daemon/config_line.h"

/* ---- good lines ---- */

TEST(comments_blanks_and_line_ends_do_not_count)
{
    struct config *config = load_text("\xEF\xBB\xBF; a comment\r\n"
                                      "   # another\n"
                                      "\t \r\n"
                                      "  slots\t=  7 ;8\r\n"
                                      "node=a # last line");
    check_int(config->engine.slots, 7);
    check_str(config->server.node, "a");
    config_free(config);
}

/* What a value becomes, plain and in words. */
static void check_value(const char *in, bool words, const char *out)
{
    struct error error = { 0 };
    struct slice got;
    struct buf buf;

    buf_init(&buf, 1000);
    if (config_value_read(slice_of(in), words, &buf, &error, &got) < 0)
        fail("%s", error.text);
    check_slice(got, out);
    buf_release(&buf);
}

TEST(values_end_at_a_comment_or_a_quote)
{
    check_value("plain", false, "plain");
    check_value("two words", false, "two words");
    check_value("value ; comment", false, "value");
    check_value("value\t# comment", false, "value");
    check_value("; comment", false, "");
    check_value("a;b#c", false, "a;b#c");
    check_value("\"quoted ; value\"", false, "quoted ; value");
    check_value("\" blanks \" ; comment", false, " blanks ");
    check_value("\"a \\\" b \\\\ c \\n\"", false, "a \" b \\ c \\n");
    check_value("\"\"", false, "");
    check_value("it's", false, "it's");
    check_value("say \"hello\"", false, "say \"hello\"");
}

TEST(words_keep_their_quotes_and_what_is_in_them)
{
    check_value("/bin/crawl --json ; comment", true, "/bin/crawl --json");
    check_value("sh -c \"a ; b # c\" # d", true, "sh -c \"a ; b # c\"");
    check_value("sh -c 'a ; b' ; d", true, "sh -c 'a ; b'");
    check_value("'it\\' ; d", true, "'it\\'");
    check_value("a \\; b", true, "a \\; b");
    check_value("\"/with blank/x\" y", true, "\"/with blank/x\" y");
    check_value("\"open ; end", true, "\"open ; end");
}

TEST(a_file_sets_settings_queues_and_commands)
{
    struct config *config = load_text("listen = 127.0.0.1:7420\n"
                                      "db = \"my jobs.db\"\n"
                                      "startup_stagger_seconds = 0.5 ; half\n"
                                      "\n"
                                      "[queue crawl]\n"
                                      "slots = 6\n"
                                      "stale_after_ms = 1800000\n"
                                      "\n"
                                      "[command crawl]            ; jobs of kind crawl\n"
                                      "argv = /usr/local/bin/crawl --json\n"
                                      "queue = crawl              ; default queue\n"
                                      "max_execution_time_ms = 1800000\n"
                                      "umask = 027\n"
                                      "environment = LANG=C 'A=b c'\n"
                                      "[queue other]\n"
                                      "concurrency = 0\n"
                                      "on_crash = fail\n");

    check_str(config->server.db, "my jobs.db");
    check_str(config->server.state_dir, "my jobs.db.d");
    check_int(config->engine.startup_stagger_us, 500000);
    check_int(config->queue_count, 2);
    check_str(config->queues[0].name, "crawl");
    check_int(config->queues[0].slots, 6);
    check_int(config->queues[0].stale_after_us, 1800 * US_PER_S);
    check_int(config->queues[0].concurrency, KNOB_UNSET);
    check_int(config->queues[0].on_crash, KNOB_UNSET);
    check_str(config->queues[0].retry_delays, "");
    check_int(config->queue_sources[0].line, 5);
    check_int(config->queue_sources[0].key_lines[0], 6);
    check_int(config->queues[1].concurrency, 0);
    check_int(config->queues[1].on_crash, ON_CRASH_FAIL);
    check_int(config->command_count, 1);
    check_str(config->commands[0].name, "crawl");
    check_str(config->commands[0].argv, "/usr/local/bin/crawl --json");
    check_str(config->commands[0].environment, "LANG=C 'A=b c'");
    check_str(config->commands[0].queue, "crawl");
    check_int(config->commands[0].umask, 027);
    check_int(config->commands[0].term_grace_us, 10 * US_PER_S);
    check_int(config->commands[0].limit_core_bytes, KNOB_UNSET);
    config_free(config);
}

TEST(every_key_of_a_section_is_taken_in_its_widest_value)
{
    for (int kind = 0; kind < CONFIG_SECTION_KINDS; kind++) {
        const struct section_row *row = config_section_row((enum config_section)kind);
        struct buf text;
        buf_init(&text, 1 << 16);
        buf_printf(&text, "[%s x]\n", row->word);
        for (size_t i = 0; i < row->key_count; i++) {
            const struct knob *key = &row->keys[i];
            if (key->type == KNOB_TEXT)
                buf_printf(&text, "%s = %s\n", key->name,
                           strcmp(key->name, "environment") == 0 ? "A=1" : "1");
            else if (key->type == KNOB_WORD)
                buf_printf(&text, "%s = %s\n", key->name, key->words[key->most]);
            else
                buf_printf(&text, key->type == KNOB_OCTAL ? "%s = %llo\n" : "%s = %lld\n",
                           key->name, (long long)(key->most / key->unit));
        }
        char *lines = text_of(&text);
        struct config *config = load_text(lines);
        const void *item = config_section_item(config, (enum config_section)kind, 0);
        const struct section_source *source =
            config_section_source(config, (enum config_section)kind, 0);
        for (size_t i = 0; i < row->key_count; i++) {
            check(!knob_unset(&row->keys[i], item));
            check_int(source->key_lines[i], i + 2);
            check(row->keys[i].help && row->keys[i].help[0]);
        }
        config_free(config);
        free(lines);
    }
}

/* ---- bad lines ---- */

struct bad {
    const char *text, *problem;
};

static const struct bad bad_files[] = {
    /* lines */
    { "listen\n", ":1: \"listen\" is neither NAME = VALUE nor a [section] nor a comment, "
                  "which begins with ; or #." },
    { "\n= 5\n",
      ":2: \"= 5\" is neither NAME = VALUE nor a [section] nor a comment, which "
      "begins with ; or #." },
    { "node = \xff\n", ":1: the line holds bytes that are no UTF-8 text." },
    { "node = \"x\n", ":1: node: the value has no \" at its end." },
    { "node = \"x\\\"\n", ":1: node: the value has no \" at its end." },
    { "node = \"x\" y\n",
      ":1: node: \"y\" stands behind the value's closing quote; write "
      "\\\" for a quote within it." },
    /* names */
    { "lisen = x\n", ":1: there is no setting lisen; did you mean listen?" },
    { "frobnicate = x\n", ":1: there is no setting frobnicate." },
    { "argv = x\n", ":1: argv belongs into a section [command KIND]; before the first "
                    "section stand settings of the whole server." },
    { "[queue a]\nlisten = x\n", ":2: listen is a setting of the whole server; it must "
                                 "stand before the first section." },
    { "[queue a]\nslot = 1\n", ":2: a [queue] has no key slot; did you mean slots?" },
    { "[queue a]\nfrobnicate = 1\n", ":2: a [queue] has no key frobnicate." },
    { "slots = 1\nslots = 1\n",
      ":2: slots stands already in line 1; one of them must go." },
    { "[queue a]\nslots = 1\n\nslots = 2\n",
      ":4: slots stands already in line 2; one of them must go." },
    /* values */
    { "slots = many\n",
      ":1: slots is \"many\"; it must be a whole number between 0 and 10000." },
    { "slots =\n", ":1: slots is \"\"; it must be a whole number between 0 and 10000." },
    { "\nlease_ms = 5\n", ":2: lease_ms is 5; it must be between 1000 and 600000." },
    { "insecure = perhaps\n", ":1: insecure is \"perhaps\"; it must be true or false." },
    { "log_format = xml\n", ":1: log_format is \"xml\"; it must be logfmt or json." },
    { "listen = 7420\n", ":1: listen: the address \"7420\" has no port; it should be "
                         "HOST:PORT, [IPV6]:PORT or unix:PATH." },
    { "worker_listen = of\n", ":1: worker_listen: the address \"of\" has no port; it "
                              "should be HOST:PORT, [IPV6]:PORT or unix:PATH." },
    { "db =\n", ":1: db is empty; give it a value, or leave it out for its default." },
    { "node = a b\n", ":1: node is \"a b\"; it must be 1 to 100 letters, digits, dots, "
                      "dashes and underscores." },
    { "admin_token = hush\n",
      ":1: admin_token is not fit for a token; it must be 16 to 255 "
      "visible ASCII characters without blanks." },
    { "socket_mode = rw\n",
      ":1: socket_mode is \"rw\"; it must be an octal number between 0000 and 0777." },
    { "allowed_hosts = http://x\n", ":1: allowed_hosts is \"http://x\"; it must be hosts "
                                    "as a browser sends them, with commas between, such "
                                    "as jobs.example.com." },
    { "retry_delays_seconds = soon\n",
      ":1: retry_delays_seconds is \"soon\"; it must be 1 to 20 whole numbers of seconds "
      "from 0 to 2592000, such as 60,300,900; or exp:BASE:CAP:JITTER, such as "
      "exp:10:3600:20." },
    { "[queue a]\non_crash = ignore\n",
      ":2: on_crash is \"ignore\"; it must be retry or fail." },
    { "[command a]\nargv = a\nenvironment = A=1 B\n",
      ":3: environment has the word \"B\"; each must be NAME=VALUE." },
    { "[command a]\nargv = a\nenvironment = =1\n",
      ":3: environment has the word \"=1\"; each must be NAME=VALUE." },
    /* sections */
    { "[queue a\n", ":1: the section \"[queue a\" has no ] at its end." },
    { "[queue a] slots = 1\n", ":1: \"slots = 1\" stands behind the section; its keys go "
                               "on lines of their own below it." },
    { "[que a]\nslots = 1\n", ":1: there is no section [que]; did you mean [queue]?" },
    { "[Command a]\n", ":1: there is no section [Command]; did you mean [command]?" },
    { "[database]\n", ":1: there is no section [database]; sections are [queue NAME] and "
                      "[command KIND]." },
    { "[]\n",
      ":1: there is no section []; sections are [queue NAME] and [command KIND]." },
    { "[queue]\nslots = 1\n", ":1: [queue ] needs a name behind queue: 1 to 100 letters, "
                              "digits, dots, dashes and underscores." },
    { "[queue a b]\n", ":1: [queue a b] needs a name behind queue: 1 to 100 letters, "
                       "digits, dots, dashes and underscores." },
    { "[queue a]\n[command a]\nargv=x\n[queue a]\nslots = 1\n",
      ":4: [queue a] stands already in line 1; one of them must go." },
    { "[command http]\nargv = curl\n",
      ":1: [command http] cannot be: jobs of kind http are requests, which the server "
      "makes itself; choose another kind." },
    { "\n[command a]\nqueue = b\n", ":2: [command a] has no argv; it must say which "
                                    "program to run, such as argv = /usr/local/bin/a." },
    /* more than one value */
    { "tls_key = /k\n", "tls_key is set, but tls_certificate is not; TLS needs both." },
    { "tls_certificate = /c\n",
      "tls_certificate is set, but tls_key is not; TLS needs both." },
    { "admin_token = 0123456789abcdef\nadmin_token_file = /t\n",
      "admin_token and admin_token_file are both set; one of them must go." },
};

TEST(every_wrong_line_is_told_with_its_place_and_what_would_be_right)
{
    for (size_t i = 0; i < array_len(bad_files); i++)
        check_problem(&(struct given){ .file = bad_files[i].text }, bad_files[i].problem);
}

TEST(a_network_that_is_none_and_words_that_do_not_end_are_refused)
{
    static const char *const texts[] = { "deny_networks = 10.0.0.0/33\n",
                                         "[command a]\nargv = a \"b\n",
                                         "[command a]\nargv = \"\"\n",
                                         "[command a]\nargv =\n" };
    static const char *const fields[] = { "deny_networks", "argv", "argv", "argv" };

    for (size_t i = 0; i < array_len(texts); i++) {
        struct config_problems *problems = problems_new();
        struct config *config = NULL;
        check_err(load(&(struct given){ .file = texts[i] }, problems, &config),
                  -HF_INVALID);
        check_int(problems->count, 1);
        check_str(problems->items[0].field, fields[i]);
        check(strstr(problems->items[0].text, fields[i]) != NULL);
        free(problems);
    }
}

TEST(all_problems_are_told_in_one_go)
{
    struct config_problems *problems = problems_new();
    struct config *config = NULL;

    check_err(load(&(struct given){ .file = "lisen = x\n"
                                            "slots = -1\n"
                                            "[que a]\n"
                                            "anything = 1\n" /* told with its section */
                                            "[queue b]\n"
                                            "slots = many\n" },
                   problems, &config),
              -HF_INVALID);
    check_int(problems->count, 4);
    free(problems);
}

TEST(beyond_twenty_problems_are_only_counted)
{
    struct config_problems *problems = problems_new();
    struct config *config = NULL;
    char text[2000] = "";

    for (int i = 0; i < 50; i++)
        strcat(text, "frobnicate = 1\n");
    check_err(load(&(struct given){ .file = text }, problems, &config), -HF_INVALID);
    check_int(problems->count, 50);
    check(problems->items[CONFIG_PROBLEMS - 1].code < 0);
    free(problems);
}

TEST(a_line_that_is_too_long_is_refused_and_the_next_is_read)
{
    size_t n = LIMIT_CONFIG_LINE_BYTES + 1;
    char *text = calloc(1, n + 20), sentence[100];

    check(text);
    memset(text, ';', n);
    strcpy(text + n, "\nslots = 1\n");
    snprintf(sentence, sizeof(sentence),
             ":1: the line has %zu bytes; it may have up to %d.", n,
             LIMIT_CONFIG_LINE_BYTES);
    check_problem(&(struct given){ .file = text }, sentence);
    text[0] = '\n';
    struct config *config = load_text(text);
    check_int(config->engine.slots, 1);
    config_free(config);
    free(text);
}

TEST(there_are_at_most_a_thousand_sections_of_a_kind)
{
    struct buf buf;

    buf_init(&buf, 1 << 20);
    for (int i = 0; i < CONFIG_SECTIONS; i++)
        buf_printf(&buf, "[queue q%d]\n", i);
    char *text = text_of(&buf);
    struct config *config = load_text(text);
    check_int(config->queue_count, CONFIG_SECTIONS);
    check_str(config->queues[999].name, "q999");
    config_free(config);
    free(text);
    for (int i = 0; i <= CONFIG_SECTIONS; i++)
        buf_printf(&buf, "[queue q%d]\n", i);
    text = text_of(&buf);
    check_problem(&(struct given){ .file = text },
                  ":1001: there are over 1000 [queue] sections.");
    free(text);
}

/* ---- the file itself ---- */

static void check_unreadable(const char *path, int code, const char *reason)
{
    struct config_problems *problems = problems_new();
    struct config *config = NULL;
    char sentence[500];

    check_err(config_load(&(struct config_input){ .file = path }, problems, &config),
              code);
    snprintf(sentence, sizeof(sentence),
             "The configuration file %s (--config) cannot be read: %s.", path, reason);
    check_str(problems->items[0].text, sentence);
    check_int(problems->count, 1);
    free(problems);
}

TEST(a_file_that_cannot_be_read_is_named)
{
    const char *loop = test_path("loop");

    check_unreadable(test_path("none.conf"), -HF_NOT_FOUND, "No such file or directory");
    check_unreadable(test_dir(), -HF_INVALID, "Is a directory");
    check(symlink(loop, loop) == 0);
    check_unreadable(loop, -HF_INVALID, "Too many levels of symbolic links");
}

TEST(a_file_that_is_too_large_is_refused)
{
    struct config_problems *problems = problems_new();
    struct config *config = NULL;
    const char *path = test_path("large.conf");

    write_file(path, "");
    check(truncate(path, LIMIT_CONFIG_FILE_BYTES + 1) == 0);
    check_err(config_load(&(struct config_input){ .file = path }, problems, &config),
              -HF_INVALID);
    check(strstr(problems->items[0].text, "has over 1048576 bytes") != NULL);
    free(problems);
}

TEST(an_empty_file_is_fine)
{
    config_free(load_text(""));
    config_free(load_text("\n"));
    config_free(load_text("; only this, and no line end"));
}
