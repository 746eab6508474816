/**
 * Headers. The wire's form, "name\nvalue\nname\nvalue...", is kept as it came until something looks inside, and a list that
 * nobody changed goes out as the same text. A name is stored in lower case; every append is an entry of its own, so that
 * several set-cookie stay apart.
 */
import {
  ArrayIsArray, ArrayPrototypePush, ArrayPrototypeSort, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys,
  RegExpPrototypeExec, StringPrototypeIndexOf, StringPrototypeSlice, StringPrototypeToLowerCase, SymbolIterator, TypeError, iterate, Symbol, rawList, uncurryThis,
} from '../primordials.js';
import { finishInterface, isObject, pairIterable, requireArguments, toByteString } from './webidl.js';

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const NOT_LOWER = /[A-Z]/;
const BAD_VALUE = /[\0\r\n]|[^\0-\xff]/;
const EDGES = /^[\t\n\r ]|[\t\n\r ]$/;
const TRIM = /^[\t\n\r ]*([^]*?)[\t\n\r ]*$/;

/** @param {any} value @returns {string} in lower case */
export function headerName(value) {
  const name = typeof value === 'string' ? value : `${value}`;
  if (RegExpPrototypeExec(TOKEN, name) === null) throw new TypeError(`Invalid header name: ${quote(name)}`);
  return RegExpPrototypeExec(NOT_LOWER, name) === null ? name : StringPrototypeToLowerCase(name);
}
/** @param {any} value @returns {string} */
export function headerValue(value) {
  let text = typeof value === 'string' ? value : toByteString(value, 'Header value');
  if (RegExpPrototypeExec(EDGES, text) !== null) text = /** @type {any} */ (RegExpPrototypeExec(TRIM, text))[1];
  if (RegExpPrototypeExec(BAD_VALUE, text) !== null) throw new TypeError(`Invalid header value: ${quote(text)}`);
  return text;
}
/** @param {string} text */
const quote = (text) => (text.length > 64 ? `"${StringPrototypeSlice(text, 0, 64)}"...` : `"${text}"`);

/** What a request must not say for itself in a browser; here everything may be set, so there are two guards only. */
export const MUTABLE = 0, IMMUTABLE = 1;

export class Headers {
  /** The wire's text while nothing was parsed. @type {string|null} */
  #text = null;
  /** @type {string[]|null} */ #names = null;
  /** @type {string[]} */ #values = /** @type {any} */ (null);
  #guard = MUTABLE;
  /** Sorted and combined, for iteration. @type {any[][]|null} */
  #sorted = null;

  /** @param {any} [init] */
  constructor(init = undefined) {
    if (init === WIRE) return; // internal: fromWire() fills it
    this.#names = rawList();
    this.#values = rawList();
    if (init !== undefined) fill(this, init);
  }

  /** @param {any} name @param {any} value */
  append(name, value) {
    if (this.#names === null) this.#parse();
    requireArguments(arguments.length, 2, 'Headers.append');
    const key = headerName(name), text = headerValue(value);
    if (this.#guard === IMMUTABLE) immutable();
    this.#add(key, text);
  }
  /** @param {any} name */
  delete(name) {
    if (this.#names === null) this.#parse();
    requireArguments(arguments.length, 1, 'Headers.delete');
    const key = headerName(name);
    if (this.#guard === IMMUTABLE) immutable();
    this.#remove(key);
  }
  /** @param {any} name */
  get(name) {
    if (this.#names === null) this.#parse();
    requireArguments(arguments.length, 1, 'Headers.get');
    return this.#get(headerName(name));
  }
  /** Workers: only of set-cookie, all values. @param {any} name */
  getAll(name) {
    if (this.#names === null) this.#parse();
    requireArguments(arguments.length, 1, 'Headers.getAll');
    if (headerName(name) !== 'set-cookie') throw new TypeError('getAll() can only be used with the header name "Set-Cookie".');
    return this.#cookies();
  }
  getSetCookie() {
    if (this.#names === null) this.#parse();
    return this.#cookies();
  }
  /** @param {any} name */
  has(name) {
    if (this.#names === null) this.#parse();
    requireArguments(arguments.length, 1, 'Headers.has');
    const key = headerName(name), names = /** @type {string[]} */ (this.#names);
    for (let i = 0; i < names.length; i++) if (names[i] === key) return true;
    return false;
  }
  /** @param {any} name @param {any} value */
  set(name, value) {
    if (this.#names === null) this.#parse();
    requireArguments(arguments.length, 2, 'Headers.set');
    const key = headerName(name), text = headerValue(value);
    if (this.#guard === IMMUTABLE) immutable();
    this.#set(key, text);
  }

  #parse() {
    const text = /** @type {string} */ (this.#text);
    /** @type {string[]} */ const names = rawList();
    /** @type {string[]} */ const values = rawList();
    let at = 0;
    while (at < text.length) {
      const nameEnd = StringPrototypeIndexOf(text, '\n', at);
      if (nameEnd < 0) break;
      let valueEnd = StringPrototypeIndexOf(text, '\n', nameEnd + 1);
      if (valueEnd < 0) valueEnd = text.length;
      ArrayPrototypePush(names, StringPrototypeSlice(text, at, nameEnd));
      ArrayPrototypePush(values, StringPrototypeSlice(text, nameEnd + 1, valueEnd));
      at = valueEnd + 1;
    }
    this.#names = names;
    this.#values = values;
  }
  /** @param {string} key @param {string} text */
  #add(key, text) {
    this.#text = this.#sorted = null;
    ArrayPrototypePush(this.#names, key);
    ArrayPrototypePush(this.#values, text);
  }
  /** @param {string} key */
  #remove(key) {
    const names = /** @type {string[]} */ (this.#names), values = this.#values;
    let to = 0;
    for (let i = 0; i < names.length; i++) {
      if (names[i] === key) continue;
      names[to] = names[i];
      values[to++] = values[i];
    }
    if (to === names.length) return;
    this.#text = this.#sorted = null;
    names.length = values.length = to;
  }
  /** @param {string} key @param {string} text */
  #set(key, text) {
    const names = /** @type {string[]} */ (this.#names), values = this.#values;
    this.#text = this.#sorted = null;
    for (let i = 0; i < names.length; i++) {
      if (names[i] !== key) continue;
      values[i] = text;
      let to = i + 1;
      for (let k = i + 1; k < names.length; k++) {
        if (names[k] === key) continue;
        names[to] = names[k];
        values[to++] = values[k];
      }
      names.length = values.length = to;
      return;
    }
    ArrayPrototypePush(names, key);
    ArrayPrototypePush(values, text);
  }
  /** @param {string} key */
  #get(key) {
    const names = /** @type {string[]} */ (this.#names);
    /** @type {string|null} */ let found = null;
    for (let i = 0; i < names.length; i++) {
      if (names[i] === key) found = found === null ? this.#values[i] : `${found}, ${this.#values[i]}`;
    }
    return found;
  }
  #cookies() {
    const names = /** @type {string[]} */ (this.#names);
    /** @type {string[]} */ const list = [];
    for (let i = 0; i < names.length; i++) if (names[i] === 'set-cookie') ArrayPrototypePush(list, this.#values[i]);
    return list;
  }

  static {
    isHeaders = (value) => isObject(value) && #text in value;
    fromWire = (text, guard = MUTABLE) => {
      const made = new Headers(WIRE);
      made.#text = text;
      made.#guard = guard;
      return made;
    };
    toWire = (headers) => {
      if (headers.#text !== null) return headers.#text;
      const names = headers.#names, values = headers.#values;
      let text = '';
      for (let i = 0; i < names.length; i++) text += i === 0 ? `${names[i]}\n${values[i]}` : `\n${names[i]}\n${values[i]}`;
      return text;
    };
    setGuard = (headers, guard) => { headers.#guard = guard; };
    copyHeaders = (from, to) => {
      if (from.#names === null) from.#parse();
      if (to.#names === null) to.#parse();
      const { length } = from.#names;
      for (let i = 0; i < length; i++) to.#add(from.#names[i], from.#values[i]);
    };
    getHeader = (headers, key) => {
      if (headers.#names === null) headers.#parse();
      return headers.#get(key);
    };
    putHeader = (headers, key, value) => {
      if (headers.#names === null) headers.#parse();
      headers.#set(key, value);
    };
    dropHeader = (headers, key) => {
      if (headers.#names === null) headers.#parse();
      headers.#remove(key);
    };
    sortedPairs = (headers) => {
      if (headers.#names === null) headers.#parse();
      if (headers.#sorted !== null) return headers.#sorted;
      const names = headers.#names, values = headers.#values;
      /** @type {any[][]} */ const pairs = rawList();
      for (let i = 0; i < names.length; i++) {
        let known = -1;
        if (names[i] !== 'set-cookie') for (let k = 0; k < pairs.length && known < 0; k++) if (pairs[k][0] === names[i]) known = k;
        if (known >= 0) pairs[known][1] = `${pairs[known][1]}, ${values[i]}`;
        else ArrayPrototypePush(pairs, [names[i], values[i]]);
      }
      ArrayPrototypeSort(pairs, (/** @type {any[]} */ a, /** @type {any[]} */ b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
      headers.#sorted = pairs;
      return pairs;
    };
  }
}
const append = uncurryThis(Headers.prototype.append);
const WIRE = Symbol('wire');
/** @type {(value: any) => boolean} */ var isHeaders;
/** @type {(text: string, guard?: number) => any} */ var fromWire;
/** @type {(headers: any) => string} */ var toWire;
/** @type {(headers: any, guard: number) => void} */ var setGuard;
/** @type {(from: any, to: any) => void} */ var copyHeaders;
/** @type {(headers: any, key: string) => string|null} */ var getHeader;
/** Whatever the guard. @type {(headers: any, key: string, value: string) => void} */ var putHeader;
/** @type {(headers: any, key: string) => void} */ var dropHeader;
/** @type {(headers: any) => any[][]} */ var sortedPairs;
export { isHeaders, fromWire, toWire, setGuard, copyHeaders, getHeader, putHeader, dropHeader, sortedPairs };
pairIterable(Headers, 'Headers', (self) => sortedPairs(self));
finishInterface(Headers, 'Headers');

/** @returns {never} */
function immutable() { throw new TypeError("Can't modify immutable headers."); }

/** @param {any} headers @param {any} init */
export function fill(headers, init) {
  if (!isObject(init)) throw new TypeError('Headers: the initial value is neither a sequence nor a record');
  if (isHeaders(init) && init[SymbolIterator] === headers[SymbolIterator]) {
    copyHeaders(init, headers);
    return;
  }
  const method = init[SymbolIterator];
  if (method !== undefined && method !== null) {
    /** @type {any[][]} */ const pairs = rawList();
    iterate(init, (pair) => {
      if (!isObject(pair)) throw new TypeError('Headers: an element is not a pair');
      /** @type {any[]} */ const both = rawList();
      if (ArrayIsArray(pair) && pair.length === 2) { both[0] = pair[0]; both[1] = pair[1]; }
      else iterate(pair, (/** @type {any} */ part) => ArrayPrototypePush(both, part));
      if (both.length !== 2) throw new TypeError('Headers: an element is not a pair of name and value');
      ArrayPrototypePush(pairs, [toByteString(both[0], 'Header name'), toByteString(both[1], 'Header value')]);
    }, method);
    for (let i = 0; i < pairs.length; i++) append(headers, pairs[i][0], pairs[i][1]);
    return;
  }
  const keys = ReflectOwnKeys(init);
  /** @type {any[][]} */ const pairs = rawList();
  for (let i = 0; i < keys.length; i++) {
    const descriptor = ReflectGetOwnPropertyDescriptor(init, keys[i]);
    if (descriptor === undefined || !descriptor.enumerable) continue;
    if (typeof keys[i] === 'symbol') throw new TypeError('Headers: a name is a symbol');
    ArrayPrototypePush(pairs, [toByteString(keys[i], 'Header name'), toByteString(init[keys[i]], 'Header value')]);
  }
  for (let i = 0; i < pairs.length; i++) append(headers, pairs[i][0], pairs[i][1]);
}
