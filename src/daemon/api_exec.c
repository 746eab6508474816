#include "daemon/api.h"

#include "daemon/cell.h"
#include "daemon/daemon.h"
#include "daemon/json_in.h"
#include "daemon/json_out.h"
#include "daemon/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A request that waits for an exec: for its start, or for its end. */
struct exec_call {
    struct request *request;
    struct execution *execution;
    struct exec_watch watch;
    bool wait, exact;
};

static int new_id(char ret[33], struct error *err)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_set(err, ERROR_INTERNAL, "no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++) {
        ret[2 * i] = hex[bytes[i] >> 4];
        ret[2 * i + 1] = hex[bytes[i] & 15];
    }
    ret[32] = '\0';
    return 0;
}

/* ---- create ---- */

void api_process_failure(struct request *r, const struct error *why, const char *argv_name)
{
    static const char *const of_process[] = {"cmd", "cwd", "user", "env", "pty"};
    struct error err = *why;
    if (strcmp(err.field, "argv") == 0)
        snprintf(err.field, sizeof err.field, "cmd");
    for (size_t i = 0; i < sizeof of_process / sizeof *of_process; i++) {
        if (strcmp(err.field, of_process[i]) != 0)
            continue;
        if (i == 0)
            snprintf(err.field, sizeof err.field, "%s", argv_name);
        request_error_status(r, 400, &err);
        return;
    }
    request_error(r, &err);
}

static void on_progress(void *user, struct execution *x)
{
    struct exec_call *call = user;
    struct buf b;
    if (call->request->answered || x->state == EXECUTION_STARTING ||
        (call->wait && x->state != EXECUTION_EXITED))
        return;
    if (x->error.kind) {
        api_process_failure(call->request, &x->error, "cmd");
        if (x->cell)
            cell_remove_exec(x->cell, x);
        return;
    }
    buf_init(&b, (size_t)2 << 30);
    if (call->wait)
        record_result(&b, x, call->exact);
    else
        record_exec(&b, x);
    request_json(call->request, call->wait ? 200 : 201, &b);
}

static void close_call(struct request *r)
{
    struct exec_call *call = r->state;
    execution_unwatch(&call->watch);
    execution_unref(call->execution);
    free(call);
}

static int begin_call(struct request *r, const struct exec_request *spec, bool exact, struct error *err)
{
    char id[33];
    if (new_id(id, err) < 0)
        return -1;
    struct exec_call *call = calloc(1, sizeof *call);
    struct execution *x =
        execution_new(r->cell, id, spec->cmd, spec->output_limit, spec->wait, spec->overflow);
    if (!call || !x || cell_add_exec(r->cell, x, err) < 0) {
        if (!call || !x)
            error_oom(err);
        free(call);
        execution_unref(x);
        return -1;
    }
    *call = (struct exec_call){.request = r, .execution = x, .watch = {.fn = on_progress, .user = call}};
    call->wait = spec->wait;
    call->exact = exact;
    execution_ref(x);
    execution_watch(x, &call->watch);
    r->state = call;
    r->on_close = close_call;
    request_no_timeout(r);
    if (execution_start(x, spec, err) == 0)
        return 0;
    cell_remove_exec(r->cell, x);
    return -1;
}

void api_exec_create(struct request *r)
{
    struct exec_request spec;
    struct error err = {0};
    const char *encoding = uri_query(&r->uri, "encoding");
    bool exact = encoding && strcmp(encoding, "base64") == 0;
    if (encoding && !exact && strcmp(encoding, "utf-8") != 0)
        error_field(&err, "encoding", "encoding: expected utf-8 or base64");
    if (err.kind || spec_exec(&spec, json_incref(r->body), &err) < 0) {
        request_error(r, &err);
        return;
    }
    if (api_need_running(r) == 0 && begin_call(r, &spec, exact, &err) < 0)
        api_process_failure(r, &err, "cmd");
    spec_exec_free(&spec);
}

/* ---- look ---- */

static struct execution *find(struct request *r)
{
    struct error err;
    struct execution *x = cell_find_exec(r->cell, r->id);
    if (x)
        return x;
    error_set(&err, ERROR_NOT_FOUND, "container %s has no exec %.64s", r->cell->name, r->id);
    request_error(r, &err);
    return NULL;
}

void api_exec_list(struct request *r)
{
    struct buf b;
    buf_init(&b, 0);
    json_open(&b, '{');
    json_key(&b, "execs");
    json_open(&b, '[');
    list_each(it, tmp, &r->cell->execs) record_exec(&b, list_entry(it, struct execution, link));
    json_close(&b, ']');
    json_close(&b, '}');
    request_json(r, 200, &b);
}

void api_exec_get(struct request *r)
{
    struct execution *x = find(r);
    struct buf b;
    if (!x)
        return;
    buf_init(&b, 0);
    record_exec(&b, x);
    request_json(r, 200, &b);
}

/* ---- act ---- */

static void answer_done(struct request *r, const struct error *err)
{
    if (err->kind)
        request_error(r, err);
    else
        request_empty(r, 204);
}

void api_exec_kill(struct request *r)
{
    static const char *const known[] = {"signal", NULL};
    int64_t signal = 15;
    struct error err = {0};
    if (r->body && (json_in_known(r->body, "", known, &err) < 0 ||
                    json_in_int(r->body, "", "signal", 1, 64, &signal, &err) < 0)) {
        request_error(r, &err);
        return;
    }
    struct execution *x = find(r);
    if (!x)
        return;
    if (x->state == EXECUTION_EXITED || !x->exec)
        error_set(&err, ERROR_STATE, "exec %s has ended", x->id);
    else
        exec_kill(x->exec, (int)signal, &err);
    answer_done(r, &err);
}

void api_exec_resize(struct request *r)
{
    uint16_t cols, rows;
    struct error err = {0};
    if (spec_size(r->body, "", &cols, &rows, &err) < 0) {
        request_error(r, &err);
        return;
    }
    struct execution *x = find(r);
    if (!x)
        return;
    if (x->state == EXECUTION_EXITED || !x->exec)
        error_set(&err, ERROR_STATE, "exec %s has ended", x->id);
    else
        exec_resize(x->exec, cols, rows, &err);
    answer_done(r, &err);
}

void api_exec_delete(struct request *r)
{
    struct execution *x = find(r);
    struct error err;
    if (!x)
        return;
    if (x->is_main) {
        error_set(&err, ERROR_STATE, "the main process goes with its container; destroy that");
        request_error(r, &err);
        return;
    }
    if (x->state != EXECUTION_EXITED && x->exec)
        exec_kill_tree(x->exec, NULL);
    cell_remove_exec(r->cell, x);
    request_empty(r, 204);
}

/* ---- stdin ---- */

struct stdin_call {
    struct request *request;
    struct execution *execution;
    struct exec_watch watch;
    bool keep_open;
};

static void on_room(void *user, struct execution *x)
{
    struct stdin_call *call = user;
    request_more(call->request);
}

static void answer_closed(struct request *r, const struct execution *x)
{
    struct error err;
    error_set(&err, ERROR_GONE, "exec %s takes no more input", x->id);
    request_error(r, &err);
}

/* UNTRUSTED INPUT: bytes only, passed on. */
static size_t take_stdin(struct request *r, const uint8_t *data, size_t len)
{
    struct stdin_call *call = r->state;
    struct execution *x = call->execution;
    ssize_t n = x->exec && x->stdin_open ? exec_write(x->exec, data, len) : -1;
    if (n >= 0)
        return (size_t)n;
    x->stdin_open = false;
    answer_closed(r, x);
    return len;
}

static void end_stdin(struct request *r)
{
    struct stdin_call *call = r->state;
    struct execution *x = call->execution;
    if (!call->keep_open && x->exec && x->stdin_open) {
        exec_close_stdin(x->exec);
        x->stdin_open = false;
    }
    request_empty(r, 204);
}

static void close_stdin_call(struct request *r)
{
    struct stdin_call *call = r->state;
    call->execution->stdin_busy = false;
    execution_unwatch(&call->watch);
    execution_unref(call->execution);
    free(call);
}

void api_exec_stdin(struct request *r)
{
    bool eof = true;
    struct error err = {0};
    struct execution *x = find(r);
    struct stdin_call *call = NULL;
    if (!x)
        return;
    if (uri_query_bool(&r->uri, "eof", &eof, &err) < 0)
        ;
    else if (x->state == EXECUTION_EXITED || !x->exec || !x->stdin_open)
        error_set(&err, ERROR_STATE,
                  "exec %s takes no input: it was started without, has closed it, or has ended", x->id);
    else if (x->stdin_busy)
        error_set(&err, ERROR_STATE, "another request is writing to exec %s", x->id);
    else if (!(call = calloc(1, sizeof *call)))
        error_oom(&err);
    if (!call) {
        request_error(r, &err);
        return;
    }
    *call = (struct stdin_call){
        .request = r, .execution = x, .watch = {.fn = on_room, .user = call}, .keep_open = !eof};
    x->stdin_busy = true;
    execution_ref(x);
    execution_watch(x, &call->watch);
    r->state = call;
    r->on_close = close_stdin_call;
    r->on_body = take_stdin;
    r->on_body_end = end_stdin;
    request_no_timeout(r);
}
