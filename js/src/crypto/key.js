/** CryptoKey: what it shows, and what it holds. */
import { ArrayPrototypeIncludes, ArrayPrototypePush, ObjectKeys, TypeError, TypedArrayPrototypeSlice, Uint8Array } from '../primordials.js';
import { domError, illegalConstructor } from '../web/dom_exception.js';
import { finishInterface, isUint8Array } from '../web/webidl.js';

/** @typedef {{type: 'secret'|'public'|'private', extractable: boolean, algorithm: any, usages: string[], handle: any}} KeyState */

export const USAGES = ['encrypt', 'decrypt', 'sign', 'verify', 'deriveKey', 'deriveBits', 'wrapKey', 'unwrapKey'];
const PERMIT = Symbol('permit');

/** A copy that programs may spoil as they like. @param {any} algorithm @returns {any} */
function show(algorithm) {
  /** @type {any} */ const copy = {};
  const names = ObjectKeys(algorithm);
  for (let i = 0; i < names.length; i++) {
    const value = algorithm[names[i]];
    copy[names[i]] = isUint8Array(value) ? new Uint8Array(value) : typeof value === 'object' ? show(value) : value;
  }
  return copy;
}

export class CryptoKey {
  /** @type {KeyState} */ #state;
  /** @type {any} */ #algorithm;
  /** @type {any} */ #usages;
  constructor() {
    if (arguments[0] !== PERMIT) illegalConstructor('CryptoKey');
    this.#state = arguments[1];
  }
  get type() { return this.#state.type; }
  get extractable() { return this.#state.extractable; }
  get algorithm() { return (this.#algorithm ??= show(this.#state.algorithm)); }
  get usages() {
    if (this.#usages === undefined) {
      this.#usages = [];
      for (let i = 0; i < this.#state.usages.length; i++) ArrayPrototypePush(this.#usages, this.#state.usages[i]);
    }
    return this.#usages;
  }
  /** @param {any} value */ static #is(value) { return typeof value === 'object' && value !== null && #state in value; }
  /** @param {any} key @returns {KeyState} */ static #stateOf(key) { return key.#state; }
  static {
    isCryptoKey = CryptoKey.#is;
    stateOf = CryptoKey.#stateOf;
  }
}
finishInterface(CryptoKey, 'CryptoKey');

/** @type {(value: any) => boolean} */ export var isCryptoKey;
/** What a key holds; not for the eyes of programs. @type {(key: CryptoKey) => KeyState} */ export var stateOf;

/** @param {KeyState} state @returns {CryptoKey} */
export const newKey = (state) => new (/** @type {any} */ (CryptoKey))(PERMIT, state);

/** Those usages of `wanted` that are in `allowed`, in the standard's order. @param {string[]} wanted @param {string[]} [allowed] */
export function pickUsages(wanted, allowed = USAGES) {
  /** @type {string[]} */ const picked = [];
  for (let i = 0; i < USAGES.length; i++) {
    if (ArrayPrototypeIncludes(wanted, USAGES[i]) && ArrayPrototypeIncludes(allowed, USAGES[i])) ArrayPrototypePush(picked, USAGES[i]);
  }
  return picked;
}

/** Every usage must be one of `allowed`. @param {string[]} wanted @param {string[]} allowed */
export function checkUsages(wanted, allowed) {
  for (let i = 0; i < wanted.length; i++) {
    if (!ArrayPrototypeIncludes(allowed, wanted[i])) throw domError('SyntaxError', `a key of this algorithm cannot be used to ${wanted[i]}`);
  }
}

/** @param {any} key @param {string} what @returns {CryptoKey} */
export function toCryptoKey(key, what) {
  if (!isCryptoKey(key)) throw new TypeError(`${what} is not a CryptoKey`);
  return key;
}

/** Cuts to a number of bits; those that do not fill a byte are zero. @param {ArrayBuffer} bytes @param {number} bits @returns {ArrayBuffer} */
export function cutBits(bytes, bits) {
  const cut = TypedArrayPrototypeSlice(new Uint8Array(bytes), 0, (bits + 7) >>> 3);
  if (bits % 8 !== 0) cut[cut.length - 1] &= 0xff << (8 - (bits % 8));
  return cut.buffer;
}
