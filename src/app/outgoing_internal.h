/* What the files of outgoing requests share. outgoing.c: libcurl on the loop, and who asks; outgoing_fetch.c:
 * one request. */
#ifndef CLOISTER_APP_OUTGOING_INTERNAL_H
#define CLOISTER_APP_OUTGOING_INTERNAL_H

#include "app/outgoing.h"
#include "base/buf.h"

#include <curl/curl.h>

struct outgoing {
    uv_loop_t *loop;
};

struct outgoing_user {
    struct outgoing *outgoing;
    enum reach reach;
    CURLM *multi;
    uv_timer_t *timer;
    struct transfer *first;
    unsigned count;
    bool freed;
};

struct transfer {
    struct outgoing_user *user;
    struct transfer *next, *prev;
    struct link *link;
    struct link_call *call; /* not answered yet */
    CURL *easy;
    bool running; /* handed to `multi` */
    /* the request */
    char *method, *url, *headers;
    size_t headers_len;
    struct curl_slist *list;
    enum { REDIRECT_FOLLOW, REDIRECT_MANUAL, REDIRECT_ERROR } redirect;
    unsigned redirects;
    struct buf body; /* inline: all of it; else what has come and was not sent */
    size_t body_sent;
    bool has_body, inline_body, body_ended, body_failed;
    uint32_t up;        /* the stream of the body; 0: none (any more) */
    uint64_t announced; /* bytes of a streamed body, as its content-length says; UINT64_MAX: not said */
    bool send_paused;
    /* the answer */
    struct buf answer_headers;
    char reason[128];
    long status;
    bool answered, follows;
    uint32_t down; /* its body; 0: none (any more) */
    bool recv_paused;
    bool busy, abandoned; /* inside a callback of libcurl, where it must not be freed; and should have been */
    char refused[64];     /* an address that may not be reached */
};

void transfer_start(struct transfer *t);            /* with `easy` set up */
void transfer_stop(struct transfer *t);             /* off `multi` */
void transfer_done(struct transfer *t, CURLcode r); /* outgoing_fetch.c */
void transfer_free(struct transfer *t);

#endif
