/**
 * Names and numbers of Durable Objects. An id is 32 bytes: 16 that say which object, and 16 that are an HMAC over them, keyed by the
 * class, so that an id of another class, or one that was made up, is noticed. The highest bit of the first 16 tells ids of names from
 * those of newUniqueId().
 */
import {
  Error, String, StringPrototypeToLowerCase, SymbolToStringTag, TypeError, Uint8Array, define, nullObject,
  TypedArrayPrototypeSet, RegExpPrototypeExec, NumberParseInt, StringPrototypeSlice,
} from '../primordials.js';
import { natives } from '../natives.js';

const SHA256 = 3, HALF = 16;
const TOKEN = nullObject();
const HEX = '0123456789abcdef';
const ID_FORM = /^[0-9a-fA-F]{64}$/;

/** @param {Uint8Array} bytes */
function hexOf(bytes) {
  let text = '';
  for (let i = 0; i < bytes.length; i++) text += HEX[bytes[i] >> 4] + HEX[bytes[i] & 15];
  return text;
}

/** @param {string} text */
const utf8 = (text) => new Uint8Array(natives.utf8Encode(text));

export class DurableObjectId {
  #text;
  #name;
  #class;

  /** @param {any} token @param {string} text @param {string|undefined} name @param {string} className */
  constructor(token, text, name, className) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#text = text;
    this.#name = name;
    this.#class = className;
  }

  toString() { return this.#text; }
  /** @param {DurableObjectId} other */
  equals(other) {
    if (!(typeof other === 'object' && other !== null && #text in other)) throw new TypeError('equals() takes a DurableObjectId.');
    return other.#text === this.#text && other.#class === this.#class;
  }
  get name() { return this.#name; }
  get jurisdiction() { return undefined; }

  /** @param {any} value @returns {value is DurableObjectId} */
  static is(value) { return typeof value === 'object' && value !== null && #text in value; }
  /** @param {DurableObjectId} id */
  static classOf(id) { return id.#class; }
  /** @param {DurableObjectId} id */
  static textOf(id) { return id.#text; }
}
export const { is: isObjectId, classOf: classOfId, textOf: textOfId } = DurableObjectId;
delete /** @type {any} */ (DurableObjectId).is;
delete /** @type {any} */ (DurableObjectId).classOf;
delete /** @type {any} */ (DurableObjectId).textOf;
define(DurableObjectId.prototype, SymbolToStringTag, 'DurableObjectId');

/** Makes and checks the ids of one class. */
export class IdSpace {
  /** @param {string} className */
  constructor(className) {
    this.className = className;
    /** @type {Uint8Array|null} made when it is first needed: natives are not there while modules are evaluated */
    this.key = null;
  }

  /** @param {Uint8Array} data */
  hmac(data) {
    if (this.key === null) this.key = new Uint8Array(natives.crypto.hash(SHA256, utf8(`cloister durable object class ${this.className}`)));
    return new Uint8Array(natives.crypto.hmac(SHA256, this.key, data));
  }

  /** @param {Uint8Array} half @param {string|undefined} name */
  finish(half, name) {
    const bytes = new Uint8Array(2 * HALF);
    const mark = this.hmac(half);
    TypedArrayPrototypeSet(bytes, half);
    for (let i = 0; i < HALF; i++) bytes[HALF + i] = mark[i];
    return new DurableObjectId(TOKEN, hexOf(bytes), name, this.className);
  }

  /** @param {string} name */
  fromName(name) {
    const text = String(name);
    const whole = this.hmac(utf8(`name ${text}`));
    const half = new Uint8Array(HALF);
    for (let i = 0; i < HALF; i++) half[i] = whole[i];
    half[0] |= 128;
    return this.finish(half, text);
  }

  unique() {
    const half = new Uint8Array(HALF);
    natives.random(half);
    half[0] &= 127;
    return this.finish(half, undefined);
  }

  /** @param {string} text @param {string} [name] */
  fromString(text, name) {
    const given = String(text);
    if (RegExpPrototypeExec(ID_FORM, given) === null) throw new TypeError('Invalid Durable Object ID: must be 64 hex digits');
    const lower = StringPrototypeToLowerCase(given);
    const half = new Uint8Array(HALF);
    for (let i = 0; i < HALF; i++) half[i] = NumberParseInt(StringPrototypeSlice(lower, 2 * i, 2 * i + 2), 16);
    const id = this.finish(half, name);
    if (textOfId(id) !== lower) throw new TypeError('Durable Object ID is not valid for this namespace');
    return id;
  }
}

/** @param {any} options @param {string} what */
export function refuseJurisdiction(options, what) {
  const jurisdiction = typeof options === 'object' && options !== null ? options.jurisdiction : undefined;
  if (jurisdiction !== undefined && jurisdiction !== null) throw new Error(`${what}: jurisdictions are not implemented: all objects are on this machine.`);
}
