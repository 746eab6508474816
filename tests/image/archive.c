#include "archive.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void header(struct buf *b, const struct member *m, char type, uint64_t size)
{
    char h[512] = {0};
    unsigned mode = m->mode ? m->mode : type == '5' ? 0755 : 0644, sum = 0;
    memcpy(h, m->name, strnlen(m->name, 100));
    snprintf(h + 100, 8, "%07o", mode);
    snprintf(h + 108, 8, "%07o", m->uid);
    snprintf(h + 116, 8, "%07o", m->gid);
    snprintf(h + 124, 12, "%011llo", (unsigned long long)size);
    snprintf(h + 136, 12, "%011o", 1000000000u);
    memset(h + 148, ' ', 8);
    h[156] = type;
    if (m->link)
        memcpy(h + 157, m->link, strnlen(m->link, 100));
    memcpy(h + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    buf_append(b, h, sizeof h);
}

static void body(struct buf *b, const char *data, size_t len)
{
    static const char zeros[512];
    buf_append(b, data, len);
    if (len % 512)
        buf_append(b, zeros, 512 - len % 512);
}

static void pax(struct buf *b, const char *records)
{
    struct buf text;
    buf_init(&text, 0);
    for (const char *line = records, *end; (end = strchr(line, '\n')); line = end + 1) {
        size_t n = (size_t)(end - line) + 2, total = n + 1;
        while ((size_t)snprintf(NULL, 0, "%zu", total) + n != total)
            total++;
        buf_printf(&text, "%zu %.*s\n", total, (int)(end - line), line);
    }
    const struct member m = {.name = "PaxHeader"};
    header(b, &m, 'x', text.len);
    body(b, (const char *)text.data, text.len);
    buf_free(&text);
}

void archive_add(struct buf *b, const struct member *m)
{
    char type = m->type ? m->type : '0';
    size_t len = m->data ? strlen(m->data) : 0;
    if (m->pax)
        pax(b, m->pax);
    header(b, m, type, m->size ? m->size : len);
    if (len)
        body(b, m->data, len);
}

void archive_end(struct buf *b)
{
    static const char zeros[1024];
    buf_append(b, zeros, sizeof zeros);
}

static ssize_t memory_next(struct byte_source *source, const void **ret, struct error *err)
{
    struct memory_source *s = (struct memory_source *)source;
    size_t n = s->len - s->at < 1000 ? s->len - s->at : 1000; /* an odd size, to cross every boundary */
    (void)err;
    *ret = s->data + s->at;
    s->at += n;
    return (ssize_t)n;
}

void memory_source_init(struct memory_source *s, const void *data, size_t len)
{
    *s = (struct memory_source){.source.next = memory_next, .data = data, .len = len};
}

int fresh_dir(char path[256])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(path, 256, "%s/cloister-image-test.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

void drop_dir(const char *path)
{
    dir_remove(AT_FDCWD, path, NULL);
}

int unpack_members(const struct member *m, size_t n, const struct unpack_options *o, char path[256],
                   struct unpack_result *r, struct error *err)
{
    struct buf b;
    struct memory_source s;
    buf_init(&b, 0);
    for (size_t i = 0; i < n; i++)
        archive_add(&b, &m[i]);
    archive_end(&b);
    memory_source_init(&s, b.data, b.len);
    int root = fresh_dir(path);
    if (root < 0)
        abort();
    int result = layer_unpack(root, &s.source, o, r, err);
    close(root);
    buf_free(&b);
    return result;
}
