/* TOML 1.0 as a JSON tree, for wrangler.toml: Debian packages no C library for it. Dates become texts;
 * infinity and NaN, which JSON lacks, are refused. */
#include "app/config.h"

#include "base/buf.h"
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE ((size_t)4 << 20)
#define MAX_DEPTH 64
#define MAX_TABLES 4096

/* How a table came to be decides what may be added to it later. */
enum kind { IMPLICIT, HEADER, DOTTED, INLINE, ARRAY };

struct table {
    const json_t *v;
    enum kind kind;
};

struct toml {
    const char *text;
    const char *p;
    const char *end;
    struct error *err;
    struct table *tables;
    size_t table_count;
    unsigned depth;
};

static int fail(struct toml *t, const char *what)
{
    unsigned line = 1;
    const char *start = t->text;
    for (const char *q = t->text; q < t->p; q++)
        if (*q == '\n') {
            line++;
            start = q + 1;
        }
    return error_set(t->err, ERROR_INVALID, "line %u, column %zu: %s", line, (size_t)(t->p - start) + 1,
                     what);
}

static int peek(const struct toml *t)
{
    return t->p < t->end ? (unsigned char)*t->p : -1;
}

static bool starts(const struct toml *t, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(t->end - t->p) >= n && memcmp(t->p, word, n) == 0;
}

static void skip_space(struct toml *t)
{
    while (peek(t) == ' ' || peek(t) == '\t')
        t->p++;
}

/* A comment up to the end of its line. */
static int skip_comment(struct toml *t)
{
    if (peek(t) != '#')
        return 0;
    for (; peek(t) >= 0 && peek(t) != '\n'; t->p++)
        if ((peek(t) < 0x20 && peek(t) != '\t' && peek(t) != '\r') || peek(t) == 0x7f)
            return fail(t, "a control character in a comment");
    return 0;
}

static bool skip_newline(struct toml *t)
{
    if (starts(t, "\r\n"))
        t->p++;
    if (peek(t) != '\n')
        return false;
    t->p++;
    return true;
}

static int skip_blank(struct toml *t)
{
    do {
        skip_space(t);
        if (skip_comment(t) < 0)
            return -1;
    } while (skip_newline(t));
    return 0;
}

/* ---- tables ---- */

static struct table *find_table(struct toml *t, const json_t *v)
{
    for (size_t i = t->table_count; i-- > 0;)
        if (t->tables[i].v == v)
            return &t->tables[i];
    return NULL;
}

static int mark(struct toml *t, const json_t *v, enum kind kind)
{
    struct table *known = find_table(t, v);
    if (known) {
        known->kind = kind;
        return 0;
    }
    if (t->table_count == MAX_TABLES)
        return fail(t, "more than 4096 tables");
    struct table *grown = reallocarray(t->tables, t->table_count + 1, sizeof *grown);
    if (!grown)
        return error_oom(t->err);
    t->tables = grown;
    t->tables[t->table_count++] = (struct table){.v = v, .kind = kind};
    return 0;
}

static enum kind kind_of(struct toml *t, const json_t *v)
{
    struct table *known = find_table(t, v);
    return known ? known->kind : INLINE; /* of values: nothing may be added */
}

/* A new table (or array of tables) below `parent`; borrowed. */
static json_t *add_table(struct toml *t, json_t *parent, const char *key, enum kind kind)
{
    json_t *v = kind == ARRAY ? json_array() : json_object();
    if (!v || json_object_set_new(parent, key, v) < 0) {
        error_oom(t->err);
        return NULL;
    }
    return mark(t, v, kind) < 0 ? NULL : v;
}

/* ---- strings ---- */

static int append_codepoint(struct toml *t, struct buf *b, unsigned digits)
{
    uint32_t c = 0;
    for (unsigned i = 0; i < digits; i++, t->p++) {
        if (peek(t) < 0 || !isxdigit(peek(t)))
            return fail(t, "an escape without its hexadecimal digits");
        c = c << 4 | (uint32_t)(isdigit(peek(t)) ? peek(t) - '0' : (peek(t) | 32) - 'a' + 10);
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return fail(t, "an escape that is no character");
    char u[4];
    size_t n = 0;
    if (c < 0x80) {
        u[n++] = (char)c;
    } else if (c < 0x800) {
        u[n++] = (char)(0xc0 | c >> 6);
        u[n++] = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        u[n++] = (char)(0xe0 | c >> 12);
        u[n++] = (char)(0x80 | (c >> 6 & 63));
        u[n++] = (char)(0x80 | (c & 63));
    } else {
        u[n++] = (char)(0xf0 | c >> 18);
        u[n++] = (char)(0x80 | (c >> 12 & 63));
        u[n++] = (char)(0x80 | (c >> 6 & 63));
        u[n++] = (char)(0x80 | (c & 63));
    }
    return buf_append(b, u, n);
}

static int read_escape(struct toml *t, struct buf *b, bool multi)
{
    static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
    t->p++;
    int c = peek(t);
    if (c == 'u' || c == 'U') {
        t->p++;
        return append_codepoint(t, b, c == 'u' ? 4 : 8);
    }
    const char *found = c > 0 ? strchr(from, c) : NULL;
    if (found) {
        t->p++;
        return buf_append(b, &to[found - from], 1);
    }
    /* A backslash at the end of a line takes what follows up to the next text. */
    const char *at = t->p;
    skip_space(t);
    if (!multi || !skip_newline(t)) {
        t->p = at;
        return fail(t, "an unknown escape");
    }
    do
        skip_space(t);
    while (skip_newline(t));
    return 0;
}

static int read_string(struct toml *t, struct buf *b)
{
    char quote = *t->p;
    char three[] = {quote, quote, quote, '\0'};
    bool multi = starts(t, three), basic = quote == '"';
    t->p += multi ? 3 : 1;
    if (multi)
        skip_newline(t);
    for (;;) {
        int c = peek(t);
        if (c < 0 || (!multi && (c == '\n' || c == '\r')))
            return fail(t, "a text that does not end");
        if (multi && starts(t, three)) {
            /* Up to two quotes may stand before the closing three. */
            t->p += 3;
            for (int i = 0; i < 2 && peek(t) == quote; i++, t->p++)
                if (buf_append(b, &quote, 1) < 0)
                    return error_oom(t->err);
            return 0;
        }
        if (!multi && c == quote) {
            t->p++;
            return 0;
        }
        if (basic && c == '\\') {
            if (read_escape(t, b, multi) < 0)
                return b->failed ? error_oom(t->err) : -1;
            continue;
        }
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
            return fail(t, "a control character in a text");
        if (buf_append(b, t->p++, 1) < 0)
            return error_oom(t->err);
    }
}

/* One part of a key, malloc'ed. */
static char *read_key(struct toml *t)
{
    struct buf b;
    buf_init(&b, MAX_SIZE);
    char *key = NULL;
    if (peek(t) == '"' || peek(t) == '\'') {
        char quote = *t->p;
        if (starts(t, quote == '"' ? "\"\"\"" : "'''"))
            fail(t, "a key of several lines");
        else if (read_string(t, &b) == 0)
            key = strndup(b.data ? (char *)b.data : "", b.len);
        if (key && strlen(key) != b.len) {
            free(key);
            key = NULL;
            fail(t, "a key with a NUL");
        }
    } else {
        const char *from = t->p;
        while (isalnum(peek(t)) || peek(t) == '_' || peek(t) == '-')
            t->p++;
        if (t->p == from)
            fail(t, "a key is wanted");
        else
            key = strndup(from, (size_t)(t->p - from));
    }
    buf_free(&b);
    return key;
}

/* ---- values ---- */

static json_t *read_value(struct toml *t);
static int read_pair(struct toml *t, json_t *table);

static json_t *read_text(struct toml *t)
{
    struct buf b;
    buf_init(&b, MAX_SIZE);
    json_t *v = NULL;
    if (read_string(t, &b) == 0) {
        v = json_stringn(b.data ? (char *)b.data : "", b.len);
        if (!v)
            fail(t, "a text that JSON cannot hold");
    }
    buf_free(&b);
    return v;
}

static json_t *read_array(struct toml *t)
{
    json_t *list = json_array();
    t->p++;
    for (;;) {
        if (!list || skip_blank(t) < 0)
            break;
        if (peek(t) == ']') {
            t->p++;
            return list;
        }
        json_t *v = read_value(t);
        if (!v || json_array_append_new(list, v) < 0 || skip_blank(t) < 0)
            break;
        if (peek(t) == ',') {
            t->p++;
        } else if (peek(t) != ']') {
            fail(t, "a comma or ] is wanted");
            break;
        }
    }
    json_decref(list);
    return NULL;
}

static json_t *read_inline_table(struct toml *t)
{
    json_t *table = json_object();
    t->p++;
    skip_space(t);
    if (!table || mark(t, table, DOTTED) < 0)
        goto fail;
    if (peek(t) != '}')
        for (;;) {
            if (read_pair(t, table) < 0)
                goto fail;
            skip_space(t);
            if (peek(t) != ',')
                break;
            t->p++;
            skip_space(t);
        }
    if (peek(t) != '}') {
        fail(t, "a comma or } is wanted");
        goto fail;
    }
    t->p++;
    if (mark(t, table, INLINE) == 0)
        return table;
fail:
    json_decref(table);
    return NULL;
}

/* A date, a time, or both: digits and what stands between them. */
static bool is_date(const char *s, size_t n)
{
    bool digits = n >= 5;
    for (size_t i = 0; i < n; i++)
        digits = digits && (isdigit((unsigned char)s[i]) || strchr("-:.TtZz+ ", s[i]));
    return digits && ((n >= 10 && s[4] == '-' && s[7] == '-') || (s[2] == ':' && n >= 8));
}

/* Digits with single underscores between them, without those. False: something else. */
static bool plain_number(const char *s, size_t n, char *ret, size_t max)
{
    size_t m = 0;
    if (n + 1 > max)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] != '_') {
            ret[m++] = s[i];
            continue;
        }
        if (i == 0 || i + 1 == n || !isxdigit((unsigned char)s[i - 1]) || !isxdigit((unsigned char)s[i + 1]))
            return false;
    }
    ret[m] = '\0';
    return true;
}

static bool all_digits(const char *s, int base)
{
    for (const char *q = s; *q; q++)
        if (base == 16 ? !isxdigit((unsigned char)*q) : *q < '0' || *q >= '0' + base)
            return false;
    return *s != '\0';
}

static json_t *make_number(struct toml *t, const char *s)
{
    char *end;
    int base = s[0] == '0' && s[1] == 'x'   ? 16
               : s[0] == '0' && s[1] == 'o' ? 8
               : s[0] == '0' && s[1] == 'b' ? 2
                                            : 10;
    const char *digits = base == 10 ? s + (*s == '+' || *s == '-') : s + 2;
    errno = 0;
    if (all_digits(digits, base)) {
        long long n = strtoll(base == 10 ? s : digits, &end, base);
        if (errno || (base == 10 && digits[0] == '0' && digits[1])) {
            fail(t, "a number that is too large, or starts with 0");
            return NULL;
        }
        return json_integer(n);
    }
    double d = strtod(s, &end);
    bool ok =
        base == 10 && *end == '\0' && isdigit((unsigned char)digits[0]) && !strpbrk(s, "xXpP") && !errno;
    const char *dot = strchr(s, '.');
    if (!ok || (dot && !isdigit((unsigned char)dot[1])) ||
        (digits[0] == '0' && isdigit((unsigned char)digits[1]))) {
        fail(t, "no value that this reader knows");
        return NULL;
    }
    return json_real(d);
}

static json_t *read_scalar(struct toml *t)
{
    const char *from = t->p;
    while (peek(t) >= 0 && (isalnum(peek(t)) || strchr("+-_.:", peek(t))))
        t->p++;
    size_t n = (size_t)(t->p - from);
    /* A space may stand between a date and a time. */
    if (n == 10 && is_date(from, n) && peek(t) == ' ' && t->end - t->p >= 3 &&
        isdigit((unsigned char)t->p[1]) && isdigit((unsigned char)t->p[2]))
        for (t->p++; peek(t) >= 0 && (isalnum(peek(t)) || strchr("+-.:", peek(t))); t->p++)
            n = (size_t)(t->p - from) + 1;
    char word[80];
    if (n == 4 && memcmp(from, "true", 4) == 0)
        return json_true();
    if (n == 5 && memcmp(from, "false", 5) == 0)
        return json_false();
    if (is_date(from, n))
        return json_stringn(from, n);
    t->p = from;
    if (n == 0 || !plain_number(from, n, word, sizeof word)) {
        fail(t, "a value is wanted");
        return NULL;
    }
    json_t *v = make_number(t, word);
    t->p = from + n;
    return v;
}

static json_t *read_value(struct toml *t)
{
    if (t->depth == MAX_DEPTH) {
        fail(t, "nested too deeply");
        return NULL;
    }
    t->depth++;
    json_t *v;
    switch (peek(t)) {
    case '"':
    case '\'':
        v = read_text(t);
        break;
    case '[':
        v = read_array(t);
        break;
    case '{':
        v = read_inline_table(t);
        break;
    default:
        v = read_scalar(t);
    }
    t->depth--;
    return v;
}

/* The table below `table` that a dotted key leads to. */
static json_t *enter_dotted(struct toml *t, json_t *table, const char *key)
{
    json_t *v = json_object_get(table, key);
    if (!v)
        return add_table(t, table, key, DOTTED);
    if (json_is_object(v) && kind_of(t, v) == DOTTED)
        return v;
    fail(t, "a key that exists already");
    return NULL;
}

/* a.b.c = value */
static int read_pair(struct toml *t, json_t *table)
{
    unsigned levels = 0;
    for (;;) {
        char *key = read_key(t);
        if (!key)
            return -1;
        skip_space(t);
        if (peek(t) == '.') {
            t->p++;
            skip_space(t);
            table = ++levels > MAX_DEPTH ? (fail(t, "nested too deeply"), NULL) : enter_dotted(t, table, key);
            free(key);
            if (!table)
                return -1;
            continue;
        }
        int ret = -1;
        if (peek(t) != '=') {
            fail(t, "= is wanted");
        } else if (json_object_get(table, key)) {
            fail(t, "a key that exists already");
        } else {
            t->p++;
            skip_space(t);
            json_t *v = read_value(t);
            if (v && (ret = json_object_set_new(table, key, v)) < 0)
                error_oom(t->err);
        }
        free(key);
        return ret;
    }
}

/* ---- headers ---- */

/* The table below `table` on the way of a header. */
static json_t *enter_header(struct toml *t, json_t *table, const char *key)
{
    json_t *v = json_object_get(table, key);
    if (!v)
        return add_table(t, table, key, IMPLICIT);
    if (json_is_array(v) && kind_of(t, v) == ARRAY)
        return json_array_get(v, json_array_size(v) - 1);
    if (json_is_object(v) && kind_of(t, v) != INLINE)
        return v;
    fail(t, "a key that exists already, and is no table");
    return NULL;
}

static json_t *open_table(struct toml *t, json_t *parent, const char *key, bool element)
{
    json_t *v = json_object_get(parent, key);
    if (element) {
        if (!v)
            v = add_table(t, parent, key, ARRAY);
        else if (!json_is_array(v) || kind_of(t, v) != ARRAY)
            v = (fail(t, "a key that exists already, and is no array of tables"), NULL);
        json_t *table = v ? json_object() : NULL;
        if (!table)
            return NULL;
        if (json_array_append_new(v, table) < 0) {
            error_oom(t->err);
            return NULL;
        }
        return mark(t, table, HEADER) < 0 ? NULL : table;
    }
    if (!v)
        return add_table(t, parent, key, HEADER);
    if (!json_is_object(v) || kind_of(t, v) != IMPLICIT) {
        fail(t, "a table that exists already");
        return NULL;
    }
    return mark(t, v, HEADER) < 0 ? NULL : v;
}

/* [a.b] or [[a.b]]: the table that the following pairs belong to. */
static json_t *read_header(struct toml *t, json_t *table)
{
    bool element = starts(t, "[[");
    t->p += element ? 2 : 1;
    for (unsigned levels = 0;; levels++) {
        skip_space(t);
        char *key = levels < MAX_DEPTH ? read_key(t) : NULL;
        if (!key) {
            if (levels == MAX_DEPTH)
                fail(t, "nested too deeply");
            return NULL;
        }
        skip_space(t);
        bool last = peek(t) != '.';
        if (last && !starts(t, element ? "]]" : "]")) {
            fail(t, "] is wanted");
            free(key);
            return NULL;
        }
        table = last ? open_table(t, table, key, element) : enter_header(t, table, key);
        free(key);
        t->p += last && element ? 2 : 1;
        if (last || !table)
            return table;
    }
}

static int read_document(struct toml *t, json_t *root)
{
    json_t *table = root;
    for (;;) {
        if (skip_blank(t) < 0)
            return -1;
        if (peek(t) < 0)
            return 0;
        if (peek(t) == '[') {
            table = read_header(t, root);
            if (!table)
                return -1;
        } else if (read_pair(t, table) < 0) {
            return -1;
        }
        skip_space(t);
        if (skip_comment(t) < 0)
            return -1;
        if (peek(t) >= 0 && !skip_newline(t))
            return fail(t, "the end of the line is wanted");
    }
}

json_t *app_toml_parse(const char *text, size_t len, struct error *err)
{
    if (len > MAX_SIZE || !utf8_valid(text, len)) {
        error_set(err, ERROR_INVALID, len > MAX_SIZE ? "larger than 4 MiB" : "not UTF-8 text");
        return NULL;
    }
    struct toml t = {.text = text, .p = text, .end = text + len, .err = err};
    if (starts(&t, "\xef\xbb\xbf"))
        t.p += 3;
    json_t *root = json_object();
    if (!root)
        error_oom(err);
    else if (mark(&t, root, HEADER) < 0 || read_document(&t, root) < 0) {
        json_decref(root);
        root = NULL;
    }
    free(t.tables);
    return root;
}
