/* The copies of a run, in before the command and out after it, one at a time, as tar streams to and from the
 * agent. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/copy_target.h"
#include "cli/message.h"
#include "cli/run.h"
#include "cli/tar_read.h"
#include "cli/tar_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)64 << 10)
#define OUT_MAX_BYTES ((uint64_t)16 << 30)
#define OUT_MAX_ENTRIES 10000000u

struct run_copy {
    struct run *run;
    const struct copy_spec *spec;
    bool in;
    struct fs_op *op;
    /* in */
    char *parent, *name; /* where it goes: `name` in the directory `parent` of the container */
    struct tar_writer *writer;
    uint8_t *chunk;
    size_t have, off;
    bool ended;
    /* out */
    struct copy_target target;
    struct tar_reader *reader;
    struct error failed; /* on our side; kind NONE: none */
};

static void copy_free(struct run_copy *c)
{
    if (!c)
        return;
    tar_writer_free(c->writer);
    tar_reader_free(c->reader);
    copy_target_close(&c->target);
    free(c->parent);
    free(c->name);
    free(c->chunk);
    free(c);
}

static void note_skipped(const struct run *r, const char *what, uint64_t count, const char *first)
{
    if (count > 0 && !r->request.quiet)
        message_warn("%s: %llu left out (the first: %s)", what, (unsigned long long)count, first);
}

/* The present copy has ended, well or not. */
static void copy_end(struct run_copy *c, const struct error *err)
{
    struct run *r = c->run;
    struct error e = {0};
    if (c->failed.kind != ERROR_NONE)
        err = &c->failed;
    if (err) {
        e = *err;
        error_wrap(&e, "%s %s", c->in ? "--copy-in" : "--copy-out", c->spec->from);
    } else if (c->in) {
        const char *first;
        uint64_t n = tar_writer_skipped(c->writer, &first);
        note_skipped(r, c->spec->from, n, first);
    } else {
        const char *first;
        uint64_t n = tar_reader_skipped(c->reader, &first);
        note_skipped(r, c->spec->from, n, first);
    }
    r->copy = NULL;
    copy_free(c);
    r->copied++;
    if (err)
        run_copies_done(r, &e);
    else
        run_copy_next(r);
}

/* Our own side failed: the agent's operation is given up. */
static void copy_abort(struct run_copy *c)
{
    fs_cancel(c->op);
    c->op = NULL;
    copy_end(c, &c->failed);
}

static void on_done(void *user, const struct error *err, struct cbor_reader value)
{
    struct run_copy *c = user;
    c->op = NULL;
    if (!err && !c->in && tar_reader_finish(c->reader, &c->failed) < 0)
        err = &c->failed;
    copy_end(c, err);
}

/* ---- in ---- */

static void feed(void *user)
{
    struct run_copy *c = user;
    while (!c->ended) {
        if (c->off == c->have) {
            ssize_t n = tar_writer_read(c->writer, c->chunk, CHUNK, &c->failed);
            if (n < 0) {
                copy_abort(c);
                return;
            }
            if (n == 0) {
                c->ended = true;
                fs_end(c->op);
                return;
            }
            c->have = (size_t)n;
            c->off = 0;
        }
        ssize_t taken = fs_write(c->op, c->chunk + c->off, c->have - c->off);
        if (taken <= 0) /* waits for on_writable, or the agent has failed and on_done says why */
            return;
        c->off += (size_t)taken;
    }
}

static void import_begin(struct run_copy *c)
{
    static const struct fs_events events = {.on_writable = feed, .on_done = on_done};
    struct buf args;
    buf_init(&args, 64 << 10);
    cbor_put_text(&args, "path");
    cbor_put_string(&args, c->parent);
    cbor_put_text(&args, "parents");
    cbor_put_bool(&args, true);
    struct error err = {0};
    int r = args.failed ? error_oom(&err)
                        : container_fs(c->run->container, "fs.import", args.data, args.len, 2, true, false,
                                       &events, c, &c->op, &err);
    buf_free(&args);
    if (r < 0) {
        c->failed = err;
        copy_end(c, &err);
        return;
    }
    feed(c);
}

/* Splits DST; `directory`: it is one already, so the copy goes into it. */
static int place_in(struct run_copy *c, bool directory, struct error *err)
{
    const char *to = c->spec->to;
    size_t len = strlen(to);
    if (directory || to[len - 1] == '/') {
        c->parent = strdup(to);
        c->name = copy_source_name(c->spec->from, err);
        return c->name ? (c->parent ? 0 : error_oom(err)) : -1;
    }
    const char *slash = strrchr(to, '/');
    c->parent = slash == to ? strdup("/") : strndup(to, (size_t)(slash - to));
    c->name = strdup(slash + 1);
    if (!c->parent || !c->name)
        return error_oom(err);
    if (strcmp(c->name, ".") == 0 || strcmp(c->name, "..") == 0)
        return error_field(err, "--copy-in", "the name \"%s\" cannot be given to a copy", c->name);
    return 0;
}

static void in_begin(struct run_copy *c, bool directory)
{
    if (place_in(c, directory, &c->failed) < 0 ||
        tar_writer_open(&c->writer, c->spec->from, c->name, &c->failed) < 0) {
        copy_end(c, &c->failed);
        return;
    }
    import_begin(c);
}

/* ---- out ---- */

static void on_data(void *user, const uint8_t *data, size_t len)
{
    struct run_copy *c = user;
    if (tar_reader_feed(c->reader, data, len, &c->failed) < 0)
        copy_abort(c);
    else
        fs_consumed(c->op, len);
}

static void export_begin(struct run_copy *c, bool directory)
{
    static const struct fs_events events = {.on_data = on_data, .on_done = on_done};
    struct buf args;
    if (copy_target_open(&c->target, c->spec->to, c->spec->from, directory, &c->failed) < 0) {
        copy_end(c, &c->failed);
        return;
    }
    struct tar_reader_config config = {c->target.dir, c->target.as, OUT_MAX_BYTES, OUT_MAX_ENTRIES};
    buf_init(&args, 64 << 10);
    cbor_put_text(&args, "path");
    cbor_put_string(&args, c->spec->from);
    int r = args.failed ? error_oom(&c->failed) : tar_reader_new(&c->reader, &config, &c->failed);
    if (r == 0)
        r = container_fs(c->run->container, "fs.export", args.data, args.len, 1, false, true, &events, c,
                         &c->op, &c->failed);
    buf_free(&args);
    if (r < 0)
        copy_end(c, &c->failed);
}

/* ---- both: first ask what lies at the container's path ---- */

static void on_stat(void *user, const struct error *err, struct cbor_reader value)
{
    struct run_copy *c = user;
    c->op = NULL;
    cleanup_free char *type = err ? NULL : cbor_map_dup(&value, "type", 32);
    bool directory = type && strcmp(type, "directory") == 0;
    if (c->in)
        in_begin(c, directory);
    else if (err)
        copy_end(c, err);
    else
        export_begin(c, directory);
}

static int stat_begin(struct run_copy *c, const char *path, struct error *err)
{
    static const struct fs_events events = {.on_done = on_stat};
    struct buf args;
    buf_init(&args, 64 << 10);
    cbor_put_text(&args, "path");
    cbor_put_string(&args, path);
    int r = args.failed ? error_oom(err)
                        : container_fs(c->run->container, "fs.stat", args.data, args.len, 1, false, false,
                                       &events, c, &c->op, err);
    buf_free(&args);
    return r;
}

static int copy_begin(struct run *r, struct error *err)
{
    struct run_copy *c = calloc(1, sizeof *c);
    if (!c)
        return error_oom(err);
    c->run = r;
    c->target.dir = -1;
    c->in = r->stage == RUN_COPY_IN;
    c->spec = c->in ? &r->request.in[r->copied] : &r->request.out[r->copied];
    r->copy = c;
    c->chunk = malloc(CHUNK);
    if (!c->chunk || stat_begin(c, c->in ? c->spec->to : c->spec->from, err) < 0) {
        r->copy = NULL;
        copy_free(c);
        return -1;
    }
    return 0;
}

void run_copy_next(struct run *r)
{
    struct error err = {0};
    size_t count = r->stage == RUN_COPY_IN ? r->request.in_count : r->request.out_count;
    if (r->copied == count)
        run_copies_done(r, NULL);
    else if (copy_begin(r, &err) < 0)
        run_copies_done(r, &err);
}

void run_copy_cancel(struct run *r)
{
    struct run_copy *c = r->copy;
    if (!c)
        return;
    r->copy = NULL;
    if (c->op)
        fs_cancel(c->op);
    copy_free(c);
}
