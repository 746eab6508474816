/** HKDF and PBKDF2: keys that other keys are made from. */
import { domError } from '../web/dom_exception.js';
import { checkUsages, newKey, pickUsages, stateOf } from './key.js';
import { HASHES, native } from './natives.js';

const MAX_BITS = 8 << 20; // what one call of the natives gives

/** @type {import('./subtle.js').Implementation} */
export const kdf = {
  importKey(format, data, algorithm, extractable, usages) {
    if (format !== 'raw') throw domError('NotSupportedError', `a key of ${algorithm.name} has no format ${format}`);
    checkUsages(usages, ['deriveKey', 'deriveBits']);
    if (extractable) throw domError('SyntaxError', `a key of ${algorithm.name} cannot be extractable`);
    return newKey({
      type: 'secret', extractable: false, usages: pickUsages(usages), algorithm: { __proto__: null, name: algorithm.name },
      handle: native((crypto) => crypto.secret(data)),
    });
  },
  deriveBits(algorithm, key, length) {
    if (length === null || length % 8 !== 0) throw domError('OperationError', 'length must be a multiple of 8');
    if (length > MAX_BITS) throw domError('OperationError', `length must be at most ${MAX_BITS}`);
    const { handle } = stateOf(key);
    if (algorithm.name === 'HKDF') {
      return native((crypto) => crypto.hkdf(HASHES[algorithm.hash.name], handle, algorithm.salt, algorithm.info, length / 8));
    }
    if (length === 0) throw domError('OperationError', 'length must not be 0');
    if (algorithm.iterations === 0) throw domError('OperationError', 'iterations must not be 0');
    return native((crypto) => crypto.pbkdf2(HASHES[algorithm.hash.name], handle, algorithm.salt, algorithm.iterations, length / 8));
  },
  getKeyLength: () => null,
};
