#include "app/answer_head.h"

#include "base/parse.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void begin(struct answer_head *h, const char *line, size_t len)
{
    const char *space = memchr(line, ' ', len),
               *reason = space ? memchr(space + 1, ' ', len - (size_t)(space + 1 - line)) : NULL;
    size_t n = reason ? len - (size_t)(reason + 1 - line) : 0;
    buf_clear(&h->headers);
    h->reason[0] = '\0';
    if (n > 0 && n < sizeof h->reason && !memchr(reason + 1, '\0', n) &&
        utf8_valid((const uint8_t *)reason + 1, n))
        snprintf(h->reason, sizeof h->reason, "%.*s", (int)n, reason + 1);
}

bool answer_head_line(struct answer_head *h, const char *line, size_t len)
{
    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        begin(h, line, len);
        return true;
    }
    const char *colon = memchr(line, ':', len), *end = line + len;
    if (!colon || colon == line || memchr(line, '\n', len))
        return true;
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    for (const char *p = line; p < colon; p++) {
        char lower = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        buf_append(&h->headers, &lower, 1);
    }
    buf_append(&h->headers, "\n", 1);
    buf_append(&h->headers, value, (size_t)(end - value));
    buf_append(&h->headers, "\n", 1);
    return !h->headers.failed;
}
