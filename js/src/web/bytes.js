/** Text and bytes by the C side's functions. */
import { StringPrototypeCharCodeAt, StringPrototypeSlice, TypedArrayPrototypeSet, Uint8Array } from '../primordials.js';
import { natives } from '../natives.js';

/** @param {string} text @returns {Uint8Array} */
export const utf8Encode = (text) => new Uint8Array(natives.utf8Encode(text));
/** Malformed bytes become U+FFFD; a byte order mark stays. @param {Uint8Array} bytes @returns {string} */
export const utf8DecodeKeepMark = (bytes) => natives.utf8Decode(bytes, 0, bytes.length, false);
/** @param {Uint8Array} bytes @returns {string} without a leading byte order mark */
export function utf8Decode(bytes) {
  const start = bytes.length >= 3 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  return natives.utf8Decode(bytes, start, bytes.length, false);
}
/** What UTF-8 encoding and decoding would do to a string's start. @param {string} text */
export const withoutMark = (text) => (StringPrototypeCharCodeAt(text, 0) === 0xfeff ? StringPrototypeSlice(text, 1) : text);
/** @param {Uint8Array} bytes @returns {string} one character a byte */
export const latin1Decode = (bytes) => natives.latin1Decode(bytes, 0, bytes.length);

/** @param {Uint8Array[]} chunks @param {number} [total] @returns {Uint8Array} the one chunk itself when there is only one */
export function concat(chunks, total) {
  if (chunks.length === 1) return chunks[0];
  if (total === undefined) {
    total = 0;
    for (let i = 0; i < chunks.length; i++) total += chunks[i].length;
  }
  const all = new Uint8Array(total);
  for (let i = 0, at = 0; i < chunks.length; at += chunks[i].length, i++) TypedArrayPrototypeSet(all, chunks[i], at);
  return all;
}
