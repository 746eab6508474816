/**
 * What the Web standards' interface language asks of every class: conversions of arguments, and the look of the finished
 * class (enumerable members, Symbol.toStringTag). Classes keep their state in private fields, so that a wrong receiver is a
 * TypeError by the language itself.
 */
import {
  ArrayBufferIsView, ArrayBufferPrototypeGetByteLength, DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength,
  DataViewPrototypeGetByteOffset, NumberIsFinite, MathTrunc, MathFloor, ObjectDefineProperty, ObjectGetOwnPropertyDescriptor,
  ReflectOwnKeys, RegExpPrototypeExec, StringPrototypeIsWellFormed, StringPrototypeToWellFormed, SymbolToStringTag, SymbolIterator,
  TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset,
  TypedArrayPrototypeGetSymbolToStringTag, Uint8Array, define,
} from '../primordials.js';

/** @param {number} given @param {number} needed @param {string} what */
export function requireArguments(given, needed, what) {
  if (given < needed) throw new TypeError(`${what}: ${needed} argument${needed === 1 ? '' : 's'} required, but only ${given} present`);
}

/** A string without lone surrogates. @param {any} value @returns {string} */
export function toUSVString(value) {
  const text = typeof value === 'string' ? value : `${value}`;
  return StringPrototypeIsWellFormed(text) ? text : StringPrototypeToWellFormed(text);
}

/** @param {any} value @returns {string} */
export const toDOMString = (value) => (typeof value === 'string' ? value : `${value}`);

const ABOVE_BYTE = /[^\0-\xff]/;
/** A string whose code units are bytes. @param {any} value @param {string} what @returns {string} */
export function toByteString(value, what) {
  const text = typeof value === 'string' ? value : `${value}`;
  if (RegExpPrototypeExec(ABOVE_BYTE, text) !== null) throw new TypeError(`${what}: a character is above U+00FF`);
  return text;
}

/** @param {any} value @param {string} what the dictionary's name, for the error @returns {any} undefined and null are an empty dictionary */
export function toDictionary(value, what) {
  if (value === undefined || value === null) return EMPTY;
  if (typeof value !== 'object' && typeof value !== 'function') throw new TypeError(`${what} is not an object`);
  return value;
}
/** @type {any} */
export const EMPTY = Object.freeze({ __proto__: null });

/** unsigned long with [EnforceRange]. @param {any} value @param {string} what @param {number} [max] @returns {number} */
export function toEnforcedInteger(value, what, max = 9007199254740991) {
  const number = MathTrunc(+value);
  if (!NumberIsFinite(number) || number < 0 || number > max) throw new TypeError(`${what} is out of range`);
  return number + 0;
}

/** unsigned short. @param {any} value @returns {number} */
export const toUint16 = (value) => (+value) & 0xffff;

/** long long with [Clamp]. @param {any} value @returns {number} */
export function toClampedInteger(value) {
  let number = +value;
  if (number !== number) return 0;
  if (number > 9007199254740991) return 9007199254740991;
  if (number < -9007199254740991) return -9007199254740991;
  const floor = MathFloor(number), rest = number - floor;
  number = rest < 0.5 || (rest === 0.5 && floor % 2 === 0) ? floor : floor + 1;
  return number + 0;
}

/** @param {any} value @returns {boolean} */
export const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

/** @param {any} value @returns {value is ArrayBuffer} also of another realm; not a SharedArrayBuffer */
export function isArrayBuffer(value) {
  if (typeof value !== 'object' || value === null) return false;
  try {
    ArrayBufferPrototypeGetByteLength(value);
    return true;
  } catch {
    return false;
  }
}
/** @param {any} value */
export const isBufferSource = (value) => ArrayBufferIsView(value) || isArrayBuffer(value);
/** @param {any} value @returns {boolean} */
export const isTypedArray = (value) => TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined;
/** @param {any} value @returns {boolean} */
export const isUint8Array = (value) => TypedArrayPrototypeGetSymbolToStringTag(value) === 'Uint8Array';

/** Memory that is shared (of WebAssembly) is a TypeError. @param {any} buffer */
function unshared(buffer) {
  ArrayBufferPrototypeGetByteLength(buffer);
  return buffer;
}

/** The bytes of a BufferSource, not copied. @param {any} value @param {string} what @returns {Uint8Array} */
export function viewBytes(value, what) {
  if (typeof value === 'object' && value !== null) {
    const tag = TypedArrayPrototypeGetSymbolToStringTag(value);
    if (tag !== undefined) {
      const length = TypedArrayPrototypeGetByteLength(value);
      // Empty, or detached, which counts as empty.
      return length === 0 ? new Uint8Array(0) : new Uint8Array(unshared(TypedArrayPrototypeGetBuffer(value)), TypedArrayPrototypeGetByteOffset(value), length);
    }
    if (ArrayBufferIsView(value)) {
      return new Uint8Array(unshared(DataViewPrototypeGetBuffer(value)), DataViewPrototypeGetByteOffset(value), DataViewPrototypeGetByteLength(value));
    }
    if (isArrayBuffer(value)) return ArrayBufferPrototypeGetByteLength(value) === 0 ? new Uint8Array(0) : new Uint8Array(value);
  }
  throw new TypeError(`${what} is neither an ArrayBuffer nor a view of one`);
}

/** A copy of the bytes of a BufferSource. @param {any} value @param {string} what @returns {Uint8Array} */
export const copyBytes = (value, what) => new Uint8Array(viewBytes(value, what));

/**
 * Gives a class the look of a Web interface. @param {any} Class @param {string} name the bundler may have renamed the class @param {Record<string, number>} [constants]
 * @returns {any} the class
 */
export function finishInterface(Class, name, constants) {
  enumerable(Class.prototype, 'constructor');
  enumerable(Class, 'prototype');
  ObjectDefineProperty(Class.prototype, SymbolToStringTag, /** @type {any} */ ({ __proto__: null, value: name, writable: false, enumerable: false, configurable: true }));
  if (Class.name !== name) ObjectDefineProperty(Class, 'name', /** @type {any} */ ({ __proto__: null, value: name, configurable: true }));
  if (constants !== undefined) {
    const keys = ReflectOwnKeys(constants);
    for (let i = 0; i < keys.length; i++) {
      const key = /** @type {string} */ (keys[i]);
      const descriptor = /** @type {any} */ ({ __proto__: null, value: constants[key], writable: false, enumerable: true, configurable: false });
      ObjectDefineProperty(Class, key, descriptor);
      ObjectDefineProperty(Class.prototype, key, descriptor);
    }
  }
  return Class;
}

/** @param {any} on @param {string} except */
function enumerable(on, except) {
  const keys = ReflectOwnKeys(on);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (typeof key !== 'string' || key === except || key === 'length' || key === 'name') {
      if (key !== 'name' || except !== 'constructor') continue; // `name` of a prototype is a member, of a class its own name
    }
    const descriptor = /** @type {any} */ (ObjectGetOwnPropertyDescriptor(on, key));
    if (!descriptor.configurable || descriptor.enumerable) continue;
    ObjectDefineProperty(on, key, /** @type {any} */ ({ __proto__: null, enumerable: true }));
  }
}

/**
 * entries(), keys(), values(), forEach() and Symbol.iterator of a pair iterable. `pairs(self)` gives the current list
 * [[key, value], ...] each time that a step is taken, so that changes while iterating are seen, as the standard wants.
 * @param {any} Class @param {string} name @param {(self: any) => any[][]} pairs
 */
export function pairIterable(Class, name, pairs) {
  class PairIterator {
    #of; #kind; #at = 0;
    /** @param {any} of @param {number} kind */
    constructor(of, kind) { this.#of = of; this.#kind = kind; }
    next() {
      const list = pairs(this.#of);
      if (this.#at >= list.length) return { value: undefined, done: true };
      const pair = list[this.#at++];
      return { value: this.#kind === 2 ? [pair[0], pair[1]] : pair[this.#kind], done: false };
    }
  }
  const prototype = PairIterator.prototype;
  Object.setPrototypeOf(prototype, IteratorBase);
  delete (/** @type {any} */ (prototype).constructor);
  ObjectDefineProperty(prototype, 'next', /** @type {any} */ ({ __proto__: null, enumerable: true }));
  ObjectDefineProperty(prototype, SymbolToStringTag, /** @type {any} */ ({ __proto__: null, value: `${name} Iterator`, configurable: true }));
  const methods = {
    entries() { pairs(this); return new PairIterator(this, 2); },
    keys() { pairs(this); return new PairIterator(this, 0); },
    values() { pairs(this); return new PairIterator(this, 1); },
    /** @param {any} callback @param {any} [self] */
    forEach(callback, self = undefined) {
      pairs(this);
      requireArguments(arguments.length, 1, `${name}.forEach`);
      if (typeof callback !== 'function') throw new TypeError(`${name}.forEach: the callback is not a function`);
      for (let i = 0, list = pairs(this); i < list.length; i++, list = pairs(this)) apply(callback, self, [list[i][1], list[i][0], this]);
    },
  };
  define(Class.prototype, 'entries', methods.entries);
  define(Class.prototype, 'keys', methods.keys);
  define(Class.prototype, 'values', methods.values);
  define(Class.prototype, 'forEach', methods.forEach);
  define(Class.prototype, SymbolIterator, methods.entries);
}
const apply = Reflect.apply;
const IteratorBase = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
