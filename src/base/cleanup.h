/* Scope-bound ownership: a variable declared with one of these attributes frees what it owns when it goes out
 * of scope; steal_*() hands ownership on. */
#ifndef CLOISTER_BASE_CLEANUP_H
#define CLOISTER_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free_p(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_close_p(int *fd)
{
    if (*fd >= 0)
        close(*fd); /* Linux: the descriptor is gone even on EINTR, so never retried (close(2)) */
}

static inline void cleanup_file_p(FILE **f)
{
    if (*f)
        fclose(*f);
}

static inline void cleanup_dir_p(DIR **d)
{
    if (*d)
        closedir(*d);
}

#define cleanup_free __attribute__((cleanup(cleanup_free_p)))
#define cleanup_close __attribute__((cleanup(cleanup_close_p)))
#define cleanup_file __attribute__((cleanup(cleanup_file_p)))
#define cleanup_dir __attribute__((cleanup(cleanup_dir_p)))

static inline int steal_fd(int *fd)
{
    int r = *fd;
    *fd = -1;
    return r;
}

#define steal_pointer(pp)                                                                                    \
    (__extension__({                                                                                         \
        __typeof__(pp) steal_pp_ = (pp);                                                                     \
        __typeof__(*steal_pp_) steal_p_ = *steal_pp_;                                                        \
        *steal_pp_ = NULL;                                                                                   \
        steal_p_;                                                                                            \
    }))

#endif
