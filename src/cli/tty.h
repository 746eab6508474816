/* The caller's terminal for -t: raw while a command has it, restored on every way out of this process. */
#ifndef CLOISTER_CLI_TTY_H
#define CLOISTER_CLI_TTY_H

#include <stdbool.h>
#include <stdint.h>

/* Does nothing when stdin is no terminal. tty_restore() may be called any number of times; it also runs at
 * exit and when a fatal signal ends us. */
void tty_raw(void);
void tty_restore(void);
/* Size of the terminal on stdin, stdout or stderr; 80x24 when there is none. */
void tty_size(uint16_t *ret_cols, uint16_t *ret_rows);

#endif
