/* Which user and group ids a container gets.
 *
 * As root every container has its own range of 65,536 ids that nothing else on the machine uses; ranges are
 * reserved across processes by a byte lock on one file, so they free themselves when their owner dies. As an
 * ordinary user the process first enters a user namespace of its own (idmap_enter_rootless), whose ids all
 * its containers share: with entries in /etc/subuid and newuidmap(1) 65,536 of them, else just one. */
#ifndef CLOISTER_CONTAINER_IDMAP_H
#define CLOISTER_CONTAINER_IDMAP_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define IDMAP_RANGE 65536u
#define IDMAP_FIRST 0x10000000u
#define IDMAP_SLOTS 28672u /* so that every id stays below 2^31 */

struct idmap {
    bool root;
    uint32_t count; /* ids mapped inside a container: 1 or IDMAP_RANGE */
    int lock_fd;    /* root: the file whose byte n stands for slot n */
    uint8_t *used;  /* root: slots of this process */
    uint32_t next;
};

/* Ordinary user: moves the (single-threaded) process into a fresh user and mount namespace as its root. */
int idmap_enter_rootless(struct idmap *m, struct error *err);
int idmap_open_root(struct idmap *m, const char *run_root, struct error *err);
void idmap_close(struct idmap *m);
/* Reserves a range; *ret_base is the outside id of inside id 0 (0 for ordinary users). */
int idmap_take(struct idmap *m, uint32_t *ret_base, struct error *err);
void idmap_give(struct idmap *m, uint32_t base);
/* Writes uid_map and gid_map of a process in a new user namespace. */
int idmap_write(const struct idmap *m, pid_t pid, uint32_t base, struct error *err);

#endif
