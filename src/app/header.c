#include "app/header.h"

#include <string.h>
#include <strings.h>

const char *header_find(const char *headers, size_t len, const char *name, size_t *ret_len)
{
    size_t n = strlen(name);
    for (const char *p = headers, *end = headers + len; p < end;) {
        const char *value = memchr(p, '\n', (size_t)(end - p));
        if (!value)
            return NULL;
        const char *stop = memchr(value + 1, '\n', (size_t)(end - value - 1));
        if (!stop)
            stop = end;
        if ((size_t)(value - p) == n && strncasecmp(p, name, n) == 0) {
            *ret_len = (size_t)(stop - value - 1);
            return value + 1;
        }
        p = stop < end ? stop + 1 : end;
    }
    return NULL;
}

bool header_has_word(const char *value, size_t len, const char *word, enum header_case letters)
{
    size_t n = strlen(word);
    for (const char *p = value, *end = value + len; p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
        const char *from = p, *to = stop;
        while (from < to && (*from == ' ' || *from == '\t'))
            from++;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        if ((size_t)(to - from) == n &&
            (letters == HEADER_ANY_CASE ? strncasecmp(from, word, n) : strncmp(from, word, n)) == 0)
            return true;
        p = comma ? comma + 1 : end;
    }
    return false;
}
