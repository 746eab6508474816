/* What servers answer to fetch(): the lines of a head, cut at each LF. And what clients ask of a file: the
 * first line is taken as a Range, too. */
#include "app/answer_head.h"
#include "app/byte_range.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_range(const char *line, size_t len)
{
    static const size_t sizes[] = {0, 1, 100, SIZE_MAX / 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t first = 0, n = 0;
        if (byte_range_read(line, len, sizes[i], &first, &n) == BYTE_RANGE_PART)
            check(n > 0 && n <= sizes[i] && first <= sizes[i] - n);
    }
}

static void check_head(const struct answer_head *h)
{
    size_t ends = 0;
    bool in_name = true;
    for (size_t i = 0; i < h->headers.len; i++) {
        uint8_t c = h->headers.data[i];
        check(!in_name || c < 'A' || c > 'Z');
        ends += c == '\n';
        in_name = c == '\n' ? !in_name : in_name;
    }
    check(ends % 2 == 0 && strlen(h->reason) < sizeof h->reason);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct answer_head head = {.reason = ""};
    buf_init(&head.headers, 4096);
    for (bool first = true; len > 0; first = false) {
        const uint8_t *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) + 1 : len;
        char *line = malloc(n); /* of exactly this size, so that a read beyond it is seen */
        if (!line)
            break;
        memcpy(line, data, n);
        if (first)
            check_range(line, end ? n - 1 : n);
        bool ok = answer_head_line(&head, line, n);
        free(line);
        if (!ok)
            break;
        check_head(&head);
        data += n;
        len -= n;
    }
    buf_free(&head.headers);
    return 0;
}
