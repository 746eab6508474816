/* `cloister-client`: the commands that talk to the daemon, a file for each or for a few that belong together.
 * Results are exit codes. */
#ifndef CLOISTER_CLI_CLIENT_CLIENT_H
#define CLOISTER_CLI_CLIENT_CLIENT_H

#include "cli/client/http.h"
#include "cli/json_text.h"
#include "cli/message.h"
#include "cli/options.h"

/* Connects to the socket that --socket, the environment or the default names. Every client command has
 * --socket. A socket that is not ours or root's is refused. */
int client_open(struct http **ret, const struct options *o, struct error *err);

/* Calls `one` for every operand; says every failure, goes on, and returns EXIT_OWN_FAILURE when there was
 * one. */
typedef int (*client_each)(struct http *h, const struct options *o, const char *operand, struct error *err);
int client_for_each(const struct options *o, client_each one);

/* A string or integer of an object, or a fallback. */
const char *json_text_of(const json_t *object, const char *key, const char *fallback);
json_int_t json_int_of(const json_t *object, const char *key, json_int_t fallback);
/* "K=V" lists as an object. -1 out of memory. */
int json_set_pairs(json_t *to, const char *key, const char *const *pairs, size_t count);

/* Columns for people: cells are copied by table_cell(), row by row; printed by table_print(), control
 * characters escaped. */
struct table;
struct table *table_new(size_t columns);
void table_cell(struct table *t, const char *text);
void table_print(const struct table *t); /* the first row is the heading, in bold */
void table_free(struct table *t);
/* "5 s", "3 min", "2 h", "4 d" since a moment. */
const char *age_text(json_int_t since_ms, char text[16]);

int cmd_ps(const struct options *o);
int cmd_stats(const struct options *o);
int cmd_inspect(const struct options *o);
int cmd_start(const struct options *o);
int cmd_stop(const struct options *o);
int cmd_signal(const struct options *o);
int cmd_destroy(const struct options *o);
int cmd_rm(const struct options *o);
int cmd_logs(const struct options *o);
int cmd_exec(const struct options *o);
int cmd_cp(const struct options *o);
int cmd_files_ls(const struct options *o);
int cmd_files_cat(const struct options *o);
int cmd_files_write(const struct options *o);
int cmd_files_stat(const struct options *o);
int cmd_files_mkdir(const struct options *o);
int cmd_files_rm(const struct options *o);
int cmd_files_mv(const struct options *o);
int cmd_files_watch(const struct options *o);
int cmd_snapshot_create(const struct options *o);
int cmd_snapshot_list(const struct options *o);
int cmd_snapshot_rm(const struct options *o);

#endif
