#include "container/fsconf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

int fsconf_string(int fs, const char *key, const char *value)
{
    return fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0);
}

int fsconf_u64(int fs, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return fsconf_string(fs, key, text);
}

int fsconf_error(int fs, struct error *err, const char *what)
{
    int saved = errno;
    char text[256];
    ssize_t n = fs < 0 ? -1 : read(fs, text, sizeof text - 1);
    error_system(err, saved, "cannot mount %s", what);
    if (n > 2 && err) {
        text[n] = '\0';
        text[strcspn(text, "\n")] = '\0';
        size_t used = strlen(err->message);
        snprintf(err->message + used, sizeof err->message - used, " (%s)", text + 2);
    }
    return -1;
}
