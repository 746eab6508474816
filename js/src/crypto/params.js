/**
 * Algorithms as programs name them: which there are for which operation, and the dictionaries of their parameters ("normalizing
 * an algorithm" in the standard). What comes out shares nothing with what the program holds.
 */
import {
  ObjectPrototypeHasOwnProperty, StringPrototypeToUpperCase, TypeError, nullObject,
} from '../primordials.js';
import { domError } from '../web/dom_exception.js';
import { copyBytes, isObject, isUint8Array, toDOMString, toEnforcedInteger } from '../web/webidl.js';
import { isCryptoKey } from './key.js';

/** @typedef {{name: string, [member: string]: any}} Algorithm */
/** @typedef {[name: string, convert: (value: any, what: string) => any, required: boolean]} Member */

const bytes = copyBytes;
/** @param {any} value @param {string} what */ const octet = (value, what) => toEnforcedInteger(value, what, 0xff);
/** @param {any} value @param {string} what */ const unsignedShort = (value, what) => toEnforcedInteger(value, what, 0xffff);
/** @param {any} value @param {string} what */ const unsignedLong = (value, what) => toEnforcedInteger(value, what, 0xffffffff);
/** @param {any} value */ const text = (value) => toDOMString(value);
/** @param {any} value */ const hash = (value) => normalizeAlgorithm(value, 'hash');
/** @param {any} value @param {string} what */
function bigInteger(value, what) {
  if (!isUint8Array(value)) throw new TypeError(`${what} is not a Uint8Array`);
  return copyBytes(value, what);
}
/** @param {any} value @param {string} what */
function cryptoKey(value, what) {
  if (!isCryptoKey(value)) throw new TypeError(`${what} is not a CryptoKey`);
  return value;
}

// Members are read in the order of their names, dictionaries from the least derived on.
/** @type {Member[]} */ const none = [];
/** @type {Member[]} */ const aesCbc = [['iv', bytes, true]];
/** @type {Member[]} */ const aesCtr = [['counter', bytes, true], ['length', octet, true]];
/** @type {Member[]} */ const aesGcm = [['additionalData', bytes, false], ['iv', bytes, true], ['tagLength', unsignedLong, false]];
/** @type {Member[]} */ const aesKey = [['length', unsignedShort, true]];
/** @type {Member[]} */ const hmacKey = [['hash', hash, true], ['length', unsignedLong, false]];
/** @type {Member[]} */ const hkdf = [['hash', hash, true], ['info', bytes, true], ['salt', bytes, true]];
/** @type {Member[]} */ const pbkdf2 = [['hash', hash, true], ['iterations', unsignedLong, true], ['salt', bytes, true]];
/** @type {Member[]} */ const rsaGenerate = [['modulusLength', unsignedLong, true], ['publicExponent', bigInteger, true], ['hash', hash, true]];
/** @type {Member[]} */ const hashed = [['hash', hash, true]];
/** @type {Member[]} */ const rsaPss = [['saltLength', unsignedLong, true]];
/** @type {Member[]} */ const rsaOaep = [['label', bytes, false]];
/** @type {Member[]} */ const curve = [['namedCurve', text, true]];
/** @type {Member[]} */ const agreement = [['public', cryptoKey, true]];

/** @param {Record<string, Member[]>} byName @returns {Record<string, {name: string, members: Member[]}>} */
function table(byName) {
  const made = nullObject();
  for (const name of Object.keys(byName)) made[name.toUpperCase()] = { name, members: byName[name] };
  return made;
}
const signatures = { HMAC: none, 'RSASSA-PKCS1-v1_5': none, 'RSA-PSS': rsaPss, ECDSA: hashed, Ed25519: none };
const ciphers = { 'AES-CBC': aesCbc, 'AES-CTR': aesCtr, 'AES-GCM': aesGcm, 'RSA-OAEP': rsaOaep };
const hashes = { 'SHA-1': none, 'SHA-256': none, 'SHA-384': none, 'SHA-512': none };
/** @type {Record<string, Record<string, {name: string, members: Member[]}>>} */
const REGISTERED = /** @type {any} */ ({
  __proto__: null,
  hash: table(hashes),
  // MD5 is of this platform, for digests alone.
  digest: table({ ...hashes, MD5: none }),
  encrypt: table(ciphers),
  decrypt: table(ciphers),
  sign: table(signatures),
  verify: table(signatures),
  generateKey: table({
    'AES-CBC': aesKey, 'AES-CTR': aesKey, 'AES-GCM': aesKey, 'AES-KW': aesKey, HMAC: hmacKey, 'RSASSA-PKCS1-v1_5': rsaGenerate,
    'RSA-PSS': rsaGenerate, 'RSA-OAEP': rsaGenerate, ECDSA: curve, ECDH: curve, Ed25519: none, X25519: none,
  }),
  importKey: table({
    'AES-CBC': none, 'AES-CTR': none, 'AES-GCM': none, 'AES-KW': none, HMAC: hmacKey, 'RSASSA-PKCS1-v1_5': hashed,
    'RSA-PSS': hashed, 'RSA-OAEP': hashed, ECDSA: curve, ECDH: curve, Ed25519: none, X25519: none, HKDF: none, PBKDF2: none,
  }),
  deriveBits: table({ ECDH: agreement, X25519: agreement, HKDF: hkdf, PBKDF2: pbkdf2 }),
  getKeyLength: table({
    'AES-CBC': aesKey, 'AES-CTR': aesKey, 'AES-GCM': aesKey, 'AES-KW': aesKey, HMAC: hmacKey, HKDF: none, PBKDF2: none,
  }),
  wrapKey: table({ 'AES-KW': none }),
  unwrapKey: table({ 'AES-KW': none }),
});

/** Converts an argument of type AlgorithmIdentifier. @param {any} value */
export const toAlgorithmIdentifier = (value) => (isObject(value) ? value : toDOMString(value));

/** @param {any} identifier @param {string} operation @returns {Algorithm} */
export function normalizeAlgorithm(identifier, operation) {
  let given = identifier, name;
  if (isObject(identifier)) {
    name = identifier.name;
    if (name === undefined) throw new TypeError('Algorithm: name is missing');
    name = toDOMString(name);
  } else {
    name = toDOMString(identifier);
    given = nullObject();
  }
  const found = REGISTERED[operation][StringPrototypeToUpperCase(name)];
  if (found === undefined) throw domError('NotSupportedError', `Unrecognized algorithm name ${name}`);
  /** @type {any} */ const made = nullObject();
  made.name = found.name;
  const members = found.members;
  for (let i = 0; i < members.length; i++) {
    const member = members[i];
    const value = given[member[0]];
    if (value !== undefined) made[member[0]] = member[1](value, `${found.name} parameter ${member[0]}`);
    else if (member[2]) throw new TypeError(`${found.name} parameter ${member[0]} is missing`);
  }
  return made;
}

/** Is there such a member? @param {Algorithm} algorithm @param {string} name */
export const has = (algorithm, name) => ObjectPrototypeHasOwnProperty(algorithm, name);
