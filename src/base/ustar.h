/* The tar format as all our readers and writers of it see it: the ustar header block, and the records of pax
 * extended headers. No input and output is done here. What is read is UNTRUSTED INPUT. */
#ifndef CLOISTER_BASE_USTAR_H
#define CLOISTER_BASE_USTAR_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define USTAR_BLOCK 512u
#define USTAR_NAME_MAX 257u /* prefix, '/', name, NUL */
/* The largest values of the fields of 12 and of 8 bytes; what is larger stands in a pax record. */
#define USTAR_MAX_LONG 077777777777u
#define USTAR_MAX_ID 07777777u
#define USTAR_MAX_SECONDS (UINT64_C(4096) * INT32_MAX) /* far beyond what any file system stores */

/* Numbers are octal digits; text ends at a NUL byte or fills its field. */
struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6],
        version[2], uname[32], gname[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct ustar) == USTAR_BLOCK, "a tar header is one block");

/* Bytes of padding after `size` bytes of data. */
unsigned ustar_padding(uint64_t size);

/* ---- writing ---- */

/* A header with this name (cut to its field), type and size (0 where it does not fit), mode 0644, owner and
 * time 0. */
void ustar_init(struct ustar *h, const char *name, char type, uint64_t size);
/* 0 where the value does not fit. */
void ustar_put_number(char *field, size_t width, uint64_t value);
void ustar_put_text(char *field, size_t width, const char *text);
/* Writes the checksum: the last step. */
void ustar_seal(struct ustar *h);

void pax_put(struct buf *b, const char *key, const void *value, size_t len);
void pax_put_text(struct buf *b, const char *key, const char *value);
void pax_put_number(struct buf *b, const char *key, uint64_t value);
void pax_put_time(struct buf *b, const char *key, const struct timespec *value);
/* The whole extended header "x" for the entry to come; nothing when `records` is empty. */
void pax_put_header(struct buf *b, const struct buf *records);

/* ---- reading ---- */

bool ustar_is_empty(const struct ustar *h);
/* Whether the checksum is right, also as some old writers reckoned it. */
bool ustar_is_sealed(const struct ustar *h);
/* Octal digits, or GNU's base 256. False: malformed, negative, 2^63 or more. */
bool ustar_number(const char *field, size_t width, uint64_t *ret);
/* The name with its prefix; its length. */
size_t ustar_name(const struct ustar *h, char ret[USTAR_NAME_MAX]);

struct pax_record {
    const char *key, *value; /* not terminated */
    size_t key_len, len;
};
/* Takes one record off the front of the *left bytes at *p. 1; 0: none is left; -1: malformed. */
int pax_next(const char **p, size_t *left, struct pax_record *ret);
bool pax_key_is(const struct pax_record *r, const char *key);
bool pax_number(const struct pax_record *r, uint64_t *ret);
/* Seconds since 1970 with a fraction, possibly negative. */
bool pax_time(const struct pax_record *r, struct timespec *ret);

#endif
