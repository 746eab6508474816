/* One error object for the whole project.
 *
 * Convention: functions that can fail take `struct error *err` last, return a negative value (or NULL) on
 * failure after filling it once, and leave it untouched on success. A layer that can add context calls
 * error_wrap(). Libraries never log: whoever handles the error logs or reports it, once. `err` may be NULL
 * where the caller does not care. */
#ifndef CLOISTER_BASE_ERROR_H
#define CLOISTER_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

enum error_kind {
    ERROR_NONE = 0,
    ERROR_INVALID,     /* bad input; `field` names the offending field */
    ERROR_NOT_FOUND,   /* a named thing does not exist */
    ERROR_EXISTS,      /* a named thing exists already */
    ERROR_STATE,       /* not possible in the present state (already running, not running) */
    ERROR_LIMIT,       /* a configured limit was reached; the message names the limit */
    ERROR_UNSUPPORTED, /* this machine or build cannot do it; the message names blocker and remedy */
    ERROR_DENIED,      /* refused by policy or permission */
    ERROR_SYSTEM,      /* a system call failed; `errnum` holds errno */
    ERROR_CORRUPT,     /* stored or received data failed verification */
    ERROR_PROTOCOL,    /* the peer of a link broke the protocol */
    ERROR_TIMEOUT,     /* a deadline passed */
    ERROR_GONE,        /* the other side has ended */
    ERROR_INTERNAL,    /* a bug, or out of memory */
};

struct error {
    enum error_kind kind;
    int errnum;     /* errno value for ERROR_SYSTEM, else 0 */
    char field[48]; /* which input is at fault, where one is (always for ERROR_INVALID), in the caller's words
                       (e.g. "limits.memoryMib") */
    char message[512]; /* one sentence, no newline, no trailing full stop */
};

/* All setters return -1, so that `return error_set(...)` reads well. Messages that do not fit are cut. */
int error_set(struct error *err, enum error_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int error_field(struct error *err, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends ": <strerror(errnum)>" to the message. */
int error_system(struct error *err, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts "<context>: " before the present message. */
int error_wrap(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int error_oom(struct error *err);
void error_clear(struct error *err);
#if defined(__clang_analyzer__) && !defined(CLOISTER_ERROR_C)
/* An analyser that sees one file at a time is told what the functions return. */
#define error_set(...) (error_set(__VA_ARGS__), -1)
#define error_field(...) (error_field(__VA_ARGS__), -1)
#define error_system(...) (error_system(__VA_ARGS__), -1)
#define error_wrap(...) (error_wrap(__VA_ARGS__), -1)
#define error_oom(err) (error_oom(err), -1)
#endif

/* Machine-readable code: an errno name ("ENOENT") for ERROR_SYSTEM, else a word such as "INVALID_ARGUMENT".
 * Never NULL; static storage. */
const char *error_code(const struct error *err);
/* The errno name ("ENOENT") of an errno value, or "EIO" for one it does not know; and back (0 if unknown). */
const char *errno_name(int errnum);
int errno_from_name(const char *name);
/* Rebuilds kind and errnum from a code that error_code() made (for errors that crossed a link). */
void error_from_code(struct error *err, const char *code, const char *message);

#endif
