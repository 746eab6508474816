#include "cli/tty.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Process-wide, as the terminal is. Handlers may read it at any moment. */
static struct termios saved;
static volatile sig_atomic_t is_raw;

void tty_restore(void)
{
    if (is_raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
    is_raw = 0;
}

static void on_fatal(int signal)
{
    if (is_raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &saved);
    raise(signal); /* SA_RESETHAND: now with its default action */
}

static void guard_fatal_signals(void)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGXCPU, SIGXFSZ};
    struct sigaction sa = {.sa_handler = on_fatal, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        sigaction(fatal[i], &sa, NULL);
}

void tty_raw(void)
{
    if (is_raw || !isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &saved) < 0)
        return;
    guard_fatal_signals();
    atexit(tty_restore);
    struct termios raw = saved;
    cfmakeraw(&raw);
    is_raw = 1;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

void tty_size(uint16_t *ret_cols, uint16_t *ret_rows)
{
    *ret_cols = 80;
    *ret_rows = 24;
    for (int fd = 0; fd <= 2; fd++) {
        struct winsize w;
        if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col && w.ws_row) {
            *ret_cols = w.ws_col;
            *ret_rows = w.ws_row;
            return;
        }
    }
}
