/* The zygote (zygote_protocol.h): closes its jail, evaluates the library, forks. */
#ifndef CLOISTER_WORKER_ZYGOTE_H
#define CLOISTER_WORKER_ZYGOTE_H

/* `runtime` and `compiler` are the bundles' texts. Returns an exit status. */
int zygote_main(int control_fd, const char *runtime, const char *compiler);

#endif
