#include "worker/warm_up.h"

#include "worker/worker.h"

static const char exercise[] = "(function () { class A { #x = 1; get x() { return this.#x; } } const o = { "
                               "a: [1, 2, { b: 'c' }], m: new Map([[1, 2]]) };"
                               "let s = 0; for (const v of [1, 2, 3]) s += v + new A().x; "
                               "JSON.parse(JSON.stringify(o)); `${s}`.split('').map((c) => c + c).join('');"
                               "(async () => { await null; await Promise.all([1, Promise.resolve(2)]); })(); "
                               "new Uint8Array(64).set([1]); return /a(b+)c/.exec('abbc'); })()";

void warm_up(void)
{
    JSStringRef source = JSStringCreateWithUTF8CString(exercise);
    JSEvaluateScript(worker.ctx, source, NULL, NULL, 1, NULL);
    JSStringRelease(source);
    /* The library's own part, where it has one: objects made and dropped. */
    if (worker.functions[DISPATCH_WARM_UP])
        JSObjectCallAsFunction(worker.ctx, worker.functions[DISPATCH_WARM_UP], worker.dispatch, 0, NULL,
                               NULL);
}
