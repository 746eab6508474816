/** node:buffer: the package `buffer`, with the engine's and our own conversions of text, and what it lacks. */
import * as base from 'buffer';
import { host, nodeError } from './host.js';

const { natives, web } = host;
const { utf8Decode, utf8Encode, latin1Decode } = natives;
export const { Buffer, SlowBuffer, INSPECT_MAX_BYTES, kMaxLength } = /** @type {any} */ (base);
export const { Blob, File } = web;
export const { atob, btoa } = globalThis;
export const kStringMaxLength = 0x1fffffff;
export const constants = { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: kStringMaxLength };

const proto = Buffer.prototype;
const original = { from: Buffer.from, isEncoding: Buffer.isEncoding, byteLength: Buffer.byteLength, toString: proto.toString, write: proto.write, fill: proto.fill };
const URL_SAFE = { alphabet: 'base64url', omitPadding: true };
const bytesProto = /** @type {any} */ (Uint8Array.prototype);

/** @param {any} encoding @returns {string} "" when it is not one of those that are done here */
function canonical(encoding) {
  switch (encoding) { // what nearly everybody writes
    case undefined: case null: case '': case 'utf8': case 'utf-8': return 'utf8';
    case 'hex': case 'base64': case 'base64url': case 'latin1': return encoding;
    default: break;
  }
  switch (`${encoding}`.toLowerCase()) {
    case 'utf8': case 'utf-8': return 'utf8';
    case 'hex': return 'hex';
    case 'base64': return 'base64';
    case 'base64url': return 'base64url';
    case 'latin1': case 'binary': return 'latin1';
    default: return '';
  }
}

/** Base 64 as Node.js reads it: both alphabets, what is neither passed over, up to the padding. @param {string} text @returns {Uint8Array} */
function decodeBase64(text) {
  const end = text.indexOf('=');
  let clean = (end < 0 ? text : text.slice(0, end)).replace(/[^A-Za-z0-9+/_-]/g, '').replace(/-/g, '+').replace(/_/g, '/');
  if (clean.length % 4 === 1) clean = clean.slice(0, -1);
  return /** @type {any} */ (Uint8Array).fromBase64(clean, { lastChunkHandling: 'loose' });
}

/** @param {string} text @param {any} encoding @returns {Uint8Array|undefined} */
function encode(text, encoding) {
  const name = canonical(encoding);
  if (name === 'utf8') return new Uint8Array(utf8Encode(text));
  if (name === 'base64' || name === 'base64url') return decodeBase64(text);
  return undefined;
}

Buffer.from = function from(/** @type {any} */ value, /** @type {any} */ encodingOrOffset, /** @type {any} */ length) {
  if (typeof value === 'string') {
    const bytes = encode(value, encodingOrOffset);
    if (bytes !== undefined) return original.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }
  return original.from(value, encodingOrOffset, length);
};
Buffer.isEncoding = (/** @type {any} */ encoding) => typeof encoding === 'string' && (canonical(encoding) !== '' && encoding !== '' || original.isEncoding(encoding));
Buffer.byteLength = (/** @type {any} */ value, /** @type {any} */ encoding) => {
  if (typeof value !== 'string') return original.byteLength(value, encoding);
  const name = canonical(encoding);
  if (name === 'utf8') return utf8Encode(value).byteLength;
  if (name === 'base64url') return (value.replace(/=+$/, '').length * 3) >>> 2;
  return original.byteLength(value, encoding);
};
/** @param {any} value @param {number} otherwise @param {number} max */
const clamp = (value, otherwise, max) => {
  const number = value === undefined ? otherwise : Math.trunc(+value) || 0;
  return number < 0 ? 0 : number > max ? max : number;
};
proto.toString = function toString(/** @type {any} */ encoding, /** @type {any} */ start, /** @type {any} */ end) {
  const name = canonical(encoding);
  if (name === '') return original.toString.call(this, encoding, start, end);
  const to = clamp(end, this.length, this.length), from = clamp(start, 0, this.length);
  if (to <= from) return '';
  if (name === 'utf8') return utf8Decode(this, from, to, false);
  if (name === 'latin1') return latin1Decode(this, from, to);
  const part = new Uint8Array(this.buffer, this.byteOffset + from, to - from);
  if (name === 'hex') return bytesProto.toHex.call(part);
  return bytesProto.toBase64.call(part, name === 'base64url' ? URL_SAFE : undefined);
};
proto.toLocaleString = proto.toString;
proto.write = function write(/** @type {string} */ text, /** @type {any} */ offset, /** @type {any} */ length, /** @type {any} */ encoding) {
  const chosen = typeof offset === 'string' ? offset : typeof length === 'string' ? length : encoding;
  if (canonical(chosen) !== 'base64url' || typeof text !== 'string') return original.write.call(this, text, offset, length, encoding);
  const at = typeof offset === 'number' ? offset : 0;
  const bytes = decodeBase64(text).subarray(0, typeof length === 'number' ? length : undefined).subarray(0, Math.max(0, this.length - at));
  this.set(bytes, at);
  return bytes.length;
};
proto.fill = function fill(/** @type {any} */ value, /** @type {any} */ start, /** @type {any} */ end, /** @type {any} */ encoding) {
  const chosen = typeof start === 'string' ? start : typeof end === 'string' ? end : encoding;
  if (typeof value === 'string' && canonical(chosen) === 'base64url') {
    return original.fill.call(this, Buffer.from(value, 'base64url'), typeof start === 'number' ? start : 0, typeof end === 'number' ? end : this.length);
  }
  return original.fill.call(this, value, start, end, encoding);
};
Buffer.copyBytesFrom ??= (/** @type {any} */ view, /** @type {number} */ offset = 0, /** @type {number} */ length = view.length - offset) => {
  const part = view.slice(offset, offset + length);
  return original.from(part.buffer.slice(part.byteOffset, part.byteOffset + part.byteLength));
};

/** @param {any} input @returns {Uint8Array} */
const bytesOf = (input) => (ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input));
/** @param {any} input */
export function isUtf8(input) {
  const bytes = bytesOf(input);
  try {
    utf8Decode(bytes, 0, bytes.length, true);
    return true;
  } catch {
    return false;
  }
}
/** @param {any} input */
export const isAscii = (input) => bytesOf(input).every((byte) => byte < 128);
/** @param {any} source @param {string} from @param {string} to */
export function transcode(source, from, to) {
  for (const name of [from, to]) {
    if (!Buffer.isEncoding(name) || /^(base64(url)?|hex)$/i.test(name)) throw nodeError(Error, 'U_ILLEGAL_ARGUMENT_ERROR', `Unable to transcode Buffer [U_ILLEGAL_ARGUMENT_ERROR]`);
  }
  return Buffer.from(Buffer.from(bytesOf(source)).toString(from), to);
}
export function resolveObjectURL() { throw nodeError(Error, 'ERR_METHOD_NOT_IMPLEMENTED', 'buffer.resolveObjectURL is not implemented in a Worker'); }

export default { Buffer, SlowBuffer, INSPECT_MAX_BYTES, kMaxLength, kStringMaxLength, constants, Blob, File, atob, btoa, isUtf8, isAscii, transcode, resolveObjectURL };
