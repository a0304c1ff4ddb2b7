/* SPDX-License-Identifier: Apache-2.0
 *
 * What is an address to listen on, and what is said of what is not. */
#include "net/address.h"

#include "test.h"

TEST(an_address_is_shown_as_it_is_written)
{
    static const struct {
        const char *text, *shown;
        bool local;
    } rows[] = {
        { "127.0.0.1:7420", "127.0.0.1:7420", true },
        { "127.9.9.9:1", "127.9.9.9:1", true },
        { "[::1]:0", "[::1]:0", true },
        { "[::ffff:127.0.0.1]:80", "127.0.0.1:80", true },
        { "localhost:65535", "127.0.0.1:65535", true },
        { "0.0.0.0:7420", "0.0.0.0:7420", false },
        { "[::]:7420", "[::]:7420", false },
        { "192.0.2.1:80", "192.0.2.1:80", false },
        { "unix:/run/a.sock", "unix:/run/a.sock", true },
        { "unix:a:b", "unix:a:b", true },
    };

    for (size_t i = 0; i < array_len(rows); i++) {
        struct address address;
        struct error error = { 0 };
        char text[ADDRESS_TEXT_BYTES];
        check_ok(address_parse(rows[i].text, &error, &address));
        check_str(address_text(&address, text), rows[i].shown);
        check_int(address_is_local(&address), rows[i].local);
        check_int(address_is_unix(&address), strncmp(rows[i].text, "unix:", 5) == 0);
    }
}

TEST(what_is_no_address_is_said_in_a_sentence_that_quotes_it)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        { "", "has no port" },
        { "7420", "has no port" },
        { "localhost", "has no port" },
        { "127.0.0.1:", "not a number from 0 to 65535" },
        { "127.0.0.1:65536", "not a number from 0 to 65535" },
        { "127.0.0.1:+80", "not a number from 0 to 65535" },
        { "127.0.0.1:80 ", "not a number from 0 to 65535" },
        { "127.0.0.1:http", "not a number from 0 to 65535" },
        { ":7420", "has no host" },
        { "[]:7420", "has no host" },
        { "::1:7420", "it should be HOST:PORT, [IPV6]:PORT or unix:PATH" },
        { "no.such.host.invalid:80", "is not known" },
        { "unix:", "has no path" },
    };

    for (size_t i = 0; i < array_len(rows); i++) {
        struct address address;
        struct error error = { 0 };
        check_err(address_parse(rows[i].text, &error, &address), -HF_INVALID);
        if (!strstr(error.text, rows[i].part) || !strstr(error.text, rows[i].text))
            fail("of \"%s\" it says: %s", rows[i].text, error.text);
    }
}

TEST(a_path_too_long_for_a_socket_is_refused)
{
    char text[200] = "unix:";
    struct address address;
    struct error error = { 0 };

    memset(text + 5, 'a', 107);
    check_ok(address_parse(text, &error, &address));
    text[5 + 107] = 'a';
    check_err(address_parse(text, &error, &address), -HF_INVALID);
    check(strstr(error.text, "at most 107"));
}
