#include "worker/requests.h"

#include "base/clock.h"
#include "link/idtable.h"
#include "worker/natives.h"
#include "worker/value.h"
#include "worker/worker.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SHORT_NS 1000000u
#define CPU_READ_NS 10000000u
#define MAX_CPU_MS 86400000u

struct request {
    struct idnode node;
    uint64_t limit_ns; /* UINT64_MAX: none */
    uint64_t used_ns;
    bool spent;
};

static struct idtable requests;
static uint32_t last_request;
static struct request *current;
static uint64_t charged_at;  /* monotonic: up to when the present entry is charged */
static uint64_t cpu_mark;    /* the CPU clock at `charged_at`, about: to read it takes a system call */
static uint64_t cpu_read_at; /* monotonic: when it was read */
/* Entries that belong to nobody may use what the most generous request may. */
static uint64_t nobodys_limit_ns = 0;
static volatile uint64_t entry_number, entry_start, limit_now;

/* Past the interposed clock_gettime() of engine_clock.c. */
static uint64_t cpu_now(void)
{
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void charge(void)
{
    uint64_t now = clock_monotonic_ns(), used = now - charged_at;
    charged_at = now;
    if (used >= SHORT_NS) {
        /* Not all of it need be ours: others have the processor, too. */
        uint64_t cpu = cpu_now(), spent = cpu > cpu_mark ? cpu - cpu_mark : 0;
        if (spent < used)
            used = spent;
        cpu_mark = cpu;
        cpu_read_at = now;
    } else {
        cpu_mark += used;
    }
    if (current)
        current->used_ns += used;
}

static struct request *find(uint32_t id)
{
    struct idnode *node = id ? idtable_find(&requests, id) : NULL;
    return node ? container_of(node, struct request, node) : NULL;
}

static void make_current(struct request *r)
{
    current = r;
    worker.request = r ? r->node.id : 0;
    limit_now = r ? r->limit_ns : nobodys_limit_ns ? nobodys_limit_ns : UINT64_MAX;
}

void requests_enter(uint32_t request)
{
    entry_number++;
    charged_at = entry_start = clock_monotonic_ns();
    /* What was done between entries is nobody's: left in the mark, it would be charged to whoever waits for
     * the processor next. */
    if (charged_at - cpu_read_at >= CPU_READ_NS) {
        cpu_mark = cpu_now();
        cpu_read_at = charged_at;
    }
    make_current(find(request));
}

uint32_t requests_leave(void)
{
    charge();
    uint32_t last = worker.request;
    entry_start = 0;
    worker.request = 0;
    current = NULL;
    return last;
}

uint32_t requests_step_aside(void)
{
    uint32_t before = worker.request;
    charge();
    requests_enter(0);
    return before;
}

void requests_step_back(uint32_t request)
{
    charge();
    requests_enter(request);
}

uint64_t requests_left_ns(void)
{
    charge();
    if (current)
        return current->limit_ns == UINT64_MAX        ? UINT64_MAX
               : current->used_ns > current->limit_ns ? 0
                                                      : current->limit_ns - current->used_ns;
    uint64_t used = charged_at - entry_start;
    return used > limit_now ? 0 : limit_now - used;
}

uint64_t requests_limit_ns(void)
{
    return limit_now;
}

uint64_t requests_limit_now(uint64_t *ret_entry)
{
    *ret_entry = entry_start ? entry_number : 0;
    return limit_now;
}

uint64_t requests_entry_start(void)
{
    return entry_start;
}

bool requests_is_spent(uint32_t request)
{
    const struct request *r = find(request);
    return r && r->spent;
}

void requests_mark_spent(uint32_t request)
{
    struct request *r = find(request);
    if (r)
        r->spent = true;
}

bool requests_is_over(uint32_t request)
{
    const struct request *r = find(request);
    return r && !r->spent && r->limit_ns != UINT64_MAX && r->used_ns > r->limit_ns;
}

uint64_t requests_limit_of(uint32_t request)
{
    const struct request *r = find(request);
    return r ? r->limit_ns : nobodys_limit_ns;
}

NATIVE(request_begin)
{
    uint64_t ms;
    if (!value_uint(ctx, native_arg(0), MAX_CPU_MS, &ms, exception))
        return NULL;
    struct request *r = calloc(1, sizeof *r);
    if (!r)
        return value_throw_range(ctx, exception, "Out of memory");
    r->limit_ns = ms ? ms * 1000000u : UINT64_MAX;
    if (r->limit_ns > nobodys_limit_ns)
        nobodys_limit_ns = r->limit_ns;
    do
        last_request++;
    while (last_request == 0 || find(last_request));
    idtable_add(&requests, &r->node, last_request);
    charge();
    make_current(r);
    return JSValueMakeNumber(ctx, last_request);
}

NATIVE(request_enter)
{
    uint64_t id;
    if (!value_uint(ctx, native_arg(0), UINT32_MAX, &id, exception))
        return NULL;
    if (worker.request != id) {
        charge();
        make_current(find((uint32_t)id));
    }
    return JSValueMakeUndefined(ctx);
}

NATIVE(request_end)
{
    uint64_t id;
    if (!value_uint(ctx, native_arg(0), UINT32_MAX, &id, exception))
        return NULL;
    struct request *r = find((uint32_t)id);
    if (r && r == current) {
        charge();
        make_current(NULL);
    }
    if (r) {
        idtable_remove(&requests, &r->node);
        free(r);
    }
    return JSValueMakeUndefined(ctx);
}

NATIVE(request_current)
{
    return JSValueMakeNumber(ctx, worker.request);
}

/* The library asks at each await who is current: the engine reads the number where it is. */
static void add_cell(JSContextRef ctx, JSObjectRef natives)
{
    JSObjectRef cell = JSObjectMakeTypedArrayWithBytesNoCopy(
        ctx, kJSTypedArrayTypeUint32Array, &worker.request, sizeof worker.request, NULL, NULL, NULL);
    JSStringRef name = JSStringCreateWithUTF8CString("requestCell");
    JSObjectSetProperty(ctx, natives, name, cell, kJSPropertyAttributeNone, NULL);
    JSStringRelease(name);
}

void natives_requests(JSContextRef ctx, JSObjectRef natives)
{
    static const struct native list[] = {{"requestBegin", request_begin},
                                         {"requestEnter", request_enter},
                                         {"requestEnd", request_end},
                                         {"requestCurrent", request_current}};
    natives_add(ctx, natives, list, sizeof list / sizeof *list);
    add_cell(ctx, natives);
}
