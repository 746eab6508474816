/* The application of Workers that a daemon hosts (--app), if any: src/app with the daemon's parts. */
#ifndef CLOISTER_DAEMON_APPLICATION_H
#define CLOISTER_DAEMON_APPLICATION_H

#include "base/error.h"

#include <stdbool.h>

#define APPLICATION_MAX_PROJECTS 16
#define APPLICATION_MAX_HOSTS 64

struct app;
struct daemon;

/* From the command line. */
struct application_options {
    const char *projects[APPLICATION_MAX_PROJECTS + 1]; /* --app; none: no application */
    const char *hosts[APPLICATION_MAX_HOSTS + 1];       /* --allow-host */
    unsigned project_count, host_count;
    const char *listen, *environment, *keep_free;
    bool development; /* cloister dev */
};

/* `o` must stay. Says on stdout (development) or in the log where it answers. */
int application_open(struct app **ret, struct daemon *d, const struct application_options *o,
                     struct error *err);

#endif
