/** The crypto natives with their failures turned into the exceptions that the Web Cryptography API names. */
import { natives } from '../natives.js';
import { domError } from '../web/dom_exception.js';

/** @typedef {0|1|2|3|4|5} HashId */
export const HASHES = /** @type {Record<string, HashId>} */ (/** @type {any} */ ({
  __proto__: null, MD5: 0, 'SHA-1': 1, 'SHA-224': 2, 'SHA-256': 3, 'SHA-384': 4, 'SHA-512': 5,
}));
/** Bits of the block that a hash works on: the length of a generated HMAC key. */
export const BLOCK_BITS = /** @type {Record<string, number>} */ (/** @type {any} */ ({
  __proto__: null, 'SHA-1': 512, 'SHA-256': 512, 'SHA-384': 1024, 'SHA-512': 1024,
}));
export const KIND = /** @type {const} */ ({ __proto__: null, secret: 0, RSA: 1, 'P-256': 2, 'P-384': 3, 'P-521': 4, Ed25519: 5, X25519: 6 });
export const FORMAT = /** @type {const} */ ({ __proto__: null, raw: 0, spki: 1, pkcs8: 2 });
export const SCHEME = /** @type {const} */ ({ __proto__: null, 'RSASSA-PKCS1-v1_5': 0, 'RSA-PSS': 1, ECDSA: 2, Ed25519: 3 });

/** @param {any} error @returns {never} */
function raise(error) {
  const code = error === null || typeof error !== 'object' ? undefined : error.code;
  const message = typeof error?.message === 'string' ? error.message : 'the operation failed';
  if (code === 'INVALID_ARGUMENT') throw domError('DataError', message);
  if (code === 'UNSUPPORTED') throw domError('NotSupportedError', message);
  throw domError('OperationError', message);
}

/** @template T @param {(crypto: any) => T} call @returns {T} */
export function native(call) {
  try {
    return call(natives.crypto);
  } catch (error) {
    return raise(error);
  }
}
