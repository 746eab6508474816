/* LOG frames within bounds: lines are cut at 16 KiB; a worker may send 2,000 lines and 1 MiB at once and half
 * of that each second after. What is above is counted and left out, and the count sent when lines pass again.
 */
#ifndef CLOISTER_WORKER_LOG_RATE_H
#define CLOISTER_WORKER_LOG_RATE_H

void log_rate_send(int level, const char *text);

#endif
