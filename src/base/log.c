#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static enum log_level threshold = LOG_INFO;

void log_set_level(enum log_level level)
{
    threshold = level;
}

static size_t escape(char *to, size_t cap, const char *from)
{
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)from; *p && n + 5 < cap; p++) {
        if (*p < 0x20 || *p == 0x7f)
            n += (size_t)snprintf(to + n, cap - n, "\\x%02x", *p);
        else
            to[n++] = (char)*p;
    }
    to[n] = '\0';
    return n;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    if (level > threshold)
        return;
    char text[1024], line[4352];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03ldZ %s ", ts.tv_nsec / 1000000, names[level]);
    n += escape(line + n, sizeof line - n - 1, text);
    line[n++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, n);
    (void)ignored;
}
