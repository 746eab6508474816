/* "setup", first half: who we are. */
#ifndef CLOISTER_AGENT_SETUP_H
#define CLOISTER_AGENT_SETUP_H

#include "agent/agent.h"

/* Becomes root of the user namespace, enters cgroup and time namespaces of its own, brings loopback up. */
int setup_identity(struct agent *a, struct error *err);

#endif
