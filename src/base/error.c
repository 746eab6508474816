#define CLOISTER_ERROR_C
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int num;
    const char *name;
} errno_names[] = {
#define E(x) {x, #x}
    E(EPERM),       E(ENOENT),       E(ESRCH),      E(EINTR),     E(EIO),          E(ENXIO),    E(E2BIG),
    E(ENOEXEC),     E(EBADF),        E(ECHILD),     E(EAGAIN),    E(ENOMEM),       E(EACCES),   E(EFAULT),
    E(EBUSY),       E(EEXIST),       E(EXDEV),      E(ENODEV),    E(ENOTDIR),      E(EISDIR),   E(EINVAL),
    E(ENFILE),      E(EMFILE),       E(ENOTTY),     E(ETXTBSY),   E(EFBIG),        E(ENOSPC),   E(ESPIPE),
    E(EROFS),       E(EMLINK),       E(EPIPE),      E(ERANGE),    E(ENAMETOOLONG), E(ENOSYS),   E(ENOTEMPTY),
    E(ELOOP),       E(EPROTO),       E(EBADMSG),    E(EOVERFLOW), E(EILSEQ),       E(ENOTSUP),  E(EADDRINUSE),
    E(ENETUNREACH), E(ECONNREFUSED), E(ECONNRESET), E(ETIMEDOUT), E(EHOSTUNREACH), E(EALREADY), E(ESTALE),
    E(EDQUOT),      E(ECANCELED),    E(EUSERS),     E(ENODATA),   E(EAFNOSUPPORT),
#undef E
};

static const struct {
    enum error_kind kind;
    const char *code;
} kind_codes[] = {
    {ERROR_NONE, "OK"},
    {ERROR_INVALID, "INVALID_ARGUMENT"},
    {ERROR_NOT_FOUND, "NOT_FOUND"},
    {ERROR_EXISTS, "ALREADY_EXISTS"},
    {ERROR_STATE, "WRONG_STATE"},
    {ERROR_LIMIT, "LIMIT_EXCEEDED"},
    {ERROR_UNSUPPORTED, "UNSUPPORTED"},
    {ERROR_DENIED, "DENIED"},
    {ERROR_CORRUPT, "CORRUPT"},
    {ERROR_PROTOCOL, "PROTOCOL"},
    {ERROR_TIMEOUT, "TIMEOUT"},
    {ERROR_GONE, "GONE"},
    {ERROR_INTERNAL, "INTERNAL"},
};

const char *errno_name(int errnum)
{
    for (size_t i = 0; i < sizeof errno_names / sizeof *errno_names; i++)
        if (errno_names[i].num == errnum)
            return errno_names[i].name;
    return "EIO";
}

int errno_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof errno_names / sizeof *errno_names; i++)
        if (strcmp(errno_names[i].name, name) == 0)
            return errno_names[i].num;
    return 0;
}

__attribute__((format(printf, 2, 0))) static void set_message(struct error *err, const char *fmt, va_list ap)
{
    vsnprintf(err->message, sizeof err->message, fmt, ap);
}

int error_set(struct error *err, enum error_kind kind, const char *fmt, ...)
{
    if (!err)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    err->kind = kind;
    err->errnum = 0;
    err->field[0] = '\0';
    set_message(err, fmt, ap);
    va_end(ap);
    return -1;
}

int error_field(struct error *err, const char *field, const char *fmt, ...)
{
    if (!err)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    err->kind = ERROR_INVALID;
    err->errnum = 0;
    snprintf(err->field, sizeof err->field, "%s", field);
    set_message(err, fmt, ap);
    va_end(ap);
    return -1;
}

int error_system(struct error *err, int errnum, const char *fmt, ...)
{
    if (!err)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    err->kind = ERROR_SYSTEM;
    err->errnum = errnum;
    err->field[0] = '\0';
    set_message(err, fmt, ap);
    va_end(ap);
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", strerror(errnum));
    return -1;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    char inner[sizeof err->message];
    memcpy(inner, err->message, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    set_message(err, fmt, ap);
    va_end(ap);
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", inner);
    return -1;
}

int error_oom(struct error *err)
{
    return error_set(err, ERROR_INTERNAL, "out of memory");
}

void error_clear(struct error *err)
{
    if (err)
        memset(err, 0, sizeof *err);
}

const char *error_code(const struct error *err)
{
    if (err->kind == ERROR_SYSTEM)
        return errno_name(err->errnum);
    for (size_t i = 0; i < sizeof kind_codes / sizeof *kind_codes; i++)
        if (kind_codes[i].kind == err->kind)
            return kind_codes[i].code;
    return "INTERNAL";
}

void error_from_code(struct error *err, const char *code, const char *message)
{
    if (!err)
        return;
    int errnum = errno_from_name(code);
    enum error_kind kind = errnum ? ERROR_SYSTEM : ERROR_INTERNAL;
    for (size_t i = 0; !errnum && i < sizeof kind_codes / sizeof *kind_codes; i++)
        if (strcmp(kind_codes[i].code, code) == 0)
            kind = kind_codes[i].kind;
    error_set(err, kind, "%s", message);
    err->errnum = errnum;
}
