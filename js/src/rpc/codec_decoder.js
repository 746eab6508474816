/** From bytes to values: see codec.js. UNTRUSTED INPUT. */
import {
  Array, ArrayBuffer, ArrayBufferPrototypeGetByteLength, ArrayPrototype, BigInt, Date, Error, Map, MapPrototypeSet, Object,
  ObjectDefineProperty, ObjectSetPrototypeOf, RegExp, Set, SetPrototypeAdd, StringFromCharCode, StringPrototypeCharCodeAt,
  TypedArrayPrototypeGetBuffer, TypedArrayPrototypeSet, Uint8Array, define, nullObject,
} from '../primordials.js';
import { ARRAY, BYTES, MAP, NINT, Reader, SIMPLE, TAG, TEXT, UINT, malformed, rawList, viewOf } from './cbor.js';
import {
  DOUBLE, ERRORS, FALSE, MAX_BIGINT, MAX_DEPTH, MAX_WEIGHT, NULL, TRUE, T_ARRAY, T_BIGINT, T_BOXED, T_BUFFER, T_CAPABILITY,
  T_DATE, T_ERROR, T_MAP, T_NEGATIVE_BIGINT, T_PLATFORM, T_REF, T_REGEXP, T_RESIZABLE, T_SET, T_UTF16, T_VIEW, UNDEFINED, VIEWS,
  VIEW_SIZES, arrayIndex, isAlmostEmpty,
} from './codec_format.js';
import { isArrayBuffer, platformByNumber } from './codec_kinds.js';

const ObjectPrototype = Object.prototype;

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
    if (this.options.capability !== undefined && isAlmostEmpty(length, count)) malformed('an array that is almost empty');
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
