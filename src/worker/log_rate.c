#include "worker/log_rate.h"

#include "base/clock.h"
#include "base/parse.h"
#include "link/link.h"
#include "worker/worker.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 16384u
#define BURST_LINES 2000.0
#define BURST_BYTES 1048576.0

static double lines = BURST_LINES, bytes = BURST_BYTES;
static uint64_t filled_at, left_out;

static double refill(double have, double burst, double seconds)
{
    double more = have + burst / 2 * seconds;
    return more < burst ? more : burst;
}

static bool allowed(size_t len)
{
    uint64_t now = clock_monotonic_ns();
    double seconds = (double)(now - filled_at) / 1e9;
    filled_at = now;
    lines = refill(lines, BURST_LINES, seconds);
    bytes = refill(bytes, BURST_BYTES, seconds);
    if (lines < 1 || bytes < (double)len)
        return false;
    lines -= 1;
    bytes -= (double)len;
    return true;
}

void log_rate_send(int level, const char *text)
{
    char line[LINE_MAX_BYTES + 1];
    size_t len = strlen(text);
    if (!worker.link)
        return;
    if (len > LINE_MAX_BYTES)
        len = utf8_whole_prefix(text, LINE_MAX_BYTES);
    if (!allowed(len)) {
        left_out++;
        return;
    }
    if (left_out) {
        char note[96];
        snprintf(note, sizeof note, "%llu lines were left out: the worker logs too much",
                 (unsigned long long)left_out);
        left_out = 0;
        link_log(worker.link, 1, clock_wall_ms(), note);
    }
    memcpy(line, text, len);
    line[len] = 0;
    link_log(worker.link, level, clock_wall_ms(), line);
}
