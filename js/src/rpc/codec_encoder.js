/** From values to bytes: see codec.js. It may run code of the value's owner (getters, Proxies): each property is read once. */
import {
  ArrayBuffer, ArrayBufferPrototype, ArrayBufferPrototypeGetMaxByteLength, ArrayBufferPrototypeGetResizable, ArrayIsArray, BigInt,
  BigIntPrototype, BigIntPrototypeToString, BigIntPrototypeValueOf, BooleanPrototype, BooleanPrototypeValueOf, DataViewPrototype,
  DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength, DataViewPrototypeGetByteOffset, DatePrototype, DatePrototypeGetTime,
  ErrorPrototype, MapPrototype, MapPrototypeForEach, NumberPrototype, NumberPrototypeValueOf, Object, ObjectGetPrototypeOf, ObjectKeys,
  ObjectPrototypeHasOwnProperty, RegExpPrototype, RegExpPrototypeGetFlags, RegExpPrototypeGetSource, SafeMap, SetPrototype,
  SetPrototypeForEach, StringPrototype, StringPrototypeCharCodeAt, StringPrototypeValueOf, SymbolPrototypeToString, TypedArrayPrototype,
  TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag,
  Uint8Array, nullObject,
} from '../primordials.js';
import { natives } from '../natives.js';
import { ARRAY, BYTES, MAP, TAG, UINT, Writer, rawList } from './cbor.js';
import {
  DATAVIEW, MAX_BIGINT, MAX_DEPTH, T_ARRAY, T_BIGINT, T_BOXED, T_BUFFER, T_CAPABILITY, T_DATE, T_ERROR, T_MAP, T_NEGATIVE_BIGINT,
  MAX_HOLES, T_PLATFORM, T_REF, T_REGEXP, T_RESIZABLE, T_SET, T_UTF16, T_VIEW, VIEW_NUMBERS, arrayIndex, isAlmostEmpty,
} from './codec_format.js';
import {
  dataCloneError, descriptorValue, isArrayBuffer, isBigIntObject, isBooleanObject, isDataView, isDate, isError, isMap, isNumberObject,
  isRegExp, isSet, isStringObject, platformByPrototype, refuse, uncloneable,
} from './codec_kinds.js';

const ObjectPrototype = Object.prototype;

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
    const dense = length > LONG && isDense(value, length);
    const keys = dense ? rawList() : ObjectKeys(value);
    const count = keys.length;
    // Indices come first and in order, so this says that every index is there and nothing else is.
    if (dense || (count === length && (length === 0 || keys[length - 1] === `${length - 1}`))) {
      this.writer.head(ARRAY, length);
      for (let i = 0; i < length; i++) this.value(value[i]);
      return true;
    }
    if (this.capabilities !== null && isAlmostEmpty(length, count)) {
      throw dataCloneError(`An array of length ${length} in which all but ${count} elements are missing could not be cloned: above ${MAX_HOLES}, every 64th must be there.`);
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

/** Arrays above this length are looked at without a list of their keys, which would take several times their memory. */
const LONG = 65536;
/** Whether it has every index and nothing else; a changed Array.prototype may make it look otherwise. @param {any[]} value @param {number} length */
function isDense(value, length) {
  let count = 0, last = '';
  for (last in value) if (++count > length) return false;
  return count === length && last === `${length - 1}` && ObjectPrototypeHasOwnProperty(value, last);
}

/** @param {string} text @param {number} at */
function hexDigit(text, at) {
  const unit = StringPrototypeCharCodeAt(text, at);
  return unit < 58 ? unit - 48 : unit - 87;
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
