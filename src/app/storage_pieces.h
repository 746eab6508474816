/* Calls and answers of a storage session that do not fit a frame, in pieces: the methods `stage` and `piece`
 * of link/worker_protocol.h, around storage_call(). */
#ifndef CLOISTER_APP_STORAGE_PIECES_H
#define CLOISTER_APP_STORAGE_PIECES_H

#include "app/storage.h"

#define STORAGE_PIECE_MAX ((size_t)768 << 10) /* one answer, or one piece of it */
#define STORAGE_STAGE_MAX ((size_t)17 << 20)  /* arguments, put together */

struct storage_pieces {
    struct buf staged;  /* arguments that are on their way */
    struct buf pending; /* rest of an answer */
};

void storage_pieces_init(struct storage_pieces *p);
void storage_pieces_free(struct storage_pieces *p);
/* As storage_call(); `answer` gets at most a little more than STORAGE_PIECE_MAX. UNTRUSTED INPUT. */
int storage_pieces_call(struct storage_pieces *p, struct storage_session *session, const char *method,
                        struct cbor_reader args, struct buf *answer, struct error *err);

#endif
