/* Runs a fuzz target over files, or every file of directories, so that builds without a fuzzing engine can
 * replay a corpus. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static unsigned replayed;

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_MAX);
    if (!f || !data) {
        perror(path);
        exit(1);
    }
    size_t len = fread(data, 1, INPUT_MAX, f);
    fclose(f);
    /* An exact allocation, so that a sanitizer sees reads beyond the end. */
    uint8_t *exact = malloc(len ? len : 1);
    if (!exact) {
        perror(path);
        exit(1);
    }
    memcpy(exact, data, len);
    free(data);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    replayed++;
    return 0;
}

static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path);
    DIR *dir = opendir(path);
    if (!dir) {
        perror(path);
        return 1;
    }
    struct dirent *e;
    int failed = 0;
    while ((e = readdir(dir))) {
        char child[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        failed |= replay(child);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay(argv[i]);
    printf("%u inputs replayed\n", replayed);
    return failed || replayed == 0;
}
