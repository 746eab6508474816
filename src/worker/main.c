/* cloister-worker: the process that runs JavaScript. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "worker/shell.h"
#include "worker/worker.h"
#include "worker/zygote.h"

#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BUNDLE ((size_t)64 << 20)
/* Memory for a body of some megabytes is kept for the next one: new pages cost more than copying does. */
#define KEPT_MEMORY (8 << 20)

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

static int run_shell(char **files, struct error *err)
{
    const char *chosen = getenv("CLOISTER_BUNDLE"); /* another bundle beside the program: compiler.js */
    cleanup_free char *bundle = read_bundle(chosen ? chosen : "runtime.js", err);
    return bundle ? shell_main(bundle, files) : -1;
}

/* `file`: another library than the one beside the program, for tests. */
static int run_zygote(const char *fd_text, const char *file, struct error *err)
{
    uint64_t fd;
    size_t len;
    char *runtime = NULL;
    if (parse_u64(fd_text, "FD", 0, INT_MAX, &fd, err) < 0)
        return -1;
    if (!file)
        runtime = read_bundle("runtime.js", err);
    else if (file_slurp(AT_FDCWD, file, MAX_BUNDLE, &runtime, &len, err) < 0)
        return -1;
    char *compiler = runtime ? read_bundle("compiler.js", err) : NULL;
    return compiler ? zygote_main((int)fd, runtime, compiler) : -1;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    int status;
    if (argc < 2)
        return usage();
    mallopt(M_MMAP_THRESHOLD, KEPT_MEMORY);
    mallopt(M_TRIM_THRESHOLD, KEPT_MEMORY);
    if (engine_prepare(&err) < 0)
        status = -1;
    else if (strcmp(argv[1], "--shell") == 0)
        status = run_shell(argv + 2, &err);
    else if (strcmp(argv[1], "--zygote") == 0 && argc > 2)
        status = run_zygote(argv[2], argv[3], &err);
    else
        return usage();
    if (status < 0)
        fprintf(stderr, "cloister-worker: %s\n", err.message);
    return status < 0 ? 1 : status;
}
