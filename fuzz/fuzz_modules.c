/* The modules that a host Worker's process says it wants to load: a map with `mainModule` and `modules`. */
#include "app/module.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct cbor_reader r;
    struct error err = {0};
    struct modules m = {0};
    if (!cbor_well_formed(data, len))
        return 0; /* the link lets nothing else through */
    cbor_reader_init(&r, data, len);
    if (modules_read(&m, &r, &err) < 0) {
        check(err.message[0] != '\0'); /* every refusal says why */
        return 0;
    }
    bool found = false;
    size_t total = 0;
    check(m.count <= MODULES_MAX);
    for (size_t i = 0; i < m.count; i++) {
        found = found || (strcmp(m.all[i].name, m.main) == 0 && module_is_compiled(m.all[i].type));
        total += m.all[i].code->len;
        check(module_type_name(m.all[i].type) != NULL);
    }
    check(found && total <= MODULES_MAX_BYTES);
    modules_free(&m);
    return 0;
}
