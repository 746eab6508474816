/** What a value is, without running its code: brand checks, classes of the platform that can be cloned, and those whose instances never are. */
import {
  ArrayBufferPrototypeGetByteLength, BigIntPrototypeValueOf, BooleanPrototypeValueOf, DataViewPrototypeGetBuffer, DatePrototypeGetTime,
  Error, ErrorPrototype, MapPrototypeGetSize, NumberPrototypeValueOf, Object, ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf,
  ObjectPrototypeHasOwnProperty, RegExpPrototype, RegExpPrototypeGetSource, SafeMap, SetPrototypeGetSize, StringPrototypeValueOf, define,
} from '../primordials.js';

/** @type {(message: string) => any} */
let newDataCloneError = (message) => {
  const error = new Error(message);
  define(error, 'name', 'DataCloneError');
  return error;
};

/** The Web API's DOMException comes later than this module. @param {(message: string) => any} make */
export function setDataCloneError(make) {
  newDataCloneError = make;
}

/** @param {string} message @returns {any} a DOMException "DataCloneError" */
export const dataCloneError = (message) => newDataCloneError(message);

/**
 * A class of the platform whose instances can be cloned.
 * @typedef {object} PlatformType
 * @property {number} number its number on the wire
 * @property {(value: any) => boolean} test a brand check; an object with the right prototype only is none
 * @property {(value: any, encoder: import('./codec_encoder.js').Encoder) => void} write may write several values with encoder.value(); throws to refuse
 * @property {(decoder: import('./codec_decoder.js').Decoder) => any} read reads just those, with decoder.value(); must check what it reads
 * @property {boolean} [rpcOnly] refuses when there is no capability list
 */
/** @type {Map<object, PlatformType>} */
export const platformByPrototype = new SafeMap();
/** @type {Map<number, PlatformType>} */
export const platformByNumber = new SafeMap();

/** @param {object} prototype @param {PlatformType} type */
export function registerPlatformType(prototype, type) {
  platformByPrototype.set(prototype, type);
  platformByNumber.set(type.number, type);
}

/** The name of a value's class, without running its code. @param {any} value @returns {string} */
export function className(value) {
  for (let at = value, steps = 0; at !== null && steps < 64; steps++) {
    const constructor = descriptorValue(at, 'constructor');
    if (typeof constructor === 'function') {
      const name = descriptorValue(constructor, 'name');
      if (typeof name === 'string' && name !== '') return name;
    }
    at = ObjectGetPrototypeOf(at);
  }
  return 'Object';
}

/** @param {any} object @param {string} name */
export function descriptorValue(object, name) {
  const found = ObjectGetOwnPropertyDescriptor(object, name);
  return found !== undefined && ObjectPrototypeHasOwnProperty(found, 'value') ? found.value : undefined;
}

/** @param {any} value */
export const refuse = (value) => dataCloneError(`Could not serialize object of type "${className(value)}". This type does not support serialization.`);

// Brand checks: the getter of an internal slot throws on anything else.
/** @param {(value: any) => any} get */
const brand = (get) => (/** @type {any} */ value) => {
  try {
    get(value);
    return true;
  } catch {
    return false;
  }
};
export const isMap = brand(MapPrototypeGetSize), isSet = brand(SetPrototypeGetSize), isDate = brand(DatePrototypeGetTime),
  isRegExp = brand((value) => { if (value === RegExpPrototype) throw value; RegExpPrototypeGetSource(value); }),
  isArrayBuffer = brand(ArrayBufferPrototypeGetByteLength),
  isDataView = brand(DataViewPrototypeGetBuffer), isNumberObject = brand(NumberPrototypeValueOf), isStringObject = brand(StringPrototypeValueOf),
  isBooleanObject = brand(BooleanPrototypeValueOf), isBigIntObject = brand(BigIntPrototypeValueOf);
const engineIsError = /** @type {any} */ (Error).isError;
/** @param {any} value */
export const isError = (value) => {
  if (typeof engineIsError === 'function') return engineIsError(value);
  for (let at = ObjectGetPrototypeOf(value), steps = 0; at !== null && steps < 64; steps++) {
    if (at === ErrorPrototype) return true;
    at = ObjectGetPrototypeOf(at);
  }
  return false;
};

/** Intrinsics without an own brand above, whose instances no clone can hold. @type {Map<object, string>} */
export const uncloneable = new SafeMap();
{
  const all = ['Promise', 'WeakMap', 'WeakSet', 'WeakRef', 'Symbol', 'FinalizationRegistry'];
  for (let i = 0; i < all.length; i++) {
    const constructor = /** @type {any} */ (globalThis)[all[i]];
    if (constructor !== undefined) uncloneable.set(constructor.prototype, all[i]);
  }
}

/** Instances of this class are never copied. @param {object} prototype @param {string} name */
export function markUncloneable(prototype, name) {
  uncloneable.set(prototype, name);
}
