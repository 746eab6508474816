/* Snapshots: what changed in a container (or one directory of it), packed as one content-addressed layer. */
#ifndef CLOISTER_IMAGE_SNAPSHOT_H
#define CLOISTER_IMAGE_SNAPSHOT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_TTL_MS ((int64_t)30 * 24 * 3600 * 1000)
/* Most snapshot layers on top of each other; one more is merged into a single layer when packed. */
#define SNAPSHOT_MAX_CHAIN 32

enum snapshot_kind { SNAPSHOT_CONTAINER, SNAPSHOT_DIRECTORY };

struct snapshot {
    char id[33];   /* 32 random hex digits */
    char name[64]; /* may be empty */
    enum snapshot_kind kind;
    char *image_id; /* the image it belongs to (SNAPSHOT_CONTAINER) */
    char **chain;   /* blob digests (hex of the packed file), bottom first; the last is its own layer */
    size_t chain_count;
    uint64_t bytes; /* packed size of its own layer */
    int64_t created_ms, expires_ms;
    char *dir; /* SNAPSHOT_DIRECTORY: the path it was taken from */
};

int snapshot_load(const char *data_dir, const char *id, struct snapshot **ret, struct error *err);
void snapshot_free(struct snapshot *s);
int snapshot_list(const char *data_dir, bool (*visit)(void *user, const struct snapshot *s), void *user,
                  struct error *err);
/* Writes the record, atomically. Its blobs must be in the store (cloister-image puts and syncs them). The
 * chain's expiry is not this function's: a blob lives as long as some record names it. */
int snapshot_save(const char *data_dir, const struct snapshot *s, struct error *err);
/* Pushes expiry to now + SNAPSHOT_TTL_MS (a restore does this). */
int snapshot_touch(const char *data_dir, const char *id, struct error *err);
int snapshot_remove(const char *data_dir, const char *id, struct error *err);
/* Directory of the unpacked layer of a chain element, when it is unpacked and complete: absolute path, caller
 * frees; NULL when it must be unpacked first (cloister-image layer-add). Lock it with image_layer_hold()
 * before use and as long as it is mounted. */
char *snapshot_layer_dir(const char *data_dir, const char *digest_hex);

#endif
