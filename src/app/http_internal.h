/* What the files of the HTTP server share. http_server.c: listening, deadlines, output; http_conn.c: reading
 * and the order of things; http_head.c: heads, both ways. */
#ifndef CLOISTER_APP_HTTP_INTERNAL_H
#define CLOISTER_APP_HTTP_INTERNAL_H

#include "app/http_conn.h"
#include "app/http_framing.h"
#include "base/buf.h"

#include <http_parser.h>

struct http_server {
    struct http_server_config config;
    uv_poll_t listener;
    uv_timer_t clock;
    uv_prepare_t prepare; /* runs while something is dirty */
    uv_idle_t idle;       /* the same: the loop must not sleep then */
    struct http_conn *first;
    struct http_conn *dirty; /* have something to write */
    unsigned count;
    size_t held;     /* bytes that all connections hold: see http_conn_account() */
    uint64_t warned; /* uv_now() of the last line about it */
    bool listening, closing;
    int open_handles;
    uint8_t *buffer; /* for reading */
    char date[40];
    uint64_t date_second;
};

struct http_conn {
    struct http_server *server;
    struct http_conn *next, *prev, *next_dirty;
    uv_poll_t poll;
    int fd, events;
    http_parser parser;
    struct http_framing framing;
    size_t ahead;   /* bytes that `framing` has seen and the parser has not taken yet */
    struct buf in;  /* read, not parsed yet: while paused or busy */
    struct buf out; /* not sent yet, from out_start */
    size_t out_start;
    struct buf target, head; /* of the request */
    bool in_value;           /* of a header line */
    bool bad_head;
    unsigned lengths, codings, hosts; /* how many lines of these there were */
    void *exchange;
    uint64_t deadline;  /* uv_now() by which something must happen; 0: none */
    uint64_t stalled;   /* uv_now() by which some of the output must have gone; 0: none waits */
    size_t counted;     /* its part of the server's `held` */
    size_t elsewhere;   /* of that, what its exchange holds */
    uint64_t since;     /* uv_now() since which it holds more than a little; 0: it does not */
    uint64_t discarded; /* bytes of a body that nobody wants any more */
    uint64_t left_out;  /* of a body of known length */
    bool open;          /* there is an exchange */
    bool answered;      /* its head is out */
    bool no_body, chunked, known_length;
    bool message_done; /* the request is read to its end */
    bool executing, paused, raw, closing, dead, dirty, was_full, close_after, lingering;
};

extern const http_parser_settings http_settings;

/* http_server.c */
void http_conn_close(struct http_conn *c); /* `gone` if there is an exchange */
void http_conn_dirty(struct http_conn *c);
void http_conn_watch(struct http_conn *c);             /* sets what its poll waits for */
void http_conn_wait(struct http_conn *c, uint64_t ms); /* the deadline */
void http_conn_account(struct http_conn *c);           /* what it holds has changed */
const char *http_server_date(struct http_server *s);
/* http_conn.c */
void http_conn_readable(struct http_conn *c);
void http_conn_drained(struct http_conn *c);
/* http_head.c */
void http_head_begin(struct http_conn *c);
int http_head_field(http_parser *p, const char *at, size_t len);
int http_head_value(http_parser *p, const char *at, size_t len);
int http_head_target(http_parser *p, const char *at, size_t len);
/* 0, or the status that refuses the request. */
unsigned http_head_check(struct http_conn *c, struct http_request *ret);

#endif
