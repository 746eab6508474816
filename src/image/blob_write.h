/* A blob on its way into the store: compressed by worker threads, hashed while it is written, then put in its
 * place under its digest. */
#ifndef CLOISTER_IMAGE_BLOB_WRITE_H
#define CLOISTER_IMAGE_BLOB_WRITE_H

#include "base/error.h"
#include "image/tar_write.h"

#include <stdint.h>

struct blob_writer;

int blob_writer_open(const char *data_dir, struct blob_writer **ret, struct error *err);
struct byte_sink *blob_writer_sink(struct blob_writer *w);
/* Finishes, syncs and publishes. `ret_hex` is its sha256. */
int blob_writer_commit(struct blob_writer *w, char ret_hex[65], uint64_t *ret_size, struct error *err);
/* Also after a commit. Without one nothing remains. */
void blob_writer_close(struct blob_writer *w);

#endif
