/* The one worker that lives in this process. Natives are called without a pointer of ours, so it is a
 * variable of the program. */
#ifndef CLOISTER_WORKER_WORKER_H
#define CLOISTER_WORKER_WORKER_H

#include "base/error.h"
#include "worker/engine_api.h"
#include "worker/timers.h"

#include <stdbool.h>
#include <stdint.h>

struct link;

/* What C calls in the library: the functions of js/natives.d.ts, Dispatch. */
#define DISPATCH_FUNCTIONS(X)                                                                                \
    X(START, start)                                                                                          \
    X(CALL, call)                                                                                            \
    X(FETCH, fetch)                                                                                          \
    X(CANCELLED, cancelled)                                                                                  \
    X(ANSWER, answer)                                                                                        \
    X(TIMER, timer)                                                                                          \
    X(STREAM_DATA, streamData)                                                                               \
    X(STREAM_END, streamEnd)                                                                                 \
    X(STREAM_RESET, streamReset)                                                                             \
    X(STREAM_WRITABLE, streamWritable)                                                                       \
    X(CHANNEL_MESSAGE, channelMessage)                                                                       \
    X(CHANNEL_CLOSED, channelClosed)                                                                         \
    X(UNHANDLED_REJECTION, unhandledRejection)                                                               \
    X(REQUEST_KILLED, requestKilled)                                                                         \
    X(WARM_UP, warmUp)
enum dispatch_function {
#define X(id, name) DISPATCH_##id,
    DISPATCH_FUNCTIONS(X)
#undef X
        DISPATCH_COUNT
};

struct worker {
    JSGlobalContextRef ctx;
    JSContextGroupRef group;
    JSObjectRef natives;
    JSObjectRef dispatch;
    JSObjectRef functions[DISPATCH_COUNT]; /* NULL: the library has none */
    struct link *link;                     /* NULL: --shell */
    struct timers timers;
    uint64_t started_ns; /* of the fork */
    uint32_t request;    /* the current one; 0: nobody's */
    void (*log)(int level, const char *text);
    bool terminated; /* the engine was stopped in the present entry */
};

extern struct worker worker;

/* Before anything else of the process touches the engine's library: its options, its allocator. */
int engine_prepare(struct error *err);
/* Creates the context, evaluates the bundle (a script whose value is a function natives -> dispatch) and
 * calls it. */
int engine_start(const char *bundle, struct error *err);
/* Another bundle in a context of its own, instead of the one that was started. */
int engine_restart(const char *bundle, struct error *err);
/* In the worker itself, after the fork: from here on the engine may have threads. */
void engine_settle(void);
/* When the worker is wanted: dispatch.start(). */
int engine_begin(struct error *err);
/* From within an entry: runs the microtasks that wait, until none does or one of them is stopped. */
void engine_drain(void);
/* Frees all garbage at once, which takes as long as looking at everything that is none. */
void engine_collect(void);
/* One entry into the library. False: it threw or was stopped. */
bool engine_enter(enum dispatch_function fn, uint32_t request, size_t argc, const JSValueRef argv[]);

#endif
