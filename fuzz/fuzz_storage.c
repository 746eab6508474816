/* Calls of the storage capability, as a worker sends them: records of one byte (the method), two bytes of
 * length, little-endian, and that many bytes of arguments. One object, in a fresh directory for each input.
 */
#include "app/storage_pieces.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *const methods[] = {
    "get",    "list",     "put",  "delete", "deleteAll", "sql",      "next",        "close", "size",  "begin",
    "commit", "rollback", "undo", "sync",   "setAlarm",  "getAlarm", "deleteAlarm", "stage", "piece", "none"};

static void one_call(struct storage_session *session, struct storage_pieces *pieces, uint8_t which,
                     const uint8_t *args, size_t len)
{
    struct buf answer;
    struct error err = {0};
    struct cbor_reader r;
    if (!cbor_well_formed(args, len))
        return; /* the link lets nothing else through */
    buf_init(&answer, 0);
    cbor_reader_init(&r, args, len);
    if (storage_pieces_call(pieces, session, methods[which % (sizeof methods / sizeof *methods)], r, &answer,
                            &err) == 0) {
        if (!cbor_well_formed(answer.data, answer.len))
            abort();
    } else if (!err.message[0]) {
        abort(); /* every refusal says why */
    }
    buf_free(&answer);
}

static void run(struct storage *s, const uint8_t *data, size_t len)
{
    struct storage_session *session = NULL;
    struct storage_pieces pieces;
    if (storage_session_begin(s, "Fuzz", ID, &session, NULL) < 0)
        abort();
    storage_pieces_init(&pieces);
    for (size_t at = 0; at + 3 <= len;) {
        size_t n = data[at + 1] | (size_t)data[at + 2] << 8;
        n = n < len - at - 3 ? n : len - at - 3;
        one_call(session, &pieces, data[at], data + at + 3, n);
        at += 3 + n;
    }
    storage_pieces_free(&pieces);
    storage_flush(s, NULL);
    storage_session_end(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char dir[] = "/tmp/cloister-fuzz-XXXXXX", path[64], command[192];
    struct storage_config config = {.dir = path, .max_bytes = 1 << 20, .statement_ms = 20};
    struct storage *s = NULL;
    if (!mkdtemp(dir))
        abort();
    snprintf(path, sizeof path, "%s/objects", dir);
    if (storage_open(&s, &config, NULL) < 0)
        abort();
    run(s, data, len);
    storage_close(s);
    snprintf(command, sizeof command, "%s/Fuzz/" ID ".sqlite", path);
    unlink(command);
    strcat(command, "-wal");
    unlink(command);
    snprintf(command, sizeof command, "%s/Fuzz", path);
    rmdir(command);
    rmdir(path);
    rmdir(dir);
    return 0;
}
