#include "worker/worker.h"

#include "base/clock.h"
#include "base/fd.h"
#include "worker/calls.h"
#include "worker/channels.h"
#include "worker/cpu_limit.h"
#include "worker/natives.h"
#include "worker/requests.h"
#include "worker/streams.h"
#include "worker/value.h"

#include <dlfcn.h>
#include <stdlib.h>

struct worker worker;

int engine_prepare(struct error *err)
{
    /* Guests and hosts see the same place and time everywhere. */
    if (setenv("TZ", "UTC", 1) < 0 || setenv("LANG", "C", 1) < 0 || setenv("LC_ALL", "C", 1) < 0)
        return error_oom(err);
    /* The allocator's cleaning thread would be the one other thread of a process that must fork. */
    void (*no_scavenger)(void) =
        (void (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "_ZN3WTF20fastDisableScavengerEv");
    if (!no_scavenger)
        return error_set(err, ERROR_UNSUPPORTED,
                         "this JavaScriptCore does not export WTF::fastDisableScavenger(): use "
                         "libjavascriptcoregtk-4.1 2.50");
    no_scavenger();
    return 0;
}

static int describe_failure(JSValueRef exception, const char *what, struct error *err)
{
    char *text = exception ? value_describe(worker.ctx, exception) : NULL;
    error_set(err, ERROR_INTERNAL, "%s: %s", what, text ? text : "stopped");
    free(text);
    return -1;
}

static void find_functions(void)
{
    static const char *const names[] = {
#define X(id, name) #name,
        DISPATCH_FUNCTIONS(X)
#undef X
    };
    for (int i = 0; i < DISPATCH_COUNT; i++) {
        JSObjectRef fn = value_get_object(worker.ctx, worker.dispatch, names[i]);
        if (fn && JSObjectIsFunction(worker.ctx, fn)) {
            JSValueProtect(worker.ctx, fn);
            worker.functions[i] = fn;
        }
    }
}

static JSObjectRef make_natives(JSContextRef ctx)
{
    JSObjectRef natives = JSObjectMake(ctx, NULL, NULL);
    JSValueProtect(ctx, natives);
    natives_text(ctx, natives);
    natives_life(ctx, natives);
    natives_crypto(ctx, natives);
    natives_zlib(ctx, natives);
    natives_requests(ctx, natives);
    natives_calls(ctx, natives);
    natives_streams(ctx, natives);
    natives_channels(ctx, natives);
    return natives;
}

static int run_bundle(const char *bundle, struct error *err)
{
    JSContextRef ctx = worker.ctx;
    JSValueRef exception = NULL;
    JSStringRef source = JSStringCreateWithUTF8CString(bundle),
                name = JSStringCreateWithUTF8CString("cloister:runtime");
    JSValueRef boot = JSEvaluateScript(ctx, source, NULL, name, 1, &exception);
    JSStringRelease(source);
    JSStringRelease(name);
    if (exception || !JSValueIsObject(ctx, boot))
        return describe_failure(exception, "the library's bundle", err);
    JSValueRef natives = worker.natives;
    JSValueRef dispatch =
        JSObjectCallAsFunction(ctx, JSValueToObject(ctx, boot, NULL), NULL, 1, &natives, &exception);
    if (exception || !dispatch || !JSValueIsObject(ctx, dispatch))
        return describe_failure(exception, "the library's start", err);
    worker.dispatch = JSValueToObject(ctx, dispatch, NULL);
    JSValueProtect(ctx, worker.dispatch);
    find_functions();
    return 0;
}

int engine_start(const char *bundle, struct error *err)
{
    worker.group = JSContextGroupCreate();
    worker.ctx = JSGlobalContextCreateInGroup(worker.group, NULL);
    if (!worker.ctx)
        return error_set(err, ERROR_INTERNAL, "cannot create a JavaScript context");
    value_init(worker.ctx);
    worker.natives = make_natives(worker.ctx);
    if (run_bundle(bundle, err) < 0)
        return -1;
    if (worker.functions[DISPATCH_UNHANDLED_REJECTION])
        JSGlobalContextSetUnhandledRejectionCallback(worker.ctx,
                                                     worker.functions[DISPATCH_UNHANDLED_REJECTION], NULL);
    return 0;
}

int engine_begin(struct error *err)
{
    worker.started_ns = clock_monotonic_ns();
    JSValueRef exception = NULL;
    if (!worker.functions[DISPATCH_START])
        return error_set(err, ERROR_INTERNAL, "the library has no dispatch.start()");
    JSObjectCallAsFunction(worker.ctx, worker.functions[DISPATCH_START], worker.dispatch, 0, NULL,
                           &exception);
    return exception ? describe_failure(exception, "dispatch.start()", err) : 0;
}

/* What an entry owes when it did not end by itself. */
static void after_entry(uint32_t request, JSValueRef exception)
{
    if (worker.terminated) {
        worker.terminated = false;
        cpu_limit_killed(request);
    } else {
        char *text = value_describe(worker.ctx, exception);
        worker.log(0, text ? text : "an entry of the library threw");
        free(text);
    }
}

bool engine_enter(enum dispatch_function fn, uint32_t request, size_t argc, const JSValueRef argv[])
{
    JSValueRef exception = NULL;
    if (!worker.functions[fn]) {
        worker.log(0, "the library lacks a function of its dispatch");
        return false;
    }
    requests_enter(request);
    JSObjectCallAsFunction(worker.ctx, worker.functions[fn], worker.dispatch, argc, argv, &exception);
    uint32_t last = requests_leave();
    if (exception || worker.terminated)
        after_entry(last, exception);
    return !exception;
}
