/** JSON Web Keys: reading them as the dictionary that they are, and the checks that all kinds of keys share. */
import { ArrayPrototypeIncludes, ArrayPrototypePush, Boolean, RegExpPrototypeExec, SymbolIterator, TypeError, Uint8Array, iterate, nullObject, uncurryThis } from '../primordials.js';
import { domError } from '../web/dom_exception.js';
import { isObject, toDOMString } from '../web/webidl.js';

const fromBase64 = /** @type {any} */ (Uint8Array).fromBase64.bind(Uint8Array);
const toBase64 = uncurryThis(/** @type {any} */ (Uint8Array.prototype).toBase64);
const BASE64URL = /^[A-Za-z0-9_-]*$/;
const OPTIONS = Object.freeze({ __proto__: null, alphabet: 'base64url', omitPadding: true, lastChunkHandling: 'loose' });
const TEXTS = ['alg', 'crv', 'd', 'dp', 'dq', 'e', 'k', 'kty', 'n', 'p', 'q', 'qi', 'use', 'x', 'y'];

/** @param {any} value @param {string} what @returns {any[]} */
export function toSequence(value, what) {
  const method = isObject(value) ? value[SymbolIterator] : undefined;
  if (typeof method !== 'function') throw new TypeError(`${what} is not iterable`);
  /** @type {any[]} */ const list = [];
  iterate(value, (item) => ArrayPrototypePush(list, item), method);
  return list;
}

/** @param {any} value @returns {any} */
export function toJsonWebKey(value) {
  if (value !== undefined && value !== null && !isObject(value)) throw new TypeError('keyData is not an object');
  const made = nullObject();
  if (value === undefined || value === null) return made;
  for (let i = 0; i < TEXTS.length; i++) {
    const member = value[TEXTS[i]];
    if (member !== undefined) made[TEXTS[i]] = toDOMString(member);
    // in the order of the names: these two come between them
    if (TEXTS[i] === 'e' && value.ext !== undefined) made.ext = Boolean(value.ext);
    if (TEXTS[i] === 'k') {
      const operations = value.key_ops;
      if (operations !== undefined) {
        made.key_ops = toSequence(operations, 'key_ops');
        for (let j = 0; j < made.key_ops.length; j++) made.key_ops[j] = toDOMString(made.key_ops[j]);
      }
    }
    if (TEXTS[i] === 'n' && value.oth !== undefined) made.oth = toSequence(value.oth, 'oth');
  }
  return made;
}

/** What is the same for all kinds. @param {any} jwk @param {string} kty @param {string} use @param {string[]} usages @param {boolean} extractable */
export function checkJwk(jwk, kty, use, usages, extractable) {
  if (jwk.kty !== kty) throw domError('DataError', `kty of the key is not "${kty}"`);
  if (usages.length > 0 && jwk.use !== undefined && jwk.use !== use) throw domError('DataError', `use of the key is not "${use}"`);
  if (jwk.key_ops !== undefined) {
    for (let i = 0; i < jwk.key_ops.length; i++) {
      for (let j = 0; j < i; j++) if (jwk.key_ops[i] === jwk.key_ops[j]) throw domError('DataError', 'key_ops of the key has a value twice');
    }
    for (let i = 0; i < usages.length; i++) {
      if (!ArrayPrototypeIncludes(jwk.key_ops, usages[i])) throw domError('DataError', `key_ops of the key does not hold "${usages[i]}"`);
    }
  }
  if (jwk.ext === false && extractable) throw domError('DataError', 'ext of the key is false');
}

/** @param {any} jwk @param {string} member @returns {Uint8Array} */
export function jwkBytes(jwk, member) {
  const text = jwk[member];
  if (text === undefined) throw domError('DataError', `${member} of the key is missing`);
  if (RegExpPrototypeExec(BASE64URL, text) === null || text.length % 4 === 1) throw domError('DataError', `${member} of the key is not base64url`);
  return fromBase64(text, OPTIONS);
}
/** @param {any} jwk @param {string} member */
export const jwkBytesOrNone = (jwk, member) => (jwk[member] === undefined ? undefined : jwkBytes(jwk, member));

/** @param {ArrayBuffer} bytes @returns {string} */
export const base64url = (bytes) => toBase64(new Uint8Array(bytes), OPTIONS);
