#include "cli/options.h"

#include "base/cleanup.h"
#include "cli/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct values {
    const char **items;
    size_t count;
};

struct options {
    const struct option_def *table;
    size_t rows;
    struct values *values; /* one per row of the table; of flags only the count is used */
    bool help, lenient;    /* lenient: what is wrong is passed over */
    const char **operands;
    size_t operand_count;
    char *const *command;
};

static bool table_end(const struct option_def *d)
{
    return !d->name && !d->help;
}

static long row_of(const struct options *o, const char *name, size_t len)
{
    for (size_t i = 0; i < o->rows; i++)
        if (o->table[i].name && strlen(o->table[i].name) == len && memcmp(o->table[i].name, name, len) == 0)
            return (long)i;
    return -1;
}

static long row_of_letter(const struct options *o, char letter)
{
    for (size_t i = 0; i < o->rows; i++)
        if (o->table[i].name && o->table[i].letter == letter)
            return (long)i;
    return -1;
}

static int unknown(const struct options *o, const char *word, size_t len, struct error *err)
{
    struct suggestion s;
    suggest_init(&s, word + 2, len - 2);
    for (size_t i = 0; i < o->rows && len > 2; i++)
        if (o->table[i].name)
            suggest_offer(&s, o->table[i].name);
    char field[sizeof err->field];
    snprintf(field, sizeof field, "%.*s", (int)len, word);
    if (len > 2 && suggest_best(&s))
        return error_field(err, field, "unknown option \"%.*s\"; did you mean \"--%s\"?", (int)len, word,
                           suggest_best(&s));
    return error_field(err, field, "unknown option \"%.*s\"", (int)len, word);
}

static int record(struct options *o, long row, const char *value, struct error *err)
{
    struct values *v = &o->values[row];
    if (!o->table[row].many && v->count > 0) {
        v->items[0] = value;
        return 0;
    }
    const char **grown = realloc(v->items, (v->count + 1) * sizeof *grown);
    if (!grown)
        return error_oom(err);
    v->items = grown;
    v->items[v->count++] = value;
    return 0;
}

/* True for a word that is one of this command's options: such a word is never taken as the value of another.
 */
static bool is_known_option(const struct options *o, const char *word)
{
    if (word[0] != '-' || !word[1])
        return false;
    if (word[1] != '-')
        return !word[2] && row_of_letter(o, word[1]) >= 0;
    return row_of(o, word + 2, strcspn(word + 2, "=")) >= 0;
}

static int missing_value(const struct options *o, long row, struct error *err)
{
    const struct option_def *d = &o->table[row];
    char field[sizeof err->field];
    snprintf(field, sizeof field, "--%s", d->name);
    return error_field(err, field, "option \"--%s\" needs a value: --%s %s", d->name, d->name, d->value);
}

/* Takes the value of `row` from the next word. */
static int value_from_next(struct options *o, long row, int argc, char *const *argv, int *i,
                           struct error *err)
{
    if (*i + 1 >= argc || is_known_option(o, argv[*i + 1]) || strcmp(argv[*i + 1], "--") == 0)
        return missing_value(o, row, err);
    return record(o, row, argv[++*i], err);
}

static int parse_long(struct options *o, int argc, char *const *argv, int *i, struct error *err)
{
    const char *word = argv[*i];
    size_t len = strcspn(word, "=");
    if (strcmp(word, "--help") == 0) {
        o->help = true;
        return 0;
    }
    long row = row_of(o, word + 2, len - 2);
    if (row < 0)
        return unknown(o, word, len, err);
    const struct option_def *d = &o->table[row];
    if (!d->value && word[len] == '=') {
        char field[sizeof err->field];
        snprintf(field, sizeof field, "--%s", d->name);
        return error_field(err, field, "option \"--%s\" takes no value", d->name);
    }
    if (!d->value || word[len] == '=')
        return record(o, row, d->value ? word + len + 1 : "", err);
    return value_from_next(o, row, argc, argv, i, err);
}

/* "-it", "-eK=V", "-e K=V". */
static int parse_letters(struct options *o, int argc, char *const *argv, int *i, struct error *err)
{
    for (const char *p = argv[*i] + 1; *p; p++) {
        long row = row_of_letter(o, *p);
        if (row < 0 && *p == 'h') {
            o->help = true;
            continue;
        }
        if (row < 0) {
            char word[3] = {'-', *p, '\0'};
            return unknown(o, word, 2, err);
        }
        if (!o->table[row].value) {
            if (record(o, row, "", err) < 0)
                return -1;
            continue;
        }
        if (p[1])
            return record(o, row, p + 1, err);
        return value_from_next(o, row, argc, argv, i, err);
    }
    return 0;
}

static int parse_words(struct options *o, struct operand_rule rule, int argc, char *const *argv,
                       struct error *err)
{
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!ended && strcmp(word, "--") == 0) {
            ended = true;
            if (rule.command && o->operand_count >= rule.min) {
                o->command = i + 1 < argc ? argv + i + 1 : NULL;
                return 0;
            }
            continue;
        }
        if (!ended && word[0] == '-' && word[1]) {
            int r =
                word[1] == '-' ? parse_long(o, argc, argv, &i, err) : parse_letters(o, argc, argv, &i, err);
            if (r < 0 && !o->lenient)
                return -1;
            continue;
        }
        if (rule.command && o->operand_count == rule.max) {
            o->command = argv + i;
            return 0;
        }
        if (o->operand_count == rule.max) {
            if (o->lenient)
                continue;
            return error_field(err, "operand", "unexpected argument \"%s\"", word);
        }
        o->operands[o->operand_count++] = word;
    }
    return 0;
}

static int parse(const struct option_def *table, struct operand_rule rule, bool lenient, int argc,
                 char *const *argv, struct options **ret, struct error *err)
{
    struct options *o = calloc(1, sizeof *o);
    if (!o)
        return error_oom(err);
    static const struct option_def none[] = {{0}};
    o->table = table ? table : none;
    o->lenient = lenient;
    while (!table_end(&o->table[o->rows]))
        o->rows++;
    o->values = calloc(o->rows + 1, sizeof *o->values);
    o->operands = calloc(rule.max + 1, sizeof *o->operands);
    int r = o->values && o->operands ? parse_words(o, rule, argc, argv, err) : error_oom(err);
    if (r < 0) {
        options_free(o);
        return -1;
    }
    *ret = o;
    return 0;
}

int options_parse(const struct option_def *table, struct operand_rule rule, int argc, char *const *argv,
                  struct options **ret, struct error *err)
{
    return parse(table, rule, false, argc, argv, ret, err);
}

bool options_ask_json(const struct option_def *table, struct operand_rule rule, int argc, char *const *argv)
{
    struct error ignored = {0};
    struct options *o = NULL;
    if (parse(table, rule, true, argc, argv, &o, &ignored) < 0)
        return false;
    long row = row_of(o, "json", 4);
    bool asked = row >= 0 && o->values[row].count > 0;
    options_free(o);
    return asked;
}

void options_free(struct options *o)
{
    if (!o)
        return;
    for (size_t i = 0; o->values && i < o->rows; i++)
        free(o->values[i].items);
    free(o->values);
    free(o->operands);
    free(o);
}

static const struct values *values_of(const struct options *o, const char *name)
{
    long row = row_of(o, name, strlen(name));
    if (row < 0) {
        fprintf(stderr, "bug: option \"%s\" is in no table\n", name);
        abort();
    }
    return &o->values[row];
}

bool options_given(const struct options *o, const char *name)
{
    return values_of(o, name)->count > 0;
}

const char *options_value(const struct options *o, const char *name)
{
    const struct values *v = values_of(o, name);
    return v->count ? v->items[v->count - 1] : NULL;
}

size_t options_values(const struct options *o, const char *name, const char *const **ret)
{
    const struct values *v = values_of(o, name);
    *ret = v->items;
    return v->count;
}

bool options_help(const struct options *o)
{
    return o->help;
}

size_t options_operand_count(const struct options *o)
{
    return o->operand_count;
}

const char *options_operand(const struct options *o, size_t i)
{
    return i < o->operand_count ? o->operands[i] : NULL;
}

char *const *options_command(const struct options *o)
{
    return o->command;
}
