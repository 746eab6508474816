/* Reading fields of a configuration file, for config*.c alone. Errors and warnings name the file and the
 * field; `at` is a field's path ("containers[0].image"). */
#ifndef CLOISTER_APP_CONFIG_READ_H
#define CLOISTER_APP_CONFIG_READ_H

#include "app/config.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define FIELD_MAX 192

struct config_reader {
    struct app_config *config;
    const struct app_config_options *options;
    const char *file; /* its last part, for messages */
    struct error *err;
};

struct field {
    char path[FIELD_MAX];
};

/* "at.key" ("key" at the top) and "at[i]". */
struct field field_key(const char *at, const char *key);
struct field field_index(const char *at, size_t i);

int config_fail(struct config_reader *r, const char *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int config_warn(struct config_reader *r, const char *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Malloc'ed copy of a text field. Absent: *ret stays; -1 only for a wrong type, an empty text or no memory.
 */
int config_text(struct config_reader *r, const json_t *o, const char *at, const char *key, char **ret);
/* The same, and it must be there; `what` says what it is. */
int config_needed(struct config_reader *r, const json_t *o, const char *at, const char *key, const char *what,
                  char **ret);
int config_bool(struct config_reader *r, const json_t *o, const char *at, const char *key, bool *ret);
int config_uint(struct config_reader *r, const json_t *o, const char *at, const char *key, unsigned max,
                unsigned *ret);
/* A list or map below `o`; *ret is NULL when absent. */
int config_list(struct config_reader *r, const json_t *o, const char *at, const char *key, json_t **ret);
int config_map(struct config_reader *r, const json_t *o, const char *at, const char *key, json_t **ret);
/* One warning for each key of `o` that is not in the list of names separated by spaces. */
int config_known(struct config_reader *r, const json_t *o, const char *at, const char *names);

/* A growing NULL-terminated vector of texts; takes `text` (frees it on failure). */
int strv_add(char ***strv, char *text, struct error *err);
void strv_free(char **strv);
/* "a" and what comes from printf(3). NULL when out of memory. */
char *text_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* `path` seen from `directory`. */
char *path_below(const char *directory, const char *path);

/* Grows an array by one zeroed element and returns it; NULL when out of memory (error set). */
void *array_add(void *array_pointer, size_t *count, size_t size, struct error *err);

/* config_objects.c: durable_objects, migrations, exports, containers. */
int config_read_objects(struct config_reader *r, const json_t *root);
void config_classes_free(struct app_config *c);
/* config_bindings.c: vars, secrets, worker_loaders, services, assets. */
int config_read_bindings(struct config_reader *r, const json_t *root);
/* Refuses two bindings of one name. */
int config_check_bindings(struct config_reader *r);
/* config_secrets.c: .dev.vars and the environment. */
int config_read_secrets(struct config_reader *r, const json_t *root);

#endif
