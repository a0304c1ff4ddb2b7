/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a server can listen: IPv4, IPv6, Unix sockets, TLS. */
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include "http_world.h"

#define H "Host: a\r\n"
#define HELLO "GET /hello HTTP/1.1\r\n" H "\r\n"

static const char *unix_address(const char *path)
{
    static char text[600];
    snprintf(text, sizeof(text), "unix:%s", path);
    return text;
}

TEST(a_server_listens_on_ipv6)
{
    cleanup(world_end) struct world world = { 0 };
    world_start(&world, "[::1]:0", (struct http_limits){ 0 });

    check(strncmp(http_server_address(world.server, 0), "[::1]:", 6) == 0);
    check_alive(&world);
}

TEST(a_unix_socket_is_served_and_its_file_goes_with_the_server)
{
    struct world world = { 0 };
    cleanup(answer_release) struct answer answer = { 0 };
    const char *path = test_path("api.sock");
    struct stat info;

    world_start(&world, unix_address(path), (struct http_limits){ 0 });
    check_ok(lstat(path, &info));
    check(S_ISSOCK(info.st_mode));
    check_int(info.st_mode & 0777, 0600);
    cleanup(client_close) int fd = client_connect(&world);
    client_send(fd, "GET /peer HTTP/1.1\r\n" H "\r\n");
    client_read_answer(fd, false, &answer);
    check_str(answer.body.p, "unix");
    world_end(&world);
    check_int(lstat(path, &info), -1);
}

/* Tries to listen where it must fail, and returns what is said. */
static const char *listen_error(const char *address, struct tls *tls, int code)
{
    static struct error error;
    struct event_base *base = event_base_new();
    struct http_server *server = NULL;
    struct http_config config = {
        .base = base,
        .clock = &clock_system,
        .program = { .on_request = world_on_request },
    };

    error = (struct error){ 0 };
    check(base);
    check_ok(http_server_new(&config, &server));
    check_err(http_server_listen(server, address, tls, 0, &error), code);
    check_str(http_server_address(server, 0), NULL);
    http_server_free(server);
    event_base_free(base);
    return error.text;
}

TEST(an_address_where_someone_listens_is_refused)
{
    cleanup(world_end) struct world tcp = { 0 };
    cleanup(world_end) struct world local = { 0 };
    world_start_tcp(&tcp, (struct http_limits){ 0 });
    world_start(&local, unix_address(test_path("api.sock")), (struct http_limits){ 0 });

    check(strstr(listen_error(http_server_address(tcp.server, 0), NULL, -HF_LOCKED),
                 "another program does"));
    check(strstr(listen_error(http_server_address(local.server, 0), NULL, -HF_LOCKED),
                 "another program does"));
    check_alive(&tcp);
    check_alive(&local);
}

TEST(a_socket_file_that_a_crash_left_is_replaced)
{
    cleanup(world_end) struct world world = { 0 };
    const char *path = test_path("api.sock");
    struct address address;
    struct error error = { 0 };

    check_ok(address_parse(unix_address(path), &error, &address));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    check_ok(bind(fd, (struct sockaddr *)&address.sock, address.sock_bytes));
    check_ok(listen(fd, 1));
    close(fd); /* the file stays */
    world_start(&world, unix_address(path), (struct http_limits){ 0 });
    check_alive(&world);
}

TEST(a_file_that_is_no_socket_is_left_alone)
{
    const char *path = test_path("precious");
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    check(fd >= 0);
    close(fd);
    check(strstr(listen_error(unix_address(path), NULL, -HF_INVALID), "no socket"));
    check_ok(access(path, F_OK));
}

TEST(what_cannot_be_listened_on_is_said_in_a_sentence)
{
    check(strstr(listen_error("192.0.2.1:7420", NULL, -HF_INVALID),
                 "cannot listen on 192.0.2.1:7420: it is no address of this machine"));
    check(strstr(listen_error("unix:/no/such/folder/a.sock", NULL, -HF_INVALID),
                 "its folder does not exist"));
    check(strstr(listen_error("nonsense", NULL, -HF_INVALID), "has no port"));
}

/* ---- TLS ---- */

static void write_pem(const char *path, EVP_PKEY *key, X509 *certificate)
{
    FILE *file = fopen(path, "we");

    check(file);
    if (certificate)
        check_int(PEM_write_X509(file, certificate), 1);
    else
        check_int(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    check_ok(fclose(file));
}

/* A new key, and a certificate for it that it has signed itself. */
static void make_certificate(const char *certificate_path, const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();

    check(key && certificate);
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_set_pubkey(certificate, key);
    check(X509_sign(certificate, key, EVP_sha256()) > 0);
    write_pem(certificate_path, NULL, certificate);
    write_pem(key_path, key, NULL);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static void start_tls(struct world *world, struct http_limits limits)
{
    const char *certificate = test_path("certificate.pem"), *key = test_path("key.pem");
    struct error error = { 0 };

    make_certificate(certificate, key);
    if (tls_new(certificate, key, &error, &world->tls) < 0)
        fail("%s", error.text);
    world_start_tcp(world, limits);
}

struct tls_client {
    int fd;
    SSL_CTX *context;
    SSL *ssl;
};

static void tls_client_release(struct tls_client *client)
{
    SSL_free(client->ssl);
    SSL_CTX_free(client->context);
    client_close(&client->fd);
}

static void tls_client_connect(struct tls_client *client, struct world *world)
{
    client->fd = client_connect(world);
    client->context = SSL_CTX_new(TLS_client_method());
    check(client->context);
    check_int(SSL_CTX_load_verify_file(client->context, test_path("certificate.pem")), 1);
    SSL_CTX_set_verify(client->context, SSL_VERIFY_PEER, NULL);
    client->ssl = SSL_new(client->context);
    check_int(SSL_set_fd(client->ssl, client->fd), 1);
    check_int(
        SSL_set_alpn_protos(client->ssl, (const unsigned char *)"\x02h2\x08http/1.1", 12),
        0);
    check_int(SSL_connect(client->ssl), 1);
}

static void tls_client_send(struct tls_client *client, const char *text)
{
    check_int(SSL_write(client->ssl, text, (int)strlen(text)), strlen(text));
}

/* Reads until what has come ends with `end`. */
static void tls_client_expect(struct tls_client *client, const char *end)
{
    static char text[4096];
    size_t n = 0, length = strlen(end);

    while (n < length || memcmp(text + n - length, end, length) != 0) {
        check(n < sizeof(text));
        check_int(SSL_read(client->ssl, text + n, 1), 1);
        n++;
    }
}

TEST(requests_are_served_over_tls)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(tls_client_release) struct tls_client client = { .fd = -1 };
    const unsigned char *protocol;
    unsigned length;
    start_tls(&world, (struct http_limits){ 0 });

    tls_client_connect(&client, &world);
    SSL_get0_alpn_selected(client.ssl, &protocol, &length);
    check(
        slice_equal((struct slice){ (const char *)protocol, length }, SLICE("http/1.1")));
    tls_client_send(&client, HELLO HELLO);
    tls_client_expect(&client, "\r\n\r\nhello");
    tls_client_expect(&client, "\r\n\r\nhello");
    tls_client_send(&client, "POST /echo HTTP/1.1\r\n" H
                             "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    tls_client_expect(&client, "\r\n\r\nabc");
}

TEST(a_large_answer_goes_through_tls_whole)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(tls_client_release) struct tls_client client = { .fd = -1 };
    start_tls(&world, (struct http_limits){ 0 });
    size_t left = BIG_BYTES;

    tls_client_connect(&client, &world);
    tls_client_send(&client, "GET /big HTTP/1.1\r\n" H "\r\n");
    tls_client_expect(&client, "\r\n\r\n");
    while (left > 0) {
        static char bytes[65536];
        int n = SSL_read(client.ssl, bytes,
                         (int)(left < sizeof(bytes) ? left : sizeof(bytes)));
        check(n > 0);
        left -= (size_t)n;
    }
    tls_client_send(&client, HELLO);
    tls_client_expect(&client, "\r\n\r\nhello");
}

TEST(a_hang_up_is_noticed_over_tls)
{
    cleanup(world_end) struct world world = { 0 };
    start_tls(&world, (struct http_limits){ 0 });

    for (int polite = 0; polite < 2; polite++) {
        struct tls_client client = { .fd = -1 };
        tls_client_connect(&client, &world);
        tls_client_send(&client, "GET /later HTTP/1.1\r\n" H "\r\n");
        world_wait(&world.handled, polite + 1);
        if (polite)
            SSL_shutdown(client.ssl); /* and the socket stays open for now */
        else
            client_close(&client.fd);
        world_wait(&world.gone, polite + 1);
        tls_client_release(&client);
    }
}

static void write_many(struct world *world, void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        if (http_stream_write(world->held[0], SLICE("is anybody there?")) < 0)
            break;
}

TEST(writing_over_tls_to_a_client_that_has_left_raises_no_signal)
{
    cleanup(world_end) struct world world = { 0 };
    struct tls_client client = { .fd = -1 };
    start_tls(&world, (struct http_limits){ 0 });

    tls_client_connect(&client, &world);
    tls_client_send(&client, "GET /stream HTTP/1.1\r\n" H "\r\n");
    tls_client_expect(&client, "\r\n\r\n");
    SSL_shutdown(client.ssl);
    world_wait(&world.gone, 1);
    tls_client_release(&client);
    for (int i = 0; i < 3; i++)
        world_call(&world, write_many, NULL);
    check_int(world_stats(&world).requests_total, 1);
}

TEST(what_is_no_tls_on_a_tls_port_is_closed)
{
    cleanup(world_end) struct world world = { 0 };
    cleanup(buf_release) struct buf all;
    start_tls(&world, (struct http_limits){ .head_timeout_us = US_PER_S });
    cleanup(client_close) int plain = client_connect(&world);
    cleanup(client_close) int silent = client_connect(&world);

    buf_init(&all, 1 << 20);
    client_send(plain, HELLO);
    client_read_all(plain, &all);
    check(!all.p || !strstr(all.p, "hello"));
    client_read_all(silent, &all); /* a handshake has the deadline of a head */
    struct tls_client client = { .fd = -1 };
    tls_client_connect(&client, &world);
    tls_client_send(&client, HELLO);
    tls_client_expect(&client, "\r\n\r\nhello");
    tls_client_release(&client);
}

TEST(files_that_are_no_certificate_are_refused_by_name)
{
    const char *certificate = test_path("certificate.pem"), *key = test_path("key.pem");
    const char *other = test_path("other.pem"), *other_key = test_path("other-key.pem");
    const char *missing = test_path("missing.pem");
    const struct {
        const char *certificate, *key, *blamed, *why;
    } rows[] = {
        { missing, key, missing, "No such file" },
        { key, key, key, "cannot be used" },
        { certificate, missing, missing, "No such file" },
        { certificate, certificate, certificate, "cannot be used" },
        { certificate, other_key, other_key, "mismatch" },
    };
    make_certificate(certificate, key);
    make_certificate(other, other_key);

    for (size_t i = 0; i < array_len(rows); i++) {
        struct tls *tls = NULL;
        struct error error = { 0 };
        check_err(tls_new(rows[i].certificate, rows[i].key, &error, &tls), -HF_INVALID);
        if (!strstr(error.text, rows[i].blamed) || !strstr(error.text, rows[i].why))
            fail("row %zu: %s", i, error.text);
        check(!tls);
    }
}
