#include "cli/message.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

static bool colours(FILE *to)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no && *no)
        return false;
    return term && *term && !(term[0] == 'd' && term[1] == 'u') && isatty(fileno(to));
}

const char *style_begin(FILE *to, enum style s)
{
    static const char *const codes[] = {"", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};
    return s != STYLE_NONE && colours(to) ? codes[s] : "";
}

const char *style_end(FILE *to)
{
    return colours(to) ? "\033[0m" : "";
}

void print_escaped(FILE *to, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool c1 = *p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f; /* C1 controls in UTF-8 */
        if (c1)
            fprintf(to, "\\x%02x", *++p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(to, "\\x%02x", *p);
        else
            putc(*p, to);
    }
}

__attribute__((format(printf, 3, 0))) static void say(enum style style, const char *word, const char *fmt,
                                                      va_list ap)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    fprintf(stderr, "cloister: %s%s%s", style_begin(stderr, style), word, style_end(stderr));
    print_escaped(stderr, text);
    putc('\n', stderr);
}

void message(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(STYLE_NONE, "", fmt, ap);
    va_end(ap);
}

void message_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(STYLE_YELLOW, "warning: ", fmt, ap);
    va_end(ap);
}

int message_fail(const struct error *err)
{
    message("%s", err->message);
    return EXIT_OWN_FAILURE;
}

int message_usage(const char *command, const struct error *err)
{
    message_fail(err);
    fprintf(stderr, "Try \"cloister help%s%s\".\n", command ? " " : "", command ? command : "");
    return EXIT_OWN_FAILURE;
}

bool stdout_complete(void)
{
    return fflush(stdout) == 0 && !ferror(stdout);
}
