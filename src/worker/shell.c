#include "worker/shell.h"

#include "base/clock.h"
#include "base/fd.h"
#include "worker/natives.h"
#include "worker/value.h"
#include "worker/worker.h"

#include <fcntl.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)256 << 20)
/* The engine's own deferred work (compiling Wasm, FinalizationRegistry) has no count to ask for: what it has
 * not queued this long after everything else is done does not keep the shell. */
#define LINGER_NS 20000000u

static int exit_status;

static void shell_log(int level, const char *text)
{
    FILE *out = level <= 1 ? stderr : stdout;
    fprintf(out, "%s\n", text);
    fflush(out);
}

static void report(JSContextRef ctx, JSValueRef thrown)
{
    char *text = value_describe(ctx, thrown);
    fprintf(stderr, "Uncaught %s\n", text ? text : "exception");
    free(text);
    exit_status = 1;
}

NATIVE(shell_read_file)
{
    size_t len;
    char *bytes;
    struct error err = {0};
    char *path = value_dup_text(ctx, native_arg(0), NULL, exception);
    if (!path)
        return NULL;
    int r = file_slurp(AT_FDCWD, path, MAX_FILE, &bytes, &len, &err);
    free(path);
    if (r < 0)
        return value_throw_error(ctx, exception, &err);
    JSValueRef v = value_text_n(ctx, (const uint8_t *)bytes, len);
    free(bytes);
    return v;
}

NATIVE(shell_print)
{
    char *text = value_dup_text(ctx, native_arg(0), NULL, exception);
    if (!text)
        return NULL;
    puts(text);
    fflush(stdout);
    free(text);
    return JSValueMakeUndefined(ctx);
}

NATIVE(shell_exit)
{
    uint64_t code;
    if (!value_uint(ctx, native_arg(0), 255, &code, exception))
        return NULL;
    fflush(NULL);
    _Exit((int)code);
}

NATIVE(shell_evaluate)
{
    JSStringRef source = JSValueToStringCopy(ctx, argc > 0 ? argv[0] : JSValueMakeUndefined(ctx), exception);
    JSStringRef name = argc > 1 ? JSValueToStringCopy(ctx, argv[1], exception) : NULL;
    JSValueRef v = source ? JSEvaluateScript(ctx, source, NULL, name, 1, exception) : NULL;
    if (source)
        JSStringRelease(source);
    if (name)
        JSStringRelease(name);
    return v;
}

static void install(void)
{
    static const struct native list[] = {{"readFile", shell_read_file},
                                         {"print", shell_print},
                                         {"exit", shell_exit},
                                         {"evaluate", shell_evaluate}};
    JSObjectRef shell = JSObjectMake(worker.ctx, NULL, NULL);
    natives_add(worker.ctx, shell, list, sizeof list / sizeof *list);
    value_set(worker.ctx, shell, "natives", worker.natives);
    value_set(worker.ctx, JSContextGetGlobalObject(worker.ctx), "__shell", shell);
}

NATIVE(rejected)
{
    report(ctx, argc > 1 ? argv[1] : JSValueMakeUndefined(ctx));
    return JSValueMakeUndefined(ctx);
}

static int run_file(const char *path)
{
    struct error err = {0};
    char *text;
    size_t len;
    if (file_slurp(AT_FDCWD, path, MAX_FILE, &text, &len, &err) < 0) {
        fprintf(stderr, "cloister-worker: %s\n", err.message);
        return -1;
    }
    JSValueRef exception = NULL, source_value = value_text_n(worker.ctx, (const uint8_t *)text, len);
    free(text);
    JSStringRef source = JSValueToStringCopy(worker.ctx, source_value, NULL),
                name = JSStringCreateWithUTF8CString(path);
    JSEvaluateScript(worker.ctx, source, NULL, name, 1, &exception);
    JSStringRelease(source);
    JSStringRelease(name);
    if (exception)
        report(worker.ctx, exception);
    return exception ? -1 : 0;
}

static bool run_timers(void)
{
    uint32_t id, owner;
    bool ran = false;
    uint64_t mark = timers_mark(&worker.timers), now = clock_monotonic_ns();
    while (timers_take(&worker.timers, now, mark, &id, &owner)) {
        JSValueRef argument = JSValueMakeNumber(worker.ctx, id);
        if (!engine_enter(DISPATCH_TIMER, owner, 1, &argument))
            exit_status = 1;
        ran = true;
    }
    return ran;
}

/* Waits for the engine's own work at most until `until`. */
static bool run_engine_work(uint64_t until)
{
    while (true) {
        if (g_main_context_iteration(NULL, FALSE))
            return true;
        uint64_t now = clock_monotonic_ns();
        if (now >= until)
            return false;
        uint64_t step = until - now < 1000000 ? until - now : 1000000;
        g_usleep(step / 1000 + 1);
    }
}

static void run_loop(void)
{
    uint64_t idle_since = clock_monotonic_ns();
    while (exit_status == 0) {
        bool worked = run_timers();
        uint64_t next = timers_next(&worker.timers), now = clock_monotonic_ns();
        if (next == UINT64_MAX)
            next = idle_since + LINGER_NS;
        if (run_engine_work(next))
            worked = true;
        now = clock_monotonic_ns();
        if (worked)
            idle_since = now;
        else if (timers_next(&worker.timers) == UINT64_MAX && now - idle_since >= LINGER_NS)
            return;
    }
}

int shell_main(const char *bundle, char **files)
{
    struct error err = {0};
    worker.log = shell_log;
    if (engine_start(bundle, &err) < 0 || (engine_settle(), engine_begin(&err) < 0)) {
        fprintf(stderr, "cloister-worker: %s\n", err.message);
        return 1;
    }
    install();
    if (!worker.functions[DISPATCH_UNHANDLED_REJECTION]) {
        JSObjectRef fn = JSObjectMakeFunctionWithCallback(worker.ctx, NULL, rejected);
        JSGlobalContextSetUnhandledRejectionCallback(worker.ctx, fn, NULL);
    }
    for (; *files; files++)
        if (run_file(*files) < 0)
            return 1;
    run_loop();
    fflush(NULL);
    return exit_status;
}
