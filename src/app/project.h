/* One project of an application: its configuration, its bundle, its hosted Worker; follows its sources in
 * development. */
#ifndef CLOISTER_APP_PROJECT_H
#define CLOISTER_APP_PROJECT_H

#include "app/app.h"
#include "app/config.h"
#include "app/host.h"

struct assets;
struct project;

/* `app` has options; `hc` is filled in but for the name. NULL: error. */
struct project *project_open(const struct app_options *o, const char *path, const struct host_config *hc,
                             struct error *err);
void project_close(struct project *p);
struct host *project_host(struct project *p);     /* NULL: static files alone */
struct assets *project_assets(struct project *p); /* NULL: none */
const char *project_name(const struct project *p);

#endif
