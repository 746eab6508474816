/* JavaScriptCore's C API, and the functions that its library exports without declaring them in a public
 * header. */
#ifndef CLOISTER_WORKER_ENGINE_API_H
#define CLOISTER_WORKER_ENGINE_API_H

#include <JavaScriptCore/JavaScript.h>
#include <stdbool.h>

/* Called on the engine's thread when code has run for `limit` seconds; true ends it, uncatchably. */
typedef bool (*engine_should_terminate_fn)(JSContextRef ctx, void *user);
JS_EXPORT void JSContextGroupSetExecutionTimeLimit(JSContextGroupRef group, double limit,
                                                   engine_should_terminate_fn fn, void *user);
JS_EXPORT void JSContextGroupClearExecutionTimeLimit(JSContextGroupRef group);
/* `function` is called with (promise, reason) after the microtasks of an entry. */
JS_EXPORT void JSGlobalContextSetUnhandledRejectionCallback(JSGlobalContextRef ctx, JSObjectRef function,
                                                            JSValueRef *exception);
/* An object with heapSize, heapCapacity, extraMemorySize and more. */
JS_EXPORT JSObjectRef JSGetMemoryUsageStatistics(JSContextRef ctx);
/* What a Proxy stands before; NULL: it is none. */
JS_EXPORT JSObjectRef JSObjectGetProxyTarget(JSObjectRef object);
JS_EXPORT void JSSynchronousGarbageCollectForDebugging(JSContextRef ctx);
JS_EXPORT void JSReportExtraMemoryCost(JSContextRef ctx, size_t bytes);

#endif
