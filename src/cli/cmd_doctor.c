#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/json_text.h"
#include "cli/message.h"

#include <string.h>
#include <unistd.h>

static const char *const state_names[] = {"ok", "limited", "missing"};

struct report {
    json_t *checks; /* NULL: for people */
    unsigned counts[3];
    bool broken; /* something vital is missing */
};

static void print_finding(const struct check *c, const struct finding *f)
{
    static const enum style styles[] = {STYLE_GREEN, STYLE_YELLOW, STYLE_RED};
    printf("%s%-8s%s%-22s", style_begin(stdout, styles[f->state]), state_names[f->state], style_end(stdout),
           c->title);
    print_escaped(stdout, f->detail);
    putchar('\n');
    if (f->remedy[0]) {
        printf("%30s-> ", "");
        print_escaped(stdout, f->remedy);
        putchar('\n');
    }
    fflush(stdout);
}

static void report_finding(struct report *r, const struct check *c, const struct finding *f)
{
    r->counts[f->state]++;
    r->broken = r->broken || (c->vital && f->state == FINDING_MISSING);
    if (!r->checks) {
        print_finding(c, f);
        return;
    }
    json_t *j =
        json_pack("{s:s, s:s, s:s}", "id", c->id, "state", state_names[f->state], "detail", f->detail);
    if (j && f->remedy[0])
        json_object_set_new(j, "remedy", json_string(f->remedy));
    json_array_append_new(r->checks, j);
}

static void run_checks(struct report *r, const struct doctor *d, const struct check *list)
{
    for (; list->id; list++) {
        struct finding f = {0};
        check_run(list, d, &f);
        report_finding(r, list, &f);
    }
}

/* The last word: what a container gets here. */
static int conclude(struct report *r, const char *grade)
{
    const char *text = r->broken ? "none: containers cannot run here" : grade;
    if (r->checks) {
        json_t *j = json_pack("{s:O, s:b, s:s}", "checks", r->checks, "canRun", !r->broken, "grade", text);
        json_decref(r->checks);
        if (json_text_print(j) < 0)
            return EXIT_OWN_FAILURE;
    } else {
        printf("\n%u ok, %u limited, %u missing\n%sgrade: %s%s\n", r->counts[0], r->counts[1], r->counts[2],
               style_begin(stdout, STYLE_BOLD), text, style_end(stdout));
        if (!stdout_complete())
            return EXIT_OWN_FAILURE;
    }
    return r->broken ? EXIT_OWN_FAILURE : 0;
}

int cmd_doctor(const struct options *o)
{
    static const struct check trial = {"container", "a container", true, true, NULL};
    struct error err = {0};
    struct doctor d = {.root = geteuid() == 0};
    struct report r = {.checks = options_given(o, "json") ? json_array() : NULL};
    struct finding f = {0};
    char grade[192];
    if (paths_init(&d.paths, options_value(o, "data-dir"), NULL, NULL, &err) < 0)
        return message_usage("doctor", &err);
    run_checks(&r, &d, doctor_kernel_checks);
    run_checks(&r, &d, doctor_namespace_checks);
    run_checks(&r, &d, doctor_limit_checks);
    run_checks(&r, &d, doctor_host_checks);
    doctor_trial(&d, &f, grade);
    report_finding(&r, &trial, &f);
    paths_free(&d.paths);
    return conclude(&r, grade);
}
