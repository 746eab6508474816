#include "image/progress.h"

#include "base/clock.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOW_EVERY_NS 200000000u

bool progress_init(struct progress *p, const char *mode)
{
    *p = (struct progress){.stage = ""};
    if (mode && strcmp(mode, "json") != 0 && strcmp(mode, "plain") != 0 && strcmp(mode, "none") != 0)
        return false;
    p->json = mode && !strcmp(mode, "json");
    p->tty = mode ? !strcmp(mode, "plain") : isatty(STDERR_FILENO);
    return true;
}

static void put_json(json_t *o)
{
    char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (line) {
        printf("%s\n", line);
        fflush(stdout);
    }
    free(line);
    json_decref(o);
}

static void end_line(struct progress *p)
{
    if (p->line_open)
        fputc('\n', stderr);
    p->line_open = false;
}

/* Names in images are not ours: control characters must not reach the terminal. */
static void put_clean(const char *text)
{
    for (; *text; text++)
        fputc((unsigned char)*text < 32 || *text == 127 ? '?' : *text, stderr);
}

void progress_stage(struct progress *p, const char *stage, const char *what, uint64_t total)
{
    p->stage = stage;
    p->total = total;
    p->next_ns = 0;
    snprintf(p->what, sizeof p->what, "%s", what);
    if (p->json)
        put_json(json_pack("{s:s, s:s, s:s, s:I}", "event", "progress", "stage", stage, "what", p->what,
                           "total", (json_int_t)total));
    else if (p->tty) {
        end_line(p);
        fprintf(stderr, "%-8s ", stage);
        put_clean(p->what);
        fputc('\n', stderr);
    }
}

void progress_bytes(struct progress *p, uint64_t done)
{
    uint64_t now = clock_monotonic_ns();
    if ((!p->json && !p->tty) || now < p->next_ns)
        return;
    p->next_ns = now + SHOW_EVERY_NS;
    if (p->json) {
        put_json(json_pack("{s:s, s:s, s:s, s:I, s:I}", "event", "progress", "stage", p->stage, "what",
                           p->what, "bytes", (json_int_t)done, "total", (json_int_t)p->total));
        return;
    }
    if (!isatty(STDERR_FILENO))
        return;
    if (p->total > 0)
        fprintf(stderr, "\r%-8s %3u%%  %.1f MiB\033[K", p->stage,
                (unsigned)(done >= p->total ? 100 : done * 100 / p->total), (double)done / 1048576);
    else
        fprintf(stderr, "\r%-8s %.1f MiB\033[K", p->stage, (double)done / 1048576);
    p->line_open = true;
}

void progress_note(struct progress *p, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (p->json) {
        put_json(json_pack("{s:s, s:s}", "event", "note", "text", text));
        return;
    }
    end_line(p);
    fputs("note: ", stderr);
    put_clean(text);
    fputc('\n', stderr);
}

void progress_end(struct progress *p)
{
    end_line(p);
}
