/* What callers ask for, read strictly from JSON bodies (docs/api.md). UNTRUSTED INPUT: every refusal names
 * the field. Strings are borrowed from `body`, which the structure holds. */
#ifndef CLOISTER_DAEMON_SPEC_H
#define CLOISTER_DAEMON_SPEC_H

#include "base/error.h"
#include "container/engine.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPEC_MAX_ARGV 4096u
#define SPEC_MAX_ARGV_BYTES ((size_t)1 << 20)
#define SPEC_MAX_ENV 4096u
#define SPEC_MAX_ENV_BYTES ((size_t)1 << 20)
#define SPEC_MAX_LABELS 64u
#define SPEC_MAX_MOUNTS 16u
#define SPEC_MAX_EXCLUDES 256u
#define SPEC_MAX_PATH 4095u
#define SPEC_OUTPUT_DEFAULT ((size_t)1 << 20)
#define SPEC_OUTPUT_MAX ((size_t)64 << 20)

struct mount_request {
    const char *snapshot, *target;
};

struct start_request {
    json_t *body;
    const char *name; /* NULL: choose one */
    const char *image;
    const char *snapshot;    /* NULL: none */
    const char **entrypoint; /* NULL: the image's */
    char **env;              /* "K=V"; NULL: none */
    const char *cwd, *user;  /* NULL: the image's */
    const json_t *labels;    /* NULL: none */
    bool enable_internet, stdin_pipe;
    struct limits limits;
    struct mount_request mounts[SPEC_MAX_MOUNTS];
    size_t mount_count;
};

/* Takes `body` over, also on failure. `defaults` are the limits of a start that names none. */
int spec_start(struct start_request *ret, json_t *body, const struct limits *defaults, struct error *err);
void spec_start_free(struct start_request *r);

enum overflow { OVERFLOW_AUTO, OVERFLOW_BLOCK, OVERFLOW_DROP };

struct exec_request {
    json_t *body;
    const char **cmd;
    const char *cwd, *user; /* NULL: the container's */
    char **env;             /* "K=V"; NULL: none */
    bool stdin_pipe, out, err, combined, pty, wait;
    uint16_t cols, rows;
    uint64_t timeout_ms;
    size_t output_limit;
    enum overflow overflow;
    const char *stdin_data; /* fed to stdin, which is closed then; NULL: none */
    size_t stdin_len;
    void *stdin_owned;
};

int spec_exec(struct exec_request *ret, json_t *body, struct error *err);
void spec_exec_free(struct exec_request *r);

/* {"cols", "rows"} of `o`. */
int spec_size(const json_t *o, const char *at, uint16_t *ret_cols, uint16_t *ret_rows, struct error *err);
/* The labels of `o` when it has any: checked for number, size and characters. */
int spec_labels(const json_t *o, const json_t **ret, struct error *err);
/* "lite", "basic", "standard-1" to "standard-4". */
int spec_instance(const char *name, struct limits *ret, struct error *err);
/* {vcpu?, memoryMib?, diskMb?, pids?, openFiles?} over what *ret holds. `at` ends with a dot. */
int spec_limits(const json_t *o, const char *at, struct limits *ret, struct error *err);
/* Absolute, at most SPEC_MAX_PATH bytes. */
int spec_path(const char *path, const char *field, struct error *err);
/* 32 lower-case hex digits. */
int spec_id(const char *id, const char *field, struct error *err);

/* One allocation: `base` with the entries of `over` replacing or joining them (either may be NULL). Strings
 * are borrowed. */
char **env_merge(char *const *base, char *const *over);
/* A deep copy in one allocation, freed with free(). NULL when out of memory. */
char **strv_copy(const char *const *v);

#endif
