/* The JSON that run and exec print: output as text where it is text, errors in the API's form. */
#ifndef CLOISTER_CLI_JSON_TEXT_H
#define CLOISTER_CLI_JSON_TEXT_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>

/* Adds stdout, stderr, encoding ("utf-8", or "base64" when either is no UTF-8), and for both how many bytes
 * there were and whether what is given was cut. Text is cut only between characters. */
void json_text_output(json_t *to, const struct buf *out, uint64_t out_bytes, const struct buf *err,
                      uint64_t err_bytes);
/* {"error": {...}} on stdout. */
void json_text_error(const struct error *err);
/* One line on stdout; takes the reference. -1 when it could not be written. */
int json_text_print(json_t *j);

#endif
