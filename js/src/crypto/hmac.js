/** HMAC. */
import { StringPrototypeSlice, TypeError, TypedArrayPrototypeSlice, Uint8Array } from '../primordials.js';
import { natives } from '../natives.js';
import { domError } from '../web/dom_exception.js';
import { base64url, checkJwk, jwkBytes } from './jwk.js';
import { checkUsages, newKey, pickUsages, stateOf } from './key.js';
import { BLOCK_BITS, FORMAT, HASHES, native } from './natives.js';
import { has } from './params.js';

const SIGN = ['sign', 'verify'];
const MAX_BITS = 65536 * 8;

/** @param {any} algorithm @param {Uint8Array} bytes @param {number} bits @param {boolean} extractable @param {string[]} usages */
function keyOf(algorithm, bytes, bits, extractable, usages) {
  if (bits % 8 !== 0) bytes[bytes.length - 1] &= 0xff << (8 - (bits % 8));
  return newKey({
    type: 'secret', extractable, usages: pickUsages(usages),
    algorithm: { __proto__: null, name: 'HMAC', hash: { __proto__: null, name: algorithm.hash.name }, length: bits },
    handle: native((crypto) => crypto.secret(bytes)),
  });
}
/** @param {string} hash */
const algName = (hash) => (hash === 'SHA-1' ? 'HS1' : `HS${StringPrototypeSlice(hash, 4)}`);

/** @type {import('./subtle.js').Implementation} */
export const hmac = {
  generateKey(algorithm, extractable, usages) {
    checkUsages(usages, SIGN);
    const bits = has(algorithm, 'length') ? algorithm.length : BLOCK_BITS[algorithm.hash.name];
    if (bits === 0 || bits > MAX_BITS) throw domError('OperationError', `length must be 1 to ${MAX_BITS}`);
    const bytes = new Uint8Array((bits + 7) >>> 3);
    natives.random(bytes);
    return keyOf(algorithm, bytes, bits, extractable, usages);
  },
  importKey(format, data, algorithm, extractable, usages) {
    checkUsages(usages, SIGN);
    let bytes = data;
    if (format === 'jwk') {
      if (data.kty !== 'oct') throw domError('DataError', 'kty of the key is not "oct"');
      bytes = jwkBytes(data, 'k');
      if (data.alg !== undefined && data.alg !== algName(algorithm.hash.name)) throw domError('DataError', 'alg of the key is that of another algorithm');
      checkJwk(data, 'oct', 'sig', usages, extractable);
    } else if (format !== 'raw') {
      throw domError('NotSupportedError', `an HMAC key has no format ${format}`);
    }
    if (bytes.length === 0) throw domError('DataError', 'an HMAC key must not be empty');
    let bits = bytes.length * 8;
    if (has(algorithm, 'length')) {
      if (algorithm.length > bits || algorithm.length <= bits - 8) throw domError('DataError', 'length is not that of the key');
      bits = algorithm.length;
    }
    return keyOf(algorithm, TypedArrayPrototypeSlice(bytes), bits, extractable, usages);
  },
  exportKey(format, key) {
    const state = stateOf(key);
    const bytes = native((crypto) => crypto.keyExport(FORMAT.raw, state.handle));
    if (format === 'raw') return bytes;
    if (format === 'jwk') return { kty: 'oct', k: base64url(bytes), alg: algName(state.algorithm.hash.name) };
    throw domError('NotSupportedError', `an HMAC key has no format ${format}`);
  },
  sign(algorithm, key, data) {
    const state = stateOf(key);
    return native((crypto) => crypto.hmac(HASHES[state.algorithm.hash.name], state.handle, data));
  },
  verify(algorithm, key, signature, data) {
    const made = new Uint8Array(hmac.sign(algorithm, key, data));
    return native((crypto) => crypto.equal(made, signature));
  },
  getKeyLength(algorithm) {
    if (!has(algorithm, 'length')) return BLOCK_BITS[algorithm.hash.name];
    if (algorithm.length === 0) throw new TypeError('length must not be 0');
    return algorithm.length;
  },
};
