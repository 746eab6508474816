/* Notices when memory is short: when less is left to this process' machine, or to the control group it was
 * started in, than is to be kept free. Memory that holds nothing but copies of files counts as left. */
#ifndef CLOISTER_APP_SHORTAGE_H
#define CLOISTER_APP_SHORTAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct shortage;

#define SHORTAGE_LOOK_MS 1000u
#define SHORTAGE_SHARE                                                                                       \
    20u /* of the machine's memory, or of the control group's limit: kept free by default */

struct shortage_config {
    uv_loop_t *loop;
    uint64_t keep_free;     /* bytes; 0: a SHORTAGE_SHARE'th of what there is */
    const char *cgroup_dir; /* copied: the directory with the control group's files of memory; NULL: none */
    /* Each SHORTAGE_LOOK_MS while memory is short; `left` bytes are left of the `kept` that should be. */
    void (*fn)(void *user, uint64_t left, uint64_t kept);
    void *user;
};

/* NULL: no memory. Does not keep the loop running. */
struct shortage *shortage_new(const struct shortage_config *config);
void shortage_free(struct shortage *s); /* NULL is fine; its handle closes when the loop runs once more */

/* What is left, and of how much. False when the files do not say; a control group without a limit does not.
 */
bool shortage_of_machine(const char *meminfo, uint64_t *ret_left, uint64_t *ret_total);
bool shortage_of_cgroup(const char *dir, uint64_t *ret_left, uint64_t *ret_total);

#endif
