/* What of /proc and /sys a guest must not see or write. A path that this kernel lacks is skipped. */
#ifndef CLOISTER_AGENT_MASKS_H
#define CLOISTER_AGENT_MASKS_H

#include <stddef.h>

/* Hidden: files read as empty, directories are empty and read-only. */
static const char *const proc_masked[] = {
    "acpi",       /* hardware */
    "asound",     /* sound hardware */
    "interrupts", /* timing of other tenants */
    "kcore",      /* kernel memory */
    "keys",       /* kernel keyrings */
    "kmsg",       /* kernel log */
    "latency_stats", "sched_debug",
    "timer_list",    "timer_stats", /* processes and addresses of the whole machine */
    "scsi",
};

/* Readable, not writable (they hold machine-wide controls). */
static const char *const proc_readonly[] = {"bus", "fs", "irq", "sys", "sysrq-trigger"};

/* /sys as a whole is read-only; these are hidden. Debugfs, tracefs, securityfs, bpffs and the cgroup
 * hierarchies are file systems of their own that a fresh sysfs does not show: their directories are covered
 * as well, so that nothing can ever come to light there. */
static const char *const sys_masked[] = {
    "devices/virtual/powercap", /* power readings tell what neighbours compute */
    "firmware",
    "fs/bpf",
    "fs/cgroup",
    "kernel/debug",
    "kernel/security",
    "kernel/tracing",
};

#define MASK_COUNT(list) (sizeof(list) / sizeof *(list))

#endif
