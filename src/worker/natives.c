#include "worker/natives.h"

#include "worker/value.h"

void natives_add(JSContextRef ctx, JSObjectRef to, const struct native *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        JSStringRef name = JSStringCreateWithUTF8CString(list[i].name);
        JSObjectRef function = JSObjectMakeFunctionWithCallback(ctx, name, list[i].fn);
        JSStringRelease(name);
        value_set(ctx, to, list[i].name, function);
    }
}
