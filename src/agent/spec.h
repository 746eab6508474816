/* The process specification of agent_protocol.h, decoded and checked. */
#ifndef CLOISTER_AGENT_SPEC_H
#define CLOISTER_AGENT_SPEC_H

#include "agent/userdb.h"
#include "base/error.h"
#include "link/cbor.h"

#include <stdbool.h>
#include <stdint.h>

struct string_list {
    char **items; /* NULL-terminated; one allocation holds the pointers and the text */
    size_t count;
};

struct spec {
    struct string_list argv;
    struct string_list env; /* with HOME */
    char *home;             /* the HOME entry, where it was added */
    char *cwd;              /* NULL: "/" */
    struct identity who;
    bool has_stdin, has_stdout, has_stderr, combined, pty, tree;
    uint32_t stdin_stream, stdout_stream, stderr_stream;
    uint16_t cols, rows;
};

int spec_read(struct spec *s, struct cbor_reader args, struct error *err);
void spec_free(struct spec *s);
/* {cols, rows}: also the arguments of "resize". */
int spec_read_size(const struct cbor_reader *args, uint16_t *ret_cols, uint16_t *ret_rows, struct error *err);
/* The value of a variable, or NULL. */
const char *env_get(char *const *env, const char *name);

#endif
