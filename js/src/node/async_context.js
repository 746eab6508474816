/** The asynchronous context of now: an immutable value that code carries along (README.md). Imports nothing, see there. */
const apply = Reflect.apply;

/** @type {any} */
let current;

/** @returns {any} */
export const getContext = () => current;
/** @param {any} context */
export const setContext = (context) => { current = context; };

/** A function that runs `callback` in the context of now, whenever it is called. @param {any} callback @returns {any} */
export function bindContext(callback) {
  const context = current;
  return function (/** @type {any[]} */ ...args) {
    const before = current;
    current = context;
    try {
      return apply(callback, this, args);
    } finally {
      current = before;
    }
  };
}

/** @param {any} context @param {any} callback @param {any} self @param {any[]} args @returns {any} */
export function runInContext(context, callback, self, args) {
  const before = current;
  current = context;
  try {
    return apply(callback, self, args);
  } finally {
    current = before;
  }
}

/** Makes promises carry the context to their callbacks. @param {any} target the global object */
export function bindPromises(target) {
  const { prototype } = target.Promise;
  const original = prototype.then;
  Object.defineProperty(prototype, 'then', /** @type {any} */ ({
    __proto__: null, writable: true, enumerable: false, configurable: true,
    value: { then(/** @type {any} */ done, /** @type {any} */ failed) {
      return apply(original, this, [typeof done === 'function' ? bindContext(done) : done, typeof failed === 'function' ? bindContext(failed) : failed]);
    } }.then,
  }));
}
