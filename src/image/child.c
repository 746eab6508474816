#include "image/child.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: only async-signal-safe calls. */
static void become(char *const argv[], int out, int log)
{
    int null = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out >= 0 ? out : log, 1) < 0 || dup2(log, 2) < 0)
        _exit(127);
    execvp(argv[0], argv);
    static const char text[] = "error: cannot run it: is it installed?\n";
    if (write(2, text, sizeof text - 1) < 0)
        _exit(126);
    _exit(127);
}

static bool speaks_of_error(const char *line)
{
    return strcasestr(line, "error") || strcasestr(line, "fatal") || strcasestr(line, "E: ") ||
           strcasestr(line, "denied") || strcasestr(line, "cannot");
}

static void *read_lines(void *arg)
{
    struct child *c = arg;
    char *line = NULL;
    size_t cap = 0;
    FILE *f = fdopen(c->log, "r");
    while (f && getdelim(&line, &cap, '\n', f) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        bool error = speaks_of_error(line);
        if (*line && (error || !c->last_is_error)) {
            snprintf(c->last, sizeof c->last, "%s", line);
            c->last_is_error |= error;
        }
        if (c->on_line && *line)
            c->on_line(c->user, line);
    }
    free(line);
    if (f)
        fclose(f);
    return NULL;
}

int child_start(struct child *ret, char *const argv[], bool want_out,
                void (*on_line)(void *user, const char *line), void *user, struct error *err)
{
    int out[2] = {-1, -1}, log[2];
    *ret = (struct child){.program = argv[0], .out = -1, .on_line = on_line, .user = user};
    if (pipe2(log, O_CLOEXEC) < 0)
        return error_system(err, errno, "cannot make a pipe");
    if (want_out && pipe2(out, O_CLOEXEC) < 0) {
        close(log[0]);
        close(log[1]);
        return error_system(err, errno, "cannot make a pipe");
    }
    ret->pid = fork();
    if (ret->pid == 0)
        become(argv, out[1], log[1]);
    int saved = errno;
    close(log[1]);
    if (out[1] >= 0)
        close(out[1]);
    ret->log = log[0];
    ret->out = out[0];
    if (ret->pid > 0 && (saved = pthread_create(&ret->thread, NULL, read_lines, ret)) == 0)
        return 0;
    if (ret->pid > 0) {
        kill(ret->pid, SIGKILL);
        waitpid(ret->pid, NULL, 0);
    }
    close(log[0]);
    if (out[0] >= 0)
        close(out[0]);
    return error_system(err, saved, "cannot start %s", argv[0]);
}

/* The programs tell what went wrong in words only. */
static enum error_kind kind_of(const char *words)
{
    static const struct {
        const char *word;
        enum error_kind kind;
    } known[] = {{"manifest unknown", ERROR_NOT_FOUND},
                 {"name unknown", ERROR_NOT_FOUND},
                 {"not found", ERROR_NOT_FOUND},
                 {"unauthorized", ERROR_DENIED},
                 {"denied", ERROR_DENIED},
                 {"authentication required", ERROR_DENIED},
                 {"timeout", ERROR_TIMEOUT},
                 {"timed out", ERROR_TIMEOUT}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasestr(words, known[i].word))
            return known[i].kind;
    return ERROR_SYSTEM;
}

int child_finish(struct child *c, bool kill_it, struct error *err)
{
    int status = 0;
    if (c->out >= 0)
        close(c->out);
    if (kill_it)
        kill(c->pid, SIGTERM);
    pthread_join(c->thread, NULL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    for (char *p = c->last; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            *p = ' ';
    error_set(err, kind_of(c->last), "%s failed: %s", c->program, *c->last ? c->last : "it said nothing");
    if (err && err->kind == ERROR_SYSTEM)
        err->errnum = EIO;
    return -1;
}
