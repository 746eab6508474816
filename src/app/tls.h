/* The client's side of TLS without input or output: bytes of the network go in and come out here, those of
 * the application on the other side. The server's certificate must be valid for the name that was asked for,
 * by the machine's authorities (or those of SSL_CERT_FILE and SSL_CERT_DIR). UNTRUSTED INPUT: whatever the
 * server sends; libssl reads it. */
#ifndef CLOISTER_APP_TLS_H
#define CLOISTER_APP_TLS_H

#include "base/buf.h"
#include "base/error.h"

#include <openssl/types.h>
#include <stdbool.h>
#include <sys/types.h>

struct tls;

SSL_CTX *tls_context_new(struct error *err);
void tls_context_free(SSL_CTX *c); /* NULL is fine */

/* `host`: a name, or an address without brackets. `protocol`: offered by ALPN, or NULL. */
struct tls *tls_new(SSL_CTX *c, const char *host, const char *protocol, struct error *err);
void tls_free(struct tls *t); /* NULL is fine */

/* Bytes of the network. */
int tls_input(struct tls *t, const uint8_t *data, size_t len, struct error *err);
/* 1: the handshake is done; 0: it waits for more input; -1: it failed. There may be output after each call.
 */
int tls_handshake(struct tls *t, struct error *err);
/* After the handshake: bytes of the application; 0: more input is needed, or `ret_end`: the server has said
 * that no more comes; -1: the server broke the protocol. */
ssize_t tls_read(struct tls *t, uint8_t *to, size_t cap, bool *ret_end, struct error *err);
int tls_write(struct tls *t, const void *data, size_t len, struct error *err);
void tls_end(struct tls *t); /* says that we send no more */
/* Moves what is for the network to the end of `to`. */
int tls_output(struct tls *t, struct buf *to, struct error *err);

#endif
