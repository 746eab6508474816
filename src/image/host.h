/* The built-in image `host`: the machine's own /usr, read-only, over a skeleton layer that holds nothing of
 * the machine. */
#ifndef CLOISTER_IMAGE_HOST_H
#define CLOISTER_IMAGE_HOST_H

#include "image/image.h"

#define IMAGE_HOST "host"

/* Makes the skeleton on first use and locks it. */
int image_host_resolve(const char *data_dir, struct image **ret, struct error *err);
/* The same description without making or locking anything. */
struct image *image_host_describe(const char *data_dir, struct error *err);
/* The directory name (below layers/) of the skeleton in use now; others with its prefix are old. */
#define IMAGE_HOST_PREFIX "host-"
void image_host_layer_name(char ret[64]);

#endif
