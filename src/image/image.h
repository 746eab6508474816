/* Images as the engine needs them: a list of unpacked layer directories and a configuration. This half of
 * src/image/ only reads the store (jansson, no archive library), so `cloister run` stays light; the half that
 * fetches, verifies, unpacks, packs and collects is the helper program libexec/cloister/cloister-image
 * (image_build.h).
 *
 * Store layout below <data_dir> (all 0700 root or owner):
 *   blobs/sha256/<hex>           packed snapshot layers (tar + zstd), immutable
 *   layers/<hex>/fs/             an unpacked layer: <hex> is its diff id (sha256 of the uncompressed tar),
 * the chain id where the tar relies on directories of the layers below it, the blob's digest for a snapshot
 * layer, or host-... for the skeleton of `host`; whiteouts are character devices 0:0, opaque directories
 *                                carry user.overlay.opaque=y; numeric owners are those of the image (idmapped
 * at mount time) layers/<hex>/layer.json      {diffId, entries, bytes, created, ...}; written last: a layer
 * without it does not exist images/<id-hex>.json         an image record: {id, layers: [hex, bottom first],
 * config: {Env, Entrypoint, Cmd, WorkingDir, User, Labels}, bytes, created, architecture} refs/<escaped name>
 * text file: the image id that a name means; replaced atomically ('/' is written '+', ':' is '=')
 *   snapshots/<id>.json          snapshot records (snapshot.h)
 *   aliases.json                 {"cloudflare/debian-trixie": "debian"}: names may stand for other names (one
 * step, no chains) tmp/                         work in progress; emptied of dead owners' leftovers An image
 * name is [registry/]path[:tag][@digest], at most 255 bytes of [a-zA-Z0-9._/:@-] with its tag; the default
 * tag is "latest". `host` is built in; "sha256:<64 hex digits>" means an image id.
 *
 * A `struct image` holds a shared lock (flock) on each of its layers: as long as it lives, gc and rm leave
 * them alone. Keep it until the container that is mounted from it has ended. */
#ifndef CLOISTER_IMAGE_IMAGE_H
#define CLOISTER_IMAGE_IMAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image {
    char *id;      /* "sha256:<hex>" of the image configuration; "host" for the built-in */
    char *name;    /* as resolved, without alias, with its tag ("debian:latest"); "" when found by id */
    char **layers; /* absolute directories, bottom first, layer_count of them */
    int *holds;    /* the locks: layer_count descriptors, -1 where not held (image_list) */
    size_t layer_count;
    bool host_usr;     /* mount the machine's /usr read-only */
    char **env;        /* NULL-terminated "K=V" */
    char **entrypoint; /* NULL-terminated; may be empty */
    char **cmd;        /* NULL-terminated; may be empty */
    char *workdir;     /* never NULL; "/" by default */
    char *user;        /* never NULL; "" by default */
    uint64_t bytes;
    int64_t created_ms;
};

int image_name_check(const char *name, const char *field, struct error *err);
/* The one form of a valid name: ":latest" added where neither tag nor digest is given, "docker.io/" and
 * "docker.io/library/" taken off. */
int image_name_canonical(const char *name, const char *field, char ret[256], struct error *err);
/* ERROR_NOT_FOUND says which name and how to get it. For `host` the skeleton layer (bin -> usr/bin, minimal
 * /etc: passwd, group, hosts, hostname, resolv.conf empty, nsswitch.conf, os-release -> usr/lib/os-release;
 * /root, /tmp 1777, /var/tmp 1777, /home, /workspace...) is made on first use, and anew when the machine's
 * libraries or alternatives change. Nothing of the host's own /etc, /var, /home gets in, but for what only
 * describes /usr: the loader's cache, and the links of /etc/alternatives that lead into /usr. */
int image_resolve(const char *data_dir, const char *name, struct image **ret, struct error *err);
void image_free(struct image *i);

/* A shared lock on one layer directory (as in image.layers or from snapshot_layer_dir()): a descriptor for
 * the caller to close, which keeps gc away from it. */
int image_layer_hold(const char *layer_dir, struct error *err);

/* Visits every image of the store, sorted by name; `host` is among them. `visit` returns false to stop; `i`
 * is the visitor's only during the call. An image that cannot be read ends the listing with an error. */
int image_list(const char *data_dir, bool (*visit)(void *user, const struct image *i), void *user,
               struct error *err);

#endif
