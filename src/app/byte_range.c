#include "app/byte_range.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* Digits at *p, as many as there are; what is larger than any body stays so. False: there are none. */
static bool take_number(const char **p, const char *end, uint64_t *ret)
{
    const char *start = *p;
    *ret = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; ++*p)
        *ret = *ret > UINT64_MAX / 16 ? UINT64_MAX / 16 : *ret * 10 + (uint64_t)(**p - '0');
    return *p > start;
}

enum byte_range byte_range_read(const char *text, size_t text_len, size_t size, size_t *first, size_t *len)
{
    static const char unit[] = "bytes=";
    const char *p = text + sizeof unit - 1, *end = text + text_len;
    uint64_t from = 0, to = 0;
    if (text_len < sizeof unit - 1 || strncasecmp(text, unit, sizeof unit - 1) != 0)
        return BYTE_RANGE_NONE;
    bool has_from = take_number(&p, end, &from);
    if (p == end || *p++ != '-')
        return BYTE_RANGE_NONE;
    bool has_to = take_number(&p, end, &to);
    if (p != end || (!has_from && !has_to) || (has_from && has_to && to < from))
        return BYTE_RANGE_NONE;
    if (!has_from) { /* the last `to` bytes */
        from = to < size ? size - to : 0;
        has_to = false;
        if (to == 0)
            return BYTE_RANGE_UNSATISFIABLE;
    }
    if (from >= size)
        return BYTE_RANGE_UNSATISFIABLE;
    *first = (size_t)from;
    *len = has_to && to < size ? (size_t)(to - from) + 1 : size - (size_t)from;
    return BYTE_RANGE_PART;
}
