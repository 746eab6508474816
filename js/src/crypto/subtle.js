/**
 * SubtleCrypto: converts arguments, checks in the order of the standard, and calls what implements the algorithm. Everything happens
 * within the call, so what a program does to its buffers afterwards makes no difference; the answer is a promise all the same.
 */
import {
  ArrayPrototypeIncludes, ArrayPrototypePush, Boolean, JSONParse, JSONStringify, TypeError, TypedArrayPrototypeGetByteLength, Uint8Array,
} from '../primordials.js';
import { natives } from '../natives.js';
import { domError, illegalConstructor } from '../web/dom_exception.js';
import { copyBytes, finishInterface, isBufferSource, requireArguments, toDOMString, viewBytes } from '../web/webidl.js';
import { aes } from './aes.js';
import { curves } from './curves.js';
import { hmac } from './hmac.js';
import { toJsonWebKey, toSequence } from './jwk.js';
import { kdf } from './kdf.js';
import { USAGES, isCryptoKey, stateOf, toCryptoKey } from './key.js';
import { HASHES, native } from './natives.js';
import { normalizeAlgorithm, toAlgorithmIdentifier } from './params.js';
import { rsa } from './rsa.js';

/** @typedef {import('./key.js').CryptoKey} CryptoKey */
/**
 * What an algorithm can do; the arguments are converted and checked, the results shown to the program as they are.
 * @typedef {{
 *   generateKey?: (algorithm: any, extractable: boolean, usages: string[]) => any,
 *   importKey: (format: string, data: any, algorithm: any, extractable: boolean, usages: string[]) => CryptoKey,
 *   exportKey?: (format: string, key: CryptoKey) => any,
 *   encrypt?: (algorithm: any, key: CryptoKey, data: Uint8Array) => ArrayBuffer,
 *   decrypt?: (algorithm: any, key: CryptoKey, data: Uint8Array) => ArrayBuffer,
 *   wrapKey?: (algorithm: any, key: CryptoKey, data: Uint8Array) => ArrayBuffer,
 *   unwrapKey?: (algorithm: any, key: CryptoKey, data: Uint8Array) => ArrayBuffer,
 *   sign?: any, verify?: any,
 *   deriveBits?: (algorithm: any, key: CryptoKey, length: number|null) => ArrayBuffer,
 *   getKeyLength?: (algorithm: any) => number|null,
 * }} Implementation
 */

/** @type {Record<string, Implementation>} */
const IMPLEMENTATIONS = /** @type {any} */ ({
  __proto__: null,
  'AES-CBC': aes, 'AES-CTR': aes, 'AES-GCM': aes, 'AES-KW': aes, HMAC: hmac, 'RSASSA-PKCS1-v1_5': rsa, 'RSA-PSS': rsa, 'RSA-OAEP': rsa,
  ECDSA: curves, ECDH: curves, Ed25519: curves, X25519: curves, HKDF: kdf, PBKDF2: kdf,
});
const FORMATS = ['raw', 'spki', 'pkcs8', 'jwk'];
const PERMIT = Symbol('permit');

/** @param {any} value @returns {string} */
function toKeyFormat(value) {
  const format = toDOMString(value);
  if (!ArrayPrototypeIncludes(FORMATS, format)) throw new TypeError(`${format} is not a key format`);
  return format;
}

/** @param {any} value @returns {string[]} */
function toUsages(value) {
  const list = toSequence(value, 'keyUsages');
  for (let i = 0; i < list.length; i++) {
    list[i] = toDOMString(list[i]);
    if (!ArrayPrototypeIncludes(USAGES, list[i])) throw new TypeError(`${list[i]} is not a key usage`);
  }
  return list;
}

/** The key must be of the algorithm and allow the usage. @param {any} algorithm @param {CryptoKey} key @param {string} usage @returns {Implementation} */
function permitted(algorithm, key, usage) {
  const state = stateOf(key);
  if (state.algorithm.name !== algorithm.name) throw domError('InvalidAccessError', `the key is of ${state.algorithm.name}, not ${algorithm.name}`);
  if (!ArrayPrototypeIncludes(state.usages, usage)) throw domError('InvalidAccessError', `the key is not for ${usage}`);
  return IMPLEMENTATIONS[algorithm.name];
}

/** @param {CryptoKey} key @returns {CryptoKey} */
function requireUsages(key) {
  const state = stateOf(key);
  if (state.type !== 'public' && state.usages.length === 0) throw domError('SyntaxError', 'the key would have no usages');
  return key;
}

/** @param {string} format @param {any} data @param {any} algorithm @param {boolean} extractable @param {string[]} usages @returns {CryptoKey} */
const importKey = (format, data, algorithm, extractable, usages) =>
  requireUsages(IMPLEMENTATIONS[algorithm.name].importKey(format, data, algorithm, extractable, usages));

/** @param {string} format @param {CryptoKey} key @returns {any} */
function exportKey(format, key) {
  const state = stateOf(key);
  const { exportKey: run } = IMPLEMENTATIONS[state.algorithm.name];
  if (run === undefined) throw domError('NotSupportedError', `keys of ${state.algorithm.name} are not exported`);
  if (!state.extractable) throw domError('InvalidAccessError', 'the key is not extractable');
  const made = run(format, key);
  if (format !== 'jwk') return made;
  made.key_ops = [];
  for (let i = 0; i < state.usages.length; i++) ArrayPrototypePush(made.key_ops, state.usages[i]);
  made.ext = true;
  return made;
}

/** @param {any} algorithm @param {string} first @param {string} second the operation that stands in for it */
function normalizeEither(algorithm, first, second) {
  try {
    return normalizeAlgorithm(algorithm, first);
  } catch {
    return normalizeAlgorithm(algorithm, second);
  }
}

/** @param {Uint8Array} bytes @returns {any} */
function parseJwk(bytes) {
  let parsed;
  try {
    parsed = JSONParse(natives.utf8Decode(bytes, 0, bytes.length, true));
  } catch {
    throw domError('DataError', 'what was unwrapped is not a JSON Web Key');
  }
  const key = toJsonWebKey(parsed);
  if (key.kty === undefined) throw domError('DataError', 'what was unwrapped is not a JSON Web Key');
  return key;
}

export class SubtleCrypto {
  #made = true;
  constructor() {
    if (arguments[0] !== PERMIT) illegalConstructor('SubtleCrypto');
  }

  /** @param {any} algorithm @param {any} key @param {any} data */
  async encrypt(algorithm, key, data) {
    this.#made;
    requireArguments(arguments.length, 3, 'SubtleCrypto.encrypt');
    const identifier = toAlgorithmIdentifier(algorithm);
    toCryptoKey(key, 'key');
    const bytes = copyBytes(data, 'data');
    const normalized = normalizeAlgorithm(identifier, 'encrypt');
    return /** @type {any} */ (permitted(normalized, key, 'encrypt').encrypt)(normalized, key, bytes);
  }
  /** @param {any} algorithm @param {any} key @param {any} data */
  async decrypt(algorithm, key, data) {
    this.#made;
    requireArguments(arguments.length, 3, 'SubtleCrypto.decrypt');
    const identifier = toAlgorithmIdentifier(algorithm);
    toCryptoKey(key, 'key');
    const bytes = copyBytes(data, 'data');
    const normalized = normalizeAlgorithm(identifier, 'decrypt');
    return /** @type {any} */ (permitted(normalized, key, 'decrypt').decrypt)(normalized, key, bytes);
  }
  /** @param {any} algorithm @param {any} key @param {any} data */
  async sign(algorithm, key, data) {
    this.#made;
    requireArguments(arguments.length, 3, 'SubtleCrypto.sign');
    const identifier = toAlgorithmIdentifier(algorithm);
    toCryptoKey(key, 'key');
    const bytes = copyBytes(data, 'data');
    const normalized = normalizeAlgorithm(identifier, 'sign');
    return permitted(normalized, key, 'sign').sign(normalized, key, bytes);
  }
  /** @param {any} algorithm @param {any} key @param {any} signature @param {any} data */
  async verify(algorithm, key, signature, data) {
    this.#made;
    requireArguments(arguments.length, 4, 'SubtleCrypto.verify');
    const identifier = toAlgorithmIdentifier(algorithm);
    toCryptoKey(key, 'key');
    const given = copyBytes(signature, 'signature'), bytes = copyBytes(data, 'data');
    const normalized = normalizeAlgorithm(identifier, 'verify');
    return permitted(normalized, key, 'verify').verify(normalized, key, given, bytes);
  }
  /** @param {any} algorithm @param {any} data */
  async digest(algorithm, data) {
    this.#made;
    requireArguments(arguments.length, 2, 'SubtleCrypto.digest');
    const identifier = toAlgorithmIdentifier(algorithm);
    const bytes = copyBytes(data, 'data');
    const { name } = normalizeAlgorithm(identifier, 'digest');
    return native((crypto) => crypto.hash(HASHES[name], bytes));
  }
  /** @param {any} algorithm @param {any} extractable @param {any} keyUsages */
  async generateKey(algorithm, extractable, keyUsages) {
    this.#made;
    requireArguments(arguments.length, 3, 'SubtleCrypto.generateKey');
    const identifier = toAlgorithmIdentifier(algorithm), usages = toUsages(keyUsages);
    const normalized = normalizeAlgorithm(identifier, 'generateKey');
    const made = /** @type {any} */ (IMPLEMENTATIONS[normalized.name].generateKey)(normalized, Boolean(extractable), usages);
    requireUsages(isCryptoKey(made) ? made : made.privateKey);
    return made;
  }
  /** @param {any} algorithm @param {any} baseKey @param {any} derivedKeyType @param {any} extractable @param {any} keyUsages */
  async deriveKey(algorithm, baseKey, derivedKeyType, extractable, keyUsages) {
    this.#made;
    requireArguments(arguments.length, 5, 'SubtleCrypto.deriveKey');
    const identifier = toAlgorithmIdentifier(algorithm);
    toCryptoKey(baseKey, 'baseKey');
    const derived = toAlgorithmIdentifier(derivedKeyType), usages = toUsages(keyUsages);
    const normalized = normalizeAlgorithm(identifier, 'deriveBits');
    const forImport = normalizeAlgorithm(derived, 'importKey'), forLength = normalizeAlgorithm(derived, 'getKeyLength');
    const { deriveBits } = permitted(normalized, baseKey, 'deriveKey');
    const length = /** @type {any} */ (IMPLEMENTATIONS[forLength.name].getKeyLength)(forLength);
    const secret = /** @type {any} */ (deriveBits)(normalized, baseKey, length);
    return importKey('raw', new Uint8Array(secret), forImport, Boolean(extractable), usages);
  }
  /** @param {any} algorithm @param {any} baseKey @param {any} [length] */
  async deriveBits(algorithm, baseKey, length = null) {
    this.#made;
    requireArguments(arguments.length, 2, 'SubtleCrypto.deriveBits');
    const identifier = toAlgorithmIdentifier(algorithm);
    toCryptoKey(baseKey, 'baseKey');
    const bits = length === null ? null : length >>> 0;
    const normalized = normalizeAlgorithm(identifier, 'deriveBits');
    return /** @type {any} */ (permitted(normalized, baseKey, 'deriveBits').deriveBits)(normalized, baseKey, bits);
  }
  /** @param {any} format @param {any} keyData @param {any} algorithm @param {any} extractable @param {any} keyUsages */
  async importKey(format, keyData, algorithm, extractable, keyUsages) {
    this.#made;
    requireArguments(arguments.length, 5, 'SubtleCrypto.importKey');
    const chosen = toKeyFormat(format);
    const isBytes = isBufferSource(keyData);
    let data = isBytes ? keyData : toJsonWebKey(keyData);
    const identifier = toAlgorithmIdentifier(algorithm), usages = toUsages(keyUsages);
    const normalized = normalizeAlgorithm(identifier, 'importKey');
    if (isBytes === (chosen === 'jwk')) throw new TypeError(`keyData is not of the type that the format ${chosen} has`);
    if (isBytes) data = copyBytes(keyData, 'keyData');
    return importKey(chosen, data, normalized, Boolean(extractable), usages);
  }
  /** @param {any} format @param {any} key */
  async exportKey(format, key) {
    this.#made;
    requireArguments(arguments.length, 2, 'SubtleCrypto.exportKey');
    return exportKey(toKeyFormat(format), toCryptoKey(key, 'key'));
  }
  /** @param {any} format @param {any} key @param {any} wrappingKey @param {any} wrapAlgorithm */
  async wrapKey(format, key, wrappingKey, wrapAlgorithm) {
    this.#made;
    requireArguments(arguments.length, 4, 'SubtleCrypto.wrapKey');
    const chosen = toKeyFormat(format);
    toCryptoKey(key, 'key');
    toCryptoKey(wrappingKey, 'wrappingKey');
    const normalized = normalizeEither(toAlgorithmIdentifier(wrapAlgorithm), 'wrapKey', 'encrypt');
    const implementation = permitted(normalized, wrappingKey, 'wrapKey');
    const exported = exportKey(chosen, key);
    const bytes = new Uint8Array(chosen === 'jwk' ? natives.utf8Encode(JSONStringify(exported)) : exported);
    return /** @type {any} */ (normalized.name === 'AES-KW' ? implementation.wrapKey : implementation.encrypt)(normalized, wrappingKey, bytes);
  }
  /** @param {any} format @param {any} wrappedKey @param {any} unwrappingKey @param {any} unwrapAlgorithm @param {any} unwrappedKeyAlgorithm @param {any} extractable @param {any} keyUsages */
  async unwrapKey(format, wrappedKey, unwrappingKey, unwrapAlgorithm, unwrappedKeyAlgorithm, extractable, keyUsages) {
    this.#made;
    requireArguments(arguments.length, 7, 'SubtleCrypto.unwrapKey');
    const chosen = toKeyFormat(format);
    const wrapped = copyBytes(wrappedKey, 'wrappedKey');
    toCryptoKey(unwrappingKey, 'unwrappingKey');
    const identifier = toAlgorithmIdentifier(unwrapAlgorithm), keyIdentifier = toAlgorithmIdentifier(unwrappedKeyAlgorithm);
    const usages = toUsages(keyUsages);
    const normalized = normalizeEither(identifier, 'unwrapKey', 'decrypt');
    const forImport = normalizeAlgorithm(keyIdentifier, 'importKey');
    const implementation = permitted(normalized, unwrappingKey, 'unwrapKey');
    const made = /** @type {any} */ (normalized.name === 'AES-KW' ? implementation.unwrapKey : implementation.decrypt)(normalized, unwrappingKey, wrapped);
    const bytes = new Uint8Array(made);
    return importKey(chosen, chosen === 'jwk' ? parseJwk(bytes) : bytes, forImport, Boolean(extractable), usages);
  }
  /** Of this platform: compares in a time that does not tell where the first difference is. @param {any} a @param {any} b @returns {boolean} */
  timingSafeEqual(a, b) {
    this.#made;
    requireArguments(arguments.length, 2, 'SubtleCrypto.timingSafeEqual');
    if (TypedArrayPrototypeGetByteLength(viewBytes(a, 'a')) !== TypedArrayPrototypeGetByteLength(viewBytes(b, 'b'))) {
      throw new TypeError('Input buffers must have the same byte length');
    }
    const first = copyBytes(a, 'a'), second = copyBytes(b, 'b');
    return native((crypto) => crypto.equal(first, second));
  }
}
finishInterface(SubtleCrypto, 'SubtleCrypto');

/** @returns {SubtleCrypto} */
export const newSubtle = () => new (/** @type {any} */ (SubtleCrypto))(PERMIT);
