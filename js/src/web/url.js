/**
 * URL and URLSearchParams. Parsing is whatwg-url's state machine; the addresses that requests mostly have are recognised by one
 * regular expression instead (`quick`), which accepts only what the state machine would leave exactly as it is.
 */
import {
  ArrayPrototypePush, ArrayPrototypeSort, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, RegExpPrototypeExec,
  StringFromCharCode, StringPrototypeIncludes, StringPrototypeIndexOf, StringPrototypeReplaceAll,
  StringPrototypeSlice, SymbolIterator, TypeError, Uint8Array, decodeURIComponent, encodeURIComponent, iterate, parseInt,
} from '../primordials.js';
import {
  basicURLParse, cannotHaveAUsernamePasswordPort, hasAnOpaquePath, serializeHost, serializePath, serializeURL, serializeURLOrigin, setThePassword, setTheUsername,
} from 'whatwg-url/lib/url-state-machine.js'; // not the package's index: its wrapper classes need a SharedArrayBuffer
import { utf8DecodeKeepMark, utf8Encode } from './bytes.js';
import { finishInterface, isObject, pairIterable, requireArguments, toUSVString } from './webidl.js';

const QUICK = /^(https?):\/\/((?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*|127\.0\.0\.1)(?::([1-9][0-9]{0,4}))?(\/[A-Za-z0-9_~!$&'()*+,;=:@/%.-]*)?(?:\?([A-Za-z0-9_~!$&()*+,;=:@/?%.[\]{}|^`\\-]*))?(?:#([A-Za-z0-9_~!$&'()*+,;=:@/?%.-]*))?$/;

/** @typedef {{scheme: string, username: string, password: string, host: string|null, port: string, path: string, query: string|null, fragment: string|null, href: string|null, record: any}} Parts */

/** @param {string} text @returns {Parts|null} null: ask the state machine */
function quick(text) {
  const m = RegExpPrototypeExec(QUICK, text);
  if (m === null) return null;
  const scheme = m[1], host = m[2], port = m[3], path = m[4];
  if (StringPrototypeIncludes(host, 'xn--') || host.length > 253) return null;
  if (port !== undefined && (+port > 65535 || port === (scheme === 'http' ? '80' : '443'))) return null;
  if (path === undefined) {
    if (m[5] !== undefined || m[6] !== undefined) return null;
    text = `${text}/`;
  } else if (StringPrototypeIncludes(path, '/.') || StringPrototypeIncludes(path, '%2e') || StringPrototypeIncludes(path, '%2E')) {
    return null;
  }
  return /** @type {any} */ ({
    __proto__: null, scheme, username: '', password: '', host, port: port ?? '', path: path ?? '/', query: m[5] ?? null, fragment: m[6] ?? null, href: text, record: null,
  });
}

/** @param {any} record of whatwg-url @returns {Parts} */
function partsOf(record) {
  return /** @type {any} */ ({
    __proto__: null, scheme: record.scheme, username: record.username, password: record.password,
    host: record.host === null ? null : serializeHost(record.host), port: record.port === null ? '' : `${record.port}`,
    path: serializePath(record), query: record.query, fragment: record.fragment, href: null, record,
  });
}
/** @param {Parts} parts @returns {string} */
const hrefOf = (parts) => (parts.href ??= serializeURL(parts.record));
/** @param {Parts} parts */
const recordOf = (parts) => (parts.record ??= basicURLParse(/** @type {string} */ (parts.href)));

/** @param {string} input @param {string} [base] @returns {Parts|null} */
export function parseURL(input, base) {
  const parts = quick(input);
  if (parts !== null) return parts;
  let against = null;
  if (base !== undefined) {
    const outer = quick(base);
    against = outer === null ? basicURLParse(base) : recordOf(outer);
    if (against === null) return null;
  }
  const record = basicURLParse(input, { baseURL: against });
  return record === null ? null : partsOf(record);
}
/** @param {Parts} parts */
export const hrefOfParts = (parts) => hrefOf(parts);

// --- application/x-www-form-urlencoded
const PLAIN = /^[A-Za-z0-9*\-._]*$/;
/** @param {string} text */
function encodeForm(text) {
  if (RegExpPrototypeExec(PLAIN, text) !== null) return text;
  const encoded = encodeURIComponent(text);
  let out = '';
  for (let i = 0; i < encoded.length; i++) {
    const c = encoded[i];
    switch (c) {
      case '!': out += '%21'; break;
      case "'": out += '%27'; break;
      case '(': out += '%28'; break;
      case ')': out += '%29'; break;
      case '~': out += '%7E'; break;
      case '%':
        if (encoded[i + 1] === '2' && encoded[i + 2] === '0') { out += '+'; i += 2; } else out += c;
        break;
      default: out += c;
    }
  }
  return out;
}
/** @param {string} text */
function decodeForm(text) {
  if (StringPrototypeIndexOf(text, '+') >= 0) text = StringPrototypeReplaceAll(text, '+', ' ');
  if (StringPrototypeIndexOf(text, '%') < 0) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return decodeLoose(text);
  }
}
const HEX = /^[0-9A-Fa-f]{2}$/;
/** Percent signs that are none stay, malformed UTF-8 becomes U+FFFD. @param {string} text */
function decodeLoose(text) {
  const bytes = utf8Encode(text);
  let to = 0;
  for (let i = 0; i < bytes.length; i++) {
    let byte = bytes[i];
    if (byte === 0x25 && i + 2 < bytes.length) {
      const digits = StringFromCharCode(bytes[i + 1], bytes[i + 2]);
      if (RegExpPrototypeExec(HEX, digits) !== null) { byte = parseInt(digits, 16); i += 2; }
    }
    bytes[to++] = byte;
  }
  return utf8DecodeKeepMark(new Uint8Array(bytes.buffer, bytes.byteOffset, to));
}
/** @param {string} text @returns {[string, string][]} */
export function parseUrlencoded(text) {
  /** @type {[string, string][]} */ const pairs = [];
  let at = 0;
  while (at <= text.length) {
    let end = StringPrototypeIndexOf(text, '&', at);
    if (end < 0) end = text.length;
    if (end > at) {
      const part = StringPrototypeSlice(text, at, end);
      const equals = StringPrototypeIndexOf(part, '=');
      ArrayPrototypePush(pairs, equals < 0 ? [decodeForm(part), ''] : [decodeForm(StringPrototypeSlice(part, 0, equals)), decodeForm(StringPrototypeSlice(part, equals + 1))]);
    }
    at = end + 1;
  }
  return pairs;
}
/** @param {any[][]} pairs */
function serializePairs(pairs) {
  let text = '';
  for (let i = 0; i < pairs.length; i++) text += `${i === 0 ? '' : '&'}${encodeForm(pairs[i][0])}=${encodeForm(pairs[i][1])}`;
  return text;
}

export class URLSearchParams {
  /** @type {[string, string][]} */ #list = [];
  /** the URL whose query this is @type {any} */ #url = null;
  /** @param {any} [init] */
  constructor(init = '') {
    if (isObject(init)) {
      const method = init[SymbolIterator];
      if (method !== undefined && method !== null) {
        iterate(init, (pair) => {
          if (!isObject(pair)) throw new TypeError('URLSearchParams: an element is not a pair');
          /** @type {string[]} */ const both = [];
          iterate(pair, (part) => ArrayPrototypePush(both, toUSVString(part)));
          if (both.length !== 2) throw new TypeError('URLSearchParams: an element is not a pair of name and value');
          ArrayPrototypePush(this.#list, [both[0], both[1]]);
        }, method);
      } else {
        const keys = ReflectOwnKeys(init);
        for (let i = 0; i < keys.length; i++) {
          if (typeof keys[i] === 'symbol') continue; // as Workers do it; the standard throws
          const descriptor = ReflectGetOwnPropertyDescriptor(init, keys[i]);
          if (descriptor === undefined || !descriptor.enumerable) continue;
          const key = toUSVString(keys[i]), value = toUSVString(init[keys[i]]);
          let known = false; // two keys may become one when lone surrogates are replaced
          for (let k = 0; k < this.#list.length; k++) if (this.#list[k][0] === key) { this.#list[k][1] = value; known = true; }
          if (!known) ArrayPrototypePush(this.#list, [key, value]);
        }
      }
    } else {
      const text = toUSVString(init);
      this.#list = parseUrlencoded(text[0] === '?' ? StringPrototypeSlice(text, 1) : text);
    }
  }
  get size() { return this.#list.length; }
  /** @param {any} name @param {any} value */
  append(name, value) {
    void this.#list;
    requireArguments(arguments.length, 2, 'URLSearchParams.append');
    ArrayPrototypePush(this.#list, [toUSVString(name), toUSVString(value)]);
    this.#update();
  }
  /** @param {any} name @param {any} [value] */
  delete(name, value = undefined) {
    void this.#list;
    requireArguments(arguments.length, 1, 'URLSearchParams.delete');
    const key = toUSVString(name), only = value === undefined ? undefined : toUSVString(value), list = this.#list;
    let to = 0;
    for (let i = 0; i < list.length; i++) if (list[i][0] !== key || (only !== undefined && list[i][1] !== only)) list[to++] = list[i];
    list.length = to;
    this.#update();
  }
  /** @param {any} name */
  get(name) {
    void this.#list;
    requireArguments(arguments.length, 1, 'URLSearchParams.get');
    const key = toUSVString(name), list = this.#list;
    for (let i = 0; i < list.length; i++) if (list[i][0] === key) return list[i][1];
    return null;
  }
  /** @param {any} name */
  getAll(name) {
    void this.#list;
    requireArguments(arguments.length, 1, 'URLSearchParams.getAll');
    const key = toUSVString(name), list = this.#list;
    /** @type {string[]} */ const found = [];
    for (let i = 0; i < list.length; i++) if (list[i][0] === key) ArrayPrototypePush(found, list[i][1]);
    return found;
  }
  /** @param {any} name @param {any} [value] */
  has(name, value = undefined) {
    void this.#list;
    requireArguments(arguments.length, 1, 'URLSearchParams.has');
    const key = toUSVString(name), only = value === undefined ? undefined : toUSVString(value), list = this.#list;
    for (let i = 0; i < list.length; i++) if (list[i][0] === key && (only === undefined || list[i][1] === only)) return true;
    return false;
  }
  /** @param {any} name @param {any} value */
  set(name, value) {
    void this.#list;
    requireArguments(arguments.length, 2, 'URLSearchParams.set');
    const key = toUSVString(name), text = toUSVString(value), list = this.#list;
    let to = 0, placed = false;
    for (let i = 0; i < list.length; i++) {
      if (list[i][0] !== key) list[to++] = list[i];
      else if (!placed) { list[i][1] = text; list[to++] = list[i]; placed = true; }
    }
    list.length = to;
    if (!placed) ArrayPrototypePush(list, [key, text]);
    this.#update();
  }
  sort() {
    ArrayPrototypeSort(this.#list, (/** @type {string[]} */ a, /** @type {string[]} */ b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    this.#update();
  }
  toString() { return serializePairs(this.#list); }

  #update() { if (this.#url !== null) setQuery(this.#url, serializePairs(this.#list)); }
  static {
    isURLSearchParams = (value) => isObject(value) && #list in value;
    serializeSearchParams = (params) => serializePairs(params.#list);
    listOf = (params) => params.#list;
    bindParams = (params, url, query) => {
      params.#url = url;
      const fresh = query === null ? [] : parseUrlencoded(query), list = params.#list;
      list.length = 0;
      for (let i = 0; i < fresh.length; i++) ArrayPrototypePush(list, fresh[i]);
    };
  }
}
/** @type {(value: any) => boolean} */ var isURLSearchParams;
/** @type {(params: any) => string} */ var serializeSearchParams;
/** @type {(params: any) => any[][]} */ var listOf;
/** @type {(params: any, url: any, query: string|null) => void} */ var bindParams;
export { isURLSearchParams, listOf, serializeSearchParams };
pairIterable(URLSearchParams, 'URLSearchParams', (self) => listOf(self));
finishInterface(URLSearchParams, 'URLSearchParams');

export class URL {
  /** @type {Parts} */ #parts;
  /** @type {any} */ #params = null;

  /** @param {any} url @param {any} [base] */
  constructor(url, base = undefined) {
    requireArguments(arguments.length, 1, 'URL constructor');
    const input = toUSVString(url);
    const parts = parseURL(input, base === undefined ? undefined : toUSVString(base));
    if (parts === null) throw invalid(input);
    this.#parts = parts;
  }
  /** @param {any} url @param {any} [base] */
  static canParse(url, base = undefined) {
    requireArguments(arguments.length, 1, 'URL.canParse');
    return parseURL(toUSVString(url), base === undefined ? undefined : toUSVString(base)) !== null;
  }
  /** @param {any} url @param {any} [base] */
  static parse(url, base = undefined) {
    requireArguments(arguments.length, 1, 'URL.parse');
    const parts = parseURL(toUSVString(url), base === undefined ? undefined : toUSVString(base));
    if (parts === null) return null;
    const made = new URL('about:blank');
    made.#parts = parts;
    return made;
  }
  /** @param {any} blob */
  static createObjectURL(blob) { void blob; throw new TypeError('URL.createObjectURL is not implemented: there is nothing here that could open such an address'); }
  /** @param {any} url */
  static revokeObjectURL(url) { void url; throw new TypeError('URL.revokeObjectURL is not implemented: there is nothing here that could open such an address'); }

  get href() { return hrefOf(this.#parts); }
  set href(value) {
    const input = toUSVString(value), parts = parseURL(input);
    if (parts === null) throw invalid(input);
    this.#parts = parts;
    this.#rebind();
  }
  toString() { return hrefOf(this.#parts); }
  toJSON() { return hrefOf(this.#parts); }
  get origin() {
    const { scheme, host, port } = this.#parts;
    if (scheme === 'http' || scheme === 'https') return port === '' ? `${scheme}://${host}` : `${scheme}://${host}:${port}`;
    return serializeURLOrigin(recordOf(this.#parts));
  }
  get protocol() { return `${this.#parts.scheme}:`; }
  set protocol(value) { this.#run(`${toUSVString(value)}:`, 'scheme start'); }
  get username() { return this.#parts.username; }
  set username(value) {
    const text = toUSVString(value), record = recordOf(this.#parts);
    if (cannotHaveAUsernamePasswordPort(record)) return;
    setTheUsername(record, text);
    this.#parts = partsOf(record);
  }
  get password() { return this.#parts.password; }
  set password(value) {
    const text = toUSVString(value), record = recordOf(this.#parts);
    if (cannotHaveAUsernamePasswordPort(record)) return;
    setThePassword(record, text);
    this.#parts = partsOf(record);
  }
  get host() {
    const { host, port } = this.#parts;
    return host === null ? '' : port === '' ? host : `${host}:${port}`;
  }
  set host(value) {
    const text = toUSVString(value);
    if (!hasAnOpaquePath(recordOf(this.#parts))) this.#run(text, 'host');
  }
  get hostname() { return this.#parts.host ?? ''; }
  set hostname(value) {
    const text = toUSVString(value);
    if (!hasAnOpaquePath(recordOf(this.#parts))) this.#run(text, 'hostname');
  }
  get port() { return this.#parts.port; }
  set port(value) {
    const text = toUSVString(value), record = recordOf(this.#parts);
    if (cannotHaveAUsernamePasswordPort(record)) return;
    if (text === '') {
      record.port = null;
      this.#parts = partsOf(record);
    } else {
      this.#run(text, 'port');
    }
  }
  get pathname() { return this.#parts.path; }
  set pathname(value) {
    const text = toUSVString(value), record = recordOf(this.#parts);
    if (hasAnOpaquePath(record)) return;
    record.path = [];
    this.#run(text, 'path start');
  }
  get search() { const { query } = this.#parts; return query === null || query === '' ? '' : `?${query}`; }
  set search(value) {
    let text = toUSVString(value);
    const record = recordOf(this.#parts);
    if (text === '') {
      record.query = null;
      this.#parts = partsOf(record);
    } else {
      if (text[0] === '?') text = StringPrototypeSlice(text, 1);
      record.query = '';
      this.#run(text, 'query');
    }
    this.#rebind();
  }
  get searchParams() {
    if (this.#params === null) {
      this.#params = new URLSearchParams();
      this.#rebind();
    }
    return this.#params;
  }
  get hash() { const { fragment } = this.#parts; return fragment === null || fragment === '' ? '' : `#${fragment}`; }
  set hash(value) {
    let text = toUSVString(value);
    const record = recordOf(this.#parts);
    if (text === '') {
      record.fragment = null;
      this.#parts = partsOf(record);
      return;
    }
    if (text[0] === '#') text = StringPrototypeSlice(text, 1);
    record.fragment = '';
    this.#run(text, 'fragment');
  }

  #rebind() { if (this.#params !== null) bindParams(this.#params, this, this.#parts.query); }
  /** @param {string} text @param {string} state */
  #run(text, state) {
    const record = recordOf(this.#parts);
    basicURLParse(text, /** @type {any} */ ({ url: record, stateOverride: state }));
    this.#parts = partsOf(record);
  }
  static {
    isURL = (value) => isObject(value) && #parts in value;
    hrefOfURL = (url) => hrefOf(url.#parts);
    setQuery = (url, query) => {
      const record = recordOf(url.#parts);
      record.query = query === '' ? null : query;
      url.#parts = partsOf(record);
    };
  }
}
/** @type {(value: any) => boolean} */ var isURL;
/** @type {(url: any, query: string) => void} */ var setQuery;
/** @type {(url: any) => string} */ var hrefOfURL;
export { hrefOfURL, isURL };
finishInterface(URL, 'URL');

/** @param {string} input */
function invalid(input) {
  const error = /** @type {any} */ (new TypeError(`Invalid URL: ${StringPrototypeSlice(input, 0, 200)}`));
  error.code = 'ERR_INVALID_URL';
  error.input = input;
  return error;
}
