/* Time, timers, logs, evaluation, memory, the end. */
#include "base/clock.h"
#include "worker/memory_limit.h"
#include "worker/natives.h"
#include "worker/value.h"
#include "worker/worker.h"

#include <stdlib.h>
#include <unistd.h>

#define MAX_TIMER_MS 0x7fffffff

NATIVE(now)
{
    return JSValueMakeNumber(ctx, (double)clock_wall_ms());
}

NATIVE(monotonic)
{
    return JSValueMakeNumber(ctx, (double)((clock_monotonic_ns() - worker.started_ns) / 1000000));
}

NATIVE(timer)
{
    uint64_t id, ms;
    if (!value_uint(ctx, native_arg(0), UINT32_MAX, &id, exception) ||
        !value_uint(ctx, native_arg(1), MAX_TIMER_MS, &ms, exception))
        return NULL;
    if (timers_set(&worker.timers, (uint32_t)id, clock_monotonic_ns() + ms * 1000000, worker.request) < 0)
        return value_throw_range(ctx, exception, "Out of memory");
    return JSValueMakeUndefined(ctx);
}

NATIVE(timer_clear)
{
    uint64_t id;
    if (!value_uint(ctx, native_arg(0), UINT32_MAX, &id, exception))
        return NULL;
    timers_clear(&worker.timers, (uint32_t)id);
    return JSValueMakeUndefined(ctx);
}

NATIVE(log_line)
{
    uint64_t level;
    if (!value_uint(ctx, native_arg(0), 3, &level, exception))
        return NULL;
    char *text = value_dup_text(ctx, native_arg(1), NULL, exception);
    if (!text)
        return NULL;
    worker.log((int)level, text);
    free(text);
    return JSValueMakeUndefined(ctx);
}

NATIVE(evaluate)
{
    uint64_t line;
    if (argc < 2 || !JSValueIsString(ctx, argv[0]) || !JSValueIsString(ctx, argv[1]))
        return value_throw_type(ctx, exception, "evaluate() takes a source and a name");
    if (!value_uint(ctx, native_arg(2), INT32_MAX, &line, exception))
        return NULL;
    JSStringRef source = JSValueToStringCopy(ctx, argv[0], exception);
    JSStringRef name = JSValueToStringCopy(ctx, argv[1], exception);
    JSValueRef v = source && name ? JSEvaluateScript(ctx, source, NULL, name, (int)line, exception) : NULL;
    if (source)
        JSStringRelease(source);
    if (name)
        JSStringRelease(name);
    return v;
}

NATIVE(memory)
{
    JSObjectRef statistics = JSGetMemoryUsageStatistics(ctx), result = JSObjectMake(ctx, NULL, NULL);
    JSStringRef key = JSStringCreateWithUTF8CString("heapSize");
    value_set(ctx, result, "heapBytes", JSObjectGetProperty(ctx, statistics, key, exception));
    JSStringRelease(key);
    return result;
}

NATIVE(make_room)
{
    uint64_t bytes;
    if (!value_uint(ctx, native_arg(0), UINT32_MAX, &bytes, exception))
        return NULL;
    memory_limit_make_room(bytes);
    return JSValueMakeUndefined(ctx);
}

NATIVE(is_proxy)
{
    JSValueRef v = native_arg(0);
    if (!v || !JSValueIsObject(ctx, v))
        return JSValueMakeBoolean(ctx, false);
    return JSValueMakeBoolean(ctx, JSObjectGetProxyTarget((JSObjectRef)v) != NULL);
}

NATIVE(exit_now)
{
    char *reason = value_dup_text(ctx, native_arg(0), NULL, exception);
    worker.log(0, reason ? reason : "the library ended the process");
    _exit(1);
}

void natives_life(JSContextRef ctx, JSObjectRef natives)
{
    static const struct native list[] = {
        {"now", now},          {"monotonic", monotonic}, {"timer", timer},   {"timerClear", timer_clear},
        {"log", log_line},     {"evaluate", evaluate},   {"memory", memory}, {"exit", exit_now},
        {"isProxy", is_proxy}, {"makeRoom", make_room},
    };
    natives_add(ctx, natives, list, sizeof list / sizeof *list);
}
