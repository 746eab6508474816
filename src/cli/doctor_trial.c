/* The proof: a container of the image `host` that runs `true`, started in a child process. */
#include "base/clock.h"
#include "base/fd.h"
#include "cli/doctor.h"
#include "container/engine.h"
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIAL_SECONDS 20

struct trial {
    struct finding finding;
    char grade[192];
};

struct attempt {
    bool ended;
    struct exit_status status;
    struct error error;
    uv_loop_t loop;
};

static void on_exit_event(void *user, struct container *c, const struct exit_status *status,
                          const struct error *err)
{
    struct attempt *a = user;
    a->ended = true;
    if (err)
        a->error = *err;
    else
        a->status = *status;
    uv_stop(&a->loop);
}

static void on_main_exit(void *user, struct exec *x, const struct exit_status *status,
                         const struct error *err)
{
}

static int start_true(struct engine *e, const struct image *image, struct attempt *a, struct error *err)
{
    static const char *const argv[] = {"/usr/bin/true", NULL};
    static const struct container_events events = {.on_exit = on_exit_event};
    static const struct exec_events main_events = {.on_exit = on_main_exit};
    struct start_spec spec = {
        .layers = (const char *const *)image->layers,
        .layer_count = image->layer_count,
        .host_usr = image->host_usr,
        .hostname = "doctor",
        .main = {.argv = argv},
    };
    struct container *c;
    return container_start(e, &spec, &events, a, &main_events, a, &c, err);
}

static int attempt(const struct doctor *d, struct trial *t, struct attempt *a, struct error *err)
{
    struct engine *e = NULL;
    struct image *image = NULL;
    struct engine_config config = {
        .loop = &a->loop, .data_dir = d->paths.data_dir, .run_dir = d->paths.run_dir, .last = true};
    if (image_resolve(d->paths.data_dir, "host", &image, err) < 0)
        return -1;
    uv_loop_init(&a->loop);
    if (engine_open(&e, &config, err) < 0)
        return -1;
    snprintf(t->grade, sizeof t->grade, "%s", engine_grade(e)->text);
    if (start_true(e, image, a, err) < 0)
        return -1;
    uv_run(&a->loop, UV_RUN_DEFAULT);
    engine_close(e);
    return 0;
}

static void try(const struct doctor *d, struct trial *t)
{
    struct error err = {0};
    struct attempt a = {0};
    uint64_t start = clock_monotonic_ns();
    int r = attempt(d, t, &a, &err);
    if (r == 0 && a.error.kind != ERROR_NONE) {
        err = a.error;
        r = -1;
    }
    if (r < 0) {
        finding_set(&t->finding, FINDING_MISSING, "%.230s", err.message);
        finding_remedy(&t->finding, "see what is missing above");
    } else if (a.status.reason != STOP_EXIT || a.status.code != 0) {
        finding_set(&t->finding, FINDING_MISSING, "\"true\" ended with %d (%s)", a.status.code,
                    stop_reason_name(a.status.reason));
        finding_remedy(&t->finding, "see what is missing above");
    } else {
        finding_ok(&t->finding, "started, ran \"true\" and ended in %.1f ms",
                   (double)(clock_monotonic_ns() - start) / 1e6);
    }
}

void doctor_trial(const struct doctor *d, struct finding *f, char ret_grade[192])
{
    int p[2];
    struct trial t = {0};
    finding_set(f, FINDING_MISSING, "the trial did not answer within %d seconds or died", TRIAL_SECONDS);
    finding_remedy(f, "run \"cloister run -- true\" and see what it says");
    ret_grade[0] = '\0';
    if (pipe2(p, O_CLOEXEC) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(TRIAL_SECONDS);
        try(d, &t);
        fd_write_all(p[1], &t, sizeof t);
        _exit(0);
    }
    close(p[1]);
    if (pid > 0 && fd_read_full(p[0], &t, sizeof t) == (ssize_t)sizeof t) {
        *f = t.finding;
        snprintf(ret_grade, 192, "%s", t.grade);
    }
    close(p[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
