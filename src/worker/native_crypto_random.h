#ifndef CLOISTER_WORKER_NATIVE_CRYPTO_RANDOM_H
#define CLOISTER_WORKER_NATIVE_CRYPTO_RANDOM_H

#include <stdbool.h>

/* Makes libcrypto take each random number from getrandom(2). It then has no generator in memory that a forked
 * process would repeat, whatever the process ids are. False: libcrypto refused. */
bool crypto_random_init(void);

#endif
