/* cloister-daemon: the server behind `cloister serve`. */
#include "app/app.h"
#include "base/log.h"
#include "base/parse.h"
#include "container/engine.h"
#include "daemon/application.h"
#include "daemon/cell.h"
#include "daemon/collect.h"
#include "daemon/daemon.h"
#include "daemon/listen.h"
#include "daemon/registry.h"
#include "daemon/routes.h"
#include "daemon/server.h"
#include "daemon/state.h"

#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOOK_NS 30000u
#define TIDY_MS 30000u

struct options {
    const char *socket, *data_dir, *run_dir, *image_dir, *pool, *log_level;
    struct application_options app;
    bool print_routes;
};

struct program {
    struct daemon daemon;
    struct collector *collector;
    int data_lock, run_lock, listening;
    uv_signal_t terminate, interrupt;
    uv_timer_t tidy;
    uv_prepare_t look;
};

static const char usage[] =
    "Usage: cloister serve [OPTION]...\n"
    "Serves the Cloister API on a Unix socket until it is told to end (SIGTERM or Ctrl-C).\n"
    "\n"
    "  --socket PATH     where to listen (default: cloister.sock in the run directory)\n"
    "  --data-dir DIR    images, snapshots, state, config.json\n"
    "  --run-dir DIR     what lives only as long as containers run; best on a tmpfs\n"
    "  --pool N          blank containers kept ready, 0 to 256 (default 4)\n"
    "  --log-level L     error, warn, info (default) or debug\n"
    "  --app DIR         also host the Workers project in this directory; further ones are its services\n"
    "  --app-listen A    where its first Worker answers HTTP: ADDRESS:PORT (default 127.0.0.1:8787)\n"
    "  --app-env NAME    the environment of its configuration (env.NAME)\n"
    "  --allow-host NAME a name by which clients may ask for it, besides localhost; may be repeated\n"
    "  --keep-free SIZE  end idle Dynamic Workers when less memory is left (default 5 % of the machine's)\n"
    "  --image-dir DIR   where its containers' images are (default: the data directory)\n"
    "  --print-routes    print the routes of the API and exit\n"
    "  --help, --version\n"
    "\n"
    "root keeps its data in /var/lib/cloister and /run/cloister; others in ~/.local/share/cloister and\n"
    "$XDG_RUNTIME_DIR/cloister.\n";

static int add(const char **list, unsigned *count, unsigned max, const char *value, const char *option)
{
    if (*count >= max) {
        fprintf(stderr, "cloister serve: --%s may be given at most %u times\n", option, max);
        return -1;
    }
    list[(*count)++] = value;
    return 0;
}

/* What concerns the application; 1: it is none of these. */
static int parse_app_option(int c, struct application_options *a)
{
    switch (c) {
    case 'a':
        return add(a->projects, &a->project_count, APPLICATION_MAX_PROJECTS, optarg, "app");
    case 'H':
        return add(a->hosts, &a->host_count, APPLICATION_MAX_HOSTS, optarg, "allow-host");
    case 'L':
        a->listen = optarg;
        return 0;
    case 'e':
        a->environment = optarg;
        return 0;
    case 'f':
        a->keep_free = optarg;
        return 0;
    case 'D':
        a->development = true;
        return 0;
    default:
        return 1;
    }
}

/* 0: go on; 1: done; -1: wrong usage. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"socket", required_argument, NULL, 's'},
        {"data-dir", required_argument, NULL, 'd'},
        {"run-dir", required_argument, NULL, 'r'},
        {"pool", required_argument, NULL, 'p'},
        {"log-level", required_argument, NULL, 'l'},
        {"print-routes", no_argument, NULL, 'R'},
        {"app", required_argument, NULL, 'a'},
        {"app-listen", required_argument, NULL, 'L'},
        {"app-env", required_argument, NULL, 'e'},
        {"allow-host", required_argument, NULL, 'H'},
        {"keep-free", required_argument, NULL, 'f'},
        {"image-dir", required_argument, NULL, 'i'},
        {"dev", no_argument, NULL, 'D'}, /* for `cloister dev` */
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 's':
            o->socket = optarg;
            break;
        case 'd':
            o->data_dir = optarg;
            break;
        case 'r':
            o->run_dir = optarg;
            break;
        case 'p':
            o->pool = optarg;
            break;
        case 'l':
            o->log_level = optarg;
            break;
        case 'R':
            o->print_routes = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 1;
        case 'V':
            puts("cloister-daemon " CLOISTER_VERSION);
            return 1;
        case 'i':
            o->image_dir = optarg;
            break;
        default:
            if (parse_app_option(c, &o->app) != 0)
                return -1;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "cloister serve: unexpected argument %s; see --help\n", argv[optind]);
        return -1;
    }
    return 0;
}

static int set_log_level(const char *text, struct error *err)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; text && i < 4; i++)
        if (strcmp(names[i], text) == 0) {
            log_set_level((enum log_level)i);
            return 0;
        }
    return text ? error_field(err, "log-level", "log-level: expected error, warn, info or debug") : 0;
}

/* Every container takes some descriptors; what the system allows, we ask for. */
static void raise_file_limit(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

static void on_signal(uv_signal_t *s, int signal)
{
    log_info("signal %d: ending", signal);
    uv_stop(s->loop);
}

static void on_tidy(uv_timer_t *t)
{
    struct program *p = t->data;
    state_tidy(p->daemon.state_db);
}

/* ---- coming up, in this order ---- */

static int claim(struct program *p, const struct options *o, struct error *err)
{
    struct daemon *d = &p->daemon;
    if (paths_init(&d->paths, o->data_dir, o->run_dir, o->socket, err) < 0 ||
        paths_private_dir(d->paths.data_dir, err) < 0 || paths_private_dir(d->paths.run_dir, err) < 0 ||
        claim_directory(d->paths.data_dir, d->paths.socket, &p->data_lock, err) < 0)
        return -1;
    if (strcmp(d->paths.data_dir, d->paths.run_dir) != 0 &&
        claim_directory(d->paths.run_dir, d->paths.socket, &p->run_lock, err) < 0)
        return -1;
    return config_load(&d->config, d->paths.data_dir, err);
}

static int open_engine(struct program *p, const struct options *o, struct error *err)
{
    struct daemon *d = &p->daemon;
    uint64_t pool = d->config.pool;
    if (o->pool && parse_u64(o->pool, "pool", 0, CONFIG_MAX_POOL, &pool, err) < 0)
        return -1;
    struct engine_config config = {
        .loop = d->loop, .data_dir = d->paths.data_dir, .run_dir = d->paths.run_dir, .pool = (unsigned)pool};
    if (engine_open(&d->engine, &config, err) < 0)
        return -1;
    int orphans = engine_reap_orphans(d->engine, true);
    if (orphans > 0)
        log_info("removed what %d owners of containers that died left", orphans);
    return 0;
}

static int open_state(struct daemon *d, struct error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/state.db", d->paths.data_dir);
    if (state_open(&d->state_db, path, d->loop, err) < 0)
        return -1;
    d->registry = registry_new(d);
    return d->registry ? 0 : error_oom(err);
}

static int load_state(struct daemon *d, struct error *err)
{
    int restarted = state_load(d->state_db, d, err);
    if (restarted > 0)
        log_info("%d containers were running when the last daemon ended; they are stopped now", restarted);
    return restarted < 0 ? -1 : 0;
}

/* Before the loop sleeps: a call between Workers wakes three processes up in turn, and each time that costs
 * more than the call's own work. Whatever comes within LOOK_NS finds this one awake. */
static void on_look(uv_prepare_t *h)
{
    struct pollfd fd = {.fd = uv_backend_fd(h->loop), .events = POLLIN};
    if (uv_backend_timeout(h->loop) == 0)
        return;
    uint64_t until = uv_hrtime() + LOOK_NS;
    while (poll(&fd, 1, 0) == 0 && uv_hrtime() < until)
        sched_yield();
}

static void add_handles(struct program *p)
{
    uv_loop_t *loop = p->daemon.loop;
    uv_signal_init(loop, &p->terminate);
    uv_signal_init(loop, &p->interrupt);
    uv_signal_start(&p->terminate, on_signal, SIGTERM);
    uv_signal_start(&p->interrupt, on_signal, SIGINT);
    uv_timer_init(loop, &p->tidy);
    p->tidy.data = p;
    uv_timer_start(&p->tidy, on_tidy, TIDY_MS, TIDY_MS);
}

static int serve_api(struct program *p, struct error *err)
{
    struct daemon *d = &p->daemon;
    if (listen_unix(d->paths.socket, &p->listening, err) < 0 ||
        server_open(&d->server, d, p->listening, err) < 0 || collector_start(&p->collector, d, err) < 0)
        return -1;
    log_info("cloister-daemon %s serves on %s: %s", CLOISTER_VERSION, d->paths.socket,
             engine_grade(d->engine)->text);
    return 0;
}

static int come_up(struct program *p, const struct options *o, struct error *err)
{
    struct daemon *d = &p->daemon;
    umask(0022); /* what containers get of ours must not depend on who started us */
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    d->loop = uv_default_loop();
    p->data_lock = p->run_lock = p->listening = -1;
    if (set_log_level(o->log_level, err) < 0 || claim(p, o, err) < 0 || open_state(d, err) < 0 ||
        open_engine(p, o, err) < 0 || load_state(d, err) < 0)
        return -1;
    add_handles(p); /* whoever sees the socket may send a signal */
    d->image_dir = o->image_dir ? o->image_dir : d->paths.data_dir;
    if (!o->app.development && serve_api(p, err) < 0)
        return -1;
    if (o->app.project_count > 0 && application_open(&d->app, d, &o->app, err) < 0)
        return -1;
    if (d->app) {
        uv_prepare_init(d->loop, &p->look);
        uv_prepare_start(&p->look, on_look);
    }
    return 0;
}

/* ---- going down ---- */

static bool mark_stopped(void *user, struct cell *c)
{
    struct daemon *d = user;
    if (c->state == CELL_STOPPED)
        return true;
    snprintf(c->stop.reason, sizeof c->stop.reason, "%s", stop_reason_name(STOP_RESTART));
    snprintf(c->stop.detail, sizeof c->stop.detail, "the daemon was told to end");
    c->state = CELL_STOPPED;
    state_put(d->state_db, c);
    return true;
}

static void go_down(struct daemon *d)
{
    app_close(d->app);
    if (d->server)
        unlink(d->paths.socket);
    server_close(d->server);
    registry_each(d->registry, mark_stopped, d);
    engine_close(d->engine);
    state_close(d->state_db);
    log_info("ended");
}

int main(int argc, char **argv)
{
    static struct program program;
    struct options options = {0};
    struct error err = {0};
    int r = parse_options(argc, argv, &options);
    if (r != 0)
        return r < 0 ? 125 : 0;
    if (options.print_routes) {
        routes_print();
        return 0;
    }
    if (come_up(&program, &options, &err) < 0) {
        fprintf(stderr, "cloister %s: %s\n", options.app.development ? "dev" : "serve", err.message);
        return 125;
    }
    uv_run(program.daemon.loop, UV_RUN_DEFAULT);
    collector_stop(program.collector);
    go_down(&program.daemon);
    return 0;
}
