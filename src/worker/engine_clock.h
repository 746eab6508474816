/* The clocks that the engine's watchdog reads (engine_clock.c). */
#ifndef CLOISTER_WORKER_ENGINE_CLOCK_H
#define CLOISTER_WORKER_ENGINE_CLOCK_H

/* This thread is the one that runs the engine; after a fork it still is. */
void engine_clock_own_thread(void);
/* Before our own code reads a clock in the midst of the watchdog's work. */
void engine_clock_forget(void);

#endif
