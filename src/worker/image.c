#include "worker/image.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define MAX_RANGES 1024
#define MAX_MAPS 4096
#define GAP_PAGES 0u /* unwritten pages between written ones that are copied along */
/* pagemap entries (Documentation/admin-guide/mm/pagemap.rst) */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_FILE (1ull << 61)
#define PAGEMAP_EXCLUSIVE (1ull << 56)

struct range {
    uintptr_t start, end;
};

struct learnt {
    unsigned count;
    struct range ranges[MAX_RANGES];
};

static struct learnt *learnt; /* shared with the child that rehearses */

/* Calls `fn` for each mapping. The list is read first: fn may change mappings. */
static int each_mapping(void (*fn)(struct range r, const char *rights, const char *name, void *user),
                        void *user)
{
    cleanup_file FILE *f = fopen("/proc/self/maps", "re");
    struct entry {
        struct range r;
        char rights[8], name[256];
    };
    cleanup_free struct entry *list = calloc(MAX_MAPS, sizeof *list);
    char line[512];
    size_t count = 0;
    if (!f || !list)
        return -1;
    while (count < MAX_MAPS && fgets(line, sizeof line, f)) {
        struct entry *e = &list[count];
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &e->r.start, &e->r.end, e->rights, e->name) >= 3)
            count++;
    }
    for (size_t i = 0; i < count; i++)
        fn(list[i].r, list[i].rights, list[i].name, user);
    return 0;
}

/* Copies a read-only mapping of a file into anonymous memory in its place. No code of that mapping may run
 * meanwhile, nor what memcpy() is in, so this is for the engine's libraries only. */
static void settle(struct range r, const char *rights, const char *name, void *user)
{
    (void)user;
    const char *base = strrchr(name, '/');
    bool engine = base && (strncmp(base, "/libjavascriptcore", 18) == 0 ||
                           strncmp(base, "/libicuuc", 9) == 0 || strncmp(base, "/libicui18n", 11) == 0 ||
                           strncmp(base, "/libglib", 8) == 0 || strncmp(base, "/libstdc++", 10) == 0);
    size_t len = r.end - r.start;
    if (!engine || rights[0] != 'r' || rights[1] == 'w' || rights[3] != 'p')
        return;
    void *copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return;
    memcpy(copy, (void *)r.start, len);
    void *place =
        mmap((void *)r.start, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (place == MAP_FAILED)
        abort(); /* half of the engine is gone */
    madvise(place, len, MADV_HUGEPAGE);
    memcpy(place, copy, len);
    if (mprotect(place, len, rights[2] == 'x' ? PROT_READ | PROT_EXEC : PROT_READ) < 0)
        abort();
    munmap(copy, len);
}

void image_settle(void)
{
    each_mapping(settle, NULL);
}

/* --- learning --- */

static void add_page(struct learnt *l, uintptr_t page, bool same_mapping)
{
    struct range *last = l->count && same_mapping ? &l->ranges[l->count - 1] : NULL;
    if (last && page - last->end <= GAP_PAGES * PAGE)
        last->end = page + PAGE;
    else if (l->count < MAX_RANGES)
        l->ranges[l->count++] = (struct range){page, page + PAGE};
}

/* What is private memory of this process alone was written since the fork. */
static void scan(struct range r, const char *rights, const char *name, void *user)
{
    const int *pagemap = user;
    uint64_t entries[512];
    bool same_mapping = false;
    if (rights[1] != 'w' || rights[3] != 'p' || strcmp(name, "[stack]") == 0 ||
        r.end - r.start > ((size_t)4 << 30))
        return;
    for (uintptr_t at = r.start; at < r.end; at += sizeof entries / sizeof *entries * PAGE) {
        ssize_t n = pread(*pagemap, entries, sizeof entries, (off_t)(at / PAGE * sizeof *entries));
        for (size_t i = 0; n > 0 && i < (size_t)n / sizeof *entries && at + i * PAGE < r.end; i++) {
            const uint64_t want = PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE;
            if ((entries[i] & want) != want || (entries[i] & PAGEMAP_FILE))
                continue;
            add_page(learnt, at + i * PAGE, same_mapping);
            same_mapping = true;
        }
    }
}

int image_learn(void (*rehearse)(void), struct error *err)
{
    learnt = mmap(NULL, sizeof *learnt, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (learnt == MAP_FAILED)
        return error_system(err, errno, "cannot allocate memory");
    pid_t pid = fork();
    if (pid == 0) {
        rehearse();
        int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        _exit(pagemap < 0 || each_mapping(scan, &pagemap) < 0 ? 1 : 0);
    }
    int status = 1;
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        return error_set(err, ERROR_INTERNAL, "the rehearsal of a worker failed (status %#x)", status);
    return 0;
}

void image_prepare(void)
{
    for (unsigned i = 0; learnt && i < learnt->count; i++)
        madvise((void *)learnt->ranges[i].start, learnt->ranges[i].end - learnt->ranges[i].start,
                MADV_POPULATE_WRITE);
}
