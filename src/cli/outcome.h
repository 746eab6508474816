/* What an error means for the exit code of run and exec. */
#ifndef CLOISTER_CLI_OUTCOME_H
#define CLOISTER_CLI_OUTCOME_H

#include "base/error.h"

/* 127 and 126 for a command that was not found or cannot be executed, as a shell would; else 125. For the
 * first two the message is put into a shell user's words; `program` and `where` (an image, a container) may
 * be NULL. */
int outcome_of_error(struct error *err, const char *program, const char *where);

#endif
