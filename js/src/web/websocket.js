/**
 * WebSocket and WebSocketPair. A pair's two ends are in this process: what one sends the other is told, later and in order. An end
 * that goes out with a 101 response (or came in with one) is coupled to a transport instead: from then on it has no events, what its
 * peer sends leaves on the transport, and what the transport brings the peer is told.
 */
import {
  ArrayBufferPrototypeGetByteLength, ArrayPrototypePush, ArrayPrototypeShift, DataView, DataViewPrototypeGetUint32, DataViewPrototypeSetUint32, ReflectConstruct, RegExpPrototypeExec,
  SafeMap, StringPrototypeToLowerCase, SymbolIterator, TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeSet, Uint8Array, iterate,
  promiseResolve, promiseThen, Error, nullObject, ObjectAssign,
} from '../primordials.js';
import { openReceiving, openSending, setTimer, streamConsumed, streamEnd, streamReset, streamWrite } from '../link.js';
import { blobBytes, blobOf, isBlob } from './blob.js';
import { concat, utf8DecodeKeepMark, utf8Encode } from './bytes.js';
import { domError, illegalConstructor } from './dom_exception.js';
import { CloseEvent, ErrorEvent, Event, EventTarget, MessageEvent, eventAttributes, fire } from './events.js';
import { structuredClone } from './structured_clone.js';
import { hrefOfParts, parseURL } from './url.js';
import { copyBytes, finishInterface, isBufferSource, isObject, requireArguments, toDOMString, toUSVString, toUint16 } from './webidl.js';

const CONNECTING = 0, OPEN = 1, CLOSING = 2, CLOSED = 3;
const KEY = Symbol('websocket');
const ATTACHMENT_MAX = 16384;
/** Largest message that a transport brings or takes. */
const MESSAGE_MAX = 32 << 20;
/** As much may wait for a transport that does not take it, or for a program that has not accepted what a transport brings. Beyond it the WebSocket breaks. */
export const WAITING_MAX = 16 << 20;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/**
 * @typedef {{kind: 1, text: string} | {kind: 2, bytes: Uint8Array} | {kind: 8, code: number, reason: string} | {kind: 0, reason: string}} Message
 * kind 8: a close, code 1005 when it carries none; kind 0: gone without a close
 * @typedef {(message: Message) => void} Sink
 */

/** What the compatibility date decides (main.js). */
export const webSocketRules = {
  __proto__: null,
  /** Binary messages are Blobs unless asked otherwise. */ blobs: false,
  /** A close is answered before its listeners hear of it, unless accept() was told allowHalfOpen. */ answerClose: false,
  /** close() takes the codes of the standard alone (pedantic_wpt). */ standardCodes: false,
};

/** @typedef {{status: number, webSocket: any, protocol: string, extensions: string}} Opened webSocket: null, the server did not switch */
/** Opens a WebSocket: asks the platform's fetch. @type {((url: string, protocols: string[]) => Promise<Opened>)|undefined} */
let connect;
/** @param {(url: string, protocols: string[]) => Promise<Opened>} given */
export const setConnect = (given) => { connect = given; };

/** Bytes that a transport was given and has not sent. */
export class Waiting {
  bytes = 0;
  /** @type {(() => void)[]} */ #then = [];
  /** @param {number} bytes */
  set(bytes) {
    this.bytes = bytes;
    if (bytes > 0 || this.#then.length === 0) return;
    const then = this.#then;
    this.#then = [];
    for (let i = 0; i < then.length; i++) then[i]();
  }
  /** @param {() => void} run */
  whenNone(run) {
    if (this.bytes > 0) ArrayPrototypePush(this.#then, run);
    else run();
  }
}

export class WebSocket extends EventTarget {
  /** The other end, of a pair. @type {WebSocket|null} */ #peer = null;
  /** Where to what arrives here goes, instead of to events. @type {Sink|null} */ #sink = null;
  /** @type {Message[]} */ #queue = [];
  #queued = 0;         // bytes in it, of transports
  #waits = /** @type {Waiting|null} */ (null); // what the transport has not taken yet
  #busy = false;
  #state = OPEN;
  #accepted = false;
  #used = false;       // went out in a response
  #sentClose = false; #gotClose = false;
  #url = /** @type {string|null} */ (null); #protocol = ''; #extensions = '';
  #halfOpen = false;
  #chosen = false; // the binaryType, by the program
  #binaryType = webSocketRules.blobs ? 'blob' : 'arraybuffer';
  #attachment = /** @type {any} */ (null);

  /** @param {any} url @param {any} [protocols] */
  constructor(url, protocols = []) {
    super();
    if (url === KEY) return;
    requireArguments(arguments.length, 1, 'WebSocket constructor');
    const text = toUSVString(url);
    const parts = parseURL(text);
    if (parts === null) throw domError('SyntaxError', `WebSocket: "${text}" is not a URL`);
    if (parts.scheme !== 'ws' && parts.scheme !== 'wss' && parts.scheme !== 'http' && parts.scheme !== 'https') throw domError('SyntaxError', `WebSocket: the scheme must be ws or wss, not ${parts.scheme}`);
    if (parts.fragment !== null) throw domError('SyntaxError', 'WebSocket: the URL must not have a fragment');
    /** @type {string[]} */ const wanted = [];
    if (isObject(protocols) && protocols[SymbolIterator] !== undefined) iterate(protocols, (one) => ArrayPrototypePush(wanted, toDOMString(one)));
    else ArrayPrototypePush(wanted, toDOMString(protocols));
    const seen = new SafeMap();
    for (let i = 0; i < wanted.length; i++) {
      const key = StringPrototypeToLowerCase(wanted[i]);
      if (RegExpPrototypeExec(TOKEN, wanted[i]) === null || seen.has(key)) throw domError('SyntaxError', `WebSocket: "${wanted[i]}" is no protocol name, or named twice`);
      seen.set(key, true);
    }
    if (connect === undefined) throw new Error('WebSocket: this Worker has no way to open connections');
    this.#url = hrefOfParts(parts);
    this.#state = CONNECTING;
    this.#accepted = true;
    promiseThen(connect(this.#url, wanted), (response) => this.#connected(response), (error) => this.#failed(error));
  }
  /** @param {Opened} opened */
  #connected(opened) {
    const other = opened.webSocket;
    if (other === null) { this.#failed(new Error(`The server answered ${opened.status} instead of switching to WebSocket`)); return; }
    this.#protocol = opened.protocol;
    this.#extensions = opened.extensions;
    if (this.#state !== CONNECTING) {
      other.#accepted = true;
      other.#close(1000, '');
      return;
    }
    // Steps into the place of the end that came with the response.
    const peer = other.#peer;
    this.#peer = peer;
    peer.#peer = this;
    this.#queue = other.#queue;
    this.#queued = other.#queued;
    other.#queue = [];
    other.#queued = 0;
    this.#state = OPEN;
    fire(this, new Event('open'));
    this.#schedule(false);
  }
  /** @param {any} error */
  #failed(error) {
    if (this.#state === CLOSED) return;
    this.#state = CLOSED;
    fire(this, new ErrorEvent('error', { __proto__: null, message: `WebSocket: ${error?.message ?? 'connection failed'}`, error }));
    fire(this, new CloseEvent('close', { __proto__: null, code: 1006, reason: '', wasClean: false }));
  }

  /** @param {any} [options] @returns {void} */
  accept(options = undefined) {
    void this.#state;
    const halfOpen = options !== undefined && options !== null && !!options.allowHalfOpen;
    if (this.#used) throw new TypeError("Can't accept() WebSocket that was already used in a response.");
    if (this.#accepted) return;
    this.#accepted = true;
    this.#halfOpen = halfOpen;
    this.#schedule(false);
  }
  /** @param {any} data */
  send(data) {
    void this.#state;
    requireArguments(arguments.length, 1, 'WebSocket.send');
    /** @type {Message} */
    const message = isBufferSource(data) ? { __proto__: null, kind: 2, bytes: copyBytes(data, 'data') } : isBlob(data) ? { __proto__: null, kind: 2, bytes: blobBytes(data) } : /** @type {any} */ ({ __proto__: null, kind: 1, text: toUSVString(data) });
    if (this.#state === CONNECTING) throw domError('InvalidStateError', 'WebSocket.send: the connection is not open yet');
    if (!this.#accepted) throw new TypeError('You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages.');
    if (this.#sentClose) throw new TypeError("Can't call WebSocket send() after close().");
    if (this.#state === CLOSED) return; // the other side is gone: as a browser, nothing happens
    if (size(message) > MESSAGE_MAX) throw new TypeError(`WebSocket.send: a message is at most ${MESSAGE_MAX} bytes`);
    deliverTo(this.#peer, message, true);
  }
  /** @param {any} [code] @param {any} [reason] */
  close(code = undefined, reason = undefined) {
    void this.#state;
    let number = 1005;
    if (code !== undefined) {
      number = toUint16(code);
      if (number < 1000 || number > 4999 || number === 1004 || number === 1005 || number === 1006 || number === 1015
        || (webSocketRules.standardCodes && number !== 1000 && number < 3000)) {
        throw domError('InvalidAccessError', `Invalid WebSocket close code: ${number}.`);
      }
    }
    const text = reason === undefined ? '' : toUSVString(reason);
    if (text !== '' && code === undefined) throw new TypeError('If you specify a WebSocket close reason, you must also specify a code.');
    if (text.length > 41 && utf8Encode(text).length > 123) throw domError('SyntaxError', 'A WebSocket close reason is at most 123 bytes.');
    if (this.#state === CONNECTING) {
      this.#state = CLOSING;
      setTimer(0, () => this.#failed(new Error('closed before the connection was established')));
      return;
    }
    if (!this.#accepted) throw new TypeError('You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages.');
    this.#close(number, text);
  }
  /** @param {number} code @param {string} reason */
  #close(code, reason) {
    if (this.#sentClose || this.#state === CLOSED) return;
    this.#sentClose = true;
    this.#state = this.#gotClose ? CLOSED : CLOSING;
    deliverTo(this.#peer, /** @type {any} */ ({ __proto__: null, kind: 8, code, reason }), true);
  }

  get readyState() { return this.#state; }
  get url() { return this.#url; }
  get protocol() { return this.#protocol; }
  get extensions() { return this.#extensions; }
  /** What was sent and has not left this Worker. */
  get bufferedAmount() { return this.#peer?.#waits?.bytes ?? 0; }
  get binaryType() { return this.#binaryType; }
  set binaryType(value) {
    const text = toDOMString(value);
    if (text !== 'blob' && text !== 'arraybuffer') return;
    this.#binaryType = text;
    this.#chosen = true;
  }
  /** @param {any} value kept with the socket, at most 16 KiB */
  serializeAttachment(value) {
    requireArguments(arguments.length, 1, 'WebSocket.serializeAttachment');
    const copy = structuredClone(value);
    if (roughSize(copy, 0) > ATTACHMENT_MAX) throw new Error(`A WebSocket's attachment is at most ${ATTACHMENT_MAX} bytes.`);
    this.#attachment = [copy];
  }
  deserializeAttachment() { return this.#attachment === null ? null : structuredClone(this.#attachment[0]); }

  static { deliverTo = (peer, message, later) => { if (peer !== null) peer.#deliver(message, later); }; }
  /** Something arrived at this end. @param {Message} message @param {boolean} later not in this turn */
  #deliver(message, later) {
    if (this.#gotClose) return;
    if (this.#sink !== null) {
      if (message.kind === 8 || message.kind === 0) this.#gotClose = true;
      this.#sink(message);
      return;
    }
    if (!later && this.#queued > WAITING_MAX) {
      // Only a program that does not accept lets what a transport brings pile up.
      if (this.#queued === Infinity) return;
      const end = gone(`WebSocket: more than ${WAITING_MAX} bytes came before it was accepted`);
      this.#queue = [end];
      this.#queued = Infinity;
      this.#peer?.#sink?.(end);
      return;
    }
    if (!later) this.#queued += size(message);
    ArrayPrototypePush(this.#queue, message);
    this.#schedule(!later);
  }
  /** @param {boolean} now */
  #schedule(now) {
    if (this.#busy || this.#queue.length === 0 || !(this.#accepted || this.#sink !== null) || this.#state === CONNECTING) return;
    this.#busy = true;
    const start = () => this.#drain(this.#queue.length);
    if (now) start();
    else setTimer(0, start);
  }
  /** Tells of `left` messages, each in a microtask of its own; what comes meanwhile waits for another turn. @param {number} left */
  #drain(left) {
    const message = left > 0 ? ArrayPrototypeShift(this.#queue) : undefined;
    if (message === undefined) {
      this.#busy = false;
      if (this.#queue.length === 0) this.#queued = 0;
      this.#schedule(false);
      return;
    }
    this.#tell(message);
    if (left === 1) { this.#drain(0); return; }
    promiseThen(promiseResolve(), () => this.#drain(left - 1));
  }
  /** @param {Message} message */
  #tell(message) {
    if (this.#sink !== null) {
      if (message.kind === 8 || message.kind === 0) this.#gotClose = true;
      this.#sink(message);
      return;
    }
    if (this.#gotClose) return;
    if (message.kind === 1) {
      fire(this, new MessageEvent('message', { __proto__: null, data: message.text }));
    } else if (message.kind === 2) {
      const data = this.#binaryType === 'blob' ? blobOf(message.bytes, '') : whole(message.bytes);
      fire(this, new MessageEvent('message', { __proto__: null, data }));
    } else if (message.kind === 8) {
      this.#gotClose = true;
      const answers = webSocketRules.answerClose && !this.#halfOpen;
      if (answers) this.#close(message.code, '');
      this.#state = this.#sentClose ? CLOSED : CLOSING;
      fire(this, new CloseEvent('close', { __proto__: null, code: message.code, reason: message.reason, wasClean: true }));
      // By the older rule nobody has to answer a close: what the listener did not say is said for it.
      if (!webSocketRules.answerClose) this.#close(message.code, '');
    } else {
      this.#gotClose = true;
      this.#state = CLOSED;
      const error = new Error(message.reason || 'WebSocket disconnected between frames without sending a close.');
      fire(this, new ErrorEvent('error', { __proto__: null, message: error.message, error }));
      fire(this, new CloseEvent('close', { __proto__: null, code: 1006, reason: '', wasClean: false }));
    }
  }

  static {
    isWebSocket = (value) => isObject(value) && #sink in value;
    makePair = () => {
      const a = /** @type {any} */ (ReflectConstruct(WebSocket, [KEY])), b = /** @type {any} */ (ReflectConstruct(WebSocket, [KEY]));
      a.#peer = b;
      b.#peer = a;
      return { __proto__: null, a, b };
    };
    claim = (socket) => {
      if (socket.#used) throw new TypeError("Can't return WebSocket that was already used in a response.");
      if (socket.#accepted) throw new TypeError("Can't return WebSocket in a Response after calling accept().");
      socket.#used = true;
    };
    coupleTransport = (socket, sink, waits) => {
      socket.#used = true;
      socket.#sink = sink;
      socket.#waits = waits;
      const { length } = socket.#queue;
      for (let i = 0; i < length; i++) socket.#tell(/** @type {Message} */ (ArrayPrototypeShift(socket.#queue)));
      return (/** @type {Message} */ message, later = false) => {
        if (message.kind === 8 || message.kind === 0) socket.#state = CLOSED;
        deliverTo(socket.#peer, message, later);
      };
    };
    whenTaken = (socket, run) => {
      const waits = socket.#peer?.#waits ?? null;
      if (waits === null) run();
      else waits.whenNone(run);
    };
    handleWith = (socket, sink) => {
      if (socket.#used) throw new TypeError("Can't accept() WebSocket that was already used in a response.");
      socket.#accepted = true;
      socket.#sink = (/** @type {Message} */ message) => {
        if (message.kind === 8) socket.#state = socket.#sentClose ? CLOSED : CLOSING;
        else if (message.kind === 0) socket.#state = CLOSED;
        sink(message, socket.#chosen && socket.#binaryType === 'blob' ? (bytes) => blobOf(bytes, '') : whole);
        if (message.kind === 8) setTimer(0, () => socket.#close(message.code, ''));
      };
      const { length } = socket.#queue;
      for (let i = 0; i < length; i++) socket.#tell(/** @type {Message} */ (ArrayPrototypeShift(socket.#queue)));
    };
    setProtocol = (socket, protocol, extensions) => { socket.#protocol = protocol; socket.#extensions = extensions; };
  }
}
/** @type {(peer: WebSocket|null, message: Message, later: boolean) => void} */ var deliverTo;
/** @type {(value: any) => boolean} */ var isWebSocket;
/** @type {() => {a: any, b: any}} */ var makePair;
/** Marks an end as gone out in a response; a TypeError when it was accepted or used. @type {(socket: any) => void} */ var claim;
/**
 * Couples a claimed end to a transport: `sink` gets what the peer sends, `waits` is kept by the transport. Returns what the transport calls with
 * what it brings; `later`: it is called from within the sink. @type {(socket: any, sink: Sink, waits: Waiting) => (message: Message, later?: boolean) => void}
 */
var coupleTransport;
/** Once what a coupled end has brought has left this Worker again, or was taken by its program. @type {(socket: any, run: () => void) => void} */
var whenTaken;
/**
 * Accepts an end without events: `sink` is told of each message, at once, with a function that makes of bytes what its binaryType
 * says (hibernation). A close is answered after the sink has run. @type {(socket: any, sink: (message: Message, binary: (bytes: Uint8Array) => any) => void) => void}
 */
var handleWith;
/** @type {(socket: any, protocol: string, extensions: string) => void} */ var setProtocol;
export { isWebSocket, makePair, claim as claimWebSocket, coupleTransport, whenTaken, handleWith as handleWebSocketWith, setProtocol };
eventAttributes(WebSocket, ['open', 'message', 'error', 'close']);
finishInterface(WebSocket, 'WebSocket', { CONNECTING, OPEN, CLOSING, CLOSED, READY_STATE_CONNECTING: CONNECTING, READY_STATE_OPEN: OPEN, READY_STATE_CLOSING: CLOSING, READY_STATE_CLOSED: CLOSED });

export class WebSocketPair {
  constructor() {
    if (new.target === undefined) illegalConstructor('WebSocketPair');
    const pair = makePair();
    this[0] = pair.a;
    this[1] = pair.b;
  }
  *[SymbolIterator]() { yield this[0]; yield this[1]; }
}
finishInterface(WebSocketPair, 'WebSocketPair');

/** @param {Message} message */
const size = (message) => (message.kind === 1 ? message.text.length : message.kind === 2 ? message.bytes.length : 0);
/** The bytes as an ArrayBuffer of their own. @param {Uint8Array} bytes */
function whole(bytes) {
  const buffer = TypedArrayPrototypeGetBuffer(bytes);
  return ArrayBufferPrototypeGetByteLength(buffer) === bytes.length ? buffer : TypedArrayPrototypeGetBuffer(new Uint8Array(bytes));
}
/** About how many bytes a value takes. @param {any} value @param {number} depth @returns {number} */
function roughSize(value, depth) {
  if (typeof value === 'string') return value.length + 4;
  if (typeof value !== 'object' || value === null || depth > 100) return 8;
  if (isBufferSource(value)) return value.byteLength + 8;
  let total = 8;
  const own = ObjectAssign(nullObject(), value);
  for (const key in own) total += key.length + 4 + roughSize(own[key], depth + 1);
  return total;
}

// --- the wire (src/link/worker_protocol.h): kind, length, payload

/**
 * Couples an end to a pair of link streams. @param {any} socket claimed, or one that makePair made
 * @param {number} inSid what the other side sends @param {number} [outSid] the number of the stream that this side sends, when it is fixed already
 * @param {() => void} [ended] both directions are over
 * @returns {number} the number of the stream that this side sends
 */
export function coupleLink(socket, inSid, outSid = undefined, ended = undefined) {
  let outOpen = true, inOpen = true;
  const waiting = new Waiting();
  const over = () => { if (!outOpen && !inOpen) ended?.(); };
  const id = openSending(/** @type {any} */ ({ __proto__: null, reset: () => { outOpen = false; waiting.set(0); over(); }, writable: () => waiting.set(0) }), outSid);
  const bring = coupleTransport(socket, (message) => {
    if (!outOpen) return;
    if (message.kind === 0) {
      outOpen = false;
      streamReset(id, message.reason || 'gone');
      waiting.set(0);
    } else if (waiting.bytes > WAITING_MAX) {
      outOpen = false;
      streamReset(id, NOT_READ);
      waiting.set(0);
      if (inOpen) {
        inOpen = false;
        streamReset(inSid, NOT_READ);
        if (!decoder.closed) bring(gone(NOT_READ), true);
      }
    } else {
      waiting.set(streamWrite(id, encode(message)));
      if (message.kind === 8) { outOpen = false; streamEnd(id); }
    }
    over();
  }, waiting);
  const decoder = new Decoder(bring, (reason) => {
    inOpen = false;
    streamReset(inSid, reason);
    bring(gone(reason));
    over();
  });
  openReceiving(inSid, /** @type {any} */ ({
    __proto__: null,
    data: (/** @type {Uint8Array} */ bytes) => { decoder.push(bytes); if (inOpen) streamConsumed(inSid, bytes.length); },
    end: () => { inOpen = false; if (!decoder.closed) bring(gone('')); over(); },
    reset: (/** @type {string} */ reason) => { inOpen = false; if (!decoder.closed) bring(gone(reason)); over(); },
  }));
  return id;
}

/** An end whose other end is on the link. @param {number} inSid @param {number} [outSid] @param {() => void} [ended] see coupleLink @returns {{socket: any, outSid: number}} */
export function webSocketOfLink(inSid, outSid = undefined, ended = undefined) {
  const { a, b } = makePair();
  return { socket: a, outSid: coupleLink(b, inSid, outSid, ended) };
}

/** Why a WebSocket breaks when its other side takes nothing. */
export const NOT_READ = `WebSocket: more than ${WAITING_MAX} bytes wait for the other side, which does not read them`;
/** @param {string} reason @returns {any} */
const gone = (reason) => ({ __proto__: null, kind: 0, reason });
/** @param {Message} message */
function encode(message) {
  /** @type {Uint8Array} */ let payload;
  if (message.kind === 1) payload = utf8Encode(message.text);
  else if (message.kind === 2) payload = message.bytes;
  else if (message.kind === 8 && message.code !== 1005) {
    const reason = utf8Encode(message.reason);
    payload = new Uint8Array(reason.length + 2);
    payload[0] = message.code & 255;
    payload[1] = message.code >> 8;
    TypedArrayPrototypeSet(payload, reason, 2);
  } else payload = new Uint8Array(0);
  const frame = new Uint8Array(payload.length + 5);
  frame[0] = message.kind;
  DataViewPrototypeSetUint32(new DataView(TypedArrayPrototypeGetBuffer(frame)), 1, payload.length, true);
  TypedArrayPrototypeSet(frame, payload, 5);
  return frame;
}

/** Cuts the bytes that come into messages. UNTRUSTED INPUT: the payloads are the far side's, the frames the daemon's. */
export class Decoder {
  #sink; #fail;
  /** @type {Uint8Array[]} */ #chunks = [];
  #have = 0;
  closed = false;
  /** @param {Sink} sink @param {(reason: string) => void} fail */
  constructor(sink, fail) { this.#sink = sink; this.#fail = fail; }
  /** @param {Uint8Array} bytes */
  push(bytes) {
    ArrayPrototypePush(this.#chunks, bytes);
    this.#have += bytes.length;
    while (this.#have >= 5 && !this.closed) {
      let first = this.#chunks[0];
      if (first.length < 5) { first = concat(this.#chunks); this.#chunks = [first]; }
      const kind = first[0];
      const length = DataViewPrototypeGetUint32(new DataView(TypedArrayPrototypeGetBuffer(first), TypedArrayPrototypeGetByteOffset(first)), 1, true);
      if ((kind !== 1 && kind !== 2 && kind !== 8) || length > MESSAGE_MAX || (kind === 8 && length > 125)) {
        this.closed = true;
        this.#fail('A malformed WebSocket message');
        return;
      }
      if (this.#have < length + 5) return;
      if (this.#chunks.length > 1) first = concat(this.#chunks);
      const buffer = TypedArrayPrototypeGetBuffer(first), offset = TypedArrayPrototypeGetByteOffset(first);
      const payload = new Uint8Array(buffer, offset + 5, length), rest = first.length - length - 5;
      this.#chunks = rest > 0 ? [new Uint8Array(buffer, offset + 5 + length, rest)] : [];
      this.#have = rest;
      if (kind === 1) this.#sink(/** @type {any} */ ({ __proto__: null, kind, text: utf8DecodeKeepMark(payload) }));
      else if (kind === 2) this.#sink(/** @type {any} */ ({ __proto__: null, kind, bytes: new Uint8Array(payload) }));
      else {
        this.closed = true;
        this.#sink(/** @type {any} */ ({ __proto__: null, kind, code: length >= 2 ? payload[0] | (payload[1] << 8) : 1005, reason: length > 2 ? utf8DecodeKeepMark(new Uint8Array(buffer, offset + 7, length - 2)) : '' }));
      }
    }
  }
}
