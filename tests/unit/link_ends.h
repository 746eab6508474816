/* Two honest ends of a link: the guest's bootstrap object answers in every way there is. */
#ifndef CLOISTER_TESTS_LINK_ENDS_H
#define CLOISTER_TESTS_LINK_ENDS_H

#include "link_testing.h"

#include <stdio.h>
#include <stdlib.h>

struct answer {
    int count;
    struct error err;
    char text[64];
    uint32_t cap;
};

static inline void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct answer *a = user;
    a->count++;
    if (err) {
        a->err = *err;
        return;
    }
    struct cbor_reader r = value;
    if (cbor_get_string(&value, a->text, sizeof a->text) < 0 && link_get_capability(&r, &a->cap) < 0)
        snprintf(a->text, sizeof a->text, "(other)");
}

struct object {
    struct link_call *held;
    int calls, drops, cancels;
    uint32_t cap;
    struct object *child;
};

static const struct link_object_ops object_ops;

static inline void count_cancel(void *user)
{
    ((struct object *)user)->cancels++;
}

static inline void object_call(void *user, struct link_call *call, const char *method,
                               struct cbor_reader args)
{
    struct object *o = user;
    struct buf b;
    o->calls++;
    buf_init(&b, 0);
    if (!strcmp(method, "echo")) {
        link_return(call, args.p, (size_t)(args.end - args.p));
    } else if (!strcmp(method, "fail")) {
        struct error err = {0};
        error_field(&err, "cwd", "cwd: no such directory");
        link_throw(call, &err);
    } else if (!strcmp(method, "errno")) {
        struct error err = {0};
        error_system(&err, 2, "cannot open %s", "/x\xff");
        link_throw(call, &err);
    } else if (!strcmp(method, "hold")) {
        o->held = call;
        link_call_on_cancel(call, count_cancel, o);
    } else if (!strcmp(method, "child")) {
        o->child->cap = link_put_capability(link_call_link(call), &b, &object_ops, o->child);
        link_return(call, b.data, b.len);
    } else if (!strcmp(method, "null")) {
        link_return(call, NULL, 0);
    } else if (!strcmp(method, "garbage")) {
        link_return(call, "\xff", 1);
    } else if (!strcmp(method, "huge")) {
        void *zeros = calloc(1, FRAME_MAX_BODY + 1);
        link_return(call, zeros, FRAME_MAX_BODY + 1);
        free(zeros);
    } else if (!strcmp(method, "shutdown")) {
        struct link *l = link_call_link(call);
        link_shutdown(l, NULL);
        link_return(call, NULL, 0);
    } else {
        link_throw(call, NULL);
    }
    buf_free(&b);
}

static inline void object_drop(void *user)
{
    ((struct object *)user)->drops++;
}

static const struct link_object_ops object_ops = {.call = object_call, .drop = object_drop};

struct ends {
    struct link *host, *guest;
    struct object object, child;
    int wants;
    char log[64];
};

static inline void want_write(void *user)
{
    ((struct ends *)user)->wants++;
}

static inline void on_log(void *user, int level, int64_t ms, const char *text)
{
    snprintf(((struct ends *)user)->log, 64, "%d %lld %.32s", level, (long long)ms, text);
}

static inline int setup(void **state)
{
    struct ends *e = calloc(1, sizeof *e);
    assert_non_null(e);
    e->object.child = &e->child;
    e->host = link_new(
        &(struct link_config){.side = LINK_HOST, .log = on_log, .user = e, .want_write = want_write});
    e->guest = link_new(
        &(struct link_config){.side = LINK_GUEST, .bootstrap = &object_ops, .bootstrap_object = &e->object});
    assert_non_null(e->host);
    assert_non_null(e->guest);
    *state = e;
    return 0;
}

static inline int teardown(void **state)
{
    struct ends *e = *state;
    link_free(e->host);
    link_free(e->guest);
    free(e);
    return 0;
}

/* Tests keep what callbacks write to on their stack, so both ends must die before the test returns. */
static inline void close_both(struct ends *e)
{
    link_shutdown(e->host, NULL);
    if (e->guest)
        link_shutdown(e->guest, NULL);
}

static inline void call_host(struct ends *e, uint32_t target, const char *method, struct answer *a)
{
    assert_int_not_equal(link_call(e->host, target, method, "\x62hi", 3, on_answer, a), 0);
    pump(e->host, e->guest);
}

#endif
