/**
 * What packages expect to find as globals while the bundle is evaluated: the build replaces their free names by these
 * (`inject` in js/build.mjs). Our own code imports what it uses.
 */
export { TextDecoder, TextEncoder } from './encoding.js';
export { AbortController } from './abort.js';
export { DOMException } from './dom_exception.js';
export { URL } from './url.js';
