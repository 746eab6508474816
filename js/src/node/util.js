/** node:util; inspect and format by the package node-inspect-extracted. */
import base from './inspect_package.js';
import { deepStrictEqual } from './assert.js';
import { host, nodeError } from './host.js';
import types from './util_types.js';

export const { format, formatWithOptions, inspect, stripVTControlCharacters } = /** @type {any} */ (base);
export const { TextEncoder, TextDecoder } = host.web;
export { types };

/** @param {any} value @param {string} name @param {string} type */
function check(value, name, type) {
  if (typeof value !== type) throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be of type ${type}`);
}

const custom = Symbol.for('nodejs.util.promisify.custom');
/** @param {any} original */
export function promisify(original) {
  check(original, 'original', 'function');
  if (original[custom]) {
    check(original[custom], 'util.promisify.custom', 'function');
    return Object.defineProperty(original[custom], custom, { value: original[custom], enumerable: false, writable: false, configurable: true });
  }
  /** @param {any[]} args */
  function promisified(...args) {
    return new Promise((resolve, reject) => {
      Reflect.apply(original, this, [...args, (/** @type {any} */ error, /** @type {any} */ value) => (error ? reject(error) : resolve(value))]);
    });
  }
  Object.setPrototypeOf(promisified, Object.getPrototypeOf(original));
  Object.defineProperty(promisified, custom, { value: promisified, enumerable: false, writable: false, configurable: true });
  return Object.defineProperties(promisified, Object.getOwnPropertyDescriptors(original));
}
promisify.custom = custom;

/** @param {any} original */
export function callbackify(original) {
  check(original, 'original', 'function');
  /** @param {any[]} args */
  return function callbackified(...args) {
    const callback = args.pop();
    check(callback, 'last', 'function');
    Reflect.apply(original, this, args).then(
      (/** @type {any} */ value) => queueMicrotask(() => callback(null, value)),
      (/** @type {any} */ error) => queueMicrotask(() => {
        if (error) return callback(error);
        const wrapped = nodeError(Error, 'ERR_FALSY_VALUE_REJECTION', 'Promise was rejected with falsy value');
        wrapped.reason = error;
        return callback(wrapped);
      }),
    );
  };
}

/** @param {any} constructor @param {any} parent */
export function inherits(constructor, parent) {
  check(constructor, 'ctor', 'function');
  check(parent, 'superCtor', 'function');
  Object.defineProperty(constructor, 'super_', { value: parent, writable: true, configurable: true });
  Object.setPrototypeOf(constructor.prototype, parent.prototype);
}

/** @type {Set<string>} */ const warned = new Set();
/** @param {any} callback @param {string} message @param {string} [code] */
export function deprecate(callback, message, code) {
  let told = false;
  /** @param {any[]} args */
  function deprecated(...args) {
    if (!told && !(code !== undefined && warned.has(code))) {
      console.warn(`DeprecationWarning: ${message}`);
      if (code !== undefined) warned.add(code);
    }
    told = true;
    return new.target ? Reflect.construct(callback, args, new.target) : Reflect.apply(callback, this, args);
  }
  Object.setPrototypeOf(deprecated, callback);
  if (callback.prototype) deprecated.prototype = callback.prototype;
  return deprecated;
}

/** @param {any} a @param {any} b */
export function isDeepStrictEqual(a, b) {
  try {
    deepStrictEqual(a, b);
    return true;
  } catch {
    return false;
  }
}

/** @param {string} section */
export function debuglog(section) {
  const names = `${/** @type {any} */ (globalThis).process.env.NODE_DEBUG ?? ''}`.toUpperCase().split(',');
  const enabled = names.includes(section.toUpperCase());
  /** @param {any[]} args */
  const log = (...args) => { if (enabled) console.error(`${section.toUpperCase()} 1: ${format(...args)}`); };
  log.enabled = enabled;
  return log;
}
export { debuglog as debug };

/** @param {any} text */
export const toUSVString = (text) => /** @type {any} */ (`${text}`).toWellFormed();
/** @param {string|string[]} style @param {string} text */
export function styleText(style, text) {
  const codes = (Array.isArray(style) ? style : [style]).map((name) => {
    const pair = inspect.colors[name];
    if (pair === undefined) throw nodeError(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument 'format' is invalid. Received '${name}'`);
    return pair;
  });
  return codes.reduceRight((inner, [open, close]) => `\u001b[${open}m${inner}\u001b[${close}m`, text);
}
/** @param {any} signal @param {any} resource */
export async function aborted(signal, resource) {
  if (resource === null || typeof resource !== 'object') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "resource" argument must be of type object');
  if (signal.aborted) return undefined;
  return new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}
/** The tests of old. */
/** @param {any} value */ export const isArray = (value) => Array.isArray(value);
export const parseArgs = () => { throw nodeError(Error, 'ERR_METHOD_NOT_IMPLEMENTED', 'util.parseArgs is not implemented in a Worker'); };

export default {
  TextDecoder, TextEncoder, aborted, callbackify, debug: debuglog, debuglog, deprecate, format, formatWithOptions, inherits, inspect, isArray, isDeepStrictEqual,
  parseArgs, promisify, stripVTControlCharacters, styleText, toUSVString, types,
};
