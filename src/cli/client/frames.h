/* The daemon's output format application/vnd.cloister.frames (docs/api.md), taken apart as it arrives. */
#ifndef CLOISTER_CLI_CLIENT_FRAMES_H
#define CLOISTER_CLI_CLIENT_FRAMES_H

#include "base/buf.h"
#include "base/error.h"

#define FRAMES_TYPE "application/vnd.cloister.frames"

enum frame_kind { FRAME_STDOUT = 1, FRAME_STDERR = 2, FRAME_EVENT = 3 };

struct frames {
    uint8_t header[16];
    size_t have;         /* of the header */
    uint32_t left;       /* of the body */
    uint64_t cursors[2]; /* of stdout and stderr, after what has been announced */
    struct buf event;
    /* Output as it comes; an event whole (at most 64 KiB). -1, with the error filled, to give up. */
    int (*on_output)(void *user, int fd, const uint8_t *data, size_t len, struct error *err);
    int (*on_event)(void *user, const char *json, size_t len, struct error *err);
    void *user;
};

void frames_init(struct frames *f);
void frames_free(struct frames *f);
int frames_feed(struct frames *f, const void *data, size_t len, struct error *err);
/* For a caller that moves output itself: bytes of the present frame that are still to come (0: none, or no
 * output), and that so many of them are dealt with. */
size_t frames_output_left(const struct frames *f);
void frames_skip(struct frames *f, size_t n);

#endif
