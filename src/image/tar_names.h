/* Keeps libarchive from touching names. It takes names in pax headers for UTF-8 and normalises them, so that
 * two different names can become one; on Linux a name is bytes. This filter sits between a tar and libarchive
 * and adds "hdrcharset=BINARY" to every pax header, which is the standard's way to say so. A header whose
 * link field is empty although its pax header has one (as some writers leave it for names that are not ASCII)
 * gets a filler, without which libarchive forgets the link. And it refuses names with a NUL, which libarchive
 * would cut.
 *
 * It follows only the framing of the tar. Where that is odd it steps aside for the rest of the archive and
 * leaves the judgement to libarchive: what comes out is checked by the unpacker in any case. */
#ifndef CLOISTER_IMAGE_TAR_NAMES_H
#define CLOISTER_IMAGE_TAR_NAMES_H

#include "base/buf.h"
#include "image/layer_stream.h"

struct tar_names {
    struct byte_source source; /* first: next() casts back */
    struct byte_source *in;
    const uint8_t *piece;
    size_t piece_left;
    int state;
    uint64_t data_left; /* of the entry's data, with padding */
    uint64_t pax_size;  /* size of the next entry by its pax header */
    bool has_pax_size, has_link;
    bool ended; /* the mark of the end was there */
    uint8_t block[512];
    size_t have;
    struct buf pax, out;
};
/* `in` is borrowed. */
void tar_names_init(struct tar_names *t, struct byte_source *in);
void tar_names_free(struct tar_names *t);

#endif
