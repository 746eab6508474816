#include "daemon/record.h"

#include "base/parse.h"
#include "daemon/daemon.h"
#include "daemon/json_out.h"

#include <string.h>

static void put_json(struct buf *b, const char *key, const json_t *v)
{
    char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
    json_key(b, key);
    buf_append_str(b, text ? text : "{}");
    free(text);
}

static void put_limits(struct buf *b, const struct limits *l)
{
    json_key(b, "instance");
    json_open(b, '{');
    if (l->cpu_milli)
        json_put_milli(b, "vcpu", l->cpu_milli);
    json_put_u64(b, "memoryMib", l->memory_bytes >> 20);
    json_put_u64(b, "diskMb", l->disk_bytes / 1000000u);
    json_put_u64(b, "pids", l->pids);
    json_put_u64(b, "openFiles", l->open_files);
    json_close(b, '}');
}

static void put_stop(struct buf *b, const struct cell_stop *s)
{
    json_key(b, "stop");
    json_open(b, '{');
    json_put_str(b, "reason", s->reason);
    if (s->by_itself || s->code)
        json_put_i64(b, "exitCode", s->code);
    if (s->signal)
        json_put_i64(b, "signal", s->signal);
    if (s->detail[0])
        json_put_str(b, "detail", s->detail);
    json_close(b, '}');
}

static void put_timings(struct buf *b, const struct stage_timings *t)
{
    json_key(b, "timings");
    json_open(b, '{');
    json_put_u64(b, "rootUs", t->root);
    json_put_u64(b, "namespacesUs", t->namespaces);
    json_put_u64(b, "agentUs", t->agent);
    json_put_u64(b, "readyUs", t->ready);
    json_put_u64(b, "totalUs", t->total);
    json_put_bool(b, "fromPool", t->from_pool);
    json_close(b, '}');
}

static void put_usage(struct buf *b, struct container *container)
{
    struct container_usage u = {0};
    if (container_usage(container, &u, NULL) < 0)
        return;
    json_key(b, "usage");
    json_open(b, '{');
    json_put_u64(b, "memoryBytes", u.memory_bytes);
    json_put_u64(b, "memoryPeakBytes", u.memory_peak_bytes);
    json_put_u64(b, "cpuUs", u.cpu_us);
    json_put_u64(b, "diskBytes", u.disk_bytes);
    json_put_u64(b, "diskInodes", u.disk_inodes);
    json_put_u64(b, "pids", u.pids);
    json_close(b, '}');
}

void record_container(struct buf *b, struct cell *c, bool usage)
{
    static const char *const states[] = {"stopped", "starting", "running"};
    json_open(b, '{');
    json_put_str(b, "name", c->name);
    json_put_str(b, "id", c->id);
    json_put_str(b, "state", states[c->state]);
    json_put_str(b, "image", c->image ? c->image : "");
    json_put_str(b, "imageId", c->image_id ? c->image_id : "");
    json_put_strv(b, "entrypoint", c->entrypoint);
    put_json(b, "env", json_object_get(c->spec, "env"));
    put_json(b, "labels", c->labels);
    put_limits(b, &c->limits);
    json_put_str(b, "grade", c->grade);
    json_put_i64(b, "createdAt", c->created_ms);
    json_put_i64(b, "startedAt", c->started_ms);
    if (c->limits.wall_ms)
        json_put_u64(b, "hardTimeout", c->limits.wall_ms);
    if (c->inactivity_ms)
        json_put_u64(b, "inactivityTimeout", c->inactivity_ms);
    if (c->state == CELL_STOPPED) {
        json_put_i64(b, "stoppedAt", c->stopped_ms);
        put_stop(b, &c->stop);
    }
    if (c->timed)
        put_timings(b, &c->timings);
    if (c->snapshot[0])
        json_put_str(b, "snapshot", c->snapshot);
    if (usage && c->state == CELL_RUNNING)
        put_usage(b, c->container);
    json_close(b, '}');
}

void record_exit(struct buf *b, const struct exit_status *s)
{
    json_put_i64(b, "exitCode", s->code);
    if (s->signal)
        json_put_i64(b, "signal", s->signal);
    json_put_str(b, "reason", stop_reason_name(s->reason));
    if (s->detail[0])
        json_put_str(b, "detail", s->detail);
}

static void put_stream(struct buf *b, const char *key, const struct journal *j)
{
    json_key(b, key);
    json_open(b, '{');
    json_put_u64(b, "bytes", j->total);
    json_put_u64(b, "dropped", j->dropped);
    json_put_bool(b, "ended", j->ended);
    json_close(b, '}');
}

void record_exec(struct buf *b, const struct execution *x)
{
    json_open(b, '{');
    json_put_str(b, "id", x->id);
    json_put_str(b, "container", x->cell ? x->cell->name : "");
    json_put_i64(b, "pid", x->pid);
    json_put_strv(b, "cmd", x->cmd);
    json_put_str(b, "state", x->state == EXECUTION_EXITED ? "exited" : "running");
    json_put_i64(b, "startedAt", x->started_ms);
    if (x->state == EXECUTION_EXITED) {
        json_put_i64(b, "exitedAt", x->exited_ms);
        json_key(b, "exit");
        json_open(b, '{');
        record_exit(b, &x->status);
        json_close(b, '}');
    }
    put_stream(b, "stdout", &x->out[0]);
    put_stream(b, "stderr", &x->out[1]);
    json_close(b, '}');
}

/* The head of the journal; text that was cut ends with a whole character. UNTRUSTED INPUT. */
static void put_output(struct buf *b, const char *key, const struct journal *j, bool exact)
{
    size_t len = j->head_len;
    if (!exact && j->total > j->head_len)
        len = utf8_whole_prefix(j->head, len);
    json_key(b, key);
    if (exact)
        json_base64(b, j->head, len);
    else
        json_text(b, j->head, len);
}

/* The last bytes of a stream that was cut, as far as they are kept. */
static void put_tail(struct buf *b, const char *key, const struct journal *j, bool exact)
{
    uint8_t tail[16384];
    if (j->total == j->head_len || j->ring_len == 0)
        return;
    size_t len =
        journal_copy(j, j->total - j->ring_len, tail, j->ring_len < sizeof tail ? j->ring_len : sizeof tail);
    size_t skip = 0;
    while (!exact && skip < len && skip < 3 && (tail[skip] & 0xc0) == 0x80)
        skip++;
    json_key(b, key);
    if (exact)
        json_base64(b, tail, len);
    else
        json_text(b, tail + skip, len - skip);
}

void record_result(struct buf *b, const struct execution *x, bool exact)
{
    const struct journal *out = &x->out[0], *err = &x->out[1];
    json_open(b, '{');
    record_exit(b, &x->status);
    put_output(b, "stdout", out, exact);
    put_output(b, "stderr", err, exact);
    json_put_str(b, "encoding", exact ? "base64" : "utf-8");
    json_put_bool(b, "stdoutTruncated", out->total > out->head_len);
    json_put_bool(b, "stderrTruncated", err->total > err->head_len);
    put_tail(b, "stdoutTail", out, exact);
    put_tail(b, "stderrTail", err, exact);
    json_put_u64(b, "stdoutBytes", out->total);
    json_put_u64(b, "stderrBytes", err->total);
    json_put_u64(b, "durationMs", (x->ended_ns - x->begun_ns) / 1000000u);
    json_put_i64(b, "pid", x->pid);
    json_put_str(b, "id", x->id);
    json_close(b, '}');
}
