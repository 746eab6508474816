#include "image/limits.h"

#include "base/parse.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct entry {
    const char *variable;
    uint64_t *value;
    bool bytes;
};

int image_limits_load(struct image_limits *l, struct error *err)
{
    *l = (struct image_limits){.layer_bytes = (uint64_t)32 << 30,
                               .image_bytes = (uint64_t)64 << 30,
                               .layer_entries = 1000000,
                               .layers = 128,
                               .ratio = 1000,
                               .ratio_free = LIMIT_RATIO_FREE};
    const struct entry entries[] = {{"CLOISTER_IMAGE_LAYER_BYTES", &l->layer_bytes, true},
                                    {"CLOISTER_IMAGE_IMAGE_BYTES", &l->image_bytes, true},
                                    {"CLOISTER_IMAGE_LAYER_ENTRIES", &l->layer_entries, false},
                                    {"CLOISTER_IMAGE_LAYERS", &l->layers, false},
                                    {"CLOISTER_IMAGE_RATIO", &l->ratio, false},
                                    {"CLOISTER_IMAGE_RATIO_FREE", &l->ratio_free, true}};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const char *text = getenv(entries[i].variable);
        if (!text)
            continue;
        int r = entries[i].bytes ? parse_size(text, entries[i].variable, entries[i].value, err)
                                 : parse_u64(text, entries[i].variable, 1, 100000000, entries[i].value, err);
        if (r < 0)
            return -1;
    }
    if (l->layers > 128)
        return error_field(err, "CLOISTER_IMAGE_LAYERS", "an image has at most 128 layers");
    return 0;
}
