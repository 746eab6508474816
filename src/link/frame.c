#include "link/frame.h"

#include <endian.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t min, max; /* allowed lengths of the body */
} kinds[] = {
    [FRAME_CALL] = {"CALL", 1, FRAME_MAX_BODY},
    [FRAME_RETURN] = {"RETURN", 1, FRAME_MAX_BODY},
    [FRAME_THROW] = {"THROW", 1, FRAME_MAX_BODY},
    [FRAME_CANCEL] = {"CANCEL", 0, 0},
    [FRAME_DROP] = {"DROP", 4, 4},
    [FRAME_DATA] = {"DATA", 1, FRAME_MAX_BODY},
    [FRAME_WINDOW] = {"WINDOW", 4, 4},
    [FRAME_END] = {"END", 0, 0},
    [FRAME_RESET] = {"RESET", 1, FRAME_MAX_BODY},
    [FRAME_LOG] = {"LOG", 1, FRAME_MAX_BODY},
};

const char *frame_kind_name(unsigned kind)
{
    return kind >= FRAME_CALL && kind <= FRAME_LOG ? kinds[kind].name : "unknown";
}

void frame_header_write(uint8_t out[FRAME_HEADER_SIZE], enum frame_kind kind, uint32_t id, uint32_t length)
{
    uint32_t le_length = htole32(length), le_id = htole32(id);
    memcpy(out, &le_length, 4);
    out[4] = (uint8_t)kind;
    memset(out + 5, 0, 3);
    memcpy(out + 8, &le_id, 4);
}

/* UNTRUSTED INPUT */
int frame_header_read(const uint8_t in[FRAME_HEADER_SIZE], struct frame *ret, struct error *err)
{
    uint32_t length, id;
    memcpy(&length, in, 4);
    memcpy(&id, in + 8, 4);
    length = le32toh(length);
    id = le32toh(id);
    unsigned kind = in[4];
    if (kind < FRAME_CALL || kind > FRAME_LOG)
        return error_set(err, ERROR_PROTOCOL, "frame of unknown kind %u", kind);
    if (in[5])
        return error_set(err, ERROR_PROTOCOL, "%s frame with unknown flags 0x%02x", kinds[kind].name, in[5]);
    if (in[6] || in[7])
        return error_set(err, ERROR_PROTOCOL, "%s frame with reserved bits set", kinds[kind].name);
    if (length < kinds[kind].min || length > kinds[kind].max)
        return error_set(err, ERROR_PROTOCOL, "%s frame with a body of %u bytes, expected %u to %u",
                         kinds[kind].name, length, kinds[kind].min, kinds[kind].max);
    if ((id == 0) != (kind == FRAME_LOG))
        return error_set(err, ERROR_PROTOCOL, "%s frame with id %u", kinds[kind].name, id);
    *ret = (struct frame){.length = length, .kind = (uint8_t)kind, .id = id};
    return 0;
}
