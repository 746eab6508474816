/**
 * Request. One that came in is made by requestFromWire() from the text of the wire: its URL is not parsed, its headers are not
 * split, its signal does not exist until somebody asks.
 */
import { ReflectConstruct, RegExpPrototypeExec, StringPrototypeIncludes, StringPrototypeToUpperCase, Symbol, TypeError, Uint8Array, nullObject } from '../primordials.js';
import { Body, BYTES, LINK, TEXT, cloneBody, extractBody, hasBody, mixBody, moveBody, setBody, unusable } from './body.js';
import { Headers, IMMUTABLE, MUTABLE, copyHeaders, fill, fromWire, getHeader, isHeaders, putHeader, toWire } from './headers.js';
import { LinkBody } from './link_body.js';
import { isSignal, newSignal, abortSignal, anySignal } from './abort.js';
import { hrefOfParts, parseURL } from './url.js';
import { domError } from './dom_exception.js';
import { isReadableStream } from './streams.js';
import { EMPTY, finishInterface, isObject, isUint8Array, requireArguments, toByteString, toDOMString, toDictionary, toUSVString } from './webidl.js';

/** The base of relative addresses: there is none in a Worker; the conformance tests set one. @type {string|undefined} */
let baseURL;
/** @param {string|undefined} url */
export const setBaseURL = (url) => { baseURL = url; };

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const FORBIDDEN_METHOD = /^(?:CONNECT|TRACE|TRACK)$/i;
const KNOWN_METHOD = /^(?:DELETE|GET|HEAD|OPTIONS|POST|PUT)$/i;
/** @param {any} value */
function normalMethod(value) {
  const text = toByteString(value, 'Request method');
  if (RegExpPrototypeExec(TOKEN, text) === null) throw new TypeError(`Invalid HTTP method string: ${text}`);
  if (RegExpPrototypeExec(FORBIDDEN_METHOD, text) !== null) throw new TypeError(`The method ${text} is not allowed`);
  return RegExpPrototypeExec(KNOWN_METHOD, text) !== null ? StringPrototypeToUpperCase(text) : text;
}

/** @param {any} value @param {string} name @param {string} choices separated by spaces */
function choice(value, name, choices) {
  const text = toDOMString(value);
  const list = ` ${choices} `;
  if (text === '' ? name !== 'referrerPolicy' : !StringPrototypeIncludes(list, ` ${text} `)) throw new TypeError(`Request: "${text}" is not a value of ${name}`);
  return text;
}
/** What few requests set. */
const DEFAULTS = /** @type {any} */ ({
  __proto__: null, mode: 'cors', credentials: 'same-origin', cache: 'default', integrity: '', keepalive: false, referrer: 'about:client', referrerPolicy: '',
});

export class Request extends Body {
  #method = 'GET';
  #url = '';
  /** Headers, or the wire's text of them @type {any} */
  #headers = '';
  #guard = MUTABLE;
  #redirect = 'follow';
  /** @type {any} */ #signal = null;
  /** The reason with which it was aborted before anybody asked for the signal: [reason]. @type {any[]|null} */
  #aborted = null;
  /** @type {any} */ #extra = DEFAULTS;
  /** @type {any} */ #cf = undefined;
  /** the Fetcher that was given to the constructor @type {any} */
  #fetcher = null;

  /** @param {any} input @param {any} [init] */
  constructor(input, init = undefined) {
    super();
    if (input === RAW) return; // internal
    requireArguments(arguments.length, 1, 'Request constructor');
    const options = toDictionary(init, 'RequestInit');
    /** @type {any} */ let from = null;
    if (isRequest(input)) {
      from = input;
      this.#url = from.#url;
      this.#method = from.#method;
      this.#redirect = from.#redirect;
      this.#extra = from.#extra;
      this.#cf = from.#cf;
      this.#fetcher = from.#fetcher;
    } else {
      const text = toUSVString(input);
      const parts = parseURL(text, baseURL);
      if (parts === null) throw new TypeError(`Invalid URL: ${text}`);
      if (parts.username !== '' || parts.password !== '') throw new TypeError(`A request's URL must not have a user name or password: ${text}`);
      this.#url = hrefOfParts(parts);
    }
    if (options === EMPTY) {
      if (from !== null) {
        if (unusable(from)) throw new TypeError('Cannot construct a Request with a Request object that has already been used.');
        this.#headers = toWire(from.#list());
        if (from.#signal !== null || from.#aborted !== null) this.#signal = anySignal([from.#abortSignal()]);
        if (hasBody(from)) moveBody(from, this);
      }
      return;
    }
    this.#init(options, from);
  }

  /** @param {any} options @param {any} from */
  #init(options, from) {
    // In the order of the standard's dictionary, since reading them can be observed.
    const { body } = options;
    const { cache, credentials, cf, duplex, fetcher, headers, integrity, keepalive, method, mode, redirect, referrer, referrerPolicy, signal, window } = options;
    if (window !== undefined && window !== null) throw new TypeError('Request: window must be null');
    const extra = nullObject();
    let changed = false;
    /** @param {string} name @param {any} value */
    const set = (name, value) => { extra[name] = value; changed = true; };
    const old = this.#extra;
    if (referrer !== undefined) set('referrer', referrerOf(toUSVString(referrer)));
    if (referrerPolicy !== undefined) set('referrerPolicy', choice(referrerPolicy, 'referrerPolicy', 'no-referrer no-referrer-when-downgrade same-origin origin strict-origin origin-when-cross-origin strict-origin-when-cross-origin unsafe-url'));
    if (mode !== undefined) {
      const text = choice(mode, 'mode', 'same-origin no-cors cors navigate');
      if (text === 'navigate') throw new TypeError('Request: a mode of "navigate" cannot be set');
      set('mode', text);
    }
    if (credentials !== undefined) set('credentials', choice(credentials, 'credentials', 'omit same-origin include'));
    if (cache !== undefined) set('cache', choice(cache, 'cache', 'default no-store reload no-cache force-cache only-if-cached'));
    if ((extra.cache ?? old.cache) === 'only-if-cached' && (extra.mode ?? old.mode) !== 'same-origin') throw new TypeError('Request: cache "only-if-cached" needs the mode "same-origin"');
    if (redirect !== undefined) this.#redirect = choice(redirect, 'redirect', 'follow error manual');
    if (integrity !== undefined) set('integrity', toDOMString(integrity));
    if (keepalive !== undefined) set('keepalive', !!keepalive);
    if (changed) {
      for (const name in DEFAULTS) if (!(name in extra)) extra[name] = old[name];
      this.#extra = extra;
    }
    if (method !== undefined) this.#method = normalMethod(method);
    if ((extra.mode ?? old.mode) === 'no-cors' && this.#method !== 'GET' && this.#method !== 'HEAD' && this.#method !== 'POST') throw new TypeError(`Request: the mode "no-cors" does not go with ${this.#method}`);
    if (cf !== undefined) this.#cf = cf === null ? undefined : cf;
    if (fetcher !== undefined) this.#fetcher = fetcher;
    if (signal !== undefined && signal !== null) {
      if (!isSignal(signal)) throw new TypeError('Request: signal is not an AbortSignal');
      this.#signal = anySignal([signal]);
    } else if (signal === undefined && from !== null && (from.#signal !== null || from.#aborted !== null)) {
      this.#signal = anySignal([from.#abortSignal()]);
    }
    if (headers !== undefined) {
      const made = new Headers();
      if (isHeaders(headers)) copyHeaders(headers, made);
      else fill(made, headers);
      this.#headers = made;
    } else if (from !== null) {
      this.#headers = toWire(from.#list());
    }
    const given = body !== undefined && body !== null;
    if (duplex !== undefined && toDOMString(duplex) !== 'half') throw new TypeError(`Request: "${duplex}" is not a value of duplex`);
    if ((given || (from !== null && hasBody(from))) && (this.#method === 'GET' || this.#method === 'HEAD')) throw new TypeError('Request with a GET or HEAD method cannot have a body.');
    if (given) {
      const type = extractBody(this, body);
      if (type !== null) {
        const own = this.#list();
        if (getHeader(own, 'content-type') === null) putHeader(own, 'content-type', type);
      }
      if (extra.keepalive === true && isStream(body)) throw new TypeError('Request: keepalive does not go with a stream as body');
    } else if (from !== null && hasBody(from)) {
      if (body === null) return;
      if (unusable(from)) throw new TypeError('Cannot construct a Request with a Request object that has already been used.');
      moveBody(from, this);
    }
  }

  get method() { return this.#method; }
  get url() { return this.#url; }
  get headers() { return this.#list(); }
  #list() {
    if (typeof this.#headers === 'string') this.#headers = fromWire(this.#headers, this.#guard);
    return this.#headers;
  }
  get redirect() { return this.#redirect; }
  get signal() { return this.#abortSignal(); }
  #abortSignal() {
    if (this.#signal === null) {
      this.#signal = newSignal();
      if (this.#aborted !== null) abortSignal(this.#signal, this.#aborted[0]);
    }
    return this.#signal;
  }
  get cf() { return this.#cf; }
  get fetcher() { return this.#fetcher; }
  get destination() { void this.#url; return ''; }
  get referrer() { return this.#extra.referrer; }
  get referrerPolicy() { return this.#extra.referrerPolicy; }
  get mode() { return this.#extra.mode; }
  get credentials() { return this.#extra.credentials; }
  get cache() { return this.#extra.cache; }
  get integrity() { return this.#extra.integrity; }
  get keepalive() { return this.#extra.keepalive; }
  get isReloadNavigation() { void this.#url; return false; }
  get isHistoryNavigation() { void this.#url; return false; }
  get duplex() { void this.#url; return 'half'; }

  clone() {
    if (unusable(this)) throw new TypeError('Cannot clone a Request whose body has been used');
    const copy = new Request(RAW);
    copy.#url = this.#url;
    copy.#method = this.#method;
    copy.#headers = typeof this.#headers === 'string' ? this.#headers : toWire(this.#headers);
    copy.#guard = this.#guard;
    copy.#redirect = this.#redirect;
    copy.#extra = this.#extra;
    copy.#cf = this.#cf;
    copy.#fetcher = this.#fetcher;
    copy.#signal = anySignal([this.#abortSignal()]);
    cloneBody(this, copy);
    return copy;
  }

  static {
    isRequest = (value) => isObject(value) && #method in value;
    requestFromWire = (method, url, headers, body, cf) => {
      const made = /** @type {any} */ (ReflectConstruct(Request, [RAW]));
      made.#method = method;
      made.#url = url;
      made.#headers = headers;
      made.#guard = IMMUTABLE;
      made.#redirect = 'manual';
      made.#cf = cf;
      if (body !== null && body !== undefined) {
        if (typeof body === 'number') setBody(made, LINK, new LinkBody(body));
        else if (typeof body === 'string') setBody(made, TEXT, body);
        else setBody(made, BYTES, isUint8Array(body) ? body : new Uint8Array(body));
      }
      return made;
    };
    requestToWire = (request) => ({
      __proto__: null, method: request.#method, url: request.#url, redirect: request.#redirect, cf: request.#cf,
      headers: typeof request.#headers === 'string' ? request.#headers : toWire(request.#headers),
    });
    abortRequest = (request, reason = domError('AbortError', 'The client has disconnected')) => {
      if (request.#signal !== null) abortSignal(request.#signal, reason);
      else request.#aborted ??= [reason];
    };
    requestSignal = (request) => (request.#signal === null && request.#aborted === null ? null : request.#abortSignal());
    headersOfRequest = (request) => request.#list();
    requestHeader = (request, key) => (request.#headers === '' ? null : getHeader(request.#list(), key));
  }
}
const RAW = Symbol('raw');
/** @type {(value: any) => boolean} */ var isRequest;
/** An incoming request. `body`: null, text, bytes (ArrayBuffer) or the number of a stream. @type {(method: string, url: string, headers: string, body: any, cf?: any) => any} */ var requestFromWire;
/** @type {(request: any) => {method: string, url: string, headers: string, redirect: string, cf: any}} the body is takeWire()'s */ var requestToWire;
/** @type {(request: any, reason?: any) => void} */ var abortRequest;
/** Null when nobody could abort it. @type {(request: any) => any} */ var requestSignal;
/** @type {(request: any, key: string) => string|null} */ var requestHeader;
/** @type {(request: any) => any} */ var headersOfRequest;
export { headersOfRequest, isRequest, requestFromWire, requestToWire, abortRequest, requestSignal, requestHeader };
mixBody(Request);
finishInterface(Request, 'Request');

/** @param {any} value */
const isStream = isReadableStream;
/** @param {string} text */
function referrerOf(text) {
  if (text === '') return '';
  const parts = parseURL(text, baseURL);
  if (parts === null) throw new TypeError(`Invalid URL as referrer: ${text}`);
  if (parts.scheme === 'about' && parts.path === 'client') return 'about:client';
  if (baseURL !== undefined) {
    const base = parseURL(baseURL);
    if (base !== null && (base.scheme !== parts.scheme || base.host !== parts.host || base.port !== parts.port)) return 'about:client';
  }
  return hrefOfParts(parts);
}
