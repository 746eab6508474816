/* The functions that the JavaScript library gets (js/natives.d.ts), a file for each group. */
#ifndef CLOISTER_WORKER_NATIVES_H
#define CLOISTER_WORKER_NATIVES_H

#include "worker/engine_api.h"

#include <stddef.h>

struct native {
    const char *name;
    JSObjectCallAsFunctionCallback fn;
};

/* Defines a native. Missing arguments: native_arg() gives NULL, which the functions of value.h refuse. */
#define NATIVE(name)                                                                                         \
    static JSValueRef name(JSContextRef ctx, JSObjectRef function, JSObjectRef self, size_t argc,            \
                           const JSValueRef argv[], JSValueRef *exception)
#define native_arg(n) ((n) < argc ? argv[n] : NULL)

void natives_add(JSContextRef ctx, JSObjectRef to, const struct native *list, size_t count);

/* Each adds its group to `natives`. */
void natives_text(JSContextRef ctx, JSObjectRef natives);
void natives_life(JSContextRef ctx, JSObjectRef natives);
void natives_crypto(JSContextRef ctx, JSObjectRef natives); /* natives.crypto */
void natives_zlib(JSContextRef ctx, JSObjectRef natives);   /* natives.zlib */

#endif
