/* The framing of requests: what is decided does not depend on the pieces in which bytes come, and no byte is
 * looked at twice. */
#include "app/http_framing.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct outcome {
    size_t taken;
    int phase;
    enum http_framing_fault fault;
};

static struct outcome run(const char *text, size_t len, size_t piece)
{
    struct http_framing f = {0};
    struct outcome o = {0};
    while (o.taken < len && !o.fault && f.phase != FRAMING_DONE) {
        size_t n = len - o.taken < piece ? len - o.taken : piece;
        size_t used = f.phase == FRAMING_HEAD ? http_framing_head(&f, text + o.taken, n, &o.fault)
                                              : http_framing_chunks(&f, text + o.taken, n, &o.fault);
        if (used > n || (used == 0 && !o.fault))
            abort();
        o.taken += used;
    }
    o.phase = f.phase;
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1)
        return 0;
    struct outcome whole = run((const char *)data + 1, len - 1, len),
                   pieces = run((const char *)data + 1, len - 1, data[0] % 16u + 1u);
    if (whole.taken != pieces.taken || whole.phase != pieces.phase || whole.fault != pieces.fault)
        abort();
    return 0;
}
