/* Every route of the API, as data: the server dispatches from this table, 404 and 405 come from it, and the
 * test suite compares it with docs/openapi.yaml. */
#ifndef CLOISTER_DAEMON_ROUTES_H
#define CLOISTER_DAEMON_ROUTES_H

#include "base/error.h"
#include "daemon/request.h"

enum body_mode { BODY_NONE, BODY_JSON, BODY_JSON_OPTIONAL, BODY_STREAM };

enum route_flags {
    ROUTE_PASSIVE = 1, /* looking only: does not keep an idle container alive */
};

struct route {
    const char *method;
    const char *pattern; /* segments in braces match anything: {name}, {id} */
    enum body_mode body;
    unsigned flags;
    const char *query; /* parameters it takes, separated by spaces; one ending in '*' may be repeated */
    void (*handle)(struct request *r);
};

/* Finds the route of r->uri and `method`, sets r->route, r->name and r->id. On failure `allow` (if not empty
 * then) lists the methods that the path has: the answer is 405, else 404. */
int routes_match(struct request *r, const char *method, char *allow, size_t allow_size, struct error *err);
/* Refuses query parameters that the route does not take, or that come twice. */
int routes_check_query(const struct request *r, struct error *err);
void routes_print(void);

#endif
