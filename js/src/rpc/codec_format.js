/** What the two halves of the codec (codec.js) agree on: bounds, tags, and the kinds that go by number or name. */
import {
  BigInt64Array, BigUint64Array, DataView, Error, EvalError, Float32Array, Float64Array, Int16Array, Int32Array, Int8Array,
  ObjectSetPrototypeOf, RangeError, ReferenceError, StringPrototypeCharCodeAt, SyntaxError, TypeError, URIError, Uint16Array, Uint32Array, Uint8Array,
  Uint8ClampedArray,
} from '../primordials.js';

/** How deep values nest at most, in either direction. */
export const MAX_DEPTH = 500;
/** What a decoded value may take of memory, by estimate, beside its strings and bytes. */
export const MAX_WEIGHT = 128 << 20;
/** Arrays from other workers may have this length whatever they hold; longer ones must hold something. */
export const MAX_HOLES = 1 << 20;
/** @param {number} length @param {number} count */
export const isAlmostEmpty = (length, count) => length > MAX_HOLES && length / 64 > count;
/** Digits of a BigInt, in bytes. */
export const MAX_BIGINT = 1 << 20;

// The tags lie in the registry's first-come range; they mean this between workers of one installation only.
const BASE = 0xc100;
export const T_REF = BASE, T_CAPABILITY = BASE + 1, T_ARRAY = BASE + 2, T_MAP = BASE + 3, T_SET = BASE + 4, T_DATE = BASE + 5, T_REGEXP = BASE + 6,
  T_ERROR = BASE + 7, T_BUFFER = BASE + 8, T_RESIZABLE = BASE + 9, T_VIEW = BASE + 10, T_BOXED = BASE + 11, T_UTF16 = BASE + 12,
  T_PLATFORM = BASE + 13, T_BIGINT = 2, T_NEGATIVE_BIGINT = 3;
export const FALSE = 0xf4, TRUE = 0xf5, NULL = 0xf6, UNDEFINED = 0xf7, DOUBLE = 0xfb;

export const VIEWS = ObjectSetPrototypeOf([
  Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array,
  BigUint64Array, DataView, /** @type {any} */ (globalThis).Float16Array,
], null);
export const VIEW_SIZES = ObjectSetPrototypeOf([1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 1, 2], null);
export const VIEW_NUMBERS = {
  __proto__: null, Int8Array: 0, Uint8Array: 1, Uint8ClampedArray: 2, Int16Array: 3, Uint16Array: 4, Int32Array: 5, Uint32Array: 6,
  Float32Array: 7, Float64Array: 8, BigInt64Array: 9, BigUint64Array: 10, Float16Array: 12,
};
export const DATAVIEW = 11;
export const ERRORS = { __proto__: null, Error, EvalError, RangeError, ReferenceError, StringPrototypeCharCodeAt, SyntaxError, TypeError, URIError };

/** @param {string} key @returns {number} -1: not an index of an array */
export function arrayIndex(key) {
  const unit = StringPrototypeCharCodeAt(key, 0);
  if (!(unit >= 48 && unit <= 57)) return -1;
  const number = +key;
  return number < 4294967295 && `${number >>> 0}` === key ? number : -1;
}
