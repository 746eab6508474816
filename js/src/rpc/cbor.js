/**
 * CBOR (RFC 8949) in the strict subset of src/link/cbor.h: shortest integers and lengths, definite lengths, doubles only. A writer into
 * a growing Uint8Array, and a reader of UNTRUSTED INPUT that checks every length against what is there before it allocates.
 * `encodePlain`/`decodePlain` carry the arguments and answers of the link's calls; codec.js builds structured clone on the same two.
 */
import {
  ArrayIsArray, BigInt, DataView, DataViewPrototypeGetFloat64, DataViewPrototypeSetFloat64, MathFloor, Number, NumberIsSafeInteger,
  ObjectIs, ObjectKeys, ObjectSetPrototypeOf, StringPrototypeCharCodeAt, StringPrototypeIsWellFormed, TypeError,
  TypedArrayPrototypeCopyWithin, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetLength,
  TypedArrayPrototypeGetSymbolToStringTag, TypedArrayPrototypeSet, Uint8Array, nullObject,
} from '../primordials.js';
import { natives } from '../natives.js';

export const UINT = 0, NINT = 1, BYTES = 2, TEXT = 3, ARRAY = 4, MAP = 5, TAG = 6, SIMPLE = 7;
const FALSE = 0xf4, TRUE = 0xf5, NULL = 0xf6, UNDEFINED = 0xf7, DOUBLE = 0xfb;
const TWO32 = 4294967296;
const PLAIN_DEPTH = 64;
/** From here on bytes are not copied where they can be handed on. */
export const LARGE = 1 << 20;
const SLACK = 4096;

/** A list that no change of Array.prototype reaches: index and length only. @returns {any[]} */
export function rawList() {
  return ObjectSetPrototypeOf([], null);
}

/** Bytes `from` up to `to`, not copied (subarray() would ask the array's constructor). @param {Uint8Array} bytes @param {number} from @param {number} to */
export const viewOf = (bytes, from, to) => new Uint8Array(TypedArrayPrototypeGetBuffer(bytes), TypedArrayPrototypeGetByteOffset(bytes) + from, to - from);

/** @param {Uint8Array} bytes @param {number} from @param {number} to */
export function copyOf(bytes, from, to) {
  const copy = new Uint8Array(to - from);
  TypedArrayPrototypeSet(copy, viewOf(bytes, from, to));
  return copy;
}

/** @param {number} value */
const headSize = (value) => (value < 24 ? 1 : value < 0x100 ? 2 : value < 0x10000 ? 3 : value < TWO32 ? 5 : 9);

export class Writer {
  constructor(capacity = 256) {
    this.bytes = new Uint8Array(capacity);
    this.view = new DataView(TypedArrayPrototypeGetBuffer(this.bytes));
    this.capacity = capacity;
    this.at = 0;
  }

  /** Makes room for `more` bytes. @param {number} more */
  need(more) {
    const least = this.at + more;
    if (least <= this.capacity) return;
    let { capacity } = this;
    if (least < LARGE) {
      while (capacity < least) capacity *= 2;
    } else {
      // Little more than is needed: there are several copies of a message on its way.
      capacity = MathFloor(capacity * 1.25);
      if (capacity < least + SLACK) capacity = least + SLACK;
      natives.makeRoom?.(capacity);
    }
    const bytes = new Uint8Array(capacity);
    TypedArrayPrototypeSet(bytes, viewOf(this.bytes, 0, this.at));
    this.bytes = bytes;
    this.view = new DataView(TypedArrayPrototypeGetBuffer(bytes));
    this.capacity = capacity;
  }

  /** @param {number} byte */
  byte(byte) {
    if (this.at === this.capacity) this.need(1);
    this.bytes[this.at++] = byte;
  }

  /** @param {number} major @param {number} value a whole number of at most 2^53 */
  head(major, value) {
    this.need(9);
    const bytes = this.bytes;
    const m = major << 5;
    let at = this.at;
    if (value < 24) {
      bytes[at++] = m | value;
    } else if (value < 0x100) {
      bytes[at++] = m | 24;
      bytes[at++] = value;
    } else if (value < 0x10000) {
      bytes[at++] = m | 25;
      bytes[at++] = value >>> 8;
      bytes[at++] = value & 255;
    } else {
      if (value < TWO32) {
        bytes[at++] = m | 26;
      } else {
        const high = MathFloor(value / TWO32);
        bytes[at++] = m | 27;
        bytes[at++] = high >>> 24;
        bytes[at++] = (high >>> 16) & 255;
        bytes[at++] = (high >>> 8) & 255;
        bytes[at++] = high & 255;
      }
      const low = value % TWO32 >>> 0;
      bytes[at++] = low >>> 24;
      bytes[at++] = (low >>> 16) & 255;
      bytes[at++] = (low >>> 8) & 255;
      bytes[at++] = low & 255;
    }
    this.at = at;
  }

  /** @param {number} value */
  number(value) {
    if (NumberIsSafeInteger(value) && !ObjectIs(value, -0)) {
      if (value >= 0) this.head(UINT, value);
      else this.head(NINT, -1 - value);
      return;
    }
    this.need(9);
    this.bytes[this.at] = DOUBLE;
    DataViewPrototypeSetFloat64(this.view, this.at + 1, value);
    this.at += 9;
  }

  null() { this.byte(NULL); }
  undefined() { this.byte(UNDEFINED); }
  /** @param {boolean} value */
  boolean(value) { this.byte(value ? TRUE : FALSE); }

  /**
   * @param {string} text @param {boolean} [strict] write nothing when there is a lone surrogate in it; else it becomes U+FFFD
   * @returns {boolean} whether it was written
   */
  text(text, strict = false) {
    const length = text.length;
    if (length < 48) {
      this.need(9 + length);
      const start = this.at;
      this.head(TEXT, length);
      const bytes = this.bytes;
      let at = this.at, i = 0;
      for (; i < length; i++) {
        const unit = StringPrototypeCharCodeAt(text, i);
        if (unit > 127) break;
        bytes[at++] = unit;
      }
      if (i === length) {
        this.at = at;
        return true;
      }
      this.at = start;
    }
    if (strict && !StringPrototypeIsWellFormed(text)) return false;
    // The text goes where it belongs if it is all ASCII; its head is written when its size is known.
    this.need(length + 18);
    const guess = headSize(length);
    const size = natives.utf8EncodeInto(text, viewOf(this.bytes, this.at + guess, this.capacity - 9));
    if (size < 0) {
      this.raw(TEXT, new Uint8Array(natives.utf8Encode(text)));
      return true;
    }
    const is = headSize(size);
    if (is !== guess) TypedArrayPrototypeCopyWithin(this.bytes, this.at + is, this.at + guess, this.at + guess + size);
    this.head(TEXT, size);
    this.at += size;
    return true;
  }

  /** A string of bytes with its head. @param {number} major BYTES or TEXT @param {Uint8Array} bytes */
  raw(major, bytes) {
    const size = TypedArrayPrototypeGetLength(bytes);
    this.head(major, size);
    this.append(bytes, size);
  }

  /** Bytes without a head. @param {Uint8Array} bytes @param {number} [size] */
  append(bytes, size = TypedArrayPrototypeGetLength(bytes)) {
    this.need(size);
    TypedArrayPrototypeSet(this.bytes, bytes, this.at);
    this.at += size;
  }

  /** What was written. Nothing more is, since the bytes may be the writer's own. @returns {Uint8Array} */
  take() {
    return this.at < LARGE ? copyOf(this.bytes, 0, this.at) : viewOf(this.bytes, 0, this.at);
  }
}

/** @param {string} what @returns {never} */
export function malformed(what) {
  throw new TypeError(`Malformed message: ${what}.`);
}

/** UNTRUSTED INPUT: reads one item after the other. */
export class Reader {
  /** @param {Uint8Array} bytes @param {number} [start] @param {number} [end] */
  constructor(bytes, start = 0, end = TypedArrayPrototypeGetLength(bytes)) {
    this.bytes = bytes;
    this.view = new DataView(TypedArrayPrototypeGetBuffer(bytes), TypedArrayPrototypeGetByteOffset(bytes), TypedArrayPrototypeGetLength(bytes));
    this.at = start;
    this.end = end;
    /** The last head: its major type and its argument (for SIMPLE the initial byte). */
    this.major = 0;
    this.value = 0;
    this.number = 0;
  }

  /** Reads a head into major, value (and number, for a double). */
  next() {
    const bytes = this.bytes;
    let at = this.at;
    if (at >= this.end) malformed('it ends early');
    const first = bytes[at++];
    const major = first >> 5, info = first & 31;
    this.major = major;
    if (major === SIMPLE) {
      this.value = first;
      if (first === DOUBLE) {
        if (this.end - at < 8) malformed('it ends early');
        this.number = DataViewPrototypeGetFloat64(this.view, at);
        at += 8;
      } else if (info > 23) {
        malformed('a float that is no double, or a reserved value');
      }
      this.at = at;
      return;
    }
    if (info < 24) {
      this.value = info;
      this.at = at;
      return;
    }
    if (info > 27) malformed('an indefinite or reserved length');
    const extra = 1 << (info - 24);
    if (this.end - at < extra) malformed('it ends early');
    let value = 0;
    for (let i = 0; i < extra; i++) value = value * 256 + bytes[at++];
    if (value < (extra === 1 ? 24 : extra === 2 ? 0x100 : extra === 4 ? 0x10000 : TWO32)) malformed('a length or number that is not in its shortest form');
    this.value = value;
    this.at = at;
  }

  /** The count of bytes of a string whose head was just read, checked. @returns {number} */
  size() {
    if (this.value > this.end - this.at) malformed('a string longer than the message');
    return this.value;
  }

  /** The text whose head was just read. @returns {string} */
  text() {
    const size = this.size();
    const start = this.at;
    this.at += size;
    if (size === 0) return '';
    return natives.utf8Decode(this.bytes, start, this.at, true);
  }

  /** A copy of the bytes whose head was just read. @returns {Uint8Array} */
  copy() {
    const size = this.size();
    const start = this.at;
    this.at += size;
    return copyOf(this.bytes, start, this.at);
  }

  /** @returns {number} a whole number of at most 2^53 - 1 */
  readUint() {
    this.next();
    if (this.major !== UINT || !NumberIsSafeInteger(this.value)) malformed('a number was expected');
    return this.value;
  }

  /** @returns {string} */
  readText() {
    this.next();
    if (this.major !== TEXT) malformed('text was expected');
    return this.text();
  }

  /** @param {number} most @returns {number} the count */
  readArray(most) {
    this.next();
    if (this.major !== ARRAY || this.value > most || this.value > this.end - this.at) malformed('a list was expected');
    return this.value;
  }

  /** @returns {boolean} */
  readBoolean() {
    this.next();
    if (this.major !== SIMPLE || (this.value !== TRUE && this.value !== FALSE)) malformed('true or false was expected');
    return this.value === TRUE;
  }

  atEnd() {
    return this.at === this.end;
  }
}

// --- the link's calls: null, booleans, numbers, text, bytes, lists, and maps with text keys

/** @param {Writer} w @param {any} value */
function writePlain(w, value) {
  switch (typeof value) {
    case 'string': w.text(value); return;
    case 'number': w.number(value); return;
    case 'boolean': w.boolean(value); return;
    case 'undefined': w.undefined(); return;
    case 'bigint': {
      // 64 bits, as SQLite has them.
      const negative = value < 0n;
      const magnitude = negative ? -1n - value : value;
      if (magnitude >= 1n << 63n) throw new TypeError('An integer of at most 64 bits was expected.');
      const high = Number(magnitude >> 32n), low = Number(magnitude & 0xffffffffn);
      w.head(negative ? NINT : UINT, high === 0 ? low : high < 0x200000 ? high * TWO32 + low : 0);
      if (high >= 0x200000) {
        w.at--;
        w.byte((negative ? NINT : UINT) << 5 | 27);
        for (let shift = 24; shift >= 0; shift -= 8) w.byte((high >>> shift) & 255);
        for (let shift = 24; shift >= 0; shift -= 8) w.byte((low >>> shift) & 255);
      }
      return;
    }
    case 'object': break;
    default: throw new TypeError(`A ${typeof value} cannot cross the link.`);
  }
  if (value === null) {
    w.null();
  } else if (ArrayIsArray(value)) {
    w.head(ARRAY, value.length);
    for (let i = 0; i < value.length; i++) writePlain(w, value[i]);
  } else if (TypedArrayPrototypeGetSymbolToStringTag(value) === 'Uint8Array') {
    w.raw(BYTES, value);
  } else {
    const keys = ObjectKeys(value);
    let count = 0;
    for (let i = 0; i < keys.length; i++) if (value[keys[i]] !== undefined) count++;
    w.head(MAP, count);
    for (let i = 0; i < keys.length; i++) {
      const item = value[keys[i]];
      if (item === undefined) continue;
      w.text(keys[i]);
      writePlain(w, item);
    }
  }
}

/** Keys whose value is undefined are left out of maps. @param {any} value @returns {Uint8Array} */
export function encodePlain(value) {
  const w = new Writer();
  writePlain(w, value);
  return w.take();
}

/** @param {Reader} r @param {number} depth @returns {any} */
function readPlain(r, depth) {
  if (depth > PLAIN_DEPTH) malformed('it is nested too deeply');
  r.next();
  switch (r.major) {
    case UINT: return r.value;
    case NINT: return -1 - r.value;
    case BYTES: return r.copy();
    case TEXT: return r.text();
    case ARRAY: {
      const count = r.value;
      if (count > r.end - r.at) malformed('a list longer than the message');
      /** @type {any[]} */ const list = [];
      ObjectSetPrototypeOf(list, null);
      for (let i = 0; i < count; i++) list[i] = readPlain(r, depth + 1);
      return list;
    }
    case MAP: {
      const count = r.value;
      if (count > (r.end - r.at) / 2) malformed('a map longer than the message');
      const map = nullObject();
      for (let i = 0; i < count; i++) {
        const key = r.readText();
        if (key in map) malformed('a key occurs twice');
        map[key] = readPlain(r, depth + 1);
      }
      return map;
    }
    case TAG: return readPlain(r, depth + 1); // a capability: its number
    default:
      switch (r.value) {
        case FALSE: return false;
        case TRUE: return true;
        case NULL: return null;
        case UNDEFINED: return undefined;
        case DOUBLE: return r.number;
        default: return malformed('an unknown simple value');
      }
  }
}

/**
 * Lists come with a null prototype (use an index), maps as objects with a null prototype, bytes as Uint8Array. Integers beyond 2^53
 * are rounded to the nearest number.
 * @param {ArrayBuffer|Uint8Array} bytes @returns {any}
 */
export function decodePlain(bytes) {
  const r = new Reader(TypedArrayPrototypeGetSymbolToStringTag(bytes) === undefined ? new Uint8Array(bytes) : /** @type {any} */ (bytes));
  const value = readPlain(r, 0);
  if (!r.atEnd()) malformed('something follows it');
  return value;
}
