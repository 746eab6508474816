#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "cli/client/client.h"
#include "cli/client/frames.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TAIL_MAX ((size_t)64 << 20)

struct logs {
    struct frames frames;
    bool tail;
    uint64_t lines;
    struct buf kept[2]; /* with --tail: what came so far */
};

static int put(int fd, const void *data, size_t len, struct error *err)
{
    return len && fd_write_all(fd, data, len) < 0 ? error_system(err, errno, "cannot write") : 0;
}

static int on_output(void *user, int fd, const uint8_t *data, size_t len, struct error *err)
{
    struct logs *l = user;
    if (!l->tail)
        return put(fd, data, len, err);
    return buf_append(&l->kept[fd - 1], data, len) < 0
               ? error_set(err, ERROR_LIMIT, "there is too much output to take the end of; leave --tail out")
               : 0;
}

static int on_event(void *user, const char *json, size_t len, struct error *err)
{
    json_t *e = json_loadb(json, len, 0, NULL);
    if (strcmp(json_text_of(e, "event", ""), "dropped") == 0)
        message_warn("%lld bytes of %s were dropped here", (long long)json_int_of(e, "bytes", 0),
                     json_text_of(e, "stream", "output"));
    json_decref(e);
    return 0;
}

static int on_data(void *user, const void *data, size_t len, struct error *err)
{
    struct logs *l = user;
    return frames_feed(&l->frames, data, len, err);
}

/* Where the last `lines` lines begin. */
static size_t tail_start(const struct buf *b, uint64_t lines)
{
    size_t at = b->len;
    if (at > 0 && b->data[at - 1] == '\n')
        at--;
    for (; at > 0; at--)
        if (b->data[at - 1] == '\n' && --lines == 0)
            break;
    return at;
}

static int print_tail(struct logs *l, struct error *err)
{
    for (int i = 0; i < 2; i++) {
        size_t at = l->lines ? tail_start(&l->kept[i], l->lines) : l->kept[i].len;
        if (l->kept[i].len && put(i + 1, l->kept[i].data + at, l->kept[i].len - at, err) < 0)
            return -1;
    }
    l->tail = false;
    return 0;
}

static int fetch(struct http *h, const struct options *o, struct logs *l, const uint64_t from[2], bool follow,
                 struct error *err)
{
    char cursors[2][24];
    const char *exec = options_given(o, "exec") ? options_value(o, "exec") : "main";
    snprintf(cursors[0], sizeof cursors[0], "%llu", (unsigned long long)from[0]);
    snprintf(cursors[1], sizeof cursors[1], "%llu", (unsigned long long)from[1]);
    cleanup_free char *url =
        url_make("/v1/containers/%s/exec/%s/output?follow=%s&stdout=%s&stderr=%s", options_operand(o, 0),
                 exec, follow ? "true" : "false", cursors[0], cursors[1]);
    return url ? http_download(h, url, FRAMES_TYPE, on_data, l, err) : error_oom(err);
}

static int run(struct http *h, const struct options *o, struct logs *l, struct error *err)
{
    static const uint64_t beginning[2] = {0, 0};
    bool follow = options_given(o, "follow");
    if (!l->tail)
        return fetch(h, o, l, beginning, follow, err);
    if (fetch(h, o, l, beginning, false, err) < 0 || print_tail(l, err) < 0)
        return -1;
    return follow ? fetch(h, o, l, l->frames.cursors, true, err) : 0;
}

int cmd_logs(const struct options *o)
{
    struct error err = {0};
    struct http *h = NULL;
    struct logs l = {.tail = options_given(o, "tail")};
    if (l.tail && parse_u64(options_value(o, "tail"), "--tail", 0, 10000000, &l.lines, &err) < 0)
        return message_usage("logs", &err);
    frames_init(&l.frames);
    buf_init(&l.kept[0], TAIL_MAX);
    buf_init(&l.kept[1], TAIL_MAX);
    l.frames.on_output = on_output;
    l.frames.on_event = on_event;
    l.frames.user = &l;
    int r = client_open(&h, o, &err) < 0 ? -1 : run(h, o, &l, &err);
    http_close(h);
    frames_free(&l.frames);
    buf_free(&l.kept[0]);
    buf_free(&l.kept[1]);
    return r < 0 ? message_fail(&err) : 0;
}
