/** `crypto`: random values, and what hangs below it. */
import {
  Array, ArrayBufferIsView, NumberPrototypeToString, TypeError, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetSymbolToStringTag,
  TypedArrayPrototypeSet, Uint8Array, define, defineGetter,
} from '../primordials.js';
import { natives } from '../natives.js';
import { domError, illegalConstructor } from '../web/dom_exception.js';
import { registerCopier } from '../web/structured_clone.js';
import { finishInterface, requireArguments, viewBytes } from '../web/webidl.js';
import { DigestStream } from './digest_stream.js';
import { CryptoKey, isCryptoKey, newKey, stateOf } from './key.js';
import { SubtleCrypto, newSubtle } from './subtle.js';

const QUOTA = 65536;
const PERMIT = Symbol('permit');
/** @type {string[]} */ const HEX = new Array(256);
for (let i = 0; i < 256; i++) HEX[i] = (i < 16 ? '0' : '') + NumberPrototypeToString(i, 16);

/** @param {any} array @returns {boolean} */
function holdsIntegers(array) {
  if (!ArrayBufferIsView(array)) return false;
  const tag = TypedArrayPrototypeGetSymbolToStringTag(array);
  return tag !== undefined && tag !== 'Float32Array' && tag !== 'Float64Array' && tag !== 'Float16Array';
}

export class Crypto {
  #subtle = newSubtle();
  constructor() {
    if (arguments[0] !== PERMIT) illegalConstructor('Crypto');
  }
  get subtle() { return this.#subtle; }
  /** @template T @param {T} array @returns {T} */
  getRandomValues(array) {
    this.#subtle;
    requireArguments(arguments.length, 1, 'Crypto.getRandomValues');
    if (!holdsIntegers(array)) {
      if (!ArrayBufferIsView(array)) throw new TypeError('Crypto.getRandomValues: the argument is not an ArrayBufferView');
      throw domError('TypeMismatchError', 'The array does not hold integers');
    }
    const to = viewBytes(array, 'array');
    const size = TypedArrayPrototypeGetByteLength(to);
    if (size > QUOTA) throw domError('QuotaExceededError', `${size} bytes are more than ${QUOTA}`);
    if (size === 0) return array;
    // Into bytes of our own: the engine pins a buffer that C has written to.
    const bytes = new Uint8Array(size);
    natives.random(bytes);
    TypedArrayPrototypeSet(to, bytes);
    return array;
  }
  randomUUID() {
    this.#subtle;
    return randomUUID();
  }
}
finishInterface(Crypto, 'Crypto');
define(Crypto.prototype, 'DigestStream', DigestStream);

/** @returns {string} */
export function randomUUID() {
  const b = new Uint8Array(16);
  natives.random(b);
  const six = (b[6] & 0x0f) | 0x40, eight = (b[8] & 0x3f) | 0x80;
  return `${HEX[b[0]]}${HEX[b[1]]}${HEX[b[2]]}${HEX[b[3]]}-${HEX[b[4]]}${HEX[b[5]]}-${HEX[six]}${HEX[b[7]]}-${HEX[eight]}${HEX[b[9]]}-`
    + `${HEX[b[10]]}${HEX[b[11]]}${HEX[b[12]]}${HEX[b[13]]}${HEX[b[14]]}${HEX[b[15]]}`;
}

/** The one object of its kind. @type {Crypto} */
export const crypto = new (/** @type {any} */ (Crypto))(PERMIT);

/** @param {any} target the global object, or what stands for it */
export function installCrypto(target) {
  define(target, 'Crypto', Crypto);
  define(target, 'SubtleCrypto', SubtleCrypto);
  define(target, 'CryptoKey', CryptoKey);
  defineGetter(target, 'crypto', () => crypto);
  registerCopier(isCryptoKey, (key) => newKey(stateOf(key)));
}
