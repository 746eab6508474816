/** ECDSA and ECDH over the NIST curves, Ed25519 and X25519. */
import { StringPrototypeSlice, StringPrototypeStartsWith } from '../primordials.js';
import { domError } from '../web/dom_exception.js';
import { base64url, checkJwk, jwkBytes, jwkBytesOrNone } from './jwk.js';
import { checkUsages, cutBits, newKey, pickUsages, stateOf } from './key.js';
import { FORMAT, HASHES, KIND, SCHEME, native } from './natives.js';

const DERIVE = ['deriveKey', 'deriveBits'];
/** @param {string} name */
const signs = (name) => name === 'ECDSA' || name === 'Ed25519';
const SIGN = { forPublic: ['verify'], forPrivate: ['sign'], all: ['sign', 'verify'] };
const AGREE = { forPublic: /** @type {string[]} */ ([]), forPrivate: DERIVE, all: DERIVE };
/** @param {string} name the usages of its keys */
const usagesOf = (name) => (signs(name) ? SIGN : AGREE);
/** The curve that an algorithm names, if there is such a one. @param {any} algorithm @returns {string|undefined} */
function curveOf({ name, namedCurve }) {
  if (name === 'Ed25519' || name === 'X25519') return name;
  return namedCurve === 'P-256' || namedCurve === 'P-384' || namedCurve === 'P-521' ? namedCurve : undefined;
}
/** @param {string} curve */
const isNist = (curve) => StringPrototypeStartsWith(curve, 'P-');
/** @param {string} curve @returns {number} */
const kindOf = (curve) => /** @type {any} */ (KIND)[curve];

/** @param {'public'|'private'} type @param {any} handle @param {any} algorithm @param {boolean} extractable @param {string[]} usages */
const keyOf = (type, handle, { name, namedCurve }, extractable, usages) => newKey({
  type, extractable, usages, handle,
  algorithm: namedCurve === undefined ? { __proto__: null, name } : { __proto__: null, name, namedCurve },
});

/** @param {any} data @param {any} algorithm @param {string} curve @param {string[]} usages @param {boolean} extractable */
function fromJwk(data, algorithm, curve, usages, extractable) {
  checkJwk(data, isNist(curve) ? 'EC' : 'OKP', signs(algorithm.name) ? 'sig' : 'enc', usages, extractable);
  if (data.crv !== curve) throw domError('DataError', `crv of the key is not "${curve}"`);
  if (algorithm.name === 'ECDSA' && data.alg !== undefined && data.alg !== `ES${curve === 'P-521' ? '512' : StringPrototypeSlice(curve, 2)}`) {
    throw domError('DataError', 'alg of the key is that of another algorithm');
  }
  if (algorithm.name === 'Ed25519' && data.alg !== undefined && data.alg !== 'Ed25519' && data.alg !== 'EdDSA') {
    throw domError('DataError', 'alg of the key is that of another algorithm');
  }
  const x = jwkBytes(data, 'x'), d = jwkBytesOrNone(data, 'd');
  if (!isNist(curve)) return native((crypto) => crypto.keyFromParts(kindOf(curve), x, d));
  const y = jwkBytes(data, 'y');
  return native((crypto) => crypto.keyFromParts(kindOf(curve), x, y, d));
}

/** @type {import('./subtle.js').Implementation} */
export const curves = {
  generateKey(algorithm, extractable, usages) {
    const { forPublic, forPrivate, all } = usagesOf(algorithm.name);
    checkUsages(usages, all);
    const curve = curveOf(algorithm);
    if (curve === undefined) throw domError('NotSupportedError', `Unrecognized namedCurve ${algorithm.namedCurve}`);
    const made = native((crypto) => crypto.keyGenerate(kindOf(curve)));
    return {
      publicKey: keyOf('public', native((crypto) => crypto.keyPublic(made)), algorithm, true, pickUsages(usages, forPublic)),
      privateKey: keyOf('private', made, algorithm, extractable, pickUsages(usages, forPrivate)),
    };
  },
  importKey(format, data, algorithm, extractable, usages) {
    const { forPublic, forPrivate } = usagesOf(algorithm.name);
    const type = format === 'pkcs8' || (format === 'jwk' && data.d !== undefined) ? 'private' : 'public';
    checkUsages(usages, type === 'public' ? forPublic : forPrivate);
    const curve = curveOf(algorithm);
    if (curve === undefined) throw domError('DataError', `Unrecognized namedCurve ${algorithm.namedCurve}`);
    const handle = format === 'jwk' ? fromJwk(data, algorithm, curve, usages, extractable)
      : native((crypto) => crypto.keyImport(/** @type {any} */ (FORMAT)[format], kindOf(curve), data));
    return keyOf(type, handle, algorithm, extractable, pickUsages(usages));
  },
  exportKey(format, key) {
    const state = stateOf(key);
    const curve = /** @type {string} */ (curveOf(state.algorithm));
    if (format === 'jwk') {
      const parts = native((crypto) => crypto.keyParts(state.handle));
      /** @type {any} */ const jwk = { kty: isNist(curve) ? 'EC' : 'OKP', crv: curve, x: base64url(parts[0]) };
      if (state.algorithm.name === 'Ed25519') jwk.alg = 'Ed25519';
      if (isNist(curve)) jwk.y = base64url(parts[1]);
      if (state.type === 'private') jwk.d = base64url(parts[parts.length - 1]);
      return jwk;
    }
    if (state.type !== (format === 'pkcs8' ? 'private' : 'public')) throw domError('InvalidAccessError', `a ${state.type} key has no format ${format}`);
    return native((crypto) => crypto.keyExport(/** @type {any} */ (FORMAT)[format], state.handle));
  },
  sign(algorithm, key, data) {
    const state = stateOf(key);
    if (state.type !== 'private') throw domError('InvalidAccessError', 'only a private key signs');
    return native((crypto) => crypto.sign(state.handle, /** @type {any} */ (SCHEME)[algorithm.name], HASHES[algorithm.hash?.name ?? 'SHA-512'], 0, data));
  },
  verify(algorithm, key, signature, data) {
    const state = stateOf(key);
    if (state.type !== 'public') throw domError('InvalidAccessError', 'only a public key verifies');
    return native((crypto) => crypto.verify(state.handle, /** @type {any} */ (SCHEME)[algorithm.name], HASHES[algorithm.hash?.name ?? 'SHA-512'], 0, signature, data));
  },
  deriveBits(algorithm, key, length) {
    const own = stateOf(key), peer = stateOf(algorithm.public);
    if (own.type !== 'private') throw domError('InvalidAccessError', 'the base key is not private');
    if (peer.type !== 'public') throw domError('InvalidAccessError', 'public is not a public key');
    if (peer.algorithm.name !== own.algorithm.name) throw domError('InvalidAccessError', 'the keys are of two algorithms');
    if (peer.algorithm.namedCurve !== own.algorithm.namedCurve) throw domError('InvalidAccessError', 'the keys are of two curves');
    const secret = native((crypto) => crypto.agree(own.handle, peer.handle));
    if (length === null) return secret;
    if (length > secret.byteLength * 8) throw domError('OperationError', 'length is more than the keys give');
    return cutBits(secret, length);
  },
};
