/* One file operation of a request: the arguments, the agent's operation, and how its bytes and its result
 * become an answer. Everything that comes from the agent is UNTRUSTED INPUT. */
#ifndef CLOISTER_DAEMON_FILES_H
#define CLOISTER_DAEMON_FILES_H

#include "base/buf.h"
#include "base/error.h"
#include "container/engine.h"
#include "daemon/request.h"

#include <stdbool.h>
#include <stdint.h>

struct file_call {
    struct request *request;
    struct fs_op *op; /* NULL: not begun, or done */
    struct buf args;
    unsigned pairs;
    struct fs_events events;
    /* The result of the method; answers the request. */
    void (*on_value)(struct file_call *f, struct cbor_reader value);

    /* Output: bytes ready for the client. */
    struct buf out;
    size_t sent;
    bool ended, failed, streaming;
    bool credit_on_send; /* acknowledge as bytes go out, not as they come in */
    /* Sequences (list, watch): what has come but is no whole item yet. */
    struct buf items;
    size_t withheld; /* bytes not acknowledged yet */
    void (*on_item)(struct file_call *f, struct cbor_reader item);
    uint64_t count;
    bool show_hidden;

    int64_t size; /* of a file that is read */
    uint64_t offset, length;
    bool ranged;
};

/* A call for a running container; NULL: the request has been answered with the reason. Freed with the
 * request. */
struct file_call *file_call_new(struct request *r);
void file_arg_str(struct file_call *f, const char *key, const char *value); /* NULL value: left out */
void file_arg_bool(struct file_call *f, const char *key, bool value);       /* false: left out */
void file_arg_u64(struct file_call *f, const char *key, uint64_t value);
/* The query's or body's path, checked, as argument `key`. */
int file_arg_path(struct file_call *f, const char *key, const char *path, const char *field,
                  struct error *err);

enum file_streams { FILE_NO_STREAM, FILE_INPUT, FILE_BYTES, FILE_ITEMS };
/* Begins the operation; a failure answers the request. May be called again for a second operation once the
 * first is done. */
void file_call_begin(struct file_call *f, const char *method, enum file_streams streams);
void file_call_fail(struct file_call *f, const struct error *err);
/* Starts the streamed answer, unless it has started. */
void file_call_stream(struct file_call *f, int status, const char *type, int64_t size);
/* The members of a stat or list entry. -1: malformed. */
int file_put_stat(struct buf *b, const struct cbor_reader *map);
/* A member of text; bytes that are no UTF-8 come exactly as <key>Base64 besides. */
int file_put_string(struct buf *b, const struct cbor_reader *map, const char *key);

#endif
