#include "image/image_build.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/child.h"
#include "image/image.h"
#include "image/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "localhost:5000/x", "127.0.0.1/x": a registry on this machine, which may speak plain HTTP. */
static bool on_loopback(const char *reference)
{
    size_t n = strcspn(reference, "/");
    if (!reference[n])
        return false;
    char host[256];
    snprintf(host, sizeof host, "%.*s", (int)(n < 255 ? n : 255), reference);
    host[strcspn(host, ":")] = '\0';
    if (!strcmp(host, "localhost"))
        return true;
    unsigned a, b, c, d;
    char rest;
    return sscanf(host, "%3u.%3u.%3u.%3u%c", &a, &b, &c, &d, &rest) == 4 && a == 127 && b < 256 && c < 256 &&
           d < 256;
}

/* skopeo takes a tag or a digest, not both; the digest says more. */
static void reference_for_skopeo(const char *reference, char ret[300])
{
    const char *at = strchr(reference, '@');
    const char *slash = strrchr(reference, '/');
    const char *colon = strchr(slash ? slash : reference, ':');
    if (at && colon && colon < at)
        snprintf(ret, 300, "docker://%.*s%s", (int)(colon - reference), reference, at);
    else
        snprintf(ret, 300, "docker://%s", reference);
}

static bool machine_has_policy(void)
{
    char path[PATH_MAX];
    const char *home = getenv("HOME");
    if (access("/etc/containers/policy.json", R_OK) == 0)
        return true;
    return home &&
           snprintf(path, sizeof path, "%s/.config/containers/policy.json", home) < (int)sizeof path &&
           access(path, R_OK) == 0;
}

static void on_line(void *user, const char *line)
{
    struct progress *p = user;
    char what[80];
    if (strncmp(line, "Copying ", 8) != 0)
        return;
    snprintf(what, sizeof what, "%.60s", line + 8);
    progress_stage(p, "fetch", what, 0);
}

static int fetch(const struct image_builder *b, const char *reference, const struct pull_options *o,
                 const char *dir, struct error *err)
{
    char source[300], target[PATH_MAX + 32];
    reference_for_skopeo(reference, source);
    snprintf(target, sizeof target, "oci:%s/layout:image", dir);
    const char *argv[24] = {"skopeo", "--override-os", "linux", "--override-arch", oci_architecture()};
    size_t n = 5;
    if (o->policy) {
        argv[n++] = "--policy";
        argv[n++] = o->policy;
    } else if (!machine_has_policy()) {
        argv[n++] = "--insecure-policy";
        progress_note(
            b->progress,
            "this machine has no signature policy (/etc/containers/policy.json): signatures are not checked");
    }
    argv[n++] = "--tmpdir";
    argv[n++] = dir;
    argv[n++] = "copy";
    if (o->insecure || on_loopback(reference))
        argv[n++] = "--src-tls-verify=false";
    if (o->authfile) {
        argv[n++] = "--src-authfile";
        argv[n++] = o->authfile;
    }
    argv[n++] = "--";
    argv[n++] = source;
    argv[n++] = target;
    argv[n] = NULL;
    struct child c;
    if (child_start(&c, (char *const *)argv, false, on_line, b->progress, err) < 0)
        return -1;
    return child_finish(&c, false, err);
}

int image_pull(const struct image_builder *b, const char *reference, const struct pull_options *o,
               struct built_image *ret, struct error *err)
{
    char tmp[PATH_MAX];
    if (!strncmp(reference, "docker://", 9))
        reference += 9;
    if (image_name_check(reference, "reference", err) < 0)
        return -1;
    if (!o->name && (!strcmp(reference, "host") || !strncmp(reference, "sha256:", 7)))
        return error_field(err, "reference",
                           "\"%.40s\" is built in: give the pulled image another name with --name",
                           reference);
    if (o->name && image_name_check(o->name, "name", err) < 0)
        return -1;
    cleanup_close int dir = store_tmp_dir(b->data_dir, "pull", tmp, err);
    if (dir < 0)
        return -1;
    progress_stage(b->progress, "fetch", reference, 0);
    int r = fetch(b, reference, o, tmp, err);
    if (r == 0) {
        const struct blob_dir files = {openat(dir, "layout", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                                       false};
        r = files.fd < 0 ? error_set(err, ERROR_INTERNAL, "skopeo made no layout")
                         : import_layout(b, &files, o->name ? o->name : reference, NULL, ret, err);
        if (files.fd >= 0)
            close(files.fd);
    }
    dir_remove(AT_FDCWD, tmp, NULL);
    return r;
}
