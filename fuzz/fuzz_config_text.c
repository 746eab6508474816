/* The readers of configuration files: JSON with comments, and TOML. What JSON without comments says must come
 * out as the JSON library reads it. */
#include "app/config.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_tree(const json_t *v)
{
    if (!json_is_object(v) && !json_is_array(v))
        abort();
    char *text = json_dumps(v, 0);
    if (!text)
        abort(); /* every text in it is UTF-8, every number one that JSON has */
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err = {0};
    json_t *v = app_jsonc_parse((const char *)data, len, &err), *plain = NULL;
    if (v)
        check_tree(v);
    else if (!err.message[0])
        abort();
    if (!memchr(data, '/', len))
        plain = json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, NULL);
    if (plain && v && !json_equal(plain, v))
        abort();
    json_decref(plain);
    json_decref(v);

    error_clear(&err);
    v = app_toml_parse((const char *)data, len, &err);
    if (v)
        check_tree(v);
    else if (!err.message[0])
        abort();
    json_decref(v);
    return 0;
}
