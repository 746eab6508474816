/* Names inside a layer that is being unpacked. Every name is resolved with the layer's own root directory as
 * "/", whatever symbolic links the layer planted (openat2 with RESOLVE_IN_ROOT); nothing outside is ever
 * opened. */
#ifndef CLOISTER_IMAGE_LAYER_PATH_H
#define CLOISTER_IMAGE_LAYER_PATH_H

#include "base/error.h"
#include "image/dir_attrs.h"
#include "image/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* An entry's name, checked and cut up. */
struct entry_name {
    char path[LIMIT_PATH +
              1]; /* "a/b/c": no leading slash, no "." and no empty parts; "" for the root itself */
    char parent[LIMIT_PATH + 1];
    const char *base; /* last part, inside path */
};
/* UNTRUSTED INPUT. Leading slashes are dropped (the entry lies in the root); ".." as a part is refused. */
int entry_name_parse(const char *raw, struct entry_name *ret, struct error *err);

/* What an implied directory (a parent that the tar does not list) takes over from the layers below. */
struct layer_path {
    int root;          /* directory being filled; borrowed */
    const int *lowers; /* roots of the layers below, topmost first; borrowed */
    size_t lower_count;
    uint64_t implied;       /* directories made that the tar did not list */
    struct dir_attrs *dirs; /* told how those are to look; borrowed */
    bool keep_owner;
    /* the parent of the last entry, kept open */
    int cached_fd;
    char cached[LIMIT_PATH + 1];
};
void layer_path_init(struct layer_path *p, int root, const int *lowers, size_t lower_count,
                     struct dir_attrs *dirs);
void layer_path_free(struct layer_path *p);
/* Forgets the kept parent: to be called whenever a directory or a symbolic link was replaced. */
void layer_path_forget(struct layer_path *p);

/* Opens (O_PATH) the directory `dir` ("" is the root), making what is missing. `links`: symbolic links in it
 * are followed inside the root; otherwise they are refused. The descriptor is the path's own. */
int layer_path_open(struct layer_path *p, const char *dir, bool links, struct error *err);
/* As above but makes nothing: -1 with ERROR_NOT_FOUND when missing. The caller closes it. */
int layer_path_find(struct layer_path *p, const char *dir, struct error *err);

/* True for a whiteout as overlayfs keeps it. */
bool is_whiteout(const char *name, int dirfd);
/* Turns the whiteout `name` into an empty opaque directory. */
int whiteout_to_opaque_dir(int dirfd, const char *name);
int dir_set_opaque(int dirfd, const char *name);

#endif
