/* Calls in both directions, and the table of exported capabilities. */
#include "link/link_internal.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define METHOD_MAX 255u

/* A call of ours. It stays until the answer arrives even when cancelled: every CALL gets exactly one answer.
 */
struct call {
    struct idnode node;
    link_answer_fn fn; /* NULL: cancelled */
    void *user;
};

struct link_call {
    struct idnode node; /* in link->peer_calls until consumed, also after the link's death */
    struct link *link;  /* NULL: freed */
    void (*on_cancel)(void *user);
    void *user;
    bool cancelled;
};

struct export
{
    struct idnode node;
    const struct link_object_ops *ops; /* NULL: revoked */
    void *object;
};

static const uint8_t cbor_null[1] = {0xf6};

static struct cbor_reader no_value(void)
{
    struct cbor_reader r;
    cbor_reader_init(&r, NULL, 0);
    return r;
}

/* Gives back every capability in a value that nobody will look at, lest the peer keep them for ever. */
static void drop_capabilities(struct link *l, struct cbor_reader r)
{
    struct cbor_item it = {0};
    while (!cbor_at_end(&r)) {
        struct cbor_reader at = r;
        uint32_t cap;
        if (cbor_next(&r, &it) < 0)
            return;
        if (it.type == CBOR_TAG && it.u64 == CBOR_TAG_CAPABILITY && link_get_capability(&at, &cap) == 0)
            link_drop(l, cap);
    }
}

/* --- calling the peer --- */

/* A number that no call in progress has. */
static uint32_t pick_call_id(struct link *l)
{
    uint32_t id;
    do {
        id = l->next_call++;
        if (l->next_call == 0) {
            l->next_call = 1;
            l->calls_wrapped = true;
        }
    } while (idtable_find(&l->calls, id));
    return id;
}

static int put_call(struct link *l, uint32_t id, uint32_t target, const char *method, const void *args,
                    size_t len)
{
    struct buf head;
    buf_init(&head, 512);
    cbor_put_array(&head, 3);
    cbor_put_uint(&head, target);
    cbor_put_text(&head, method);
    int r = head.failed || head.len + len > FRAME_MAX_BODY ? -1 : 0;
    if (r == 0)
        r = link_put_frame(l, FRAME_CALL, id, head.data, head.len, args, len);
    buf_free(&head);
    return r;
}

uint32_t link_call(struct link *l, uint32_t target, const char *method, const void *args, size_t len,
                   link_answer_fn fn, void *user)
{
    size_t method_len = strlen(method);
    if (!args || len == 0) {
        args = cbor_null;
        len = sizeof cbor_null;
    }
    if (!l->alive || l->calls.count >= LINK_MAX_CALLS || method_len == 0 || method_len > METHOD_MAX ||
        len > FRAME_MAX_BODY || !cbor_well_formed(args, len))
        return 0;
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return 0;
    uint32_t id = pick_call_id(l);
    if (put_call(l, id, target, method, args, len) < 0) {
        free(call);
        return 0;
    }
    call->fn = fn;
    call->user = user;
    idtable_add(&l->calls, &call->node, id);
    return id;
}

void link_cancel(struct link *l, uint32_t id)
{
    struct idnode *n = idtable_find(&l->calls, id);
    if (!n)
        return;
    struct call *call = container_of(n, struct call, node);
    if (!call->fn)
        return;
    call->fn = NULL;
    if (l->alive)
        link_put_frame(l, FRAME_CANCEL, id, NULL, 0, NULL, 0);
}

void link_drop(struct link *l, uint32_t peer_cap)
{
    if (l->alive && peer_cap != 0)
        link_put_u32_frame(l, FRAME_DROP, peer_cap, 1);
}

/* UNTRUSTED INPUT */
void link_on_answer(struct link *l, const struct frame *f)
{
    const char *kind = frame_kind_name(f->kind);
    struct idnode *n = idtable_find(&l->calls, f->id);
    struct error err = {0};
    struct cbor_reader value;
    if (!n) {
        bool known = l->calls_wrapped || f->id < l->next_call;
        link_violation(
            l, known ? "%s for call %u, which was answered already" : "%s for call %u, which was never made",
            kind, f->id);
        return;
    }
    cbor_reader_init(&value, f->body, f->length);
    if (!cbor_well_formed(f->body, f->length) || (f->kind == FRAME_THROW && f->body[0] >> 5 != 5)) {
        link_violation(l, "%s frame whose body is not %s", kind,
                       f->kind == FRAME_THROW ? "a CBOR map" : "one CBOR value");
        return;
    }
    struct call call = *container_of(n, struct call, node);
    idtable_remove(&l->calls, n);
    free(container_of(n, struct call, node));
    if (f->kind == FRAME_THROW) {
        link_get_error(value, &err);
        if (call.fn)
            call.fn(call.user, &err, no_value());
    } else if (call.fn) {
        call.fn(call.user, NULL, value);
    } else {
        drop_capabilities(l, value);
    }
}

/* --- answering the peer --- */

static void free_call(struct link_call *call)
{
    if (call->link)
        idtable_remove(&call->link->peer_calls, &call->node);
    free(call);
}

void link_throw(struct link_call *call, const struct error *why)
{
    struct link *l = call->link;
    uint32_t id = call->node.id;
    struct error unknown = {.kind = ERROR_INTERNAL, .message = "failed without a reason"};
    free_call(call);
    if (!l || !l->alive)
        return;
    struct buf b;
    buf_init(&b, 2048);
    link_put_error(&b, why && why->kind != ERROR_NONE ? why : &unknown);
    if (b.failed)
        link_out_of_memory(l);
    else
        link_put_frame(l, FRAME_THROW, id, b.data, b.len, NULL, 0);
    buf_free(&b);
}

void link_return(struct link_call *call, const void *value, size_t len)
{
    struct link *l = call->link;
    struct error err = {0};
    if (!value || len == 0) {
        value = cbor_null;
        len = sizeof cbor_null;
    }
    if (len > FRAME_MAX_BODY)
        error_set(&err, ERROR_LIMIT, "the answer is larger than %u bytes; it needs a stream", FRAME_MAX_BODY);
    else if (!cbor_well_formed(value, len))
        error_set(&err, ERROR_INTERNAL, "the answer is not one well-formed value");
    if (err.kind) {
        link_throw(call, &err);
        return;
    }
    uint32_t id = call->node.id;
    free_call(call);
    if (l && l->alive)
        link_put_frame(l, FRAME_RETURN, id, value, len, NULL, 0);
}

void link_call_on_cancel(struct link_call *call, void (*fn)(void *user), void *user)
{
    call->on_cancel = fn;
    call->user = user;
    if (call->cancelled && fn)
        fn(user);
}

struct link *link_call_link(struct link_call *call)
{
    return call->link;
}

static void cancel_call(struct link_call *call)
{
    if (call->cancelled)
        return;
    call->cancelled = true;
    if (call->on_cancel)
        call->on_cancel(call->user);
}

/* UNTRUSTED INPUT */
void link_on_cancel(struct link *l, const struct frame *f)
{
    struct idnode *n = idtable_find(&l->peer_calls, f->id);
    if (n)
        cancel_call(container_of(n, struct link_call, node));
    else if (f->id > l->peer_call_max)
        link_violation(l, "CANCEL for call %u, which was never made", f->id);
    /* else the answer and the CANCEL crossed */
}

static void refuse(struct link *l, struct link_call *call, struct cbor_reader args, enum error_kind kind,
                   const char *why)
{
    struct error err = {0};
    error_set(&err, kind, "%s", why);
    link_throw(call, &err);
    drop_capabilities(l, args);
}

/* Runs the call on what `target` names, or refuses it. */
static void run_call(struct link *l, struct link_call *call, uint32_t target, const char *method,
                     struct cbor_reader args)
{
    const struct link_object_ops *ops = l->config.bootstrap;
    void *object = l->config.bootstrap_object;
    if (target != 0) {
        struct idnode *n = idtable_find(&l->exports, target);
        if (!n) {
            free_call(call);
            link_violation(l,
                           target < l->next_cap ? "CALL on capability %u after it was dropped"
                                                : "CALL on capability %u, which was never given",
                           target);
            return;
        }
        ops = container_of(n, struct export, node)->ops;
        object = container_of(n, struct export, node)->object;
    }
    if (ops)
        ops->call(object, call, method, args);
    else if (target == 0)
        refuse(l, call, args, ERROR_DENIED, "this side of the link offers nothing to call");
    else
        refuse(l, call, args, ERROR_GONE, "the object was withdrawn");
}

/* UNTRUSTED INPUT: [target, method, arguments]; the arguments may be anything. */
static int parse_head(const struct frame *f, uint32_t *ret_target, char method[METHOD_MAX + 1],
                      struct cbor_reader *ret_args)
{
    struct cbor_reader r;
    struct cbor_item it;
    uint64_t n, target;
    cbor_reader_init(&r, f->body, f->length);
    if (cbor_get_array(&r, 3, &n) < 0 || n != 3 || cbor_get_uint(&r, UINT32_MAX, &target) < 0)
        return -1;
    if (cbor_next(&r, &it) < 0 || it.type != CBOR_TEXT || it.len == 0 || it.len > METHOD_MAX ||
        memchr(it.data, 0, it.len))
        return -1;
    memcpy(method, it.data, it.len);
    method[it.len] = '\0';
    *ret_target = (uint32_t)target;
    cbor_reader_init(ret_args, r.p, (size_t)(r.end - r.p));
    return 0;
}

bool link_admits(struct link *l, const struct frame *f)
{
    char method[METHOD_MAX + 1] = "";
    uint32_t target = f->id;
    struct cbor_reader args;
    const struct link_object_ops *ops = NULL;
    if (!l->config.admit || f->kind == FRAME_LOG || f->kind == FRAME_WINDOW)
        return true;
    if (f->kind == FRAME_DROP || (f->kind == FRAME_CALL && parse_head(f, &target, method, &args) == 0)) {
        struct idnode *n = target ? idtable_find(&l->exports, target) : NULL;
        ops = n ? container_of(n, struct export, node)->ops : target == 0 ? l->config.bootstrap : NULL;
    }
    return l->config.admit(l->config.user, ops, method);
}

/* UNTRUSTED INPUT */
void link_on_call(struct link *l, const struct frame *f)
{
    char method[METHOD_MAX + 1];
    uint32_t target;
    struct cbor_reader args;
    if (parse_head(f, &target, method, &args) < 0 || !cbor_well_formed(args.p, (size_t)(args.end - args.p))) {
        link_violation(l, "CALL frame whose body is not [target, method, arguments]");
        return;
    }
    if (idtable_find(&l->peer_calls, f->id)) {
        link_violation(l, "CALL with number %u, which is in use", f->id);
        return;
    }
    if (l->peer_calls.count >= LINK_MAX_CALLS) {
        link_violation(l, "more than %u calls in progress", LINK_MAX_CALLS);
        return;
    }
    struct link_call *call = calloc(1, sizeof *call);
    if (!call) {
        link_out_of_memory(l);
        return;
    }
    call->link = l;
    idtable_add(&l->peer_calls, &call->node, f->id);
    if (f->id > l->peer_call_max)
        l->peer_call_max = f->id;
    run_call(l, call, target, method, args);
}

/* --- capabilities --- */

uint32_t link_put_capability(struct link *l, struct buf *b, const struct link_object_ops *ops, void *object)
{
    struct export *ex = NULL;
    if (!b->failed && l->alive && l->exports.count < LINK_MAX_CAPS && l->next_cap != UINT32_MAX)
        ex = calloc(1, sizeof *ex);
    if (!ex) {
        b->failed = true;
        return 0;
    }
    uint32_t cap = l->next_cap;
    cbor_put_tag(b, CBOR_TAG_CAPABILITY);
    cbor_put_uint(b, cap);
    if (b->failed) {
        free(ex);
        return 0;
    }
    l->next_cap++;
    ex->ops = ops;
    ex->object = object;
    idtable_add(&l->exports, &ex->node, cap);
    return cap;
}

void link_revoke(struct link *l, uint32_t cap)
{
    struct idnode *n = idtable_find(&l->exports, cap);
    if (n)
        container_of(n, struct export, node)->ops = NULL;
}

int link_get_capability(struct cbor_reader *r, uint32_t *ret_cap)
{
    struct cbor_item it;
    uint64_t cap;
    if (cbor_next(r, &it) < 0 || it.type != CBOR_TAG || it.u64 != CBOR_TAG_CAPABILITY ||
        cbor_get_uint(r, UINT32_MAX, &cap) < 0 || cap == 0)
        return -1;
    *ret_cap = (uint32_t)cap;
    return 0;
}

static void release(struct link *l, struct idnode *n)
{
    struct export ex = *container_of(n, struct export, node);
    idtable_remove(&l->exports, n);
    free(container_of(n, struct export, node));
    if (ex.ops && ex.ops->drop)
        ex.ops->drop(ex.object);
}

/* UNTRUSTED INPUT */
void link_on_drop(struct link *l, const struct frame *f)
{
    uint32_t count;
    struct idnode *n = idtable_find(&l->exports, f->id);
    memcpy(&count, f->body, sizeof count);
    count = le32toh(count);
    if (!n)
        link_violation(l,
                       f->id < l->next_cap ? "DROP of capability %u, which was dropped already"
                                           : "DROP of capability %u, which was never given",
                       f->id);
    else if (count != 1)
        link_violation(l, "DROP of %u references to capability %u, of which the peer holds 1", count, f->id);
    else
        release(l, n);
}

/* --- the end --- */

void link_calls_shutdown(struct link *l)
{
    struct idnode *n;
    while ((n = l->calls.first)) {
        struct call call = *container_of(n, struct call, node);
        idtable_remove(&l->calls, n);
        free(container_of(n, struct call, node));
        if (call.fn)
            call.fn(call.user, &l->why, no_value());
    }
    /* on_cancel may consume this call and others, so start over after each. */
    for (n = l->peer_calls.first; n;) {
        struct link_call *call = container_of(n, struct link_call, node);
        if (call->cancelled) {
            n = n->next;
            continue;
        }
        cancel_call(call);
        n = l->peer_calls.first;
    }
}

void link_exports_shutdown(struct link *l)
{
    while (l->exports.first)
        release(l, l->exports.first);
}

void link_calls_orphan(struct link *l)
{
    while (l->peer_calls.first) {
        struct idnode *n = l->peer_calls.first;
        idtable_remove(&l->peer_calls, n);
        container_of(n, struct link_call, node)->link = NULL;
    }
}
