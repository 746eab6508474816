/* cloister-worker: the process that runs JavaScript. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "worker/shell.h"
#include "worker/worker.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BUNDLE ((size_t)64 << 20)

/* The bundles lie beside the program. */
static char *read_bundle(const char *name, struct error *err)
{
    char path[PATH_MAX + 32];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    if (n < 0) {
        error_set(err, ERROR_SYSTEM, "cannot find this program's own folder (is /proc mounted?)");
        return NULL;
    }
    path[n] = 0;
    char *text, *slash = strrchr(path, '/');
    size_t len;
    strcpy(slash + 1, name);
    return file_slurp(AT_FDCWD, path, MAX_BUNDLE, &text, &len, err) < 0 ? NULL : text;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: cloister-worker --shell FILE...   (for tests; started by cloister-daemon otherwise)\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    if (argc < 2)
        return usage();
    if (engine_prepare(&err) < 0) {
        fprintf(stderr, "cloister-worker: %s\n", err.message);
        return 1;
    }
    if (strcmp(argv[1], "--shell") == 0) {
        const char *chosen = getenv("CLOISTER_BUNDLE"); /* another bundle beside the program: compiler.js */
        cleanup_free char *bundle = read_bundle(chosen ? chosen : "runtime.js", &err);
        if (!bundle) {
            fprintf(stderr, "cloister-worker: %s\n", err.message);
            return 1;
        }
        return shell_main(bundle, argv + 2);
    }
    return usage();
}
