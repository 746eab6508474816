/* "Did you mean": the nearest of several known words. */
#ifndef CLOISTER_CLI_SUGGEST_H
#define CLOISTER_CLI_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *word; /* what was typed; borrowed */
    size_t len;
    const char *best;
    unsigned distance;
};

void suggest_init(struct suggestion *s, const char *word, size_t len);
void suggest_offer(struct suggestion *s, const char *known); /* borrowed until suggest_best() */
/* The nearest offered word, NULL when none is near enough to be what was meant. */
const char *suggest_best(const struct suggestion *s);

#endif
