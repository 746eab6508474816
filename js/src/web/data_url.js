/** data: addresses, by the Fetch standard. */
import { RegExpPrototypeExec, StringFromCharCode, StringPrototypeIndexOf, StringPrototypeReplaceAll, StringPrototypeSlice, TypeError, TypedArrayPrototypeSubarray, Uint8Array, parseInt, promiseReject, promiseResolve } from '../primordials.js';
import { natives } from '../natives.js';
import { latin1Decode, utf8Encode } from './bytes.js';
import { parseMime, serializeMime } from './mime.js';
import { responseFromWire } from './response.js';

const HEX = /^[0-9A-Fa-f]{2}$/;
const BASE64 = /;[ ]*base64$/i;

/** @param {string} text @returns {Uint8Array} */
function percentDecode(text) {
  const bytes = utf8Encode(text);
  let to = 0;
  for (let i = 0; i < bytes.length; i++) {
    let byte = bytes[i];
    if (byte === 0x25 && i + 2 < bytes.length) {
      const digits = StringFromCharCode(bytes[i + 1], bytes[i + 2]);
      if (RegExpPrototypeExec(HEX, digits) !== null) { byte = parseInt(digits, 16); i += 2; }
    }
    bytes[to++] = byte;
  }
  return TypedArrayPrototypeSubarray(bytes, 0, to);
}

/** @param {string} url @param {{method: string}} request @returns {Promise<any>} a Response */
export function fetchData(url, request) {
  try {
    const hash = StringPrototypeIndexOf(url, '#');
    const text = StringPrototypeSlice(url, 5, hash < 0 ? undefined : hash);
    const comma = StringPrototypeIndexOf(text, ',');
    if (comma < 0) throw new TypeError('fetch: a data: address without a comma');
    let type = /** @type {any} */ (RegExpPrototypeExec(/^[\t\n\f\r ]*([^]*?)[\t\n\f\r ]*$/, StringPrototypeSlice(text, 0, comma)))[1];
    let bytes = percentDecode(StringPrototypeSlice(text, comma + 1));
    if (RegExpPrototypeExec(BASE64, type) !== null) {
      bytes = new Uint8Array(natives.base64Decode(latin1Decode(bytes)));
      type = StringPrototypeSlice(type, 0, type.length - /** @type {any} */ (RegExpPrototypeExec(BASE64, type))[0].length);
    }
    if (type[0] === ';') type = `text/plain${type}`;
    const mime = parseMime(type);
    const value = mime === null ? 'text/plain;charset=US-ASCII' : serializeMime(mime);
    return promiseResolve(responseFromWire(200, 'OK', `content-type\n${StringPrototypeReplaceAll(value, '\n', '')}`, request.method === 'HEAD' ? null : bytes, url, { mutable: false }));
  } catch (error) {
    return promiseReject(error);
  }
}
