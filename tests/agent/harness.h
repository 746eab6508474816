/* Speaks to a real cloister-init as a daemon would: namespaces, identity maps, a root made of this machine's
 * own file system under an overlay, and the host side of the link. Needs root. */
#ifndef CLOISTER_TESTS_AGENT_HARNESS_H
#define CLOISTER_TESTS_AGENT_HARNESS_H

#include "base/buf.h"
#include "base/error.h"
#include "link/agent_protocol.h"
#include "link/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct box; /* one container */

struct box_options {
    bool cgroup;         /* hand over a cgroup v2 directory */
    uint64_t open_files; /* limits; 0: none */
    uint64_t memory_watch;
    const char *lower;        /* root of the image instead of "/" */
    const char *mount_target; /* a further tmpfs there */
    bool single_id; /* one user and one group mapped, setgroups forbidden: as for an ordinary host user */
    bool held;      /* "start" without a main process */
    const char *main_argv[8]; /* default: sleep infinity */
    uint32_t main_stdout;     /* stream; 0: none */
};

/* An answer to a call, or an error. Its memory belongs to the box. */
struct answer {
    struct box *box;
    bool done, failed;
    struct error err;
    struct buf value;
};

/* What arrives on a stream. */
struct sink {
    struct box *box;
    uint32_t stream;
    struct buf bytes;
    uint64_t total;
    bool keep;  /* collect into bytes */
    bool pause; /* give no credit back */
    bool ended, reset;
    struct error why;
};

/* What is sent on a stream: a buffer, then END. */
struct feed {
    struct box *box;
    uint32_t stream;
    const uint8_t *data;
    size_t len, sent;
    bool ended, reset;
    bool keep_open; /* no END */
    struct error why;
};

struct proc {
    uint32_t cap;
    uint64_t pid;
    int code, signal; /* -1 when absent */
};

/* Ends the test program on any failure of the harness itself. */
struct box *box_new(const struct box_options *options);     /* set up, not started */
bool box_start(struct box *b, struct answer *ret);          /* "start" */
struct box *box_started(const struct box_options *options); /* both; failure ends the test */
void box_free(struct box *b);
void box_set_main_stdout(struct box *b, uint32_t stream); /* before box_start() */
pid_t box_pid(const struct box *b);
struct link *box_link(struct box *b);
struct proc box_main(const struct box *b);
int box_fd_count(const struct box *b);        /* open descriptors of the agent */
long box_cpu_ticks(const struct box *b);      /* processor time of the agent so far */
void box_ping_with_fd(struct box *b, int fd); /* "ping", with a descriptor attached */
bool box_exited(struct box *b);               /* the agent has ended */

void box_call(struct box *b, uint32_t cap, const char *method, struct buf *args, struct answer *ret);
uint32_t box_call_start(struct box *b, uint32_t cap, const char *method, struct buf *args,
                        struct answer *ret);
bool box_until(struct box *b, bool *flag, int timeout_ms); /* runs the link until *flag */
void box_run(struct box *b, int ms);
void answer_free(struct answer *a);

uint32_t sink_open(struct box *b, struct sink *s, bool keep);
uint32_t feed_open(struct box *b, struct feed *f, const void *data, size_t len);
void feed_more(struct feed *f, const void *data, size_t len);
void feed_end(struct feed *f);
void sink_free(struct sink *s);

/* exec */
struct run {
    const char *argv[16];
    const char *env[16];
    const char *cwd, *user;
    const void *input; /* NULL: no stdin stream */
    size_t input_len;
    bool open_stdin; /* a stdin stream that is not ended */
    bool want_stderr, combined, pty, tree, no_stdout;
    uint16_t cols, rows;
    /* results */
    struct sink out, err;
    struct feed in;
    struct proc proc;
    struct answer start;
};
bool run_start(struct box *b, struct run *r);                /* false: r->start.err */
bool run_wait(struct box *b, struct run *r, int timeout_ms); /* wait and both streams' ends */
bool run_wait_only(struct box *b, struct run *r, int timeout_ms);
void run_free(struct run *r);
/* stdout of a shell command; the caller frees. Fails the test when it does not exit 0. */
char *sh(struct box *b, const char *script);

bool answer_uint(const struct answer *a, const char *key, uint64_t *ret);

#endif
