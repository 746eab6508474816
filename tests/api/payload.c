/* A static program for images that hold nothing else: payload cat FILE | payload sleep SECONDS. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char bytes[4096];
    if (argc == 3 && strcmp(argv[1], "sleep") == 0) {
        sleep((unsigned)atoi(argv[2]));
        return 0;
    }
    int fd = argc == 3 && strcmp(argv[1], "cat") == 0 ? open(argv[2], O_RDONLY) : -1;
    ssize_t n;
    while (fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0)
        if (write(1, bytes, (size_t)n) != n)
            return 1;
    return fd < 0;
}
