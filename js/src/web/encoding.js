/**
 * TextEncoder, TextDecoder, their streams, atob and btoa. UTF-8 is the C side's; the other encodings of the standard are
 * @exodus/bytes'.
 */
import { TextDecoder as OtherDecoder, labelToName } from '@exodus/bytes/encoding.js';
import {
  RangeError, StringPrototypeCharCodeAt, StringPrototypeSlice, StringPrototypeToLowerCase, TypeError,
  TypedArrayPrototypeGetByteLength, TypedArrayPrototypeSet, TypedArrayPrototypeSubarray, Uint8Array, uncurryThis,
} from '../primordials.js';
import { natives } from '../natives.js';
import { domError } from './dom_exception.js';
import { TransformStream, TransformStreamDefaultController } from './streams.js';
import { finishInterface, isUint8Array, requireArguments, toDOMString, toDictionary, viewBytes } from './webidl.js';

export class TextEncoder {
  #brand = 0;
  get encoding() { void this.#brand; return 'utf-8'; }
  /** @param {any} [text] */
  encode(text = '') {
    void this.#brand;
    return new Uint8Array(natives.utf8Encode(typeof text === 'string' ? text : `${text}`));
  }
  /** @param {any} text @param {any} to */
  encodeInto(text, to) {
    void this.#brand;
    requireArguments(arguments.length, 2, 'TextEncoder.encodeInto');
    const source = typeof text === 'string' ? text : `${text}`;
    if (!isUint8Array(to)) throw new TypeError('TextEncoder.encodeInto: the target is not a Uint8Array');
    const room = TypedArrayPrototypeGetByteLength(to);
    if (room === 0) return { read: 0, written: 0 };
    if (source.length * 3 <= room) return { read: source.length, written: natives.utf8EncodeInto(source, to) };
    let read = 0, written = 0;
    while (read < source.length) {
      const code = StringPrototypeCharCodeAt(source, read);
      let size = code < 0x80 ? 1 : code < 0x800 ? 2 : 3, units = 1;
      if (code >= 0xd800 && code < 0xdc00 && read + 1 < source.length) {
        const next = StringPrototypeCharCodeAt(source, read + 1);
        if (next >= 0xdc00 && next < 0xe000) { size = 4; units = 2; }
      }
      if (written + size > room) break;
      read += units;
      written += size;
    }
    TypedArrayPrototypeSet(to, new Uint8Array(natives.utf8Encode(StringPrototypeSlice(source, 0, read))));
    return { read, written };
  }
}
finishInterface(TextEncoder, 'TextEncoder');

const NOTHING = new Uint8Array(0);

/** The length of the start of a sequence at the end of `bytes` that may still become a character. @param {Uint8Array} bytes */
function unfinished(bytes) {
  const { length } = bytes;
  for (let back = 1; back <= 3 && back <= length; back++) {
    const byte = bytes[length - back];
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) {
      const needed = byte >= 0xf0 ? (byte <= 0xf4 ? 4 : 0) : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 0;
      if (needed <= back) return 0;
      if (back >= 2) { // the second byte narrows what the first began
        const second = bytes[length - back + 1];
        if ((byte === 0xe0 && second < 0xa0) || (byte === 0xed && second > 0x9f) || (byte === 0xf0 && second < 0x90) || (byte === 0xf4 && second > 0x8f)) return 0;
      }
      return back;
    }
  }
  return 0;
}

export class TextDecoder {
  #name; #fatal; #keepMark;
  /** The decoder of another encoding. @type {any} */ #other = null;
  /** Bytes of a character that is not complete yet. */ #rest = NOTHING;
  #started = false; // past the place of a byte order mark

  /** @param {any} [label] @param {any} [options] */
  constructor(label = 'utf-8', options = undefined) {
    const text = toDOMString(label);
    const given = toDictionary(options, 'TextDecoderOptions');
    const fatal = !!given.fatal, ignoreBOM = !!given.ignoreBOM;
    let name = 'utf-8';
    if (text !== 'utf-8' && text !== 'utf8') {
      const known = labelToName(text);
      if (known === null || known === 'replacement') throw new RangeError(`"${StringPrototypeSlice(text, 0, 64)}" is not an encoding`);
      name = StringPrototypeToLowerCase(known);
    }
    this.#name = name;
    this.#fatal = fatal;
    this.#keepMark = ignoreBOM;
    if (name !== 'utf-8') this.#other = new OtherDecoder(name, { fatal, ignoreBOM });
  }
  get encoding() { return this.#name; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#keepMark; }

  /** @param {any} [input] @param {any} [options] */
  decode(input = undefined, options = undefined) {
    void this.#name;
    let bytes = input === undefined ? NOTHING : input instanceof ArrayBufferShared ? new Uint8Array(input) : viewBytes(input, 'TextDecoder.decode: the input');
    const stream = options === undefined || options === null ? false : !!toDictionary(options, 'TextDecodeOptions').stream;
    if (this.#other !== null) return otherDecode(this.#other, bytes, { stream });
    if (this.#rest.length > 0) {
      const joined = new Uint8Array(this.#rest.length + bytes.length);
      TypedArrayPrototypeSet(joined, this.#rest);
      TypedArrayPrototypeSet(joined, bytes, this.#rest.length);
      bytes = joined;
      this.#rest = NOTHING;
    }
    let end = bytes.length;
    if (stream) {
      end -= unfinished(bytes);
      if (end < bytes.length) this.#rest = new Uint8Array(TypedArrayPrototypeSubarray(bytes, end));
    }
    let start = 0;
    if (!this.#started && !this.#keepMark && end >= 3 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) start = 3;
    if (!stream) this.#started = false;
    else if (end > 0) this.#started = true;
    if (start === end) return '';
    try {
      return natives.utf8Decode(bytes, start, end, this.#fatal);
    } catch (error) {
      this.#rest = NOTHING;
      this.#started = false;
      throw error;
    }
  }
}
const otherDecode = uncurryThis(OtherDecoder.prototype.decode);
class None {}
const ArrayBufferShared = /** @type {any} */ (globalThis).SharedArrayBuffer ?? None;
finishInterface(TextDecoder, 'TextDecoder');

const enqueue = uncurryThis(TransformStreamDefaultController.prototype.enqueue);
const getReadable = uncurryThis(/** @type {any} */ (Object.getOwnPropertyDescriptor(TransformStream.prototype, 'readable')).get);
const getWritable = uncurryThis(/** @type {any} */ (Object.getOwnPropertyDescriptor(TransformStream.prototype, 'writable')).get);

export class TextEncoderStream {
  #transform;
  constructor() {
    let lead = ''; // the first half of a surrogate pair that the chunk ended with
    this.#transform = new TransformStream(/** @type {any} */ ({
      __proto__: null,
      transform(/** @type {any} */ chunk, /** @type {any} */ controller) {
        let text = lead + toDOMString(chunk);
        lead = '';
        if (text === '') return;
        const last = StringPrototypeCharCodeAt(text, text.length - 1);
        if (last >= 0xd800 && last < 0xdc00) {
          lead = StringPrototypeSlice(text, text.length - 1);
          text = StringPrototypeSlice(text, 0, text.length - 1);
        }
        if (text !== '') enqueue(controller, new Uint8Array(natives.utf8Encode(text)));
      },
      flush(/** @type {any} */ controller) {
        if (lead !== '') enqueue(controller, new Uint8Array(natives.utf8Encode(lead)));
      },
    }));
  }
  get encoding() { void this.#transform; return 'utf-8'; }
  get readable() { return getReadable(this.#transform); }
  get writable() { return getWritable(this.#transform); }
}
finishInterface(TextEncoderStream, 'TextEncoderStream');

const decode = uncurryThis(TextDecoder.prototype.decode);
export class TextDecoderStream {
  #transform; #decoder;
  /** @param {any} [label] @param {any} [options] */
  constructor(label = 'utf-8', options = undefined) {
    const decoder = new TextDecoder(label, options);
    this.#decoder = decoder;
    this.#transform = new TransformStream(/** @type {any} */ ({
      __proto__: null,
      transform(/** @type {any} */ chunk, /** @type {any} */ controller) {
        if (chunk === undefined) throw new TypeError('TextDecoderStream: a chunk is not bytes');
        const text = decode(decoder, chunk, STREAMING);
        if (text !== '') enqueue(controller, text);
      },
      flush(/** @type {any} */ controller) {
        const text = decode(decoder);
        if (text !== '') enqueue(controller, text);
      },
    }));
  }
  get encoding() { return this.#decoder.encoding; }
  get fatal() { return this.#decoder.fatal; }
  get ignoreBOM() { return this.#decoder.ignoreBOM; }
  get readable() { return getReadable(this.#transform); }
  get writable() { return getWritable(this.#transform); }
}
const STREAMING = Object.freeze({ __proto__: null, stream: true });
finishInterface(TextDecoderStream, 'TextDecoderStream');

/** @param {any} text */
export function btoa(text) {
  requireArguments(arguments.length, 1, 'btoa');
  const source = toDOMString(text);
  /** @type {ArrayBuffer} */ let bytes;
  try {
    bytes = natives.latin1Encode(source);
  } catch {
    throw domError('InvalidCharacterError', 'btoa: a character is above U+00FF');
  }
  return natives.base64Encode(new Uint8Array(bytes));
}

/** @param {any} text */
export function atob(text) {
  requireArguments(arguments.length, 1, 'atob');
  const source = toDOMString(text);
  /** @type {ArrayBuffer} */ let bytes;
  try {
    bytes = natives.base64Decode(source);
  } catch {
    throw domError('InvalidCharacterError', 'atob: the text is not base64');
  }
  const view = new Uint8Array(bytes);
  return natives.latin1Decode(view, 0, view.length);
}
