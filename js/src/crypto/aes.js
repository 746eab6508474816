/** AES-CBC, AES-CTR, AES-GCM, AES-KW. */
import { StringPrototypeSlice, Uint8Array } from '../primordials.js';
import { natives } from '../natives.js';
import { domError } from '../web/dom_exception.js';
import { base64url, checkJwk, jwkBytes } from './jwk.js';
import { checkUsages, newKey, pickUsages, stateOf } from './key.js';
import { FORMAT, native } from './natives.js';
import { has } from './params.js';

const CIPHER = ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'];
const WRAP = ['wrapKey', 'unwrapKey'];
const NOTHING = new Uint8Array(0);
/** @param {string} name */
const usagesOf = (name) => (name === 'AES-KW' ? WRAP : CIPHER);
/** @param {number} bits */
const isLength = (bits) => bits === 128 || bits === 192 || bits === 256;

/** @param {number} bits @param {string} name @returns {string} `alg` of a JSON Web Key */
const algName = (bits, name) => `A${bits}${StringPrototypeSlice(name, 4)}`;

/** @param {any} algorithm @param {Uint8Array} bytes @param {boolean} extractable @param {string[]} usages */
const keyOf = (algorithm, bytes, extractable, usages) => newKey({
  type: 'secret', extractable, usages: pickUsages(usages),
  algorithm: { __proto__: null, name: algorithm.name, length: bytes.length * 8 },
  handle: native((crypto) => crypto.secret(bytes)),
});

/** @type {import('./subtle.js').Implementation} */
export const aes = {
  generateKey(algorithm, extractable, usages) {
    checkUsages(usages, usagesOf(algorithm.name));
    if (!isLength(algorithm.length)) throw domError('OperationError', 'length must be 128, 192 or 256');
    const bytes = new Uint8Array(algorithm.length / 8);
    natives.random(bytes);
    return keyOf(algorithm, bytes, extractable, usages);
  },
  importKey(format, data, algorithm, extractable, usages) {
    checkUsages(usages, usagesOf(algorithm.name));
    let bytes = data;
    if (format === 'jwk') {
      if (data.kty !== 'oct') throw domError('DataError', 'kty of the key is not "oct"');
      bytes = jwkBytes(data, 'k');
      if (isLength(bytes.length * 8) && data.alg !== undefined && data.alg !== algName(bytes.length * 8, algorithm.name)) {
        throw domError('DataError', 'alg of the key is that of another algorithm');
      }
      checkJwk(data, 'oct', 'enc', usages, extractable);
    } else if (format !== 'raw') {
      throw domError('NotSupportedError', `an AES key has no format ${format}`);
    }
    if (!isLength(bytes.length * 8)) throw domError('DataError', 'an AES key has 128, 192 or 256 bits');
    return keyOf(algorithm, bytes, extractable, usages);
  },
  exportKey(format, key) {
    const state = stateOf(key);
    const bytes = native((crypto) => crypto.keyExport(FORMAT.raw, state.handle));
    if (format === 'raw') return bytes;
    if (format === 'jwk') return { kty: 'oct', k: base64url(bytes), alg: algName(state.algorithm.length, state.algorithm.name) };
    throw domError('NotSupportedError', `an AES key has no format ${format}`);
  },
  encrypt: (algorithm, key, data) => cipher(true, algorithm, key, data),
  decrypt: (algorithm, key, data) => cipher(false, algorithm, key, data),
  wrapKey: (algorithm, key, data) => native((crypto) => crypto.aesKw(true, stateOf(key).handle, data)),
  unwrapKey: (algorithm, key, data) => native((crypto) => crypto.aesKw(false, stateOf(key).handle, data)),
  getKeyLength(algorithm) {
    if (!isLength(algorithm.length)) throw domError('OperationError', 'length must be 128, 192 or 256');
    return algorithm.length;
  },
};

/** @param {boolean} encrypt @param {any} algorithm @param {any} key @param {Uint8Array} data @returns {ArrayBuffer} */
function cipher(encrypt, algorithm, key, data) {
  const { handle } = stateOf(key);
  if (algorithm.name === 'AES-CBC') {
    if (algorithm.iv.length !== 16) throw domError('OperationError', 'iv must have 16 bytes');
    return native((crypto) => crypto.aesCbc(encrypt, handle, algorithm.iv, data));
  }
  if (algorithm.name === 'AES-CTR') {
    if (algorithm.counter.length !== 16) throw domError('OperationError', 'counter must have 16 bytes');
    if (algorithm.length < 1 || algorithm.length > 128) throw domError('OperationError', 'length must be 1 to 128');
    return native((crypto) => crypto.aesCtr(handle, algorithm.counter, algorithm.length, data));
  }
  const bits = has(algorithm, 'tagLength') ? algorithm.tagLength : 128;
  if (bits !== 32 && bits !== 64 && (bits < 96 || bits > 128 || bits % 8 !== 0)) {
    throw domError('OperationError', 'tagLength must be 32, 64, 96, 104, 112, 120 or 128');
  }
  if (!encrypt && data.length * 8 < bits) throw domError('OperationError', 'the data is shorter than the tag');
  return native((crypto) => crypto.aesGcm(encrypt, handle, algorithm.iv, algorithm.additionalData ?? NOTHING, bits / 8, data));
}
