/* The first call of every worker process: `init` of src/link/worker_protocol.h. */
#ifndef CLOISTER_APP_INIT_H
#define CLOISTER_APP_INIT_H

#include "app/module.h"
#include "base/buf.h"
#include "base/error.h"
#include "link/link.h"

#include <stdint.h>

struct init_limits {
    uint64_t cpu_ms, sub_requests, memory_mib, wall_ms; /* 0: none */
};

enum outbound { OUTBOUND_NONE, OUTBOUND_DAEMON, OUTBOUND_CHANNEL };

struct init {
    const char *role, *name;
    struct init_limits limits;
    const char *compatibility_date;         /* NULL: absent */
    const char *const *compatibility_flags; /* NULL-terminated; NULL: none */
    const struct modules *modules;          /* compiled; NULL: none (role compiler) */
    enum outbound outbound;
    uint32_t channel_in, channel_out; /* 0: no channel */
    /* Writes further pairs of the map; NULL: none. */
    unsigned extra_count;
    void (*extra)(struct buf *b, const void *user);
    const void *extra_user;
};

/* Makes the call; `fn` as of link_call(). -1: not made, `err` says why. */
int init_call(struct link *l, const struct init *init, link_answer_fn fn, void *user, struct error *err);

#endif
