/* What a Range header asks for of a body whose length is known (RFC 9110, 14). */
#ifndef CLOISTER_APP_BYTE_RANGE_H
#define CLOISTER_APP_BYTE_RANGE_H

#include <stddef.h>

enum byte_range {
    BYTE_RANGE_NONE, /* answer with everything: no range, several, or none that we understand */
    BYTE_RANGE_PART,
    BYTE_RANGE_UNSATISFIABLE,
};

/* `text`: the header's value, not terminated. A part is *first and *len, *len > 0. UNTRUSTED INPUT. */
enum byte_range byte_range_read(const char *text, size_t text_len, size_t size, size_t *first, size_t *len);

#endif
