/* Time. Monotonic values are for intervals; wall values (ms since the epoch) are only stored and shown. */
#ifndef CLOISTER_BASE_CLOCK_H
#define CLOISTER_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_monotonic_ns(void);
int64_t clock_wall_ms(void);

#endif
