/* Lists of headers as the link carries them, "name\nvalue\nname\nvalue\n", and values that are lists of words
 * (RFC 9110, 5.6.1). UNTRUSTED INPUT, both. */
#ifndef CLOISTER_APP_HEADER_H
#define CLOISTER_APP_HEADER_H

#include <stdbool.h>
#include <stddef.h>

/* The first value of a name, in any case; NULL: there is none. It points into `headers`. */
const char *header_find(const char *headers, size_t len, const char *name, size_t *ret_len);
/* Does a value that is a list of words hold this one? */
enum header_case { HEADER_ANY_CASE, HEADER_SAME_CASE };
bool header_has_word(const char *value, size_t len, const char *word, enum header_case letters);

#endif
