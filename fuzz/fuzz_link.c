/* One end of a link against a peer that sends anything, while the end itself uses its whole interface. The
 * input is a program: an operation byte and its operands, until it runs out. */
#include "link/frame.h"
#include "link/link.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define HELD_MAX 64
#define ENDS_MAX 64

struct input {
    const uint8_t *p, *end;
};

struct end {
    struct world *world;
    uint32_t id;
    bool open;
};

struct world {
    struct link *l;
    struct input *in;
    struct link_call *held[HELD_MAX];
    unsigned held_count;
    struct end ends[ENDS_MAX];
    unsigned end_count;
    unsigned exported, dropped, asked, answered, cancelled;
    uint32_t last_call, last_cap;
    unsigned asked_to_admit, turns;
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

static uint8_t byte(struct input *in)
{
    return in->p < in->end ? *in->p++ : 0;
}

static uint8_t zeros[LINK_STREAM_WINDOW];

/* --- streams --- */

static void on_data(void *user, uint32_t id, const uint8_t *data, size_t len)
{
    struct end *e = user;
    check(e->open && e->id == id && len > 0 && len <= LINK_STREAM_WINDOW);
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum = (uint8_t)(sum + data[i]);
    link_stream_consumed(e->world->l, id, byte(e->world->in) & 1 ? len : len / 2);
}

static void close_end(struct end *e, uint32_t id)
{
    check(e->open && e->id == id);
    e->open = false;
}

static void on_end(void *user, uint32_t id)
{
    close_end(user, id);
}

static void on_reset(void *user, uint32_t id, const struct error *why)
{
    struct end *e = user;
    check(why->kind != ERROR_NONE && why->message[0]);
    close_end(e, id);
    /* Owners often give up their other streams in here, also while the link dies. */
    struct end *other = &e->world->ends[0];
    if (other->open) {
        other->open = false;
        link_stream_reset(e->world->l, other->id, NULL);
    }
}

static void on_writable(void *user, uint32_t id)
{
    struct end *e = user;
    check(e->open && e->id == id);
    size_t n = link_stream_writable(e->world->l, id);
    check(n <= INT32_MAX);
    if (n > 0)
        check(link_stream_write(e->world->l, id, zeros, n < 100 ? n : 100) == 0 || !link_alive(e->world->l));
}

static const struct link_stream_ops stream_ops = {on_data, on_end, on_reset, on_writable};

static void open_end(struct world *w, uint32_t id, bool sending)
{
    if (w->end_count == ENDS_MAX)
        return;
    struct end *e = &w->ends[w->end_count];
    *e = (struct end){.world = w, .id = id};
    if ((sending ? link_stream_open_send : link_stream_open_receive)(w->l, id, &stream_ops, e, NULL) == 0) {
        e->open = true;
        w->end_count++;
    }
}

/* --- calls --- */

static void on_call(void *user, struct link_call *call, const char *method, struct cbor_reader args);

static void on_drop(void *user)
{
    ((struct world *)user)->dropped++;
}

static const struct link_object_ops ops = {on_call, on_drop};

static void on_cancelled(void *user)
{
    ((struct world *)user)->cancelled++;
}

static void answer(struct world *w, struct link_call *call, uint8_t how)
{
    struct buf b;
    struct error err = {.kind = ERROR_STATE, .message = "no"};
    buf_init(&b, 0);
    if (how % 4 == 0) {
        link_throw(call, &err);
    } else if (how % 4 == 1) {
        uint32_t cap = link_put_capability(w->l, &b, &ops, w);
        if (cap) {
            w->exported++;
            w->last_cap = cap;
        }
        link_return(call, b.data, b.len);
    } else {
        link_return(call, NULL, 0);
    }
    buf_free(&b);
}

static void on_call(void *user, struct link_call *call, const char *method, struct cbor_reader args)
{
    struct world *w = user;
    uint64_t id;
    uint32_t cap;
    check(cbor_well_formed(args.p, (size_t)(args.end - args.p)) && method[0]);
    struct cbor_reader at = args;
    if (link_get_capability(&at, &cap) == 0)
        link_drop(w->l, cap);
    if (cbor_get_uint(&args, UINT32_MAX, &id) == 0)
        open_end(w, (uint32_t)id, method[0] == 's');
    if (method[0] == 'w')
        link_hold(w->l);
    if (method[0] == 'd')
        link_shutdown(w->l, NULL);
    if (method[0] == 'h' && w->held_count < HELD_MAX) {
        w->held[w->held_count++] = call;
        link_call_on_cancel(call, on_cancelled, w);
    } else {
        answer(w, call, byte(w->in));
    }
}

static void on_answer(void *user, const struct error *err, struct cbor_reader value)
{
    struct world *w = user;
    w->answered++;
    check(err ? err->kind != ERROR_NONE : cbor_well_formed(value.p, (size_t)(value.end - value.p)));
}

static void on_log(void *user, int level, int64_t ms, const char *text)
{
    check(level >= 0 && level <= 7 && strlen(text) < FRAME_MAX_BODY);
}

/* Every fourth frame waits, once. */
static bool on_admit(void *user, const struct link_object_ops *of, const char *method)
{
    struct world *w = user;
    check(of == NULL || of == &ops);
    return ++w->asked_to_admit % 4 != 3;
}

/* --- operations --- */

/* The peer sends `n` bytes of input, in pieces of `split`. */
static void feed(struct world *w, const uint8_t *data, size_t len, size_t split)
{
    struct error err = {0};
    while (len > 0) {
        size_t n = split && split < len ? split : len;
        uint8_t *copy = malloc(n);
        check(copy);
        memcpy(copy, data, n);
        int r = link_receive(w->l, copy, n, &err);
        free(copy);
        check((r == 0) == link_alive(w->l));
        if (r < 0) {
            check(err.kind != ERROR_NONE && err.message[0]);
            return;
        }
        data += n;
        len -= n;
    }
}

/* A frame with a right header, so that the fuzzer reaches what lies behind it. */
static void feed_frame(struct world *w)
{
    struct input *in = w->in;
    uint8_t frame[FRAME_HEADER_SIZE + 256];
    uint8_t kind = byte(in), id = byte(in), split = byte(in);
    size_t len = byte(in);
    if (len > (size_t)(in->end - in->p))
        len = (size_t)(in->end - in->p);
    frame_header_write(frame, kind % 12, id, (uint32_t)len);
    memcpy(frame + FRAME_HEADER_SIZE, in->p, len);
    in->p += len;
    feed(w, frame, FRAME_HEADER_SIZE + len, split);
}

static void feed_raw(struct world *w)
{
    struct input *in = w->in;
    size_t len = byte(in);
    if (len > (size_t)(in->end - in->p))
        len = (size_t)(in->end - in->p);
    const uint8_t *p = in->p;
    in->p += len;
    feed(w, p, len, 0);
}

static void feed_much_data(struct world *w, uint32_t id)
{
    uint8_t head[FRAME_HEADER_SIZE];
    frame_header_write(head, FRAME_DATA, id, 100000);
    feed(w, head, sizeof head, 0);
    if (link_alive(w->l))
        feed(w, zeros, 100000, 0);
}

static struct end *pick_end(struct world *w)
{
    if (w->end_count == 0)
        return NULL;
    struct end *e = &w->ends[byte(w->in) % w->end_count];
    return e->open ? e : NULL;
}

static void use_stream(struct world *w)
{
    struct end *e = pick_end(w);
    uint8_t what = byte(w->in);
    if (!e)
        return;
    if (what % 4 == 0) {
        size_t n = link_stream_writable(w->l, e->id);
        if (n > sizeof zeros)
            n = sizeof zeros;
        link_stream_write(w->l, e->id, zeros, what & 16 ? n : n < 10 ? n : 10);
    } else if (what % 4 == 1) {
        link_stream_consumed(w->l, e->id, what & 16 ? SIZE_MAX : what);
    } else if (what % 4 == 2) {
        e->open = false;
        link_stream_reset(w->l, e->id, NULL);
    } else if (link_stream_writable(w->l, e->id) > 0) { /* surely a sender */
        e->open = false;
        link_stream_end(w->l, e->id);
    }
}

static void send_some(struct world *w, size_t most)
{
    struct iovec iov[2];
    int n = link_output(w->l, iov, 2);
    size_t len = 0;
    for (int i = 0; i < n; i++) {
        check(iov[i].iov_len > 0);
        len += iov[i].iov_len;
    }
    link_sent(w->l, len < most ? len : most);
}

static void go_on(struct world *w)
{
    struct error err = {0};
    int r = link_go_on(w->l, &err);
    check((r == 0) == link_alive(w->l) && (r == 0 || err.message[0]));
}

static void operate(struct world *w)
{
    if (link_held(w->l) && ++w->turns % 3 == 0)
        go_on(w);
    if (!link_alive(w->l))
        return;
    switch (byte(w->in) % 12) {
    case 0:
    case 1:
        feed_frame(w);
        break;
    case 2:
        feed_raw(w);
        break;
    case 3:
        w->last_call = link_call(w->l, byte(w->in), "m", NULL, 0, on_answer, w);
        w->asked += w->last_call != 0;
        break;
    case 4:
        if (w->last_call)
            link_cancel(w->l, w->last_call);
        break;
    case 5:
        if (w->held_count > 0)
            answer(w, w->held[--w->held_count], byte(w->in));
        break;
    case 6:
        open_end(w, link_stream_new(w->l), byte(w->in) & 1);
        break;
    case 7:
        use_stream(w);
        break;
    case 8:
        send_some(w, byte(w->in) & 1 ? SIZE_MAX : byte(w->in));
        break;
    case 9:
        link_log(w->l, byte(w->in), 0, "text");
        break;
    case 10:
        feed_much_data(w, byte(w->in));
        break;
    default:
        link_drop(w->l, byte(w->in));
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {data, data + len};
    struct world w = {.in = &in};
    uint8_t setup = byte(&in);
    w.l = link_new(&(struct link_config){.side = setup & 1 ? LINK_GUEST : LINK_HOST,
                                         .bootstrap = setup & 2 ? NULL : &ops,
                                         .bootstrap_object = &w,
                                         .log = on_log,
                                         .admit = setup & 8 ? on_admit : NULL,
                                         .max_output = setup & 4 ? 5000 : 0,
                                         .user = &w});
    check(w.l);
    while (in.p < in.end && link_alive(w.l))
        operate(&w);
    link_shutdown(w.l, NULL);
    for (unsigned i = 0; i < w.end_count; i++)
        check(!w.ends[i].open);
    check(w.dropped == w.exported && w.answered <= w.asked);
    while (w.held_count > 1)
        link_return(w.held[--w.held_count], NULL, 0);
    link_free(w.l);
    while (w.held_count > 0) /* outlives the link */
        link_return(w.held[--w.held_count], NULL, 0);
    return 0;
}
