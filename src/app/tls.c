#include "app/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)64 << 10)

struct tls {
    SSL *ssl;
    BIO *in, *out; /* the SSL's own */
};

static int broke(SSL *ssl, const char *what, struct error *err)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    long verified = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
    ERR_clear_error();
    if (verified != X509_V_OK)
        return error_set(err, ERROR_DENIED, "TLS: the server's certificate is refused: %s",
                         X509_verify_cert_error_string(verified));
    return error_set(err, ERROR_GONE, "TLS: %s%s%s", what, reason ? ": " : "", reason ? reason : "");
}

SSL_CTX *tls_context_new(struct error *err)
{
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    if (!c || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_default_verify_paths(c) != 1) {
        SSL_CTX_free(c);
        broke(NULL, "the library cannot be set up", err);
        return NULL;
    }
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF); /* nothing of one Worker is used for another */
    SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
    return c;
}

void tls_context_free(SSL_CTX *c)
{
    SSL_CTX_free(c);
}

/* Whom the certificate must name. */
static int expect(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *p = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(p, host) == 1)
        return 0;
    X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(p, host, 0) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1 ? 0 : -1;
}

static int offer(SSL *ssl, const char *protocol)
{
    uint8_t list[64];
    size_t len = protocol ? strlen(protocol) : 0;
    if (len == 0)
        return 0;
    if (len > sizeof list - 1)
        return -1;
    list[0] = (uint8_t)len;
    memcpy(list + 1, protocol, len);
    return SSL_set_alpn_protos(ssl, list, (unsigned)len + 1) == 0 ? 0 : -1;
}

struct tls *tls_new(SSL_CTX *c, const char *host, const char *protocol, struct error *err)
{
    struct tls *t = calloc(1, sizeof *t);
    if (!t) {
        error_oom(err);
        return NULL;
    }
    ERR_clear_error();
    t->ssl = SSL_new(c);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (!t->ssl || !t->in || !t->out) {
        BIO_free(t->in);
        BIO_free(t->out);
        goto fail;
    }
    BIO_set_mem_eof_return(t->in, -1); /* empty: later */
    SSL_set_bio(t->ssl, t->in, t->out);
    SSL_set_connect_state(t->ssl);
    if (expect(t->ssl, host) == 0 && offer(t->ssl, protocol) == 0)
        return t;
fail:
    broke(NULL, "the session cannot be set up", err);
    SSL_free(t->ssl);
    free(t);
    return NULL;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    free(t);
}

int tls_input(struct tls *t, const uint8_t *data, size_t len, struct error *err)
{
    if (len > PIECE || BIO_write(t->in, data, (int)len) != (int)len)
        return error_oom(err);
    return 0;
}

int tls_handshake(struct tls *t, struct error *err)
{
    ERR_clear_error();
    int r = SSL_do_handshake(t->ssl), why = SSL_get_error(t->ssl, r);
    if (r == 1)
        return 1;
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE
               ? 0
               : broke(t->ssl, "the handshake failed", err);
}

ssize_t tls_read(struct tls *t, uint8_t *to, size_t cap, bool *ret_end, struct error *err)
{
    size_t n = 0;
    *ret_end = false;
    ERR_clear_error();
    int r = SSL_read_ex(t->ssl, to, cap, &n);
    if (r == 1)
        return (ssize_t)n;
    int why = SSL_get_error(t->ssl, r);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return 0;
    if (why == SSL_ERROR_ZERO_RETURN) {
        *ret_end = true;
        return 0;
    }
    return broke(t->ssl, "the server broke the protocol", err);
}

int tls_write(struct tls *t, const void *data, size_t len, struct error *err)
{
    size_t n = 0;
    ERR_clear_error();
    if (len == 0 || (SSL_write_ex(t->ssl, data, len, &n) == 1 && n == len))
        return 0;
    return broke(t->ssl, "nothing more can be sent", err);
}

void tls_end(struct tls *t)
{
    ERR_clear_error();
    SSL_shutdown(t->ssl);
    ERR_clear_error();
}

int tls_output(struct tls *t, struct buf *to, struct error *err)
{
    for (size_t n; (n = BIO_ctrl_pending(t->out)) > 0;) {
        if (n > PIECE)
            n = PIECE;
        uint8_t *room = buf_reserve(to, n);
        if (!room || BIO_read(t->out, room, (int)n) != (int)n)
            return error_oom(err);
        buf_commit(to, n);
    }
    return 0;
}
