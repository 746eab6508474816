/* Base64 with padding, and the "forgiving" decoding of the Infra standard. */
#ifndef CLOISTER_WORKER_BASE64_H
#define CLOISTER_WORKER_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t base64_encoded_size(size_t len)
{
    return (len + 2) / 3 * 4;
}
/* Characters written: base64_encoded_size(len). No NUL. */
size_t base64_encode_to(char *to, const uint8_t *bytes, size_t len);
/* False when the text is malformed. */
bool base64_decode_in_place(uint8_t *text, size_t len, size_t *ret_len);

#endif
