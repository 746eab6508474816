/* A listening TCP socket for an application. */
#ifndef CLOISTER_APP_LISTEN_TCP_H
#define CLOISTER_APP_LISTEN_TCP_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct listen_address {
    int fd;
    bool loopback; /* only programs of this machine reach it */
    char url[96];  /* "http://127.0.0.1:8787" */
};

/* `text` as of app.h, listen; errors name `field` and say what else to choose. */
int listen_tcp(const char *text, const char *field, struct listen_address *ret, struct error *err);

#endif
