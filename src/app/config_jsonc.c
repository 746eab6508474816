/* JSON with comments: comments and trailing commas are blanked out in a copy, so that the JSON library reads
 * the rest and its positions are those of the file. */
#include "app/config.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE ((size_t)4 << 20)
#define MAX_DEPTH 64

struct scan {
    char *text;
    size_t len;
    size_t at;
    unsigned depth;
    size_t comma; /* offset + 1 of a comma that nothing but space follows so far; 0: none */
};

static int fail_at(const struct scan *s, size_t at, const char *what, struct error *err)
{
    unsigned line = 1;
    size_t start = 0;
    for (size_t i = 0; i < at && i < s->len; i++)
        if (s->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    return error_set(err, ERROR_INVALID, "line %u, column %zu: %s", line, at - start + 1, what);
}

/* Line breaks stay, everything else becomes a space. */
static void blank(struct scan *s, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (s->text[i] != '\n' && s->text[i] != '\r')
            s->text[i] = ' ';
}

static int skip_comment(struct scan *s, struct error *err)
{
    size_t from = s->at;
    if (s->at + 1 < s->len && s->text[s->at + 1] == '/') {
        while (s->at < s->len && s->text[s->at] != '\n')
            s->at++;
    } else if (s->at + 1 < s->len && s->text[s->at + 1] == '*') {
        s->at += 2;
        while (s->at + 1 < s->len && !(s->text[s->at] == '*' && s->text[s->at + 1] == '/'))
            s->at++;
        if (s->at + 1 >= s->len)
            return fail_at(s, from, "a comment that does not end", err);
        s->at += 2;
    } else {
        return fail_at(s, from, "a slash that starts no comment", err);
    }
    blank(s, from, s->at);
    return 0;
}

static void skip_string(struct scan *s)
{
    for (s->at++; s->at < s->len && s->text[s->at] != '"' && s->text[s->at] != '\n'; s->at++)
        if (s->text[s->at] == '\\')
            s->at++;
    s->at++; /* past the quote; what is wrong with the string is the library's to say */
}

static int clean(struct scan *s, struct error *err)
{
    if (s->len >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0)
        memset(s->text, ' ', 3);
    while (s->at < s->len) {
        char c = s->text[s->at];
        if (c == '/') {
            if (skip_comment(s, err) < 0)
                return -1;
            continue;
        }
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            s->at++;
            continue;
        }
        if ((c == ']' || c == '}') && s->comma)
            s->text[s->comma - 1] = ' ';
        s->comma = c == ',' ? s->at + 1 : 0;
        if (c == '"') {
            skip_string(s);
            continue;
        }
        if (c == '[' || c == '{') {
            if (++s->depth > MAX_DEPTH)
                return fail_at(s, s->at, "nested too deeply", err);
        } else if ((c == ']' || c == '}') && s->depth) {
            s->depth--;
        }
        s->at++;
    }
    return 0;
}

json_t *app_jsonc_parse(const char *text, size_t len, struct error *err)
{
    if (len > MAX_SIZE) {
        error_set(err, ERROR_LIMIT, "larger than 4 MiB");
        return NULL;
    }
    struct scan s = {.text = malloc(len + 1), .len = len};
    if (!s.text) {
        error_oom(err);
        return NULL;
    }
    if (len)
        memcpy(s.text, text, len);
    json_t *v = NULL;
    if (clean(&s, err) == 0) {
        json_error_t e;
        v = json_loadb(s.text, len, JSON_REJECT_DUPLICATES, &e);
        if (!v)
            error_set(err, ERROR_INVALID, "line %d, column %d: %s", e.line < 1 ? 1 : e.line,
                      e.column < 1 ? 1 : e.column, e.text);
    }
    free(s.text);
    return v;
}
