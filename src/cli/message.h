/* What the programs of src/cli/ say to people, on stderr. Text from elsewhere (guests, file names) has its
 * control characters escaped, so it cannot drive the terminal. Colours only on a terminal and without
 * NO_COLOR. */
#ifndef CLOISTER_CLI_MESSAGE_H
#define CLOISTER_CLI_MESSAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>

/* Exit codes of our own; a command's own code is passed through as it is. */
#define EXIT_TIMEOUT 124
#define EXIT_OWN_FAILURE 125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127

enum style { STYLE_NONE, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW };

/* The escape sequence that begins `s` on this stream, "" where colours are off; style_end() likewise. */
const char *style_begin(FILE *to, enum style s);
const char *style_end(FILE *to);

/* "cloister: <text>\n" */
void message(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void message_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Says what went wrong; returns EXIT_OWN_FAILURE. */
int message_fail(const struct error *err);
/* The same for bad usage: adds where help is. `command` may be NULL. */
int message_usage(const char *command, const struct error *err);
/* Prints text with control characters made visible (\x1b); newlines and tabs too. */
void print_escaped(FILE *to, const char *text);
/* Flushes stdout; true when everything written to it arrived. */
bool stdout_complete(void);

#endif
