/* HTTP requests of clients, answered by a hosted Worker or by a static file. */
#ifndef CLOISTER_APP_INGRESS_H
#define CLOISTER_APP_INGRESS_H

#include "base/error.h"

#include <stdbool.h>
#include <uv.h>

struct assets;
struct host;
struct ingress;

struct ingress_config {
    uv_loop_t *loop;
    int fd;                   /* listening; taken over */
    bool any_host;            /* takes every name in the Host header: the address is not a loopback one */
    const char *const *hosts; /* further names that are taken; NULL-terminated; borrowed. NULL: none */
    bool verbose;             /* tells clients why something failed: for development */
    /* Who answers; NULL: nobody (there are only static files). */
    struct host *(*host)(void *user);
    struct assets *(*assets)(void *user); /* NULL result: there are none */
    /* An exception that a handler threw, for the log. UNTRUSTED INPUT */
    void (*failed)(void *user, const char *method, const char *url, const struct error *err);
    void *user;
};

int ingress_open(struct ingress **ret, const struct ingress_config *config, struct error *err);
void ingress_close(struct ingress *i);

#endif
