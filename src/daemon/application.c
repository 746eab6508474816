#include "daemon/application.h"

#include "app/app.h"
#include "base/log.h"
#include "base/parse.h"
#include "daemon/container_capability.h"
#include "daemon/daemon.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* UNTRUSTED INPUT: guests must not drive the terminal. Lines stay lines. */
static void put_escaped(FILE *to, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if ((*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f ||
            (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
            fprintf(to, "\\x%02x", *p);
        else
            fputc(*p, to);
}

static void print_for_developer(void *user, const char *worker, const char *dynamic, int level,
                                const char *text)
{
    static const char *const colours[] = {"\033[31m", "\033[33m", "", "\033[2m"};
    FILE *to = stdout;
    bool colour = isatty(fileno(to));
    unsigned l = level < 0 ? 0 : level > 3 ? 3 : (unsigned)level;
    if (dynamic)
        fputs("[", to), put_escaped(to, dynamic), fputs("] ", to);
    else if (worker && l < 2)
        fprintf(to, "[%s %s] ", worker, level_names[l]);
    if (colour)
        fputs(colours[l], to);
    put_escaped(to, text);
    fputs(colour && *colours[l] ? "\033[0m\n" : "\n", to);
    fflush(to);
}

static void print_to_log(void *user, const char *worker, const char *dynamic, int level, const char *text)
{
    enum log_level l = level <= 0 ? LOG_ERROR : level == 1 ? LOG_WARN : level == 2 ? LOG_INFO : LOG_DEBUG;
    log_msg(l, "worker %s%s%s: %s", worker ? worker : "-", dynamic ? "/" : "", dynamic ? dynamic : "", text);
}

int application_open(struct app **ret, struct daemon *d, const struct application_options *o,
                     struct error *err)
{
    static char state_dir[PATH_MAX]; /* as long as the daemon */
    snprintf(state_dir, sizeof state_dir, "%s/workers", d->paths.data_dir);
    uint64_t keep_free = 0;
    if ((o->keep_free && parse_size(o->keep_free, "keep-free", &keep_free, err) < 0) ||
        paths_private_dir(state_dir, err) < 0)
        return -1;
    struct app_options ao = {
        .loop = d->loop,
        .projects = o->projects,
        .environment = o->environment,
        .listen = o->listen,
        .hosts = o->hosts,
        .state_dir = state_dir,
        .development = o->development,
        .keep_free = keep_free,
        .engine = d->engine,
        .image_dir = d->image_dir,
        .containers = &container_capabilities,
        .containers_user = d,
        .print = o->development ? print_for_developer : print_to_log,
    };
    if (app_open(ret, &ao, err) < 0)
        return -1;
    if (o->development) {
        printf("Ready on %s (Ctrl-C ends it)\n", app_url(*ret));
        fflush(stdout);
    } else {
        log_info("the application answers on %s", app_url(*ret));
    }
    return 0;
}
