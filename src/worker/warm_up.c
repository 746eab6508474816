#include "worker/warm_up.h"

#include "worker/value.h"
#include "worker/worker.h"

#include <stdlib.h>

static const char exercise[] = "(function () { class A { #x = 1; get x() { return this.#x; } } const o = { "
                               "a: [1, 2, { b: 'c' }], m: new Map([[1, 2]]) };"
                               "let s = 0; for (const v of [1, 2, 3]) s += v + new A().x; "
                               "JSON.parse(JSON.stringify(o)); `${s}`.split('').map((c) => c + c).join('');"
                               "(async () => { await null; await Promise.all([1, Promise.resolve(2)]); })(); "
                               "new Uint8Array(64).set([1]); return /a(b+)c/.exec('abbc'); })()";

/* One of the library's two steps (js/src/rehearsal.js). */
static int library_step(unsigned times, struct error *err)
{
    JSValueRef exception = NULL, argument = JSValueMakeNumber(worker.ctx, times);
    JSObjectCallAsFunction(worker.ctx, worker.functions[DISPATCH_WARM_UP], worker.dispatch, 1, &argument,
                           &exception);
    if (!exception)
        return 0;
    char *text = value_describe(worker.ctx, exception);
    error_set(err, ERROR_INTERNAL, "the library's rehearsal failed: %s", text ? text : "stopped");
    free(text);
    return -1;
}

int warm_up(unsigned times, struct error *err)
{
    JSStringRef source = JSStringCreateWithUTF8CString(exercise);
    JSEvaluateScript(worker.ctx, source, NULL, NULL, 1, NULL);
    JSStringRelease(source);
    if (!worker.functions[DISPATCH_WARM_UP])
        return 0;
    return library_step(times, err) < 0 || library_step(0, err) < 0 ? -1 : 0;
}
