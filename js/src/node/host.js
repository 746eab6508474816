/**
 * What the node: modules need of the library, set once by index.js before any of them is evaluated. Imports nothing (README.md).
 * @typedef {object} NodeHost
 * @property {any} natives
 * @property {any} web what installWeb returned
 * @property {any} crypto globalThis.crypto
 * @property {() => string} randomUUID
 * @property {() => Record<string, string>} env the text values of the worker's `env`
 * @property {(name: string) => any} requireFrom `require` as the module of this name has it, whether there is one or not
 * @property {(specifier: string) => any} [module] set by index.js: the registry
 */
/** @type {any} */
export let host = null;

/** @param {NodeHost} value */
export function setHost(value) { host = value; }

/** An error with a code, as Node.js has them. @param {any} Class @param {string} code @param {string} message @returns {any} */
export function nodeError(Class, code, message) {
  const error = new Class(message);
  error.code = code;
  return error;
}

/** @param {string} what @returns {(...args: any[]) => never} a function that says that it is missing */
export const missing = (what) => () => { throw nodeError(Error, 'ERR_METHOD_NOT_IMPLEMENTED', `${what} is not implemented in a Worker`); };
