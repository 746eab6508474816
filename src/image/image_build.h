/* The half of the image store that writes it: fetch, import, verify, unpack, pack, collect. Used by the
 * helper program `cloister-image` only. */
#ifndef CLOISTER_IMAGE_IMAGE_BUILD_H
#define CLOISTER_IMAGE_IMAGE_BUILD_H

#include "base/error.h"
#include "image/limits.h"
#include "image/oci_json.h"
#include "image/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_builder {
    const char *data_dir; /* absolute, exists */
    struct image_limits limits;
    struct progress *progress;
};

/* What a fetch or an import made. */
struct built_image {
    char id[72]; /* "sha256:<hex>" */
    char name[256];
    uint64_t bytes;
    size_t layers, layers_reused;
    uint64_t skipped, xattrs_dropped;
    bool squashed;
};

/* `source`: a file, a directory (OCI layout) or "-". `name` NULL: from the archive or the file's name. `ref`:
 * which image of several. */
int image_import(const struct image_builder *b, const char *source, const char *name, const char *ref,
                 struct built_image *ret, struct error *err);

struct pull_options {
    const char *name;     /* NULL: the reference itself */
    const char *authfile; /* NULL: skopeo's own default */
    const char *policy;   /* signature policy; NULL: the machine's, or none where it has none */
    bool insecure;        /* --tls-verify=false for a registry that is not on loopback */
};
int image_pull(const struct image_builder *b, const char *reference, const struct pull_options *o,
               struct built_image *ret, struct error *err);

struct base_options {
    const char *name, *suite, *include;
    bool node;
};
int image_build_base(const struct image_builder *b, const struct base_options *o, struct built_image *ret,
                     struct error *err);

/* ---- pieces that the above share ---- */

struct layer_request;

/* An image whose configuration is verified and whose layers can be opened. */
struct image_parts {
    struct oci_config config; /* diff_ids may be "" for a root file system that is not hashed yet */
    char id[65];              /* hex; "": made from the configuration and the layers' digests */
    void *user;
    /* Fills fd (which the assembler closes), blob and blob_size. */
    int (*open_layer)(void *user, size_t i, struct layer_request *q, struct error *err);
    /* Asked once, when every layer is there and before the image gets its record: may still refuse. NULL:
     * nothing to ask. */
    int (*confirm)(void *user, struct error *err);
};
/* Unpacks what is missing and writes the record and the name. */
int image_assemble(const struct image_builder *b, struct image_parts *parts, const char *name,
                   struct built_image *ret, struct error *err);

/* Files of an archive: an OCI layout directory, or a private directory in which an archive's files lie flat
 * ('/' as '_'). */
struct blob_dir {
    int fd;
    bool flat;
};
int import_layout(const struct image_builder *b, const struct blob_dir *d, const char *name, const char *ref,
                  struct built_image *ret, struct error *err);
int import_docker(const struct image_builder *b, const struct blob_dir *d, const char *name, const char *ref,
                  struct built_image *ret, struct error *err);
/* Reads the whole root file system tar from `fd` (which may be a pipe; borrowed). `confirm` as in
 * image_parts; may be NULL. */
int import_rootfs(const struct image_builder *b, int fd, const char *name,
                  int (*confirm)(void *user, struct error *err), void *user, struct built_image *ret,
                  struct error *err);

/* The whole of an archive in a temporary directory: what it is, and its files where it is an image archive.
 */
enum archive_kind { ARCHIVE_ROOTFS, ARCHIVE_OCI, ARCHIVE_DOCKER };
int archive_classify(int fd, const struct image_limits *l, enum archive_kind *ret, struct error *err);
/* The name that a file of an archive has in that directory. UNTRUSTED INPUT. */
int archive_flat_name(const char *name, char ret[LIMIT_NAME + 1], struct error *err);
int archive_extract(int fd, int dir, const struct image_limits *l, struct progress *progress,
                    struct error *err);

struct gc_result {
    uint64_t layers, blobs, images, snapshots, temporary, bytes;
};
/* Removes what nothing refers to: image records without a name, layers and blobs without a record, expired
 * snapshots, leftovers of dead processes. What is younger than grace_ms stays (its record may be on the way),
 * and so does what is locked (in use). */
int image_gc(const char *data_dir, int64_t grace_ms, bool wait, struct gc_result *ret, struct error *err);
/* Forgets a name; the image goes with its last name, unless a snapshot needs it (*ret_kept). */
int image_remove(const char *data_dir, const char *name, bool *ret_kept, struct error *err);
/* Makes `alias` stand for `target` (NULL: no longer). */
int image_alias(const char *data_dir, const char *alias, const char *target, struct error *err);

/* Shared while a record is published; exclusive for what removes. The descriptor is the lock. New layers and
 * blobs need none: gc leaves young ones alone, and layers that are held. */
int store_lock(const char *data_dir, bool exclusive, bool wait, struct error *err);

#endif
