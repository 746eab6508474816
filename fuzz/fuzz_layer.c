/* A layer's tar over arbitrary bytes, unpacked into a directory of a tmpfs. The first byte chooses between an
 * image's layer and a snapshot's, and whether there is a layer below. Nothing may appear outside the
 * directory: a canary beside it is checked each time. */
#include "base/fd.h"
#include "image/layer_unpack.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct memory {
    struct byte_source source;
    const uint8_t *data;
    size_t len;
};

static ssize_t next_piece(struct byte_source *source, const void **ret, struct error *err)
{
    struct memory *m = (struct memory *)source;
    size_t n = m->len < 4096 ? m->len : 4096;
    (void)err;
    *ret = m->data;
    m->data += n;
    m->len -= n;
    return (ssize_t)n;
}

static char top[64];
static int top_fd = -1, below_fd = -1;

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void remove_top(void)
{
    dir_remove(AT_FDCWD, top, NULL);
}

static void prepare(void)
{
    if (top_fd >= 0)
        return;
    snprintf(top, sizeof top, "/dev/shm/fuzz-layer.XXXXXX");
    check(mkdtemp(top) != NULL);
    atexit(remove_top);
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(mkdirat(top_fd, "below", 0755) == 0 && mkdirat(top_fd, "below/usr", 0755) == 0);
    check(symlinkat("usr", top_fd, "below/lib") == 0 && symlinkat("/", top_fd, "below/loop") == 0);
    below_fd = openat(top_fd, "below", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(below_fd >= 0);
}

static unsigned entries_of(int dir)
{
    unsigned n = 0;
    DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    check(d != NULL);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* A header with a wrong checksum is refused before anything interesting happens: put them right. */
static uint8_t *with_checksums(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len + 1);
    check(copy != NULL);
    memcpy(copy, data, len);
    for (size_t at = 0; at + 512 <= len; at += 512) {
        uint8_t *h = copy + at;
        unsigned sum = 0;
        if (memcmp(h + 257, "ustar", 5) != 0)
            continue;
        memset(h + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
            sum += h[i];
        snprintf((char *)h + 148, 7, "%06o", sum);
    }
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct image_limits limits = {.layer_bytes = 1 << 20,
                                               .image_bytes = 1 << 20,
                                               .layer_entries = 64,
                                               .layers = 4,
                                               .ratio = 100,
                                               .ratio_free = 1 << 20};
    if (len == 0)
        return 0;
    prepare();
    check(mkdirat(top_fd, "root", 0700) == 0);
    int root = openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint8_t *tar = with_checksums(data + 1, len - 1);
    struct memory m = {{next_piece}, tar, len - 1};
    const struct unpack_options o = {
        .limits = &limits, .lowers = &below_fd, .lower_count = data[0] & 1, .snapshot = (data[0] & 2) != 0};
    struct unpack_result r;
    struct error err = {0};
    int status = layer_unpack(root, &m.source, &o, &r, &err);
    check(status == 0 || err.kind != ERROR_NONE);
    check(status < 0 || (r.entries <= limits.layer_entries && r.bytes <= limits.layer_bytes));
    close(root);
    free(tar);
    check(dir_remove(top_fd, "root", NULL) == 0);
    check(entries_of(top_fd) == 3 && entries_of(below_fd) == 5); /* with "." and ".." */
    return 0;
}
