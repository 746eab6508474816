#include "base/buf.h"
#include "cli/client/client.h"

#include <stdlib.h>
#include <string.h>

struct table {
    size_t columns, count;
    char **cells;
};

struct table *table_new(size_t columns)
{
    struct table *t = calloc(1, sizeof *t);
    if (t)
        t->columns = columns;
    return t;
}

/* Control characters made visible, so that a column's width is what the terminal shows. */
static char *visible(const char *text)
{
    struct buf b;
    buf_init(&b, 64 << 10);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f)
            buf_printf(&b, "\\x%02x", *p);
        else
            buf_append(&b, p, 1);
    }
    if (buf_str(&b))
        return (char *)b.data;
    buf_free(&b);
    return NULL;
}

void table_cell(struct table *t, const char *text)
{
    char **grown = t ? realloc(t->cells, (t->count + 1) * sizeof *grown) : NULL;
    if (!grown)
        return;
    t->cells = grown;
    t->cells[t->count] = visible(text);
    t->count += t->cells[t->count] != NULL;
}

/* Characters, not bytes. */
static size_t width(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static size_t column_width(const struct table *t, size_t column)
{
    size_t most = 0;
    for (size_t i = column; i < t->count; i += t->columns) {
        size_t w = width(t->cells[i]);
        most = w > most ? w : most;
    }
    return most;
}

void table_print(const struct table *t)
{
    for (size_t row = 0; t && row + t->columns <= t->count; row += t->columns) {
        fputs(row == 0 ? style_begin(stdout, STYLE_BOLD) : "", stdout);
        for (size_t c = 0; c < t->columns; c++) {
            const char *cell = t->cells[row + c];
            bool last = c + 1 == t->columns;
            printf("%s%*s", cell, last ? 0 : (int)(column_width(t, c) - width(cell) + 2), "");
        }
        fputs(row == 0 ? style_end(stdout) : "", stdout);
        putchar('\n');
    }
}

void table_free(struct table *t)
{
    for (size_t i = 0; t && i < t->count; i++)
        free(t->cells[i]);
    if (t)
        free(t->cells);
    free(t);
}
