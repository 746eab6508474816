/* `cloister-worker --shell FILE...`: for tests of the library and for conformance runs. No link, no jail:
 * never for code that is not trusted. Evaluates each file as a classic script in a context with the library
 * installed, then runs timers and deferred work until nothing is pending. Console lines go to stdout and
 * stderr. globalThis.__shell = {readFile(path): string, print(text), exit(code), evaluate(source, name),
 * natives}. Exit status 1: an exception or a rejection that nobody caught. */
#ifndef CLOISTER_WORKER_SHELL_H
#define CLOISTER_WORKER_SHELL_H

int shell_main(const char *bundle, char **files);

#endif
