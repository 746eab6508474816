/**
 * What code carries along from before an `await`, a `then` or a queueMicrotask() to what follows: the request that it runs for, and the values of
 * AsyncLocalStorage (README.md). Without the first, code that awaits a promise of another request would go on in that request, which may be over.
 * Imports nothing, see there.
 */
const apply = Reflect.apply;

/** Of AsyncLocalStorage: an immutable value. @type {any} */
let store;
/** The current request stands first in it. @type {ArrayLike<number>} */
let requests = [0];
/** @type {(request: number) => void} */
let enterRequest = () => {};

/** @typedef {{request: number, store: any}} Context */
/** @param {number} request @param {any} of @returns {Context} */
const newContext = (request, of) => /** @type {any} */ ({ __proto__: null, request, store: of });
/** Most awaits in a row are in one context. */
let last = newContext(0, undefined);

/** @param {ArrayLike<number>} cell natives.requestCell @param {(request: number) => void} enter makes a request the current one; the end of one is fine */
export function setRequests(cell, enter) {
  requests = cell;
  enterRequest = enter;
}

/** An entry from C begins: its request is current already, and what is stored is that of whatever ran last. */
export function beginEntry() {
  store = undefined;
}

/** @returns {any} */
export const getStore = () => store;
/** @param {any} value */
export const setStore = (value) => { store = value; };

/** What is stored now, with one more value. @param {any} key @param {any} value @returns {any} a Map that is never changed once it is current */
export function storeWith(key, value) {
  const next = new Map(store);
  next.set(key, value);
  return next;
}

/** @returns {Context} */
export function getContext() {
  const request = requests[0];
  if (last.request !== request || last.store !== store) last = newContext(request, store);
  return last;
}

/** @param {Context} context */
export function setContext(context) {
  store = context.store;
  if (requests[0] !== context.request) enterRequest(context.request);
}

/**
 * A function that runs `callback` in the context of now, for jobs: like what follows an `await`, it leaves that context behind. There is nothing to go back to, and what
 * comes between two jobs is charged to the request that made them, not to one that happened to run before: a chain of jobs would use up that one's time.
 * @param {any} callback @returns {any}
 */
export function bindContext(callback) {
  const context = getContext();
  return function (/** @type {any[]} */ ...args) {
    setContext(context);
    return apply(callback, this, args);
  };
}

/** Runs with what is stored now alone: who calls it runs for the right request. @param {any} callback @returns {any} */
export function bindStore(callback) {
  const kept = store;
  return function (/** @type {any[]} */ ...args) {
    return runInStore(kept, callback, this, args);
  };
}

/** @param {any} value @param {any} callback @param {any} self @param {any[]} args @returns {any} */
export function runInStore(value, callback, self, args) {
  const before = store;
  store = value;
  try {
    return apply(callback, self, args);
  } finally {
    store = before;
  }
}

/** bindContext() for what `then` is given. @param {any} callback @returns {any} */
export function bindReaction(callback) {
  if (typeof callback !== 'function') return callback;
  const context = getContext();
  return (/** @type {any} */ value) => {
    setContext(context);
    return callback(value);
  };
}

/** Makes promises carry the context to their callbacks. @param {any} target the global object */
export function bindPromises(target) {
  const { prototype } = target.Promise;
  const original = prototype.then;
  Object.defineProperty(prototype, 'then', /** @type {any} */ ({
    __proto__: null, writable: true, enumerable: false, configurable: true,
    value: { then(/** @type {any} */ done, /** @type {any} */ failed) {
      return apply(original, this, [bindReaction(done), bindReaction(failed)]);
    } }.then,
  }));
}
