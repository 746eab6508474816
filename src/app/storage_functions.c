/* SQL functions of SQLite's that can take much longer than their arguments are long, in versions that do not:
 * SQLite looks at the clock (storage_object_start_clock()) between the steps of a statement only, never
 * inside a function, and all other storage of the Worker waits meanwhile. The names and what they give:
 * sqlite.org/lang_corefunc.html, sqlite.org/json1.html. UNTRUSTED INPUT: all arguments. */
#include "app/storage_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#ifndef SQLITE_RESULT_SUBTYPE
#define SQLITE_RESULT_SUBTYPE 0 /* not needed before 3.45 */
#endif
#define WORK_MAX ((uint64_t)16 << 20) /* comparisons of a byte, or so */
#define WIDTH_MAX 100000

static void too_much(sqlite3_context *ctx, const char *function)
{
    char message[96];
    snprintf(message, sizeof message, "%s(): the arguments are too long together", function);
    sqlite3_result_error(ctx, message, -1);
}

static bool any_null(int argc, sqlite3_value **argv)
{
    for (int i = 0; i < argc; i++)
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return true;
    return false;
}

/* NULL: out of memory, which is said. */
static const char *text_of(sqlite3_context *ctx, sqlite3_value *v, size_t *ret_len)
{
    const char *text = (const char *)sqlite3_value_text(v);
    *ret_len = (size_t)sqlite3_value_bytes(v);
    if (!text)
        sqlite3_result_error_nomem(ctx);
    return text;
}

static size_t characters(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* Two blobs: position in bytes; else in characters. memmem() of the C library takes linear time. */
static void instr(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    if (any_null(argc, argv))
        return;
    bool blobs = sqlite3_value_type(argv[0]) == SQLITE_BLOB && sqlite3_value_type(argv[1]) == SQLITE_BLOB;
    size_t len, part_len;
    const char *text, *part;
    if (blobs) {
        text = sqlite3_value_blob(argv[0]);
        part = sqlite3_value_blob(argv[1]);
        len = (size_t)sqlite3_value_bytes(argv[0]);
        part_len = (size_t)sqlite3_value_bytes(argv[1]);
    } else if (!(text = text_of(ctx, argv[0], &len)) || !(part = text_of(ctx, argv[1], &part_len))) {
        return;
    }
    const char *found = part_len == 0 ? text : len == 0 ? NULL : memmem(text, len, part, part_len);
    size_t before = found ? (size_t)(found - text) : 0;
    bool at = found || part_len == 0;
    sqlite3_result_int64(ctx, !at ? 0 : (sqlite3_int64)(blobs ? before : characters(text, before)) + 1);
}

static const char *find(const char *text, const char *end, const char *part, size_t len)
{
    return len == 1 ? memchr(text, *part, (size_t)(end - text))
                    : memmem(text, (size_t)(end - text), part, len);
}

static void replace(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    size_t len, old_len, new_len;
    if (any_null(argc, argv))
        return;
    const char *text = text_of(ctx, argv[0], &len), *old = text ? text_of(ctx, argv[1], &old_len) : NULL,
               *new = old ? text_of(ctx, argv[2], &new_len) : NULL;
    if (!new)
        return;
    if (old_len == 0) {
        sqlite3_result_value(ctx, argv[0]);
        return;
    }
    uint64_t out_len = len;
    const char *end = text + len;
    for (const char *at = text; (at = find(at, end, old, old_len)); at += old_len)
        out_len += new_len - (uint64_t)old_len;
    if (out_len > (uint64_t)sqlite3_limit(sqlite3_context_db_handle(ctx), SQLITE_LIMIT_LENGTH, -1)) {
        sqlite3_result_error_toobig(ctx);
        return;
    }
    char *out = sqlite3_malloc64(out_len + 1), *to = out;
    if (!out) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    for (const char *at; (at = find(text, end, old, old_len)); text = at + old_len) {
        to = mempcpy(to, text, (size_t)(at - text));
        to = mempcpy(to, new, new_len);
    }
    memcpy(to, text, (size_t)(end - text));
    sqlite3_result_text64(ctx, out, out_len, sqlite3_free, SQLITE_UTF8);
}

/* ---- trim(), ltrim(), rtrim() ---- */

enum { TRIM_LEFT = 1, TRIM_RIGHT = 2 };

static size_t character_at(const char *text, size_t len)
{
    size_t n = 1;
    while (n < len && ((unsigned char)text[n] & 0xc0) == 0x80)
        n++;
    return n;
}

static bool in_set(const char *set, size_t set_len, const char *c, size_t n)
{
    for (size_t i = 0, m; i < set_len; i += m) {
        m = character_at(set + i, set_len - i);
        if (m == n && memcmp(set + i, c, n) == 0)
            return true;
    }
    return false;
}

static size_t last_character(const char *text, size_t len)
{
    size_t n = 1;
    while (n < len && ((unsigned char)text[len - n] & 0xc0) == 0x80)
        n++;
    return n;
}

static void trim(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    int sides = *(const int *)sqlite3_user_data(ctx);
    const char *set = " ";
    size_t len, set_len = 1;
    if (any_null(argc, argv))
        return;
    const char *text = text_of(ctx, argv[0], &len);
    if (!text || (argc > 1 && !(set = text_of(ctx, argv[1], &set_len))))
        return;
    if ((uint64_t)len * set_len > WORK_MAX) {
        too_much(ctx, sides == TRIM_LEFT ? "ltrim" : sides == TRIM_RIGHT ? "rtrim" : "trim");
        return;
    }
    while ((sides & TRIM_LEFT) && len > 0) {
        size_t n = character_at(text, len);
        if (!in_set(set, set_len, text, n))
            break;
        text += n;
        len -= n;
    }
    while ((sides & TRIM_RIGHT) && len > 0) {
        size_t n = last_character(text, len);
        if (!in_set(set, set_len, text + len - n, n))
            break;
        len -= n;
    }
    sqlite3_result_text(ctx, text, (int)len, SQLITE_TRANSIENT);
}

/* ---- what SQLite does itself, within bounds ---- */

/* On a connection without data, where the functions are SQLite's own. */
static void by_sqlite(sqlite3_context *ctx, const char *sql, int argc, sqlite3_value **argv)
{
    sqlite3 *plain = *(sqlite3 **)sqlite3_user_data(ctx);
    sqlite3_stmt *q = NULL;
    int r = sqlite3_prepare_v2(plain, sql, -1, &q, NULL);
    for (int i = 0; r == SQLITE_OK && i < argc; i++)
        r = sqlite3_bind_value(q, i + 1, argv[i]);
    if (r == SQLITE_OK && (r = sqlite3_step(q)) == SQLITE_ROW)
        sqlite3_result_value(ctx, sqlite3_column_value(q, 0));
    else if (r == SQLITE_TOOBIG)
        sqlite3_result_error_toobig(ctx);
    else
        sqlite3_result_error(ctx, sqlite3_errmsg(plain), -1);
    sqlite3_finalize(q);
}

/* Widths and precisions of the format, and the arguments of `*`, which may be any of them. */
static bool widths_fit(int argc, sqlite3_value **argv)
{
    const char *f = (const char *)sqlite3_value_text(argv[0]);
    bool stars = false, in_directive = false;
    for (uint64_t number = 0; f && *f; f++) {
        if (isdigit((unsigned char)*f) && in_directive) {
            number = number * 10 + (uint64_t)(*f - '0');
            if (number > WIDTH_MAX)
                return false;
            continue;
        }
        number = 0;
        stars |= *f == '*';
        if (*f == '%')
            in_directive = !in_directive;
        else if (isalpha((unsigned char)*f) && *f != 'l')
            in_directive = false;
    }
    for (int i = 1; stars && i < argc; i++) {
        sqlite3_int64 n = sqlite3_value_type(argv[i]) == SQLITE_NULL ? 0 : sqlite3_value_int64(argv[i]);
        if (n > WIDTH_MAX || n < -WIDTH_MAX)
            return false;
    }
    return true;
}

static void format(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    if (argc == 0 || sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    if (!widths_fit(argc, argv)) {
        sqlite3_result_error(ctx, "format(): a width or precision is more than 100000", -1);
        return;
    }
    char sql[32 + 2 * 128] = "SELECT format(?";
    size_t len = strlen(sql);
    for (int i = 1; i < argc && i < 127; i++, len += 2)
        memcpy(sql + len, ",?", 2);
    memcpy(sql + len, ")", 2);
    by_sqlite(ctx, sql, argc, argv);
}

/* Looks every member of the patch up among the members of the target. */
static void json_patch(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    if (any_null(argc, argv))
        return;
    uint64_t a = (uint64_t)sqlite3_value_bytes(argv[0]), b = (uint64_t)sqlite3_value_bytes(argv[1]);
    if (a / 8 * (b / 8) > WORK_MAX) {
        too_much(ctx, "json_patch");
        return;
    }
    by_sqlite(ctx, "SELECT json_patch(?, ?)", argc, argv);
    sqlite3_result_subtype(ctx, 'J'); /* it is JSON, for functions around it */
}

int storage_functions_install(struct storage_object *o, struct error *err)
{
    static const int left = TRIM_LEFT, right = TRIM_RIGHT, both = TRIM_LEFT | TRIM_RIGHT;
    sqlite3 **plain = &o->storage->plain;
    const struct {
        const char *name;
        int argc;
        void (*fn)(sqlite3_context *, int, sqlite3_value **);
        const void *user;
        int flags;
    } functions[] = {
        {"instr", 2, instr, NULL, 0},
        {"replace", 3, replace, NULL, 0},
        {"trim", 1, trim, &both, 0},
        {"trim", 2, trim, &both, 0},
        {"ltrim", 1, trim, &left, 0},
        {"ltrim", 2, trim, &left, 0},
        {"rtrim", 1, trim, &right, 0},
        {"rtrim", 2, trim, &right, 0},
        {"printf", -1, format, plain, 0},
        {"format", -1, format, plain, 0},
        {"json_patch", 2, json_patch, plain, SQLITE_RESULT_SUBTYPE},
    };
    if (!*plain &&
        sqlite3_open_v2(":memory:", plain, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL) != SQLITE_OK) {
        sqlite3_close(*plain);
        *plain = NULL;
        return error_oom(err);
    }
    sqlite3_limit(*plain, SQLITE_LIMIT_LENGTH, sqlite3_limit(o->db, SQLITE_LIMIT_LENGTH, -1));
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (sqlite3_create_function_v2(
                o->db, functions[i].name, functions[i].argc,
                SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS | functions[i].flags,
                (void *)functions[i].user, functions[i].fn, NULL, NULL, NULL) != SQLITE_OK)
            return storage_object_error(o, err);
    return 0;
}
