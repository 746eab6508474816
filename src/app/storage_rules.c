/* What SQL of a worker may do: SQLite's authorizer, called while a statement is prepared, and for what a
 * statement prepares in turn while it runs. Everything that is not listed is refused. UNTRUSTED INPUT. */
#include "app/storage_internal.h"

#include "base/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Sorted. Those of SQLite's documentation that touch nothing but their arguments. */
static const char *const functions[] = {"->",
                                        "->>",
                                        "abs",
                                        "acos",
                                        "acosh",
                                        "asin",
                                        "asinh",
                                        "atan",
                                        "atan2",
                                        "atanh",
                                        "avg",
                                        "bm25",
                                        "ceil",
                                        "ceiling",
                                        "changes",
                                        "char",
                                        "coalesce",
                                        "concat",
                                        "concat_ws",
                                        "cos",
                                        "cosh",
                                        "count",
                                        "cume_dist",
                                        "current_date",
                                        "current_time",
                                        "current_timestamp",
                                        "date",
                                        "datetime",
                                        "degrees",
                                        "dense_rank",
                                        "exp",
                                        "first_value",
                                        "floor",
                                        "format",
                                        "glob",
                                        "group_concat",
                                        "hex",
                                        "highlight",
                                        "ifnull",
                                        "iif",
                                        "instr",
                                        "json",
                                        "json_array",
                                        "json_array_length",
                                        "json_each",
                                        "json_error_position",
                                        "json_extract",
                                        "json_group_array",
                                        "json_group_object",
                                        "json_insert",
                                        "json_object",
                                        "json_patch",
                                        "json_quote",
                                        "json_remove",
                                        "json_replace",
                                        "json_set",
                                        "json_tree",
                                        "json_type",
                                        "json_valid",
                                        "julianday",
                                        "lag",
                                        "last_insert_rowid",
                                        "last_value",
                                        "lead",
                                        "length",
                                        "like",
                                        "likelihood",
                                        "likely",
                                        "ln",
                                        "log",
                                        "log10",
                                        "log2",
                                        "lower",
                                        "ltrim",
                                        "match",
                                        "max",
                                        "min",
                                        "mod",
                                        "nth_value",
                                        "ntile",
                                        "nullif",
                                        "octet_length",
                                        "percent_rank",
                                        "pi",
                                        "pow",
                                        "power",
                                        "printf",
                                        "quote",
                                        "radians",
                                        "random",
                                        "randomblob",
                                        "rank",
                                        "replace",
                                        "round",
                                        "row_number",
                                        "rtrim",
                                        "sign",
                                        "sin",
                                        "sinh",
                                        "snippet",
                                        "soundex",
                                        "sqlite_drop_column",
                                        "sqlite_rename_column",
                                        "sqlite_rename_quotefix",
                                        "sqlite_rename_table",
                                        "sqlite_rename_test",
                                        "sqrt",
                                        "strftime",
                                        "string_agg",
                                        "substr",
                                        "substring",
                                        "sum",
                                        "tan",
                                        "tanh",
                                        "time",
                                        "timediff",
                                        "total",
                                        "total_changes",
                                        "trim",
                                        "trunc",
                                        "typeof",
                                        "unhex",
                                        "unicode",
                                        "unixepoch",
                                        "unlikely",
                                        "upper",
                                        "zeroblob"};

enum pragma_argument { PRAGMA_NONE, PRAGMA_BOOL, PRAGMA_NAME, PRAGMA_NAME_OR_NUMBER, PRAGMA_NUMBER };

static const struct {
    const char *name;
    enum pragma_argument argument;
    bool required;
} pragmas[] = {
    {"data_version", PRAGMA_NONE, false},
    {"table_list", PRAGMA_NAME, false},
    {"table_info", PRAGMA_NAME, true},
    {"table_xinfo", PRAGMA_NAME, true},
    {"index_info", PRAGMA_NAME, true},
    {"index_xinfo", PRAGMA_NAME, true},
    {"index_list", PRAGMA_NAME, true},
    {"foreign_key_list", PRAGMA_NAME, true},
    {"foreign_key_check", PRAGMA_NAME, false},
    {"quick_check", PRAGMA_NAME_OR_NUMBER, false},
    {"optimize", PRAGMA_NUMBER, false},
    {"case_sensitive_like", PRAGMA_BOOL, false},
    {"foreign_keys", PRAGMA_BOOL, false},
    {"defer_foreign_keys", PRAGMA_BOOL, false},
    {"ignore_check_constraints", PRAGMA_BOOL, false},
    {"legacy_alter_table", PRAGMA_BOOL, false},
    {"recursive_triggers", PRAGMA_BOOL, false},
    {"reverse_unordered_selects", PRAGMA_BOOL, false},
};

bool storage_name_reserved(const char *name)
{
    return name && (strncasecmp(name, STORAGE_PREFIX, strlen(STORAGE_PREFIX)) == 0 ||
                    strncasecmp(name, "_cf_", 4) == 0);
}

static int refuse(struct storage_object *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int refuse(struct storage_object *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!o->refusal[0]) {
        int n = vsnprintf(o->refusal, sizeof o->refusal, fmt, ap);
        if (n >= (int)sizeof o->refusal || !utf8_valid(o->refusal, strlen(o->refusal)))
            snprintf(o->refusal, sizeof o->refusal, "not authorized");
    }
    va_end(ap);
    return SQLITE_DENY;
}

/* ---- functions ---- */

static int compare_name(const void *key, const void *item)
{
    return strcasecmp(key, *(const char *const *)item);
}

static int check_function(struct storage_object *o, const char *name)
{
    if (name &&
        bsearch(name, functions, sizeof functions / sizeof *functions, sizeof *functions, compare_name))
        return SQLITE_OK;
    return refuse(o, "not authorized to use function: %.64s", name ? name : "");
}

/* ---- pragmas ---- */

static bool is_bool(const char *v)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "1", "0"};
    size_t len = strlen(v);
    if (len >= 2 && (v[0] == '\'' || v[0] == '"') && v[len - 1] == v[0]) {
        v++;
        len -= 2;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == len && strncasecmp(v, words[i], len) == 0)
            return true;
    return false;
}

static bool is_number(const char *v)
{
    return *v && strspn(v + (*v == '-'), "0123456789abcdefABCDEFx") == strlen(v + (*v == '-'));
}

static bool argument_fits(enum pragma_argument kind, const char *v)
{
    switch (kind) {
    case PRAGMA_NONE:
        return false;
    case PRAGMA_BOOL:
        return is_bool(v);
    case PRAGMA_NUMBER:
        return is_number(v);
    case PRAGMA_NAME:
    case PRAGMA_NAME_OR_NUMBER:
        return !storage_name_reserved(v);
    }
    return false;
}

static int check_pragma(struct storage_object *o, const char *name, const char *argument)
{
    o->saw_pragma = true;
    for (size_t i = 0; name && i < sizeof pragmas / sizeof *pragmas; i++) {
        if (strcasecmp(pragmas[i].name, name) != 0)
            continue;
        if (argument ? argument_fits(pragmas[i].argument, argument) : !pragmas[i].required)
            return SQLITE_OK;
        return refuse(o, "not authorized: PRAGMA %s with this argument", pragmas[i].name);
    }
    return refuse(o, "not authorized: PRAGMA %.64s", name ? name : "");
}

/* ---- everything else ---- */

static int check_names(struct storage_object *o, const char *a, const char *b)
{
    const char *bad = storage_name_reserved(a) ? a : storage_name_reserved(b) ? b : NULL;
    return bad ? refuse(o, "not authorized: names that begin with _cloister_ or _cf_ are reserved: %.64s",
                        bad)
               : SQLITE_OK;
}

static int check_module(struct storage_object *o, const char *table, const char *module)
{
    if (module && (strcasecmp(module, "fts5") == 0 || strcasecmp(module, "fts5vocab") == 0))
        return check_names(o, table, NULL);
    return refuse(o, "not authorized: virtual tables of module %.64s", module ? module : "");
}

/* Temporary tables, views and triggers are none of the object's storage. */
static int authorize(void *user, int action, const char *a, const char *b, const char *db, const char *by)
{
    struct storage_object *o = user;
    if (o->internal)
        return SQLITE_OK;
    if (db && strcmp(db, "temp") == 0 && action != SQLITE_READ && action != SQLITE_SELECT &&
        action != SQLITE_PRAGMA && action != SQLITE_UPDATE)
        return refuse(o, "not authorized: temporary tables, views, indexes and triggers");
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return refuse(o,
                      "not authorized: transactions are not begun or ended by SQL (%.16s); use "
                      "ctx.storage.transactionSync() or ctx.storage.transaction()",
                      action == SQLITE_SAVEPOINT ? "SAVEPOINT" : a);
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
        return refuse(o, "not authorized: %s", action == SQLITE_ATTACH ? "ATTACH or VACUUM" : "DETACH");
    case SQLITE_PRAGMA:
        return check_pragma(o, a, b);
    case SQLITE_FUNCTION:
        return check_function(o, b);
    case SQLITE_CREATE_VTABLE:
    case SQLITE_DROP_VTABLE:
        return check_module(o, a, b);
    case SQLITE_READ:
        if (storage_name_reserved(a))
            return refuse(o, "not authorized: access to %.64s.%.64s is prohibited", a, b ? b : "");
        return SQLITE_OK;
    case SQLITE_ALTER_TABLE:
        o->saw_alter = true;
        return check_names(o, b, NULL);
    case SQLITE_UPDATE:
    case SQLITE_INSERT:
    case SQLITE_DELETE:
        return check_names(o, a, NULL);
    case SQLITE_ANALYZE:
    case SQLITE_REINDEX:
        return SQLITE_OK;
    case SQLITE_CREATE_INDEX:
    case SQLITE_CREATE_TABLE:
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_CREATE_VIEW:
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_TRIGGER:
    case SQLITE_DROP_VIEW:
        return check_names(o, a, b);
    default:
        return refuse(o, "not authorized");
    }
}

void storage_rules_begin(struct storage_object *o)
{
    o->refusal[0] = '\0';
    o->saw_alter = o->saw_pragma = false;
}

void storage_rules_install(struct storage_object *o)
{
    sqlite3_set_authorizer(o->db, authorize, o);
}
