/* The daemon's and the tools' own log, on stderr, one line an event: "2026-01-02T03:04:05.678Z level
 * message". Control characters in messages are escaped, so guest-chosen text cannot forge lines or drive a
 * terminal. */
#ifndef CLOISTER_BASE_LOG_H
#define CLOISTER_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_msg(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)

#endif
