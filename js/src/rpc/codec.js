/**
 * Structured clone as bytes: what crosses between workers, what Durable Object storage keeps, and structuredClone() itself.
 *
 * A value is CBOR (cbor.js) with private tags for what CBOR has no word for. Every object gets a number in the order in which it is
 * met; a second meeting is a reference to that number, so shared and cyclic values keep their shape. What cannot be copied (functions,
 * stubs, streams) is an entry of a list that travels beside the bytes, so bytes can be passed on without being understood.
 *
 * The encoder may run code of the value's owner (getters, Proxies): each property is read once, and bytes are copied before anything
 * else runs. The decoder reads UNTRUSTED INPUT: it runs nobody's code, sets no inherited setter off, trusts no length, and stops at
 * bounds of depth and of memory.
 */
import {
  Array, ArrayBuffer, ArrayBufferPrototype, ArrayBufferPrototypeGetByteLength, ArrayBufferPrototypeGetMaxByteLength,
  ArrayBufferPrototypeGetResizable, ArrayIsArray, ArrayPrototype, BigInt, BigInt64Array, BigIntPrototype, BigIntPrototypeToString,
  BigIntPrototypeValueOf, BigUint64Array, Boolean, BooleanPrototype, BooleanPrototypeValueOf, DataView, DataViewPrototype,
  DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength, DataViewPrototypeGetByteOffset, Date, DatePrototype, DatePrototypeGetTime,
  Error, ErrorPrototype, EvalError, Float32Array, Float64Array, Int16Array, Int32Array, Int8Array, Map, MapPrototype, MapPrototypeForEach,
  MapPrototypeGetSize, MapPrototypeSet, Number, NumberIsNaN, NumberPrototype, NumberPrototypeValueOf, Object, ObjectDefineProperty,
  ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf, ObjectKeys, ObjectPrototypeHasOwnProperty, ObjectSetPrototypeOf, RangeError,
  ReferenceError, RegExp, RegExpPrototype, RegExpPrototypeGetFlags, RegExpPrototypeGetSource, SafeMap, Set, SetPrototype, SetPrototypeAdd,
  SetPrototypeForEach, SetPrototypeGetSize, String, StringFromCharCode, StringPrototype, StringPrototypeCharCodeAt, StringPrototypeSlice,
  StringPrototypeValueOf, SymbolPrototype, SymbolPrototypeToString, SyntaxError, TypeError, TypedArrayPrototype,
  TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag,
  TypedArrayPrototypeSet, URIError, Uint16Array, Uint32Array, Uint8Array, Uint8ClampedArray, define, nullObject,
} from '../primordials.js';
import { natives } from '../natives.js';
import { ARRAY, BYTES, MAP, NINT, Reader, SIMPLE, TAG, TEXT, UINT, Writer, malformed, rawList, viewOf } from './cbor.js';

const ObjectPrototype = Object.prototype;

/** How deep values nest at most, in either direction. */
export const MAX_DEPTH = 500;
/** What a decoded value may take of memory, by estimate, beside its strings and bytes. */
const MAX_WEIGHT = 128 << 20;
/** Arrays from other workers may have this length whatever they hold; longer ones must hold something. */
const MAX_HOLES = 1 << 20;
/** Digits of a BigInt, in bytes. */
const MAX_BIGINT = 1 << 20;

// The tags lie in the registry's first-come range; they mean this between workers of one installation only.
const BASE = 0xc100;
const T_REF = BASE, T_CAPABILITY = BASE + 1, T_ARRAY = BASE + 2, T_MAP = BASE + 3, T_SET = BASE + 4, T_DATE = BASE + 5, T_REGEXP = BASE + 6,
  T_ERROR = BASE + 7, T_BUFFER = BASE + 8, T_RESIZABLE = BASE + 9, T_VIEW = BASE + 10, T_BOXED = BASE + 11, T_UTF16 = BASE + 12,
  T_PLATFORM = BASE + 13, T_BIGINT = 2, T_NEGATIVE_BIGINT = 3;
const FALSE = 0xf4, TRUE = 0xf5, NULL = 0xf6, UNDEFINED = 0xf7, DOUBLE = 0xfb;

const VIEWS = ObjectSetPrototypeOf([
  Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array,
  BigUint64Array, DataView, /** @type {any} */ (globalThis).Float16Array,
], null);
const VIEW_SIZES = ObjectSetPrototypeOf([1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 1, 2], null);
const VIEW_NUMBERS = {
  __proto__: null, Int8Array: 0, Uint8Array: 1, Uint8ClampedArray: 2, Int16Array: 3, Uint16Array: 4, Int32Array: 5, Uint32Array: 6,
  Float32Array: 7, Float64Array: 8, BigInt64Array: 9, BigUint64Array: 10, Float16Array: 12,
};
const DATAVIEW = 11;
const ERRORS = { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

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
 * @property {(value: any, encoder: Encoder) => void} write may write several values with encoder.value(); throws to refuse
 * @property {(decoder: Decoder) => any} read reads just those, with decoder.value(); must check what it reads
 * @property {boolean} [rpcOnly] refuses when there is no capability list
 */
/** @type {Map<object, PlatformType>} */
const platformByPrototype = new SafeMap();
/** @type {Map<number, PlatformType>} */
const platformByNumber = new SafeMap();

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
function descriptorValue(object, name) {
  const found = ObjectGetOwnPropertyDescriptor(object, name);
  return found !== undefined && ObjectPrototypeHasOwnProperty(found, 'value') ? found.value : undefined;
}

/** @param {any} value */
const refuse = (value) => dataCloneError(`Could not serialize object of type "${className(value)}". This type does not support serialization.`);

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

/** What an object with this prototype in its chain probably is; the brand decides. @type {Map<object, (encoder: Encoder, value: any) => boolean>} */
const builtins = new SafeMap();
builtins.set(TypedArrayPrototype, (encoder, value) => encoder.typedArray(value));
builtins.set(ArrayBufferPrototype, (encoder, value) => isArrayBuffer(value) && encoder.buffer(value));
builtins.set(DataViewPrototype, (encoder, value) => isDataView(value)
  && encoder.view(DATAVIEW, DataViewPrototypeGetByteOffset(value), DataViewPrototypeGetByteLength(value), DataViewPrototypeGetBuffer(value)));
builtins.set(MapPrototype, (encoder, value) => isMap(value) && encoder.map(value));
builtins.set(SetPrototype, (encoder, value) => isSet(value) && encoder.set(value));
builtins.set(DatePrototype, (encoder, value) => isDate(value) && encoder.date(value));
builtins.set(RegExpPrototype, (encoder, value) => isRegExp(value) && encoder.regExp(value));
builtins.set(ErrorPrototype, (encoder, value) => isError(value) && encoder.error(value));
builtins.set(NumberPrototype, (encoder, value) => isNumberObject(value) && encoder.boxed(NumberPrototypeValueOf(value)));
builtins.set(StringPrototype, (encoder, value) => isStringObject(value) && encoder.boxed(StringPrototypeValueOf(value)));
builtins.set(BooleanPrototype, (encoder, value) => isBooleanObject(value) && encoder.boxed(BooleanPrototypeValueOf(value)));
builtins.set(BigIntPrototype, (encoder, value) => isBigIntObject(value) && encoder.boxed(BigIntPrototypeValueOf(value)));

/** Intrinsics without an own brand above, whose instances no clone can hold. @type {Map<object, string>} */
const uncloneable = new SafeMap();
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

/**
 * @typedef {object} EncodeOptions
 * @property {{claim: (value: any) => number}|null} [capabilities] the list for what is not copied: `claim` takes a value into it and says
 *   where, or -1 when the value is none of its kind; it may throw. Without a list, functions are refused.
 * @property {boolean} [plainInstances] instances of classes are copied as plain objects (structuredClone, storage)
 * @property {boolean} [errorProperties] own properties of errors go along where they can be cloned (RPC)
 * @property {boolean} [stacks] errors keep their stack (only where the bytes come back to this worker)
 */

export class Encoder {
  /** @param {EncodeOptions} options */
  constructor(options) {
    this.writer = new Writer();
    this.memo = new SafeMap();
    this.depth = 0;
    this.capabilities = options.capabilities ?? null;
    this.plainInstances = options.plainInstances === true;
    this.errorProperties = options.errorProperties === true;
    this.stacks = options.stacks === true;
  }

  /** @param {any} value */
  value(value) {
    const w = this.writer;
    switch (typeof value) {
      case 'string': this.string(value); return;
      case 'number': w.number(value); return;
      case 'boolean': w.boolean(value); return;
      case 'undefined': w.undefined(); return;
      case 'bigint': this.bigint(value); return;
      case 'symbol': throw dataCloneError(`${SymbolPrototypeToString(value)} could not be cloned.`);
      default:
        if (value === null) w.null();
        else this.object(value);
    }
  }

  /** @param {string} value */
  string(value) {
    const w = this.writer;
    if (w.text(value, true)) return;
    const length = value.length;
    w.head(TAG, T_UTF16);
    w.head(BYTES, length * 2);
    w.need(length * 2);
    for (let i = 0; i < length; i++) {
      const unit = StringPrototypeCharCodeAt(value, i);
      w.byte(unit & 255);
      w.byte(unit >> 8);
    }
  }

  /** @param {bigint} value */
  bigint(value) {
    const w = this.writer;
    const negative = value < 0n;
    let hex = BigIntPrototypeToString(negative ? -1n - value : value, 16);
    if (hex === '0') hex = '';
    else if (hex.length & 1) hex = '0' + hex;
    w.head(TAG, negative ? T_NEGATIVE_BIGINT : T_BIGINT);
    const size = hex.length / 2;
    if (size > MAX_BIGINT) throw dataCloneError('A BigInt of this size could not be cloned.');
    w.head(BYTES, size);
    for (let i = 0; i < size; i++) w.byte(hexDigit(hex, 2 * i) << 4 | hexDigit(hex, 2 * i + 1));
  }

  /** @param {any} value an object or function */
  object(value) {
    const seen = this.memo.get(value);
    if (seen !== undefined) {
      this.writer.head(TAG, T_REF);
      this.writer.head(UINT, seen);
      return;
    }
    this.memo.set(value, this.memo.size);
    if (++this.depth > MAX_DEPTH) throw dataCloneError(`The value is nested more than ${MAX_DEPTH} levels deep and could not be cloned.`);
    this.content(value);
    this.depth--;
  }

  /** @param {any} value */
  content(value) {
    if (typeof value === 'function') {
      if (!this.claim(value)) throw dataCloneError(`${functionText(value)} could not be cloned.`);
      return;
    }
    if (natives.isProxy !== undefined && natives.isProxy(value)) {
      if (!this.claim(value)) throw dataCloneError('#<Object> could not be cloned.');
      return;
    }
    if (ArrayIsArray(value)) {
      this.array(value);
      return;
    }
    const prototype = ObjectGetPrototypeOf(value);
    if (prototype === ObjectPrototype) {
      this.plain(value);
      return;
    }
    if (this.claim(value)) return;
    for (let at = prototype, steps = 0; at !== null && steps < 64; steps++) {
      const builtin = builtins.get(at);
      if (builtin !== undefined && builtin(this, value)) return;
      const type = platformByPrototype.get(at);
      if (type !== undefined && type.test(value)) {
        if (type.rpcOnly === true && this.capabilities === null) throw refuse(value);
        this.writer.head(TAG, T_PLATFORM);
        this.writer.head(UINT, type.number);
        type.write(value, this);
        return;
      }
      const name = uncloneable.get(at);
      if (name !== undefined) throw dataCloneError(`#<${name}> could not be cloned.`);
      at = ObjectGetPrototypeOf(at);
    }
    if (!this.plainInstances) throw refuse(value);
    this.plain(value);
  }

  /** @param {any} value */
  claim(value) {
    if (this.capabilities === null) return false;
    const index = this.capabilities.claim(value);
    if (index < 0) return false;
    this.writer.head(TAG, T_CAPABILITY);
    this.writer.head(UINT, index);
    return true;
  }

  /** @param {any} value */
  plain(value) {
    const keys = ObjectKeys(value);
    const count = keys.length;
    this.writer.head(MAP, count);
    for (let i = 0; i < count; i++) {
      const key = keys[i];
      this.string(key);
      // A getter before may have removed it.
      this.value(ObjectPrototypeHasOwnProperty(value, key) ? value[key] : undefined);
    }
  }

  /** @param {any[]} value */
  array(value) {
    const length = value.length;
    const keys = ObjectKeys(value);
    const count = keys.length;
    // Indices come first and in order, so this says that every index is there and nothing else is.
    if (count === length && (length === 0 || keys[length - 1] === `${length - 1}`)) {
      this.writer.head(ARRAY, length);
      for (let i = 0; i < length; i++) this.value(value[i]);
      return true;
    }
    this.writer.head(TAG, T_ARRAY);
    this.writer.head(UINT, length);
    this.writer.head(UINT, count);
    for (let i = 0; i < count; i++) {
      const key = keys[i];
      const index = arrayIndex(key);
      if (index >= 0) this.writer.head(UINT, index);
      else this.string(key);
      this.value(ObjectPrototypeHasOwnProperty(value, key) ? value[/** @type {any} */ (key)] : undefined);
    }
    return true;
  }

  /** @param {any} value */
  map(value) {
    // Copied first: a getter of an entry may change the map.
    const list = rawList();
    let count = 0;
    MapPrototypeForEach(value, (/** @type {any} */ item, /** @type {any} */ key) => { list[count++] = key; list[count++] = item; });
    this.writer.head(TAG, T_MAP);
    this.writer.head(UINT, count / 2);
    for (let i = 0; i < count; i++) this.value(list[i]);
    return true;
  }

  /** @param {any} value */
  set(value) {
    const list = rawList();
    let count = 0;
    SetPrototypeForEach(value, (/** @type {any} */ item) => { list[count++] = item; });
    this.writer.head(TAG, T_SET);
    this.writer.head(UINT, count);
    for (let i = 0; i < count; i++) this.value(list[i]);
    return true;
  }

  /** @param {any} value */
  date(value) {
    this.writer.head(TAG, T_DATE);
    this.writer.number(DatePrototypeGetTime(value));
    return true;
  }

  /** @param {any} value */
  regExp(value) {
    this.writer.head(TAG, T_REGEXP);
    this.string(RegExpPrototypeGetSource(value));
    this.string(`${RegExpPrototypeGetFlags(value)}`);
    return true;
  }

  /** @param {any} value */
  boxed(value) {
    this.writer.head(TAG, T_BOXED);
    this.value(value);
    return true;
  }

  /** @param {any} value */
  buffer(value) {
    let bytes;
    try {
      bytes = new Uint8Array(value);
    } catch {
      throw dataCloneError('An ArrayBuffer is detached and could not be cloned.');
    }
    if (ArrayBufferPrototypeGetResizable !== undefined && ArrayBufferPrototypeGetResizable(value)) {
      this.writer.head(TAG, T_RESIZABLE);
      this.writer.head(UINT, ArrayBufferPrototypeGetMaxByteLength(value));
    } else {
      this.writer.head(TAG, T_BUFFER);
    }
    this.writer.raw(BYTES, bytes);
    return true;
  }

  /** @param {any} value */
  typedArray(value) {
    const name = TypedArrayPrototypeGetSymbolToStringTag(value);
    if (name === undefined) return false;
    const number = /** @type {any} */ (VIEW_NUMBERS)[name];
    return this.view(number, TypedArrayPrototypeGetByteOffset(value), TypedArrayPrototypeGetLength(value), TypedArrayPrototypeGetBuffer(value));
  }

  /** @param {number} number @param {number} offset in bytes @param {number} length in elements @param {any} buffer */
  view(number, offset, length, buffer) {
    this.writer.head(TAG, T_VIEW);
    this.writer.head(UINT, number);
    this.writer.head(UINT, offset);
    this.writer.head(UINT, length);
    this.value(buffer);
    return true;
  }

  /** @param {any} value */
  error(value) {
    const w = this.writer;
    const name = value.name, message = value.message;
    w.head(TAG, T_ERROR);
    if (typeof name === 'string') this.string(name);
    else w.null();
    if (typeof message === 'string') this.string(message);
    else w.null();
    const stack = this.stacks ? value.stack : null;
    if (typeof stack === 'string') this.string(stack);
    else w.null();
    const keys = rawList();
    let count = 0;
    if (this.errorProperties) {
      const own = ObjectKeys(value);
      for (let i = 0; i < own.length; i++) {
        if (own[i] !== 'name' && own[i] !== 'message' && own[i] !== 'stack' && own[i] !== 'cause') keys[count++] = own[i];
      }
    }
    if (ObjectPrototypeHasOwnProperty(value, 'cause')) keys[count++] = 'cause';
    // Whatever of these cannot be cloned stays behind: an error must arrive.
    for (let i = 0; i < count; i++) {
      const start = w.at;
      this.string(keys[i]);
      if (!this.attempt(value, keys[i])) w.at = start;
    }
    w.null();
    return true;
  }

  /** Encodes a property without capabilities, or leaves no trace of it. @param {any} of @param {string} key */
  attempt(of, key) {
    const { memo, capabilities, depth } = this;
    const start = this.writer.at, before = memo.size;
    this.capabilities = null;
    try {
      this.value(of[key]);
      return true;
    } catch {
      this.writer.at = start;
      this.depth = depth;
      const stale = rawList();
      memo.forEach((number, key) => { if (number >= before) stale[stale.length] = key; });
      for (let i = 0; i < stale.length; i++) memo.delete(stale[i]);
      return false;
    } finally {
      this.capabilities = capabilities;
    }
  }
}

/** @param {string} text @param {number} at */
function hexDigit(text, at) {
  const unit = StringPrototypeCharCodeAt(text, at);
  return unit < 58 ? unit - 48 : unit - 87;
}

/** @param {string} key @returns {number} -1: not an index of an array */
function arrayIndex(key) {
  const unit = StringPrototypeCharCodeAt(key, 0);
  if (!(unit >= 48 && unit <= 57)) return -1;
  const number = +key;
  return number < 4294967295 && `${number >>> 0}` === key ? number : -1;
}

/** @param {any} value */
function functionText(value) {
  const name = descriptorValue(value, 'name');
  return typeof name === 'string' && name !== '' ? `function ${name}() { ... }` : '() => { ... }';
}

/** @param {any} value @param {EncodeOptions} [options] @returns {Uint8Array} */
export function encode(value, options = nullObject()) {
  const encoder = new Encoder(options);
  encoder.value(value);
  return encoder.writer.take();
}

/**
 * @typedef {object} DecodeOptions
 * @property {(index: number) => any} [capability] the value for an entry of the list; throws for one that is not there
 * @property {boolean} [stacks] errors get the stack that the bytes hold (only where this worker made them)
 */

/** UNTRUSTED INPUT. */
export class Decoder {
  /** @param {Uint8Array} bytes @param {DecodeOptions} options @param {number} [start] */
  constructor(bytes, options, start = 0) {
    this.reader = new Reader(bytes, start);
    this.options = options;
    this.objects = rawList();
    this.count = 0;
    this.depth = 0;
    this.weight = 0;
  }

  /** Accounts for memory before it is taken. @param {number} bytes */
  weigh(bytes) {
    this.weight += bytes;
    if (this.weight > MAX_WEIGHT) malformed('it would take too much memory');
  }

  /** @template T @param {T} object @returns {T} */
  remember(object) {
    this.objects[this.count++] = object;
    return object;
  }

  /** @returns {any} */
  value() {
    const r = this.reader;
    r.next();
    switch (r.major) {
      case UINT: return r.value;
      case NINT: return -1 - r.value;
      case TEXT: return r.text();
      case SIMPLE:
        switch (r.value) {
          case FALSE: return false;
          case TRUE: return true;
          case NULL: return null;
          case UNDEFINED: return undefined;
          case DOUBLE: return r.number;
          default: return malformed('an unknown simple value');
        }
      case BYTES: return malformed('bytes without a meaning');
      default: {
        if (++this.depth > MAX_DEPTH) malformed('it is nested too deeply');
        const value = r.major === MAP ? this.plain(r.value) : r.major === ARRAY ? this.array(r.value) : this.tagged(r.value);
        this.depth--;
        return value;
      }
    }
  }

  /** @param {number} count of items to come @param {number} least bytes of each */
  check(count, least) {
    if (count * least > this.reader.end - this.reader.at) malformed('more items than the message has bytes');
  }

  /** @param {number} count */
  plain(count) {
    this.check(count, 2);
    this.weigh(64 + 16 * count);
    // While it has no prototype, an assignment reaches no setter, and `__proto__` is a name like others.
    const object = this.remember(nullObject());
    for (let i = 0; i < count; i++) {
      const key = this.string();
      if (key in object) malformed('a key occurs twice');
      object[key] = this.value();
    }
    return ObjectSetPrototypeOf(object, ObjectPrototype);
  }

  /** @param {number} count */
  array(count) {
    this.check(count, 1);
    this.weigh(32 + 8 * count);
    const array = /** @type {any[]} */ (this.remember(ObjectSetPrototypeOf(new Array(count), null)));
    for (let i = 0; i < count; i++) array[i] = this.value();
    return ObjectSetPrototypeOf(array, ArrayPrototype);
  }

  /** A string of either form, for places where nothing else may be. @returns {string} */
  string() {
    const r = this.reader;
    r.next();
    if (r.major === TEXT) return r.text();
    if (r.major !== TAG || r.value !== T_UTF16) malformed('text was expected');
    return this.utf16();
  }

  /** @returns {string|null} */
  stringOrNull() {
    const r = this.reader;
    if (r.at < r.end && r.bytes[r.at] === NULL) {
      r.at++;
      return null;
    }
    return this.string();
  }

  utf16() {
    const r = this.reader;
    r.next();
    if (r.major !== BYTES || r.value & 1) malformed('UTF-16 was expected');
    const size = r.size();
    const bytes = r.bytes;
    let text = '';
    for (let i = 0; i < size; i += 2) text += StringFromCharCode(bytes[r.at + i] | bytes[r.at + i + 1] << 8);
    r.at += size;
    if (isWellFormed(text)) malformed('text in the wrong form');
    return text;
  }

  /** @param {number} tag */
  tagged(tag) {
    const r = this.reader;
    switch (tag) {
      case T_REF: {
        const index = r.readUint();
        if (index >= this.count || this.objects[index] === undefined) malformed('a reference to nothing');
        return this.objects[index];
      }
      case T_CAPABILITY: {
        const at = this.count++;
        const index = r.readUint();
        if (this.options.capability === undefined) malformed('a capability where none may be');
        this.weigh(256);
        return this.objects[at] = this.options.capability(index);
      }
      case T_UTF16: return this.utf16();
      case T_BIGINT: return this.bigint();
      case T_NEGATIVE_BIGINT: return -1n - this.bigint();
      case T_ARRAY: return this.sparse();
      case T_MAP: {
        const count = r.readUint();
        this.check(count, 2);
        this.weigh(128 + 64 * count);
        const map = this.remember(new Map());
        for (let i = 0; i < count; i++) {
          const key = this.value();
          MapPrototypeSet(map, key, this.value());
        }
        return map;
      }
      case T_SET: {
        const count = r.readUint();
        this.check(count, 1);
        this.weigh(128 + 48 * count);
        const set = this.remember(new Set());
        for (let i = 0; i < count; i++) SetPrototypeAdd(set, this.value());
        return set;
      }
      case T_DATE: {
        const at = this.count++;
        this.weigh(32);
        const time = this.value();
        if (typeof time !== 'number') malformed('a date that is no number');
        return this.objects[at] = new Date(time);
      }
      case T_REGEXP: {
        const at = this.count++;
        this.weigh(512);
        const source = this.string(), flags = this.string();
        let value;
        try {
          value = new RegExp(source, flags);
        } catch {
          malformed('a regular expression that is none');
        }
        return this.objects[at] = value;
      }
      case T_BOXED: {
        const at = this.count++;
        this.weigh(32);
        const inner = this.value();
        if (inner === null || typeof inner === 'object' || typeof inner === 'undefined' || typeof inner === 'function') malformed('a boxed value that is none');
        return this.objects[at] = Object(inner);
      }
      case T_ERROR: return this.error();
      case T_BUFFER: {
        const bytes = this.bytes();
        return this.remember(bytes);
      }
      case T_RESIZABLE: return this.resizable();
      case T_VIEW: return this.view();
      case T_PLATFORM: {
        const at = this.count++;
        const type = platformByNumber.get(r.readUint());
        if (type === undefined || (type.rpcOnly === true && this.options.capability === undefined)) return malformed('an object of an unknown class');
        this.weigh(512);
        return this.objects[at] = type.read(this);
      }
      default: return malformed('an unknown tag');
    }
  }

  bigint() {
    const r = this.reader;
    r.next();
    if (r.major !== BYTES || r.value > MAX_BIGINT) malformed('a BigInt was expected');
    const size = r.size();
    if (size === 0) return 0n;
    if (r.bytes[r.at] === 0) malformed('a BigInt that is not in its shortest form');
    let hex = '0x';
    for (let i = 0; i < size; i++) {
      const byte = r.bytes[r.at + i];
      hex += DIGITS[byte >> 4] + DIGITS[byte & 15];
    }
    r.at += size;
    return BigInt(hex);
  }

  sparse() {
    const r = this.reader;
    const length = r.readUint(), count = r.readUint();
    if (length > 4294967295) malformed('an array that is too long');
    // From elsewhere: whoever walks it, or makes JSON of it, would pay for what its sender did not.
    if (this.options.capability !== undefined && length > MAX_HOLES && length / 64 > count) malformed('an array that is almost empty');
    this.check(count, 2);
    this.weigh(64 + 64 * count);
    const array = /** @type {any} */ (this.remember(ObjectSetPrototypeOf([], null)));
    array.length = length;
    for (let i = 0; i < count; i++) {
      let key;
      if (r.at < r.end && r.bytes[r.at] >> 5 === UINT) {
        key = r.readUint();
        if (key >= length) malformed('an index beyond its array');
      } else {
        key = this.string();
        if (arrayIndex(key) >= 0 || key === 'length') malformed('an index beyond its array');
      }
      if (key in array) malformed('a key occurs twice');
      array[key] = this.value();
    }
    return ObjectSetPrototypeOf(array, ArrayPrototype);
  }

  /** @returns {ArrayBuffer} a copy of the bytes that come next */
  bytes() {
    const r = this.reader;
    r.next();
    if (r.major !== BYTES) malformed('bytes were expected');
    return TypedArrayPrototypeGetBuffer(r.copy());
  }

  resizable() {
    const r = this.reader;
    const most = r.readUint();
    r.next();
    if (r.major !== BYTES) malformed('bytes were expected');
    const size = r.size();
    if (most < size) malformed('a buffer that is larger than it may become');
    // The engine may set the whole range aside.
    this.weigh(most);
    const buffer = new (/** @type {any} */ (ArrayBuffer))(size, { __proto__: null, maxByteLength: most });
    TypedArrayPrototypeSet(new Uint8Array(buffer), viewOf(r.bytes, r.at, r.at + size));
    r.at += size;
    return this.remember(buffer);
  }

  view() {
    const r = this.reader;
    const at = this.count++;
    const number = r.readUint(), offset = r.readUint(), length = r.readUint();
    const constructor = VIEWS[number];
    if (constructor === undefined) malformed('a view of an unknown kind');
    this.weigh(64);
    const buffer = this.value();
    if (buffer === null || typeof buffer !== 'object' || !isArrayBuffer(buffer)) malformed('a view of something else than a buffer');
    const size = VIEW_SIZES[number];
    if (offset % size !== 0 || offset + length * size > ArrayBufferPrototypeGetByteLength(buffer)) malformed('a view beyond its buffer');
    return this.objects[at] = new constructor(buffer, offset, length);
  }

  error() {
    const r = this.reader;
    const at = this.count++;
    this.weigh(256);
    const name = this.stringOrNull(), message = this.stringOrNull(), stack = this.stringOrNull();
    const constructor = name === null ? Error : ERRORS[/** @type {'Error'} */ (name)] ?? Error;
    const error = this.objects[at] = new constructor(message ?? undefined);
    if (name !== null && name !== error.name) define(error, 'name', name);
    // Without the stack of its maker it gets none of ours either: where it was decoded is nobody's business.
    define(error, 'stack', this.options.stacks === true && stack !== null ? stack : `${name ?? 'Error'}${message === null || message === '' ? '' : `: ${message}`}`);
    for (;;) {
      const key = this.stringOrNull();
      if (key === null) return error;
      this.weigh(32);
      if (key === 'name' || key === 'message' || key === 'stack') malformed('a property of an error that is none');
      ObjectDefineProperty(error, key, /** @type {any} */ ({ __proto__: null, value: this.value(), writable: true, configurable: true, enumerable: key !== 'cause' }));
    }
  }
}

const DIGITS = '0123456789abcdef';
/** @param {string} text */
function isWellFormed(text) {
  for (let i = 0; i < text.length; i++) {
    const unit = StringPrototypeCharCodeAt(text, i);
    if (unit < 0xd800 || unit > 0xdfff) continue;
    if (unit > 0xdbff || !((StringPrototypeCharCodeAt(text, i + 1) & 0xfc00) === 0xdc00)) return false;
    i++;
  }
  return true;
}

/** UNTRUSTED INPUT. @param {Uint8Array} bytes @param {DecodeOptions} [options] @returns {any} */
export function decode(bytes, options = nullObject()) {
  const decoder = new Decoder(bytes, options);
  const value = decoder.value();
  if (!decoder.reader.atEnd()) malformed('something follows it');
  return value;
}

/** A clone within this worker: structuredClone() without transfer. @param {any} value */
export function clone(value) {
  return decode(encode(value, CLONE), CLONE);
}
const CLONE = ObjectSetPrototypeOf({ plainInstances: true, stacks: true }, null);
