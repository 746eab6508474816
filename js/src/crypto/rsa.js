/** RSASSA-PKCS1-v1_5, RSA-PSS, RSA-OAEP. */
import { StringPrototypeSlice, Uint8Array } from '../primordials.js';
import { domError } from '../web/dom_exception.js';
import { base64url, checkJwk, jwkBytes, jwkBytesOrNone } from './jwk.js';
import { checkUsages, newKey, pickUsages, stateOf } from './key.js';
import { FORMAT, HASHES, KIND, SCHEME, native } from './natives.js';

const NOTHING = new Uint8Array(0);
const NUMBERS = ['n', 'e', 'd', 'p', 'q', 'dp', 'dq', 'qi'];
const CIPHER = { forPublic: ['encrypt', 'wrapKey'], forPrivate: ['decrypt', 'unwrapKey'], all: ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'] };
const SIGN = { forPublic: ['verify'], forPrivate: ['sign'], all: ['sign', 'verify'] };
/** @param {string} name the usages of its keys */
const usagesOf = (name) => (name === 'RSA-OAEP' ? CIPHER : SIGN);
/** @param {string} name @param {string} hash @returns {string} `alg` of a JSON Web Key */
function algName(name, hash) {
  const bits = StringPrototypeSlice(hash, 4);
  if (name === 'RSA-OAEP') return bits === '1' ? 'RSA-OAEP' : `RSA-OAEP-${bits}`;
  return `${name === 'RSA-PSS' ? 'PS' : 'RS'}${bits}`;
}

/** @param {'public'|'private'} type @param {any} handle @param {any} algorithm @param {boolean} extractable @param {string[]} usages */
function keyOf(type, handle, algorithm, extractable, usages) {
  const parts = native((crypto) => crypto.keyParts(type === 'public' ? handle : crypto.keyPublic(handle)));
  return newKey({
    type, extractable, usages, handle,
    algorithm: {
      __proto__: null, name: algorithm.name, modulusLength: native((crypto) => crypto.keyBits(handle)),
      publicExponent: new Uint8Array(parts[1]), hash: { __proto__: null, name: algorithm.hash.name },
    },
  });
}

/** @param {Uint8Array} bytes @returns {number} */
function exponentOf(bytes) {
  let number = 0;
  for (let i = 0; i < bytes.length && number < 0x100000000; i++) number = number * 256 + bytes[i];
  if (number < 3 || number % 2 === 0 || number > 0xffffffff) throw domError('OperationError', 'publicExponent must be odd, and 3 to 4294967295');
  return number;
}

/** @type {import('./subtle.js').Implementation} */
export const rsa = {
  generateKey(algorithm, extractable, usages) {
    const { forPublic, forPrivate, all } = usagesOf(algorithm.name);
    checkUsages(usages, all);
    const exponent = exponentOf(algorithm.publicExponent);
    const made = native((crypto) => crypto.keyGenerate(KIND.RSA, algorithm.modulusLength, exponent));
    return {
      publicKey: keyOf('public', native((crypto) => crypto.keyPublic(made)), algorithm, true, pickUsages(usages, forPublic)),
      privateKey: keyOf('private', made, algorithm, extractable, pickUsages(usages, forPrivate)),
    };
  },
  importKey(format, data, algorithm, extractable, usages) {
    const { forPublic, forPrivate } = usagesOf(algorithm.name);
    if (format === 'spki' || format === 'pkcs8') {
      checkUsages(usages, format === 'spki' ? forPublic : forPrivate);
      const handle = native((crypto) => crypto.keyImport(FORMAT[format], KIND.RSA, data));
      return keyOf(format === 'spki' ? 'public' : 'private', handle, algorithm, extractable, pickUsages(usages));
    }
    if (format !== 'jwk') throw domError('NotSupportedError', `an RSA key has no format ${format}`);
    const type = data.d === undefined ? 'public' : 'private';
    checkUsages(usages, type === 'public' ? forPublic : forPrivate);
    checkJwk(data, 'RSA', algorithm.name === 'RSA-OAEP' ? 'enc' : 'sig', usages, extractable);
    if (data.alg !== undefined && data.alg !== algName(algorithm.name, algorithm.hash.name)) throw domError('DataError', 'alg of the key is that of another algorithm');
    if (data.oth !== undefined) throw domError('NotSupportedError', 'an RSA key of more than two primes');
    const parts = [jwkBytes(data, 'n'), jwkBytes(data, 'e')];
    if (type === 'private') for (let i = 2; i < NUMBERS.length; i++) parts[i] = /** @type {any} */ (jwkBytesOrNone(data, NUMBERS[i]));
    const handle = native((crypto) => crypto.keyFromParts(KIND.RSA, parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7]));
    return keyOf(type, handle, algorithm, extractable, pickUsages(usages));
  },
  exportKey(format, key) {
    const state = stateOf(key);
    if (format === 'jwk') {
      /** @type {any} */ const jwk = { kty: 'RSA', alg: algName(state.algorithm.name, state.algorithm.hash.name) };
      const parts = native((crypto) => crypto.keyParts(state.handle));
      for (let i = 0; i < parts.length; i++) jwk[NUMBERS[i]] = base64url(parts[i]);
      return jwk;
    }
    if (format !== 'spki' && format !== 'pkcs8') throw domError('NotSupportedError', `an RSA key has no format ${format}`);
    if (state.type !== (format === 'spki' ? 'public' : 'private')) throw domError('InvalidAccessError', `a ${state.type} key has no format ${format}`);
    return native((crypto) => crypto.keyExport(FORMAT[format], state.handle));
  },
  sign(algorithm, key, data) {
    const state = stateOf(key);
    if (state.type !== 'private') throw domError('InvalidAccessError', 'only a private key signs');
    return native((crypto) => crypto.sign(state.handle, /** @type {any} */ (SCHEME)[algorithm.name], HASHES[state.algorithm.hash.name], algorithm.saltLength ?? 0, data));
  },
  verify(algorithm, key, signature, data) {
    const state = stateOf(key);
    if (state.type !== 'public') throw domError('InvalidAccessError', 'only a public key verifies');
    return native((crypto) => crypto.verify(state.handle, /** @type {any} */ (SCHEME)[algorithm.name], HASHES[state.algorithm.hash.name], algorithm.saltLength ?? 0, signature, data));
  },
  encrypt(algorithm, key, data) {
    const state = stateOf(key);
    if (state.type !== 'public') throw domError('InvalidAccessError', 'only a public key encrypts');
    return native((crypto) => crypto.rsaOaep(true, state.handle, HASHES[state.algorithm.hash.name], algorithm.label ?? NOTHING, data));
  },
  decrypt(algorithm, key, data) {
    const state = stateOf(key);
    if (state.type !== 'private') throw domError('InvalidAccessError', 'only a private key decrypts');
    return native((crypto) => crypto.rsaOaep(false, state.handle, HASHES[state.algorithm.hash.name], algorithm.label ?? NOTHING, data));
  },
};
