#include "worker/worker.h"

#include "base/clock.h"
#include "base/fd.h"
#include "worker/calls.h"
#include "worker/channels.h"
#include "worker/cpu_limit.h"
#include "worker/engine_clock.h"
#include "worker/natives.h"
#include "worker/requests.h"
#include "worker/streams.h"
#include "worker/value.h"

#include <dlfcn.h>
#include <stdlib.h>

struct worker worker;

/* Of the engine's C++ interface; found by name, since no header that is installed declares them. */
static struct {
    void (*disable_scavenger)(void); /* WTF::fastDisableScavenger() */
    void (*keep_options)(void);      /* WTF::Config::disableFreezingForTesting(): the options stay writable */
    void (*freeze_options)(void);    /* WTF::Config::permanentlyFreeze() */
    bool (*set_option)(const char *, bool verify); /* JSC::Options::setOption() */
    void (*drain_microtasks)(void *vm);            /* JSC::VM::drainMicrotasks() */
    void (*release_memory)(void);                  /* WTF::releaseFastMallocFreeMemory() */
} internals;

static int find_internals(struct error *err)
{
    static const struct {
        const char *name;
        void **to;
    } wanted[] = {
        {"_ZN3WTF20fastDisableScavengerEv", (void **)&internals.disable_scavenger},
        {"_ZN3WTF6Config25disableFreezingForTestingEv", (void **)&internals.keep_options},
        {"_ZN3WTF6Config17permanentlyFreezeEv", (void **)&internals.freeze_options},
        {"_ZN3JSC7Options9setOptionEPKcb", (void **)&internals.set_option},
        {"_ZN3JSC2VM15drainMicrotasksEv", (void **)&internals.drain_microtasks},
        {"_ZN3WTF27releaseFastMallocFreeMemoryEv", (void **)&internals.release_memory},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].to = dlsym(RTLD_DEFAULT, wanted[i].name)))
            return error_set(err, ERROR_UNSUPPORTED,
                             "this JavaScriptCore does not export %s: use libjavascriptcoregtk-4.1 2.50",
                             wanted[i].name);
    return 0;
}

int engine_prepare(struct error *err)
{
    static const char *const environment[][2] = {
        /* Guests see the same place everywhere. */
        {"TZ", "UTC"},
        {"LANG", "C"},
        {"LC_ALL", "C"},
        /* A process that forks must have one thread: code is compiled and memory collected on it, until
         * engine_begin(). */
        {"JSC_useConcurrentJIT", "0"},
        {"JSC_numberOfGCMarkers", "1"},
        /* How large a heap may grow before it is collected follows the machine's memory; a worker's share is
           small. */
        {"JSC_forceRAMSize", "268435456"},
        /* Running code looks for itself whether it is to stop; the other way, a thread that interrupts it
         * until it is caught inside compiled code, takes long to stop chains of short microtasks. */
        {"JSC_usePollingTraps", "1"},
        /* The library's functions are interpreted for some hundred calls: machine code made in the zygote
         * would have to be written to (its counters and caches) in many more pages, and code made in each
         * worker takes longer than most workers live. */
        {"JSC_thresholdForJITAfterWarmUp", "8000"},
        {"JSC_thresholdForJITSoon", "8000"},
    };
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++)
        if (setenv(environment[i][0], environment[i][1], 1) < 0)
            return error_oom(err);
    if (find_internals(err) < 0)
        return -1;
    internals.disable_scavenger();
    internals.keep_options();
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

static void remove_global(const char *name)
{
    JSStringRef key = JSStringCreateWithUTF8CString(name);
    JSObjectDeleteProperty(worker.ctx, JSContextGetGlobalObject(worker.ctx), key, NULL);
    JSStringRelease(key);
}

static int start_context(const char *bundle, struct error *err)
{
    worker.ctx = JSGlobalContextCreateInGroup(worker.group, NULL);
    if (!worker.ctx)
        return error_set(err, ERROR_INTERNAL, "cannot create a JavaScript context");
    remove_global("Atomics"); /* nothing is shared that it could be used on */
    value_init(worker.ctx);
    worker.natives = make_natives(worker.ctx);
    /* A bundle is one function. For a loop at the top of one of its modules, which fills a table, the engine
     * would optimise all of it: a second of work, and 170 MB that stay. */
    internals.set_option("thresholdForJITAfterWarmUp=10000000", true);
    int r = run_bundle(bundle, err);
    internals.set_option("thresholdForJITAfterWarmUp=8000", true);
    if (r < 0)
        return -1;
    if (worker.functions[DISPATCH_UNHANDLED_REJECTION])
        JSGlobalContextSetUnhandledRejectionCallback(worker.ctx,
                                                     worker.functions[DISPATCH_UNHANDLED_REJECTION], NULL);
    return 0;
}

int engine_start(const char *bundle, struct error *err)
{
    engine_clock_own_thread();
    worker.group = JSContextGroupCreate();
    return start_context(bundle, err);
}

int engine_restart(const char *bundle, struct error *err)
{
    /* The old context stays until the process ends: it is the zygote's memory, and its natives may be
     * referenced. */
    for (int i = 0; i < DISPATCH_COUNT; i++)
        worker.functions[i] = NULL;
    return start_context(bundle, err);
}

void engine_settle(void)
{
    internals.set_option("useConcurrentJIT=1", true);
    internals.set_option("thresholdForJITAfterWarmUp=500", true); /* the guest's code is compiled as ever */
    internals.set_option("thresholdForJITSoon=100", true);
    internals.freeze_options();
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

void engine_drain(void)
{
    /* A group of contexts is the engine's VM. */
    internals.drain_microtasks((void *)(uintptr_t)worker.group);
}

void engine_collect(void)
{
    JSSynchronousGarbageCollectForDebugging(worker.ctx);
    internals.release_memory();
}

/* An engine that is stopped in a microtask, after the entry proper, keeps the exception pending, on which the
 * next entry would abort. Reading a property clears it. */
static void forget_pending_exception(void)
{
    JSValueRef exception = NULL;
    JSStringRef key = JSStringCreateWithUTF8CString("log");
    JSObjectGetProperty(worker.ctx, worker.natives, key, &exception);
    JSStringRelease(key);
}

/* What an entry owes when it did not end by itself. */
static void after_entry(uint32_t request, JSValueRef exception)
{
    if (worker.terminated) {
        worker.terminated = false;
        forget_pending_exception();
        cpu_limit_tell(request);
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
    /* Many short entries: the engine's own watch, a thread, may come too late for each. */
    worker.terminated |= requests_is_over(last);
    if (exception || worker.terminated)
        after_entry(last, exception);
    return !exception;
}
