#include "cli/outcome.h"

#include "cli/message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int outcome_of_error(struct error *err, const char *program, const char *where)
{
    int errnum = err->errnum ? err->errnum : errno_from_name(error_code(err));
    bool missing = errnum == ENOENT || err->kind == ERROR_NOT_FOUND;
    bool unfit = errnum == EACCES || errnum == ENOEXEC || errnum == EISDIR || errnum == EPERM;
    bool program_is_meant = strcmp(err->field, "argv") == 0 || strcmp(err->field, "cmd") == 0;
    if (!program_is_meant || (!missing && !unfit))
        return EXIT_OWN_FAILURE;
    if (program && missing)
        snprintf(err->message, sizeof err->message, "%.200s: %s%s%.200s", program,
                 strchr(program, '/') ? "no such file" : "command not found", where ? " in " : "",
                 where ? where : "");
    else if (program)
        snprintf(err->message, sizeof err->message, "%.200s: cannot be executed: %s", program,
                 strerror(errnum));
    return missing ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
