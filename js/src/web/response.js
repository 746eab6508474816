/**
 * Response, and how one goes out. `new Response("text")` makes no Headers and no stream; respond() hands its text to the C side
 * as it is.
 */
import { JSONStringify, NumberIsFinite, RegExpPrototypeExec, Symbol, TypeError, RangeError, Uint8Array, ReflectConstruct, promiseIgnore, promiseThen } from '../primordials.js';
import { natives } from '../natives.js';
import { Body, BYTES, LINK, TEXT, cloneBody, extractBody, mixBody, setBody, setContentTypeOf, takeWire, unusable } from './body.js';
import { Headers, IMMUTABLE, MUTABLE, copyHeaders, fill, fromWire, getHeader, isHeaders, putHeader, toWire } from './headers.js';
import { LinkBody, inlineOrStream } from './link_body.js';
import { hrefOfParts, parseURL } from './url.js';
import { claimWebSocket, coupleLink, isWebSocket } from './websocket.js';
import { newStream } from '../link.js';
import { isRequest, requestHeader } from './request.js';
import { finishInterface, isObject, isUint8Array, requireArguments, toByteString, toDOMString, toDictionary, toUint16, toUSVString } from './webidl.js';

const REASON = /^[\t\x20-\x7e\x80-\xff]*$/;
const PLAIN_TEXT = 'text/plain;charset=UTF-8';

export class Response extends Body {
  #type = 'default';
  #url = '';
  #redirected = false;
  #status = 200;
  #statusText = '';
  /** Headers, or the wire's text of them @type {any} */
  #headers = '';
  #guard = MUTABLE;
  /** @type {any} */ #cf = undefined;
  /** @type {any} */ #webSocket = null;
  #encodeBody = 'automatic';

  /** @param {any} [body] @param {any} [init] */
  constructor(body = null, init = undefined) {
    super();
    if (body === RAW) return; // internal
    if (init !== undefined && init !== null) this.#init(init);
    if (body === null || body === undefined) return;
    if (this.#status < 200 || this.#status === 204 || this.#status === 205 || this.#status === 304) {
      throw new TypeError(`Response with null body status (101, 204, 205, or 304) cannot have a body.`);
    }
    const type = extractBody(this, body);
    if (type !== null) this.#setType(type);
  }
  /** @param {any} init */
  #init(init) {
    const options = toDictionary(init, 'ResponseInit');
    const { status, statusText, headers, webSocket, cf, encodeBody } = options;
    if (webSocket !== undefined && webSocket !== null) {
      if (!isWebSocket(webSocket)) throw new TypeError('Response: webSocket is not a WebSocket');
      this.#webSocket = webSocket;
    }
    if (status !== undefined) {
      const number = +status;
      this.#status = NumberIsFinite(number) ? toUint16(number) : 0;
      if (this.#status === 101 && this.#webSocket === null) throw new RangeError('Responses with status code 101 must have a webSocket in ResponseInit.');
      if (this.#status !== 101 && (this.#status < 200 || this.#status > 599)) throw new RangeError('Responses may only be constructed with status codes in the range 200 to 599, inclusive.');
    }
    if (this.#webSocket !== null && this.#status !== 101) throw new RangeError('Responses with a webSocket must have status code 101.');
    if (statusText !== undefined) {
      const text = toByteString(statusText, 'statusText');
      if (RegExpPrototypeExec(REASON, text) === null) throw new TypeError('Invalid statusText');
      this.#statusText = text;
    }
    if (headers !== undefined && headers !== null) {
      const made = new Headers();
      if (isHeaders(headers)) copyHeaders(headers, made);
      else fill(made, headers);
      this.#headers = made;
    }
    if (cf !== undefined) this.#cf = cf === null ? undefined : cf;
    if (encodeBody !== undefined) {
      const text = toDOMString(encodeBody);
      if (text !== 'automatic' && text !== 'manual') throw new TypeError(`encodeBody: unexpected value: ${text}`);
      this.#encodeBody = text;
    }
  }
  /** @param {string} type */
  #setType(type) {
    if (this.#headers === '') this.#headers = type === PLAIN_TEXT ? TEXT_HEADERS : `content-type\n${type}`;
    else if (getHeader(this.#list(), 'content-type') === null) putHeader(this.#list(), 'content-type', type);
  }

  static error() {
    const made = raw();
    made.#type = 'error';
    made.#status = 0;
    made.#guard = IMMUTABLE;
    return made;
  }
  /** @param {any} url @param {any} [status] */
  static redirect(url, status = 302) {
    requireArguments(arguments.length, 1, 'Response.redirect');
    const text = toUSVString(url), code = toUint16(status);
    const parts = parseURL(text, baseURL);
    if (parts === null) throw new TypeError(`Unable to parse URL: ${text}`);
    if (code !== 301 && code !== 302 && code !== 303 && code !== 307 && code !== 308) throw new RangeError(`${code} is not a redirect status code.`);
    const made = raw();
    made.#status = code;
    made.#headers = `location\n${hrefOfParts(parts)}`;
    made.#guard = IMMUTABLE;
    return made;
  }
  /** @param {any} data @param {any} [init] */
  static json(data, init = undefined) {
    requireArguments(arguments.length, 1, 'Response.json');
    const text = JSONStringify(data);
    if (text === undefined) throw new TypeError('Response.json: the value has no JSON');
    const made = new Response(null, init);
    if (made.#status < 200 || made.#status === 204 || made.#status === 205 || made.#status === 304) throw new TypeError('Response with null body status (101, 204, 205, or 304) cannot have a body.');
    setBody(made, TEXT, text);
    made.#setType('application/json');
    return made;
  }

  get type() { return this.#type; }
  get url() { return this.#url; }
  get redirected() { return this.#redirected; }
  get status() { return this.#status; }
  get ok() { return this.#status >= 200 && this.#status <= 299; }
  get statusText() { return this.#statusText; }
  get headers() { return this.#list(); }
  #list() {
    if (typeof this.#headers === 'string') this.#headers = fromWire(this.#headers, this.#guard);
    return this.#headers;
  }
  get cf() { return this.#cf; }
  get webSocket() { return this.#webSocket; }
  get encodeBody() { return this.#encodeBody; }

  clone() {
    if (this.#webSocket !== null) throw new TypeError('Cannot clone a response to a WebSocket handshake.');
    if (unusable(this)) throw new TypeError('Response.clone: the body has been used');
    const copy = raw();
    copy.#type = this.#type;
    copy.#url = this.#url;
    copy.#redirected = this.#redirected;
    copy.#status = this.#status;
    copy.#statusText = this.#statusText;
    copy.#headers = typeof this.#headers === 'string' ? this.#headers : toWire(this.#headers);
    copy.#guard = this.#guard;
    copy.#cf = this.#cf;
    copy.#encodeBody = this.#encodeBody;
    cloneBody(this, copy);
    return copy;
  }

  static {
    isResponse = (value) => isObject(value) && #type in value;
    responseFromWire = (status, statusText, headers, body, url, options) => {
      const made = raw();
      made.#type = 'default';
      made.#status = status;
      made.#statusText = statusText ?? '';
      made.#headers = headers;
      made.#guard = IMMUTABLE;
      made.#url = url;
      if (options !== undefined) {
        made.#redirected = options.redirected === true;
        made.#webSocket = options.webSocket ?? null;
        made.#cf = options.cf;
        if (options.mutable === true) made.#guard = MUTABLE;
      }
      if (body !== null && body !== undefined) {
        if (typeof body === 'number') setBody(made, LINK, new LinkBody(body));
        else if (typeof body === 'string') setBody(made, TEXT, body);
        else setBody(made, BYTES, isUint8Array(body) ? body : new Uint8Array(body));
      }
      return made;
    };
    headersOfResponse = (response) => response.#list();
    responseHeader = (response, key) => (response.#headers === '' ? null : getHeader(response.#list(), key));
    locateResponse = (response, url, redirected) => {
      if (response.#url === '' || redirected) response.#url = url;
      response.#redirected = redirected;
    };
    responseToWire = (response) => ({
      __proto__: null, status: response.#status, statusText: response.#statusText, type: response.#type, url: response.#url, cf: response.#cf,
      redirected: response.#redirected, webSocket: response.#webSocket, encodeBody: response.#encodeBody,
      headers: typeof response.#headers === 'string' ? response.#headers : toWire(response.#headers),
    });
    respond = (call, response, upgrade, done) => {
      if (response.#type === 'error') throw new TypeError('Response.error() cannot be sent');
      let headers = typeof response.#headers === 'string' ? response.#headers : toWire(response.#headers);
      if (response.#webSocket !== null) {
        if (!upgrade) throw new TypeError('The request did not ask for a WebSocket: a 101 response cannot be sent');
        claimWebSocket(response.#webSocket);
        const inSid = newStream(), outSid = newStream();
        // Named before it is used: what was sent already follows at once, and nobody takes bytes of a stream that they do not know.
        natives.respond(call, 101, response.#statusText, headers, null, [inSid, outSid]);
        coupleLink(response.#webSocket, inSid, outSid, done);
        return;
      }
      const body = takeWire(response);
      const announce = (/** @type {number} */ length) => {
        if (getHeader(response.#list(), 'content-length') === null) headers = `${headers}${headers === '' ? '' : '\n'}content-length\n${length}`;
      };
      if (body === null || typeof body === 'string' || isUint8Array(body)) {
        const sent = inlineOrStream(body, announce);
        natives.respond(call, response.#status, response.#statusText, headers, sent);
        done?.();
        return;
      }
      if (body.length !== undefined) announce(body.length);
      const sending = body.stream();
      natives.respond(call, response.#status, response.#statusText, headers, sending.id);
      promiseIgnore(promiseThen(sending.done, done));
    };
  }
}
const RAW = Symbol('raw');
const TEXT_HEADERS = `content-type\n${PLAIN_TEXT}`;
const raw = () => /** @type {any} */ (ReflectConstruct(Response, [RAW]));
/** @type {string|undefined} */
let baseURL;
/** @param {string|undefined} url see request.js */
export const setResponseBaseURL = (url) => { baseURL = url; };
/** @type {(value: any) => boolean} */ var isResponse;
/**
 * `body`: null, text, bytes (ArrayBuffer) or the number of a stream that the other side sends.
 * @type {(status: number, statusText: string|null|undefined, headers: string, body: any, url: string, options?: {redirected?: boolean, webSocket?: any, cf?: any, mutable?: boolean}) => any}
 */
var responseFromWire;
/** @type {(response: any, key: string) => string|null} */ var responseHeader;
/** The address that it came from, when it does not say. @type {(response: any, url: string, redirected: boolean) => void} */ var locateResponse;
/** The body is takeWire()'s. @type {(response: any) => any} */ var responseToWire;
/**
 * Answers dispatch.fetch(). Throws (having answered nothing) when the response cannot be sent. `upgrade`: the request asked for a
 * WebSocket. `done` is called when nothing of it is left to send (true: because the client has left), or its WebSocket is over.
 * @type {(call: number, response: any, upgrade: boolean, done?: (gone?: boolean) => void) => void}
 */
var respond;
/** @type {(response: any) => any} */ var headersOfResponse;
export { headersOfResponse, isResponse, locateResponse, responseFromWire, responseHeader, responseToWire, respond };
mixBody(Response);
finishInterface(Response, 'Response');

setContentTypeOf((body) => (isRequest(body) ? requestHeader(body, 'content-type') : responseHeader(body, 'content-type')));
