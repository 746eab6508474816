/* Carrying bytes between descriptors and streams of the link, with credit both ways.
 *
 * An output pump reads a pipe or terminal master into a stream; at the end of file it ENDs the stream. It
 * outlives the process whose output it carries (a background child may hold the pipe). An input pump writes
 * what arrives on a stream and belongs to nobody: it frees itself when the stream has ended or nobody reads
 * any more. */
#ifndef CLOISTER_AGENT_PUMP_H
#define CLOISTER_AGENT_PUMP_H

#include "agent/agent.h"

struct out_pump {
    struct source source;
    struct agent *agent;
    struct out_pump *next, **link; /* in agent->pumps */
    uint32_t stream;
    bool streaming; /* false: bytes are read and thrown away */
    bool terminal;
    bool done;        /* end of file; the descriptor is closed */
    bool hold_end;    /* the owner ENDs or RESETs the stream itself, after `done` */
    bool grown;       /* the pipe was enlarged, as far as the machine allows */
    bool flood;       /* so much comes that it goes past our memory (apart.c) */
    int full_reads;   /* consecutive reads that took all there could be: the pipe is worth enlarging */
    int64_t to_drain; /* bytes still to be sent before `drained` is called; -1: not asked */
    void (*drained)(void *owner); /* also called at end of file; may release the pump. NULL: no owner */
    void *owner;
};

/* Takes `fd`, whatever happens. `streaming` false: what is read is thrown away. */
struct out_pump *out_pump_new(struct agent *a, int fd, bool terminal, bool streaming, uint32_t stream,
                              struct error *err);
/* From now on count what is in the pipe; `drained` is called when that has been sent (never from inside this
 * call). True when there is nothing to wait for. */
bool out_pump_drain(struct out_pump *p);
/* The stream is reset; what still comes is thrown away, so that the writer does not die of SIGPIPE. */
void out_pump_discard(struct out_pump *p);
/* The owner goes; the pump goes on by itself. NULL-safe. */
void out_pump_release(struct out_pump *p);
/* Stops at once and resets the stream with `why`. Calls `drained` like an end of file. */
void out_pump_fail(struct out_pump *p, const struct error *why);
/* There is room in the link again. */
void pumps_resume(struct agent *a);

struct in_pump;
/* Takes `fd`, whatever happens. `commit_fd` (taken; -1: none) gets one byte after everything was written if
 * the stream ended in order, and is closed without one when it was reset. */
struct in_pump *in_pump_new(struct agent *a, int fd, bool terminal, int commit_fd, uint32_t stream,
                            struct error *err);
/* Ends it as a reset stream would. Only for an owner that knows it is still alive (`gone` not yet called). */
void in_pump_abort(struct in_pump *p, const struct error *why);
void in_pump_on_gone(struct in_pump *p, void (*gone)(void *owner), void *owner);

#endif
