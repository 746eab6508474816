/* The daemon's storage for the library's tests (js/tests): calls come on standard input, one at a time, and
 * are answered on standard output.
 *
 *   call    u32 length of the rest, u16 session, u8 length of the method, method, arguments (CBOR)
 *   answer  u32 length of the rest, u8 0 and a value, or 1 and an error map (link.h)
 *
 * All numbers little-endian. Session 0 has the methods `session` {class, id} -> {session}, `end` {session}
 * and `flush`. */
#include "app/storage.h"
#include "app/storage_pieces.h"
#include "link/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SESSIONS 1024

static struct storage *storage;
static struct storage_session *sessions[MAX_SESSIONS];
static struct storage_pieces pieces[MAX_SESSIONS];
static unsigned session_count = 1;

static int control(const char *method, struct cbor_reader args, struct buf *answer, struct error *err)
{
    uint64_t number = 0;
    if (strcmp(method, "flush") == 0) {
        cbor_put_null(answer);
        return storage_flush(storage, err);
    }
    if (strcmp(method, "end") == 0) {
        if (cbor_map_uint(&args, "session", MAX_SESSIONS - 1, 0, &number) < 0)
            return error_set(err, ERROR_INVALID, "no such session");
        storage_session_end(sessions[number]);
        sessions[number] = NULL;
        cbor_put_null(answer);
        return 0;
    }
    char *class_name = cbor_map_dup(&args, "class", 256), *id = cbor_map_dup(&args, "id", 64);
    int r = -1;
    if (!class_name || !id || session_count == MAX_SESSIONS)
        error_set(err, ERROR_INVALID, "no class or id");
    else
        r = storage_session_begin(storage, class_name, id, &sessions[session_count], err);
    free(class_name);
    free(id);
    if (r < 0)
        return -1;
    storage_pieces_init(&pieces[session_count]);
    cbor_put_map(answer, 1);
    cbor_put_text(answer, "session");
    cbor_put_uint(answer, session_count++);
    return 0;
}

static void run(const uint8_t *p, size_t len, struct buf *answer)
{
    struct error err = {0};
    struct cbor_reader args;
    char method[256] = "";
    unsigned session = p[0] | (unsigned)p[1] << 8;
    size_t n = p[2];
    memcpy(method, p + 3, n);
    cbor_reader_init(&args, p + 3 + n, len - 3 - n);
    buf_append(answer, "\0", 1);
    int r;
    if (session == 0)
        r = control(method, args, answer, &err);
    else if (session < session_count && sessions[session])
        r = storage_pieces_call(&pieces[session], sessions[session], method, args, answer, &err);
    else
        r = error_set(&err, ERROR_GONE, "the session has ended");
    if (r == 0)
        return;
    buf_clear(answer);
    buf_append(answer, "\1", 1);
    link_put_error(answer, &err);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct storage_config config = {.dir = argc == 2 ? argv[1] : ""};
    uint8_t head[4];
    if (argc != 2 || storage_open(&storage, &config, &err) < 0) {
        fprintf(stderr, "storage_peer: %s\n", argc == 2 ? err.message : "expected a directory");
        return 1;
    }
    while (fread(head, 1, 4, stdin) == 4) {
        size_t len = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        uint8_t *call = malloc(len);
        struct buf answer;
        buf_init(&answer, 0);
        if (!call || fread(call, 1, len, stdin) != len || len < 3 || (size_t)call[2] + 3 > len)
            return 1;
        run(call, len, &answer);
        uint8_t size[4] = {(uint8_t)answer.len, (uint8_t)(answer.len >> 8), (uint8_t)(answer.len >> 16),
                           (uint8_t)(answer.len >> 24)};
        fwrite(size, 1, 4, stdout);
        fwrite(answer.data, 1, answer.len, stdout);
        fflush(stdout);
        buf_free(&answer);
        free(call);
    }
    for (unsigned i = 1; i < session_count; i++)
        storage_session_end(sessions[i]);
    storage_close(storage);
    return 0;
}
