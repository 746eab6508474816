/* The handlers of the routes (routes.c), one file a subject. */
#ifndef CLOISTER_DAEMON_API_H
#define CLOISTER_DAEMON_API_H

#include "daemon/request.h"

/* Answers for a process that never started. That its program, directory or user is not there is an error in
 * what was asked for: 400, with the caller's name of the field (`argv_name` for the command). */
void api_process_failure(struct request *r, const struct error *why, const char *argv_name);

/* 0 when the request's container runs; else the request has been answered with that. */
int api_need_running(struct request *r);

void api_version(struct request *r);

void api_containers_list(struct request *r);
void api_container_create(struct request *r);
void api_container_start(struct request *r);
void api_container_get(struct request *r);
void api_container_patch(struct request *r);
void api_container_signal(struct request *r);
void api_container_destroy(struct request *r);
void api_container_stop(struct request *r);
void api_container_delete(struct request *r);
void api_container_monitor(struct request *r);
void api_container_inactivity(struct request *r);

void api_exec_create(struct request *r);
void api_exec_list(struct request *r);
void api_exec_get(struct request *r);
void api_exec_output(struct request *r);
void api_exec_stdin(struct request *r);
void api_exec_kill(struct request *r);
void api_exec_resize(struct request *r);
void api_exec_delete(struct request *r);

void api_file_read(struct request *r);
void api_file_write(struct request *r);
void api_file_remove(struct request *r);
void api_file_stat(struct request *r);
void api_file_list(struct request *r);
void api_file_mkdir(struct request *r);
void api_file_rename(struct request *r);
void api_file_export(struct request *r);
void api_file_import(struct request *r);
void api_file_watch(struct request *r);

void api_snapshot_create(struct request *r);
void api_snapshots_list(struct request *r);
void api_snapshot_get(struct request *r);
void api_snapshot_delete(struct request *r);

void api_images_list(struct request *r);
void api_image_get(struct request *r);
void api_image_delete(struct request *r);
void api_image_pull(struct request *r);
void api_image_import(struct request *r);

#endif
