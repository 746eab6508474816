#include "image/snapshot_build.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/blob_write.h"
#include "image/exclude.h"
#include "image/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_SIZE (1 << 20)
#define ID_RANGES_MAX 16

/* What the reading child tells at its end. */
struct verdict {
    int failed;
    struct error error;
    struct pack_result result;
};

struct pipe_sink {
    struct byte_sink sink; /* first: write() casts back */
    int fd;
    size_t used;
    uint8_t buffer[256 << 10];
};

static int pipe_flush(struct pipe_sink *s, struct error *err)
{
    if (fd_write_all(s->fd, s->buffer, s->used) < 0)
        return error_system(err, errno, "cannot hand on the snapshot");
    s->used = 0;
    return 0;
}

static int pipe_write(struct byte_sink *sink, const void *data, size_t len, struct error *err)
{
    struct pipe_sink *s = (struct pipe_sink *)sink;
    if (len > sizeof s->buffer - s->used && pipe_flush(s, err) < 0)
        return -1;
    if (len > sizeof s->buffer / 2)
        return fd_write_all(s->fd, data, len) < 0 ? error_system(err, errno, "cannot hand on the snapshot")
                                                  : 0;
    memcpy(s->buffer + s->used, data, len);
    s->used += len;
    return 0;
}

/* Becomes the container's root: no more and no less than it may read. */
static int enter_userns(int userns, struct error *err)
{
    if (setns(userns, CLONE_NEWUSER) < 0)
        return error_system(err, errno, "cannot enter the container's user namespace");
    if ((setgroups(0, NULL) < 0 && errno != EPERM) || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return error_system(err, errno, "cannot become root of the container's user namespace");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return error_system(err, errno, "cannot lock down the packer");
    return 0;
}

static int read_ids(pid_t pid, const char *which, struct pack_ids ids[ID_RANGES_MAX], size_t *ret,
                    struct error *err)
{
    char path[64];
    cleanup_free char *text = NULL;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, which);
    if (file_slurp(AT_FDCWD, path, 65536, &text, NULL, err) < 0)
        return -1;
    *ret = 0;
    for (char *line = text, *next; line && *line && *ret < ID_RANGES_MAX; line = next) {
        struct pack_ids *r = &ids[*ret];
        if ((next = strchr(line, '\n')))
            *next++ = '\0';
        if (sscanf(line, "%u %u %u", &r->inside, &r->disk, &r->count) == 3)
            ++*ret;
    }
    return *ret ? 0 : error_set(err, ERROR_STATE, "the container's user namespace maps no ids");
}

/* How ids of the namespace look from here: seen through a process that has joined it. */
static int namespace_ids(int userns, struct pack_ids *uids, size_t *uid_count, struct pack_ids *gids,
                         size_t *gid_count, struct error *err)
{
    int ready[2];
    char c;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return error_system(err, errno, "cannot make a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setns(userns, CLONE_NEWUSER) < 0)
            _exit(1);
        if (write(ready[1], "r", 1) == 1)
            pause();
        _exit(0);
    }
    close(ready[1]);
    bool joined = pid > 0 && fd_read_full(ready[0], &c, 1) == 1;
    close(ready[0]);
    int r = joined ? 0 : error_set(err, ERROR_SYSTEM, "cannot enter the container's user namespace");
    if (r == 0)
        r = read_ids(pid, "uid_map", uids, uid_count, err);
    if (r == 0)
        r = read_ids(pid, "gid_map", gids, gid_count, err);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return r;
}

static int open_sources(const struct snapshot_pack *s, int *fds, struct error *err)
{
    for (size_t i = 0; i <= s->below_count; i++) {
        const char *dir = i == 0 ? s->upper : s->below[s->below_count - i];
        fds[i] = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fds[i] < 0)
            return error_system(err, errno, "cannot open the directory %s", dir);
    }
    return 0;
}

static int read_tree(const struct image_builder *b, const struct snapshot_pack *s, const int *fds, int out,
                     struct pack_result *ret, struct error *err)
{
    struct pack_ids uids[ID_RANGES_MAX], gids[ID_RANGES_MAX];
    struct pack_options o = {.limits = &b->limits,
                             .excludes = s->excludes,
                             .exclude_count = s->exclude_count,
                             .uids = uids,
                             .gids = gids};
    if (s->userns >= 0 && s->below_count == 0 && enter_userns(s->userns, err) < 0)
        return -1;
    if (s->userns >= 0 && s->below_count > 0 &&
        namespace_ids(s->userns, uids, &o.uid_count, gids, &o.gid_count, err) < 0)
        return -1;
    struct pipe_sink *sink = malloc(sizeof *sink);
    if (!sink)
        return error_oom(err);
    sink->sink.write = pipe_write;
    sink->fd = out;
    sink->used = 0;
    int r = pack_tree(fds, s->below_count + 1, &o, &sink->sink, ret, err);
    if (r == 0)
        r = pipe_flush(sink, err);
    free(sink);
    return r;
}

static void reader_main(const struct image_builder *b, const struct snapshot_pack *s, const int *fds, int out,
                        int tell)
{
    struct verdict v = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    v.failed = read_tree(b, s, fds, out, &v.result, &v.error) < 0;
    _exit(fd_write_all(tell, &v, sizeof v) < 0);
}

/* From the reader's pipe into the blob; the blob is published only if the reader says that it was all. */
static int pump(struct blob_writer *w, int in, int told, struct packed_layer *ret, struct error *err)
{
    struct verdict v;
    cleanup_free uint8_t *buffer = malloc(PIPE_SIZE);
    if (!buffer)
        return error_oom(err);
    for (;;) {
        ssize_t n = read(in, buffer, PIPE_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_system(err, errno, "cannot read the snapshot");
        if (n == 0)
            break;
        if (blob_writer_sink(w)->write(blob_writer_sink(w), buffer, (size_t)n, err) < 0)
            return -1;
    }
    if (fd_read_full(told, &v, sizeof v) != sizeof v)
        return error_set(err, ERROR_INTERNAL, "the packer ended without a word");
    if (v.failed) {
        if (err)
            *err = v.error;
        return -1;
    }
    *ret = (struct packed_layer){.entries = v.result.entries,
                                 .bytes = v.result.bytes,
                                 .skipped = v.result.skipped,
                                 .excluded = v.result.excluded,
                                 .changed = v.result.changed};
    return blob_writer_commit(w, ret->digest, &ret->size, err);
}

static int pack_with_child(const struct image_builder *b, const struct snapshot_pack *s, const int *fds,
                           struct packed_layer *ret, struct error *err)
{
    int data[2], told[2];
    if (pipe2(data, O_CLOEXEC) < 0)
        return error_system(err, errno, "cannot make a pipe");
    if (pipe2(told, O_CLOEXEC) < 0) {
        close(data[0]);
        close(data[1]);
        return error_system(err, errno, "cannot make a pipe");
    }
    fcntl(data[0], F_SETPIPE_SZ, PIPE_SIZE);
    pid_t pid = fork();
    if (pid == 0) {
        close(data[0]);
        close(told[0]);
        reader_main(b, s, fds, data[1], told[1]);
    }
    int saved = errno;
    close(data[1]);
    close(told[1]);
    struct blob_writer *w = NULL;
    int r = pid < 0 ? error_system(err, saved, "cannot start the packer")
                    : blob_writer_open(b->data_dir, &w, err);
    if (r == 0)
        r = pump(w, data[0], told[0], ret, err);
    blob_writer_close(w);
    close(data[0]);
    close(told[0]);
    if (pid > 0) {
        if (r < 0)
            kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return r;
}

int snapshot_pack(const struct image_builder *b, const struct snapshot_pack *s, struct packed_layer *ret,
                  struct error *err)
{
    int fds[PACK_SOURCES_MAX];
    for (size_t i = 0; i < PACK_SOURCES_MAX; i++)
        fds[i] = -1;
    if (s->below_count + 1 > PACK_SOURCES_MAX)
        return error_set(err, ERROR_LIMIT, "at most %d layers can be merged", PACK_SOURCES_MAX - 1);
    for (size_t i = 0; i < s->exclude_count; i++)
        if (exclude_check(s->excludes[i], err) < 0)
            return -1;
    int r = open_sources(s, fds, err);
    if (r == 0)
        r = pack_with_child(b, s, fds, ret, err);
    for (size_t i = 0; i < PACK_SOURCES_MAX; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return r;
}
