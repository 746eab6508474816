/**
 * The WebSockets that an object accepted with acceptWebSocket(). They belong to the object's place, not to its instance: an instance that was
 * removed from memory is made anew when a message comes, and finds them with getWebSockets().
 */
import {
  ArrayPrototypePush, Date, Error, Number, RangeError, SafeMap, SafeSet, String, SymbolToStringTag, TypeError, define, describeError, iterate,
  promiseIgnore, promiseThen,
} from '../primordials.js';
import { clearTimer, setTimer } from '../link.js';
import { natives } from '../natives.js';
import { rawList } from '../rpc/cbor.js';
import { handleWebSocketWith, isWebSocket } from '../web/websocket.js';

const MAX_SOCKETS = 32768, MAX_TAGS = 10, MAX_TAG = 256, MAX_PAIR = 2048, MAX_TIMEOUT = 604800000;

export class WebSocketRequestResponsePair {
  #request; #response;
  /** @param {string} request @param {string} response */
  constructor(request, response) {
    if (arguments.length < 2) throw new TypeError('WebSocketRequestResponsePair takes a request and a response.');
    this.#request = String(request);
    this.#response = String(response);
  }
  get request() { return this.#request; }
  get response() { return this.#response; }
  getRequest() { return this.#request; }
  getResponse() { return this.#response; }
  /** @param {any} value */
  static is(value) { return typeof value === 'object' && value !== null && #request in value; }
}
const isPair = WebSocketRequestResponsePair.is;
delete /** @type {any} */ (WebSocketRequestResponsePair).is;
define(WebSocketRequestResponsePair.prototype, SymbolToStringTag, 'WebSocketRequestResponsePair');

/** @param {any} tags @returns {string[]} */
function tagsOf(tags) {
  const list = rawList(), seen = new SafeSet();
  if (tags === undefined || tags === null) return list;
  iterate(tags, (tag) => {
    const text = String(tag);
    if (text.length > MAX_TAG) throw new Error(`"${text}" is longer than the max tag length (${MAX_TAG} characters).`);
    if (seen.has(text)) return;
    if (list.length >= MAX_TAGS) throw new Error(`a Hibernatable WebSocket cannot have more than ${MAX_TAGS} tags`);
    seen.add(text);
    list[list.length] = text;
  });
  return list;
}

export class ObjectSockets {
  /** @param {any} slot wake(): the instance, made if there is none */
  constructor(slot) {
    this.slot = slot;
    /** In the order of their acceptance. @type {Map<any, {tags: string[], autoResponded: number|null}>} */
    this.sockets = new SafeMap();
    /** @type {any} */ this.pair = null;
    this.timeout = 0;
  }

  get size() { return this.sockets.size; }

  /** @param {any} socket @param {any} tags */
  accept(socket, tags) {
    if (!isWebSocket(socket)) throw new TypeError('acceptWebSocket() takes a WebSocket.');
    if (this.sockets.has(socket)) throw new Error('The WebSocket was accepted already.');
    if (this.sockets.size >= MAX_SOCKETS) throw new Error(`only ${MAX_SOCKETS} websockets can be accepted on a single Durable Object instance`);
    const entry = /** @type {any} */ ({ __proto__: null, tags: tagsOf(tags), autoResponded: null });
    this.sockets.set(socket, entry);
    try {
      handleWebSocketWith(socket, (message, binary) => this.arrived(socket, entry, message, binary));
    } catch (error) {
      this.sockets.delete(socket);
      throw error;
    }
  }

  /** @param {any} socket @param {any} entry @param {any} message @param {(bytes: Uint8Array) => any} binary */
  arrived(socket, entry, message, binary) {
    if (message.kind === 1 && this.pair !== null && message.text === this.pair.getRequest()) {
      entry.autoResponded = natives.now();
      try {
        socket.send(this.pair.getResponse());
      } catch { /* it was closed meanwhile */ }
      return;
    }
    if (message.kind === 1) this.tell('webSocketMessage', [socket, message.text]);
    else if (message.kind === 2) this.tell('webSocketMessage', [socket, binary(message.bytes)]);
    else if (message.kind === 8) this.gone(socket, 'webSocketClose', [socket, message.code, message.reason, true]);
    else this.lost(socket, message.reason);
  }

  /** @param {any} socket @param {string} handler @param {any[]} list */
  gone(socket, handler, list) {
    // Still among getWebSockets() while its handler runs, as long as it can be written to.
    const forget = () => { this.sockets.delete(socket); };
    promiseThen(this.tell(handler, list), forget, forget);
  }

  /** @param {any} socket @param {string} reason */
  lost(socket, reason) {
    if (typeof this.slot.findClass()?.prototype?.webSocketError === 'function') {
      promiseIgnore(this.tell('webSocketError', [socket, new Error(reason || 'WebSocket disconnected between frames without sending a close.')]));
    }
    this.gone(socket, 'webSocketClose', [socket, 1006, '', false]);
  }

  /** @param {string} handler @param {any[]} list @returns {Promise<any>} settled when the handler is done; never rejects */
  tell(handler, list) {
    const instance = this.slot.wake();
    let timer = 0;
    const done = promiseThen(instance.event((/** @type {any} */ object) => {
      const method = object[handler];
      if (typeof method !== 'function') return undefined;
      if (this.timeout > 0) timer = setTimer(this.timeout, () => instance.break(new Error(`A WebSocket event took longer than ${this.timeout} ms.`)));
      return method.call(object, list[0], list[1], list[2], list[3]);
    }), undefined, (error) => natives.log(0, `Uncaught ${describeError(error)}`));
    return promiseThen(done, () => { if (timer !== 0) clearTimer(timer); });
  }

  // --- what ctx offers

  /** @param {any} tag */
  list(tag) {
    const wanted = tag === undefined || tag === null ? null : String(tag);
    const found = /** @type {any[]} */ ([]);
    this.sockets.forEach((entry, socket) => {
      if (socket.readyState === 3) return;
      for (let i = 0; wanted !== null; i++) {
        if (i >= entry.tags.length) return;
        if (entry.tags[i] === wanted) break;
      }
      ArrayPrototypePush(found, socket);
    });
    return found;
  }

  /** @param {any} socket */
  entry(socket) {
    const entry = this.sockets.get(socket);
    if (entry === undefined) throw new Error('The WebSocket was not accepted with acceptWebSocket() of this Durable Object.');
    return entry;
  }

  /** @param {any} socket */
  tags(socket) {
    const copy = /** @type {string[]} */ ([]);
    const { tags } = this.entry(socket);
    for (let i = 0; i < tags.length; i++) ArrayPrototypePush(copy, tags[i]);
    return copy;
  }

  /** @param {any} pair */
  setAutoResponse(pair) {
    if (pair === undefined || pair === null) {
      this.pair = null;
      return;
    }
    if (!isPair(pair)) throw new TypeError('setWebSocketAutoResponse() takes a WebSocketRequestResponsePair.');
    const { length } = pair.getRequest(), answer = pair.getResponse().length;
    if (length > MAX_PAIR) throw new RangeError(`Request cannot be larger than ${MAX_PAIR} bytes. A request of size ${length} was provided.`);
    if (answer > MAX_PAIR) throw new RangeError(`Response cannot be larger than ${MAX_PAIR} bytes. A response of size ${answer} was provided.`);
    this.pair = pair;
  }

  /** @param {any} socket @returns {Date|null} */
  autoResponded(socket) {
    const { autoResponded } = this.entry(socket);
    return autoResponded === null ? null : new Date(autoResponded);
  }

  /** @param {any} ms */
  setTimeout(ms) {
    const number = ms === undefined || ms === null ? 0 : Number(ms);
    if (!(number >= 0 && number <= MAX_TIMEOUT)) throw new Error(`Event timeout should not exceed ${MAX_TIMEOUT} ms.`);
    this.timeout = number;
  }
}
