/* `load` of src/link/worker_protocol.h: a host Worker asks for a Dynamic Worker. */
#ifndef CLOISTER_APP_LOADER_H
#define CLOISTER_APP_LOADER_H

#include "app/worker.h"
#include "link/link.h"

struct compiler;
struct loader;
struct outgoing;

#define LOADER_MAX_WORKERS 2000u /* of one host Worker's process */
#define LOADER_CODE_BYTES                                                                                    \
    ((size_t)256 << 20)        /* of all that are being loaded: their code, before and while they start */
#define LOADER_START_MS 60000u /* from the call to the evaluated module */
#define LOADER_DEFAULT_CPU_MS 30000u
#define LOADER_MAX_MEMORY_MIB 4096u

struct loader_config {
    struct workers *workers;
    struct compiler *compiler;
    struct outgoing *outgoing; /* requests to the Internet, by the rules for Dynamic Workers */
    struct link *link;         /* the host Worker's */
    void (*log)(void *user, const char *worker, int level, int64_t ms, const char *text);
    void *user;
};

/* One for each process of a host Worker. NULL: no memory. */
struct loader *loader_new(const struct loader_config *config);
/* The link is dead already: every Dynamic Worker has ended with it. */
void loader_free(struct loader *l);
/* Answers the call. UNTRUSTED INPUT. */
void loader_load(struct loader *l, struct link_call *call, struct cbor_reader args);

#endif
