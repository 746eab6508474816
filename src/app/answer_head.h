/* The head of what a server answers to fetch(), a line at a time as libcurl hands it out. UNTRUSTED INPUT. */
#ifndef CLOISTER_APP_ANSWER_HEAD_H
#define CLOISTER_APP_ANSWER_HEAD_H

#include "base/buf.h"

#include <stdbool.h>

struct answer_head {
    char reason[128];   /* UTF-8; empty: none that is text */
    struct buf headers; /* "name\nvalue\n"..., the names in lower case; the owner's to init and free */
};

/* A line with its end. A status line begins anew: after a 100, or after a proxy's answer. Lines that are no
 * field are left out. False: too much, or no memory. */
bool answer_head_line(struct answer_head *h, const char *line, size_t len);

#endif
