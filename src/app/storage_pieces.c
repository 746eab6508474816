#include "app/storage_pieces.h"

#include <string.h>

void storage_pieces_init(struct storage_pieces *p)
{
    buf_init(&p->staged, STORAGE_STAGE_MAX);
    buf_init(&p->pending, STORAGE_ANSWER_MAX * 2);
}

void storage_pieces_free(struct storage_pieces *p)
{
    buf_free(&p->staged);
    buf_free(&p->pending);
}

static int stage(struct storage_pieces *p, const struct cbor_reader *args, struct buf *answer,
                 struct error *err)
{
    struct cbor_reader r;
    struct cbor_item it;
    if (!cbor_map_find(args, "data", &r) || cbor_next(&r, &it) < 0 || it.type != CBOR_BYTES)
        return error_field(err, "data", "data: expected bytes");
    if (p->staged.len + it.len > STORAGE_STAGE_MAX || buf_append(&p->staged, it.data, it.len) < 0) {
        buf_free(&p->staged);
        buf_init(&p->staged, STORAGE_STAGE_MAX);
        return error_set(err, ERROR_LIMIT, "the arguments of a call have more than %zu bytes",
                         STORAGE_STAGE_MAX);
    }
    cbor_put_null(answer);
    return 0;
}

static int next_piece(struct storage_pieces *p, struct buf *answer, struct error *err)
{
    size_t n = p->pending.len < STORAGE_PIECE_MAX ? p->pending.len : STORAGE_PIECE_MAX;
    cbor_put_bytes(answer, n ? p->pending.data : (const uint8_t *)"", n);
    buf_consume(&p->pending, n);
    if (p->pending.len == 0) {
        buf_free(&p->pending);
        buf_init(&p->pending, STORAGE_ANSWER_MAX * 2);
    }
    return answer->failed ? error_oom(err) : 0;
}

/* Arguments that came in pieces are used up by the call, whatever becomes of it. */
static int call_staged(struct storage_pieces *p, struct storage_session *session, const char *method,
                       struct cbor_reader args, struct buf *answer, struct error *err)
{
    struct buf staged = p->staged;
    buf_init(&p->staged, STORAGE_STAGE_MAX);
    int r = 0;
    if (staged.len > 0) {
        if (!cbor_well_formed(staged.data, staged.len))
            r = error_field(err, "data", "data: the pieces are no well-formed value");
        cbor_reader_init(&args, staged.data, staged.len);
    }
    if (r == 0)
        r = storage_call(session, method, args, answer, err);
    buf_free(&staged);
    return r;
}

int storage_pieces_call(struct storage_pieces *p, struct storage_session *session, const char *method,
                        struct cbor_reader args, struct buf *answer, struct error *err)
{
    struct buf whole;
    if (strcmp(method, "stage") == 0)
        return stage(p, &args, answer, err);
    if (strcmp(method, "piece") == 0)
        return next_piece(p, answer, err);
    buf_init(&whole, STORAGE_ANSWER_MAX * 2);
    if (call_staged(p, session, method, args, &whole, err) < 0) {
        buf_free(&whole);
        return -1;
    }
    if (whole.len > STORAGE_PIECE_MAX) {
        buf_free(&p->pending);
        p->pending = whole;
        cbor_put_map(answer, 1);
        cbor_put_text(answer, "pieces");
        cbor_put_uint(answer, p->pending.len);
    } else {
        buf_append(answer, whole.data, whole.len);
        buf_free(&whole);
    }
    return answer->failed ? error_oom(err) : 0;
}
