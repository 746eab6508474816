/* Stands between the daemon and the real cloister-worker, as a worker that was taken over after it began
 * well: runs the real zygote (the file beside it, "<this program>.real") and passes everything on, frame by
 * frame, until the daemon says "evil:MODE." in a worker's name or "/evil/MODE." in the address of a request.
 * What MODE does is in misbehave(). */
#include "link/frame.h"
#include "worker/zygote_client.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FDS 16

/* One worker: what it hears and says passes by here. */
struct relay {
    int daemon, worker;
    pthread_mutex_t lock;   /* of writing to the daemon: whole frames */
    char mode[32];          /* "": none yet */
    uint32_t init, channel; /* numbers of its first call, and of the stream to its parent */
    bool deaf;
};

static bool write_all(int fd, const void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = send(fd, (const char *)data + done, len - done, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static bool send_frame(int fd, unsigned kind, uint32_t id, const void *body, size_t len)
{
    uint8_t head[FRAME_HEADER_SIZE];
    frame_header_write(head, (enum frame_kind)kind, id, (uint32_t)len);
    return write_all(fd, head, sizeof head) && write_all(fd, body, len);
}

static void many(int fd, unsigned kind, uint32_t first, uint32_t step, unsigned count, const void *body,
                 size_t len)
{
    for (unsigned i = 0; i < count; i++)
        if (!send_frame(fd, kind, first + i * step, body, len))
            return;
}

static bool is(const struct relay *r, const char *mode)
{
    return strcmp(r->mode, mode) == 0;
}

static void misbehave(struct relay *r, uint32_t call)
{
    static uint8_t zeros[400000];
    static const uint8_t null[] = {0xf6}, forged[] = {0x83, 0x07, 0x63, 'g', 'e', 't', 0xf6},
                         broken[] = {0x83, 0x00};
    static const uint8_t most[] = {0xff, 0xff, 0xff, 0xff};
    static uint8_t line[2000] = {0x83, 0x01, 0x00, 0x79, 0x07, 0x00}, deep[100000] = {0x83, 0x00, 0x61, 'x'};
    int fd = r->daemon;
    if (is(r, "forge")) {
        send_frame(fd, FRAME_CALL, 1000001, forged, sizeof forged);
    } else if (is(r, "foreign-stream")) {
        send_frame(fd, FRAME_DATA, 99998, "x", 1);
    } else if (is(r, "answer-unasked")) {
        send_frame(fd, FRAME_RETURN, 999999, null, 1);
    } else if (is(r, "answer-twice")) {
        send_frame(fd, FRAME_RETURN, call, null, 1);
        send_frame(fd, FRAME_RETURN, call, null, 1);
    } else if (is(r, "huge")) {
        uint8_t head[FRAME_HEADER_SIZE];
        frame_header_write(head, FRAME_RETURN, call, FRAME_MAX_BODY + 1);
        write_all(fd, head, sizeof head);
    } else if (is(r, "unknown")) {
        send_frame(fd, 99, 1, null, 1);
    } else if (is(r, "truncated")) {
        uint8_t head[FRAME_HEADER_SIZE];
        frame_header_write(head, FRAME_RETURN, call, 1000);
        write_all(fd, head, sizeof head);
        _exit(0);
    } else if (is(r, "broken")) {
        send_frame(fd, FRAME_CALL, 1000001, broken, sizeof broken);
    } else if (is(r, "deep")) {
        memset(deep + 4, 0x81, sizeof deep - 5);
        send_frame(fd, FRAME_CALL, 1000001, deep, sizeof deep);
    } else if (is(r, "leak-streams")) {
        many(fd, FRAME_DATA, 1000001, 2, 200000, zeros, 100);
    } else if (is(r, "leak-calls")) { /* without an end: each loads something that never comes */
        static const uint8_t load[] = {0x83, 0x00, 0x64, 'l', 'o', 'a', 'd', 0xa1,
                                       0x66, 's',  't',  'r', 'e', 'a', 'm', 0x1a};
        for (uint32_t i = 0; i < 5000; i++) {
            uint8_t body[sizeof load + 4];
            uint32_t stream = 1000001 + 2 * i;
            memcpy(body, load, sizeof load);
            for (int k = 0; k < 4; k++)
                body[sizeof load + (size_t)k] = (uint8_t)(stream >> (24 - 8 * k));
            if (!send_frame(fd, FRAME_CALL, 1000001 + i, body, sizeof body) ||
                !send_frame(fd, FRAME_DATA, stream, zeros, 100000))
                break;
        }
    } else if (is(r, "log")) {
        memset(line + 6, 'x', 0x700);
        many(fd, FRAME_LOG, 0, 0, 200000, line, 6 + 0x700);
    } else if (is(r, "channel-huge")) {
        send_frame(fd, FRAME_DATA, r->channel, most, sizeof most);
    } else if (is(r, "channel-bomb")) { /* a message of lists within lists */
        static uint8_t bomb[200004];
        uint32_t n = sizeof bomb - 4;
        memset(bomb, 0x9f, sizeof bomb);
        memcpy(bomb, &n, 4);
        send_frame(fd, FRAME_DATA, r->channel, bomb, sizeof bomb);
    } else if (is(r, "channel-credit")) {
        send_frame(fd, FRAME_DATA, r->channel, zeros, sizeof zeros);
    } else if (is(r, "window")) {
        many(fd, FRAME_WINDOW, r->channel - 2, 0, 4, most, sizeof most);
    } else if (is(r, "deaf")) {
        r->deaf = true;
    }
}

/* ---- passing on ---- */

/* The next whole frame, with its header; 0: the end. */
static size_t take_frame(int fd, uint8_t *to, struct frame *f)
{
    struct error err = {0};
    if (recv(fd, to, FRAME_HEADER_SIZE, MSG_WAITALL) != (ssize_t)FRAME_HEADER_SIZE ||
        frame_header_read(to, f, &err) < 0 ||
        (f->length && recv(fd, to + FRAME_HEADER_SIZE, f->length, MSG_WAITALL) != (ssize_t)f->length))
        return 0;
    f->body = to + FRAME_HEADER_SIZE;
    return FRAME_HEADER_SIZE + f->length;
}

static const uint8_t *find(const struct frame *f, const char *word)
{
    return f->length ? memmem(f->body, f->length, word, strlen(word)) : NULL;
}

/* The stream by which it speaks to its parent: {..., "channel": {"in": n, "out": n}, ...}. */
static uint32_t channel_of(const struct frame *f)
{
    const uint8_t *map = find(f, "gchannel\xa2"), *p = map ? memmem(map, 64, "cout", 4) : NULL;
    if (!p)
        return 0;
    p += 4;
    return *p < 24 ? *p : *p == 0x18 ? p[1] : (uint32_t)(p[1] << 8 | p[2]);
}

static void listen_to_daemon(struct relay *r, const struct frame *f)
{
    if (f->kind != FRAME_CALL || r->mode[0])
        return;
    const uint8_t *at = find(f, "evil:");
    if (!at)
        at = find(f, "/evil/");
    if (!at)
        return;
    at += *at == '/' ? 6 : 5;
    for (size_t n = 0; n + 1 < sizeof r->mode && (*at == '-' || (*at >= 'a' && *at <= 'z')); n++)
        r->mode[n] = (char)*at++;
    r->init = find(f, "dinit") ? f->id : 0;
    r->channel = channel_of(f);
    if (r->init)
        return; /* it begins well */
    pthread_mutex_lock(&r->lock);
    misbehave(r, f->id);
    pthread_mutex_unlock(&r->lock);
}

static void *from_daemon(void *user)
{
    struct relay *r = user;
    uint8_t *bytes = malloc(FRAME_HEADER_SIZE + FRAME_MAX_BODY);
    struct frame f;
    size_t n;
    while ((n = take_frame(r->daemon, bytes, &f)) > 0) {
        listen_to_daemon(r, &f);
        if (!write_all(r->worker, bytes, n))
            break;
        while (r->deaf)
            pause();
    }
    shutdown(r->worker, SHUT_RDWR);
    return NULL;
}

static void from_worker(struct relay *r)
{
    uint8_t *bytes = malloc(FRAME_HEADER_SIZE + FRAME_MAX_BODY);
    struct frame f;
    size_t n;
    while ((n = take_frame(r->worker, bytes, &f)) > 0) {
        bool begun = r->init && f.id == r->init && f.kind == FRAME_RETURN;
        if (r->init && is(r, "mute"))
            continue;
        pthread_mutex_lock(&r->lock);
        bool ok = write_all(r->daemon, bytes, n);
        if (ok && begun)
            misbehave(r, f.id);
        pthread_mutex_unlock(&r->lock);
        if (!ok)
            break;
    }
}

_Noreturn static void relay(int to_daemon, int to_worker)
{
    struct relay r = {.daemon = to_daemon, .worker = to_worker, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    pthread_create(&thread, NULL, from_daemon, &r);
    from_worker(&r);
    _exit(0);
}

/* ---- the zygote's messages ---- */

static bool pass(int from, int to)
{
    struct zygote_message m;
    union {
        char space[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } c;
    struct iovec iov = {&m, sizeof m};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.space, .msg_controllen = sizeof c.space};
    ssize_t n = recvmsg(from, &msg, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return false;
    int fds[MAX_FDS], ends[2];
    size_t count = 0;
    struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
    if (h) {
        count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(h), count * sizeof(int));
    }
    if (m.type == ZYGOTE_FORK && count > 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        if (fork() == 0) {
            close(from);
            close(to);
            close(ends[1]);
            relay(fds[0], ends[0]);
        }
        close(ends[0]);
        close(fds[0]);
        fds[0] = ends[1];
        memcpy(CMSG_DATA(h), fds, count * sizeof(int));
    }
    iov.iov_len = (size_t)n;
    bool ok = sendmsg(to, &msg, MSG_NOSIGNAL) == n;
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    return ok;
}

int main(int argc, char **argv)
{
    char real[PATH_MAX] = "";
    struct error err = {0};
    int daemon = argc > 2 ? atoi(argv[2]) : -1, zygote;
    pid_t pid;
    ssize_t n = readlink("/proc/self/exe", real, sizeof real - 8);
    signal(SIGCHLD, SIG_IGN);
    if (n <= 0 || strcpy(real + n, ".real") == NULL || zygote_spawn(real, &zygote, &pid, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    struct pollfd polled[] = {{.fd = daemon, .events = POLLIN}, {.fd = zygote, .events = POLLIN}};
    for (;;) {
        if (poll(polled, 2, -1) < 0)
            continue;
        if ((polled[0].revents && !pass(daemon, zygote)) || (polled[1].revents && !pass(zygote, daemon)))
            return 0;
    }
}
