/* `cloister doctor`: one finding per property of this machine. Shared by the doctor_*.c files only. */
#ifndef CLOISTER_CLI_DOCTOR_H
#define CLOISTER_CLI_DOCTOR_H

#include "base/paths.h"

#include <stdbool.h>
#include <stdint.h>

enum finding_state {
    FINDING_OK,
    FINDING_LIMITED, /* works, but something is not enforced or less comfortable */
    FINDING_MISSING, /* not there */
};

/* Plain data: it crosses a pipe from the child that tried. */
struct finding {
    enum finding_state state;
    char detail[240]; /* what was found; for others than OK: the exact blocker */
    char remedy[240]; /* what to do about it; empty when OK */
};

struct doctor {
    struct paths paths;
    bool root;
};

struct check {
    const char *id, *title;
    bool vital;    /* without it no container runs at all */
    bool in_child; /* it changes the process that tries it */
    void (*run)(const struct doctor *d, struct finding *f);
};

void finding_ok(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The remedy is set by finding_remedy(). */
void finding_set(struct finding *f, enum finding_state s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void finding_remedy(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Runs a check, in a child process where it asks for that, within ten seconds. */
void check_run(const struct check *c, const struct doctor *d, struct finding *f);

/* For checks that run in a child: enters a user namespace in which this process is root (and, with root's
 * rights already given up where it had them), and further namespaces. 0, or -1 after filling the finding. */
int doctor_enter_userns(struct finding *f, int further_flags);

/* The checks, by file; each ended by a NULL id. */
extern const struct check doctor_kernel_checks[], doctor_namespace_checks[], doctor_limit_checks[],
    doctor_host_checks[];

/* Starts a container for real, in a child. `ret_grade` gets the engine's own words. [doctor_trial.c] */
void doctor_trial(const struct doctor *d, struct finding *f, char ret_grade[192]);

#endif
