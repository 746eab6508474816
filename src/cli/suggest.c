#include "cli/suggest.h"

#include <limits.h>
#include <string.h>

#define LONGEST 32

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edits (insert, delete, change, swap of neighbours) that turn a into b; both at most LONGEST long. */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
    unsigned rows[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = min3(before[j] + 1, now[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && earlier[j - 2] + 1 < now[j])
                now[j] = earlier[j - 2] + 1;
        }
    }
    return rows[n % 3][m];
}

void suggest_init(struct suggestion *s, const char *word, size_t len)
{
    *s = (struct suggestion){.word = word, .len = len, .distance = UINT_MAX};
}

void suggest_offer(struct suggestion *s, const char *known)
{
    size_t m = strlen(known);
    if (s->len == 0 || s->len > LONGEST || m > LONGEST)
        return;
    unsigned d = distance(s->word, s->len, known, m);
    /* Something cut short ("--mem") is nearer than its edit distance says. */
    if (m > s->len && s->len >= 3 && memcmp(known, s->word, s->len) == 0)
        d = 1;
    if (d < s->distance) {
        s->distance = d;
        s->best = known;
    }
}

const char *suggest_best(const struct suggestion *s)
{
    unsigned allowed = s->len <= 3 ? 1 : s->len <= 7 ? 2 : 3;
    return s->distance <= allowed ? s->best : NULL;
}
