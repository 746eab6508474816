/** Blob and File. The bytes are in memory, in one piece; a slice is a view of its parent's. */
import {
  ArrayPrototypePush, MathTrunc, RegExpPrototypeExec, StringPrototypeReplaceAll, StringPrototypeToLowerCase, SymbolIterator, TypeError,
  TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeSlice, Uint8Array, iterate,
} from '../primordials.js';
import { natives } from '../natives.js';
import { concat, utf8Decode, utf8Encode } from './bytes.js';
import { bytesStream } from './streams.js';
import { finishInterface, isBufferSource, isObject, requireArguments, toClampedInteger, toDOMString, toDictionary, toUSVString, copyBytes } from './webidl.js';

const NOT_TYPE = /[^\x20-\x7e]/;
const NOTHING = new Uint8Array(0);
/** @param {any} type */
function blobType(type) {
  const text = toDOMString(type);
  return RegExpPrototypeExec(NOT_TYPE, text) !== null ? '' : StringPrototypeToLowerCase(text);
}
/** @param {string} text */
const nativeEndings = (text) => StringPrototypeReplaceAll(StringPrototypeReplaceAll(text, '\r\n', '\n'), '\r', '\n');

export class Blob {
  #bytes; #type;
  /** @param {any} [parts] @param {any} [options] */
  constructor(parts = undefined, options = undefined) {
    /** @type {any[]} */ const list = [];
    if (parts !== undefined) {
      if (!isObject(parts)) throw new TypeError('Blob: the parts are not a sequence');
      const method = parts[SymbolIterator];
      if (method === undefined || method === null) throw new TypeError('Blob: the parts are not a sequence');
      iterate(parts, (part) => ArrayPrototypePush(list, isBufferSource(part) || isBlob(part) ? part : toUSVString(part)), method);
    }
    const given = toDictionary(options, 'BlobPropertyBag');
    const { endings, type } = given;
    let native = false;
    if (endings !== undefined) {
      const text = toDOMString(endings);
      if (text !== 'transparent' && text !== 'native') throw new TypeError(`Blob: "${text}" is not a value of endings`);
      native = text === 'native';
    }
    this.#type = type === undefined ? '' : blobType(type);
    /** @type {Uint8Array[]} */ const chunks = [];
    for (let i = 0; i < list.length; i++) {
      const part = list[i];
      ArrayPrototypePush(chunks, typeof part === 'string' ? utf8Encode(native ? nativeEndings(part) : part) : isBlob(part) ? part.#bytes : copyBytes(part, 'Blob'));
    }
    this.#bytes = chunks.length === 0 ? NOTHING : concat(chunks);
  }
  get size() { return this.#bytes.length; }
  get type() { return this.#type; }
  /** @param {any} [start] @param {any} [end] @param {any} [type] */
  slice(start = 0, end = undefined, type = '') {
    const size = this.#bytes.length;
    let from = toClampedInteger(start), to = end === undefined ? size : toClampedInteger(end);
    from = from < 0 ? (size + from < 0 ? 0 : size + from) : from > size ? size : from;
    to = to < 0 ? (size + to < 0 ? 0 : size + to) : to > size ? size : to;
    const length = to > from ? to - from : 0;
    return blobOf(new Uint8Array(TypedArrayPrototypeGetBuffer(this.#bytes), TypedArrayPrototypeGetByteOffset(this.#bytes) + from, length), blobType(type));
  }
  async text() { return utf8Decode(this.#bytes); }
  async arrayBuffer() { return TypedArrayPrototypeGetBuffer(TypedArrayPrototypeSlice(this.#bytes)); }
  async bytes() { return new Uint8Array(this.#bytes); }
  stream() { return bytesStream(new Uint8Array(this.#bytes)); }

  static {
    isBlob = (value) => isObject(value) && #bytes in value;
    blobBytes = (blob) => blob.#bytes;
    setBlob = (blob, bytes, type) => { blob.#bytes = bytes; blob.#type = type; return blob; };
  }
}
/** @type {(value: any) => boolean} */ var isBlob;
/** Not to be changed. @type {(blob: any) => Uint8Array} */ var blobBytes;
/** @type {(blob: any, bytes: Uint8Array, type: string) => any} */ var setBlob;
export { isBlob, blobBytes };
finishInterface(Blob, 'Blob');

/** A Blob over bytes that nobody changes any more. @param {Uint8Array} bytes @param {string} type @returns {any} */
export const blobOf = (bytes, type) => setBlob(new Blob(), bytes, type);

export class File extends Blob {
  #name; #lastModified;
  /** @param {any} parts @param {any} name @param {any} [options] */
  constructor(parts, name, options = undefined) {
    requireArguments(arguments.length, 2, 'File constructor');
    if (!isObject(parts)) throw new TypeError('File: the parts are not a sequence');
    const label = toUSVString(name);
    super(parts, options);
    this.#name = label;
    const given = toDictionary(options, 'FilePropertyBag');
    const { lastModified } = given;
    this.#lastModified = lastModified === undefined ? natives.now() : toLong(lastModified);
  }
  get name() { return this.#name; }
  get lastModified() { return this.#lastModified; }
  get webkitRelativePath() { return ''; }
  static { isFile = (value) => isObject(value) && #name in value; }
}
/** long long, modulo. @param {any} value */
function toLong(value) {
  const number = +value;
  if (number !== number || number === Infinity || number === -Infinity) return 0;
  return MathTrunc(number) + 0;
}
/** @type {(value: any) => boolean} */ var isFile;
export { isFile };
finishInterface(File, 'File');

/** @param {Uint8Array} bytes @param {string} name @param {string} type @param {number} [lastModified] @returns {any} */
export const fileOf = (bytes, name, type, lastModified = natives.now()) => setBlob(new File(/** @type {any} */ (NO_PARTS), name, { __proto__: null, lastModified }), bytes, type);
const NO_PARTS = { __proto__: null, length: 0, [SymbolIterator]: () => ({ __proto__: null, next: () => ({ __proto__: null, done: true, value: undefined }) }) };
