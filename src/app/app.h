/* An application: the Workers of one or more Workers projects, with what they share, and the address on which
 * the first of them answers HTTP. */
#ifndef CLOISTER_APP_APP_H
#define CLOISTER_APP_APP_H

#include "app/containers.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct app;
struct engine;

#define APP_DEFAULT_ADDRESS "127.0.0.1"
#define APP_DEFAULT_PORT 8787

struct app_options {
    uv_loop_t *loop;
    const char *const *projects; /* directories or configuration files; NULL-terminated, at least one. The
                                    first answers HTTP */
    const char *environment;     /* --env; NULL: none */
    const char *listen; /* "ADDRESS:PORT", "[ADDRESS]:PORT" or "PORT" (0: any free one); NULL: the default */
    const char *const
        *hosts; /* names that may stand in a Host header besides those of this machine; NULL: none */
    const char *state_dir; /* private directory, which exists; each Worker has a directory of its own in it */
    bool development; /* follows changes of the sources, tells clients what failed, secrets may be missing */
    uint64_t
        keep_free; /* bytes of memory: when less is left, idle Dynamic Workers end (shortage.h); 0: default
                    */
    const char *worker_program; /* NULL: beside the program */
    struct engine *engine;      /* NULL: no containers, because of ... */
    const char *no_engine;      /* ... this */
    const char *image_dir;
    const struct object_containers_ops *containers; /* see objects.h */
    void *containers_user;
    /* What happens, in lines for people; `worker` is NULL where none is meant, `dynamic` when the line is not
     * a Dynamic Worker's. level: 0 error, 1 warning, 2 information, 3 debug. UNTRUSTED INPUT: text of a
     * Worker's console may hold anything. */
    void (*print)(void *user, const char *worker, const char *dynamic, int level, const char *text);
    void *user;
};

/* Reads the projects and listens; the Workers are bundled after that, from the loop. The strings of `options`
 * must stay. */
int app_open(struct app **ret, const struct app_options *options, struct error *err);
/* Ends everything. The loop must run once more for its handles to close. */
void app_close(struct app *a);
/* "http://127.0.0.1:8787" */
const char *app_url(const struct app *a);

#endif
