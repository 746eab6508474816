/* Which addresses a Worker may reach. */
#ifndef CLOISTER_APP_REACH_H
#define CLOISTER_APP_REACH_H

#include <stdbool.h>
#include <sys/socket.h>

/* An address of the public Internet: none of this machine, its networks, its link, of a cloud's metadata
 * service, of groups, and none that stands for one of those in another notation (mapped, translated,
 * tunnelled). */
bool reach_is_public(const struct sockaddr *a);

#endif
