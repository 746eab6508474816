/**
 * A WebSocket in a Response over RPC. Each side has an end that the other calls:
 *
 *   attach [end]       once, by the receiver of the Response: where messages from here go
 *   message bytes      one message: its kind (1 text, 2 binary, 8 close), then its payload, as on the link; or 0, the end without a close, then the reason
 *
 * An answered message was taken, and has left again where it was only passed on. What is not answered is bounded, as what waits on the link is.
 */
import {
  Error, StringPrototypeSlice, TypeError, TypedArrayPrototypeGetLength, TypedArrayPrototypeSet, Uint8Array,
} from '../primordials.js';
import { utf8DecodeKeepMark, utf8Encode } from '../web/bytes.js';
import { NOT_READ, WAITING_MAX, Waiting, claimWebSocket, coupleTransport, makePair, whenTaken } from '../web/websocket.js';
import { copyOf, rawList } from './cbor.js';
import { currentContext } from './context.js';
import { CALL, Result, SOCKET, Target, failedResult, newCapability, newPayload, releasePayload } from './target.js';
import { capabilityReaders } from './values.js';

const TEXT = 1, BINARY = 2, CLOSE = 8, GONE = 0;
const NOTHING = new Uint8Array(0);
const REASON_MAX = 1024;

/** @param {string} name */
function pathOf(name) {
  const path = rawList();
  path[0] = name;
  return path;
}

/** @param {any} message */
const sizeOf = (message) => (message.kind === TEXT ? message.text.length : message.kind === BINARY ? TypedArrayPrototypeGetLength(message.bytes) : 0);

/** @param {any} message @returns {Uint8Array} */
function pack(message) {
  let payload = NOTHING;
  if (message.kind === TEXT) payload = utf8Encode(message.text);
  else if (message.kind === BINARY) payload = message.bytes;
  else if (message.kind === GONE) payload = utf8Encode(StringPrototypeSlice(message.reason, 0, REASON_MAX));
  else if (message.code !== 1005) {
    const reason = utf8Encode(message.reason);
    payload = new Uint8Array(2 + TypedArrayPrototypeGetLength(reason));
    payload[0] = message.code & 255;
    payload[1] = message.code >> 8;
    TypedArrayPrototypeSet(payload, reason, 2);
  }
  const bytes = new Uint8Array(1 + TypedArrayPrototypeGetLength(payload));
  bytes[0] = message.kind;
  TypedArrayPrototypeSet(bytes, payload, 1);
  return bytes;
}

/** UNTRUSTED INPUT. @param {Uint8Array} bytes @returns {any} null: malformed */
function unpack(bytes) {
  const size = TypedArrayPrototypeGetLength(bytes);
  if (size < 1) return null;
  const payload = copyOf(bytes, 1, size);
  switch (bytes[0]) {
    case TEXT: return { __proto__: null, kind: TEXT, text: utf8DecodeKeepMark(payload) };
    case BINARY: return { __proto__: null, kind: BINARY, bytes: payload };
    case CLOSE:
      if (size > 126) return null;
      return {
        __proto__: null, kind: CLOSE, code: size >= 3 ? payload[0] | payload[1] << 8 : 1005, reason: size > 3 ? utf8DecodeKeepMark(copyOf(payload, 2, size - 1)) : '',
      };
    case GONE: return size > 1 + 3 * REASON_MAX ? null : { __proto__: null, kind: GONE, reason: utf8DecodeKeepMark(payload) };
    default: return null;
  }
}

class SocketEnd extends Target {
  /** @param {any} socket coupled to this from now on */
  constructor(socket) {
    super();
    this.context = currentContext();
    /** @type {Target|null} the other side's end */
    this.remote = null;
    /** @type {any[]|null} messages until it is attached */
    this.waiting = rawList();
    this.sentClose = false;
    this.gotClose = false;
    this.socket = socket;
    this.unanswered = new Waiting();
    this.bring = coupleTransport(socket, (message) => this.send(message), this.unanswered);
  }

  /** @param {Target} remote owned */
  attach(remote) {
    this.remote = remote;
    const waiting = /** @type {any[]} */ (this.waiting);
    this.waiting = null;
    remote.onBroken((reason) => this.broken(typeof reason?.message === 'string' ? reason.message : ''));
    for (let i = 0; i < waiting.length; i++) this.pass(waiting[i], sizeOf(waiting[i]));
  }

  /** @param {any} message of our socket */
  send(message) {
    if (this.sentClose) return;
    const size = sizeOf(message);
    if (size > 0 && this.unanswered.bytes > WAITING_MAX) {
      this.fail(NOT_READ);
      return;
    }
    this.unanswered.set(this.unanswered.bytes + size);
    if (this.waiting !== null) {
      this.waiting[this.waiting.length] = message;
      return;
    }
    this.pass(message, size);
  }

  /** @param {any} message @param {number} size in `unanswered` */
  pass(message, size) {
    const { remote } = this;
    if (message.kind === CLOSE || message.kind === GONE) this.sentClose = true;
    if (remote === null) return;
    const result = remote.call(pathOf('message'), CALL, newPayload(pack(message)));
    result.listen(() => {
      this.unanswered.set(this.unanswered.bytes - size);
      result.finish();
    });
    if (message.kind === GONE) this.gotClose = true;
    this.endIfClosed();
  }

  /** Both sides are told, ours when it has returned from what it does. @param {string} reason */
  fail(reason) {
    const message = /** @type {any} */ ({ __proto__: null, kind: GONE, reason });
    const told = this.gotClose;
    if (this.waiting !== null) this.waiting = rawList();
    this.sentClose = this.gotClose = true;
    if (!told) this.bring(message, true);
    if (this.remote !== null) this.pass(message, 0);
    else if (this.waiting !== null) this.waiting[0] = message;
  }

  endIfClosed() {
    if (!this.sentClose || !this.gotClose) return;
    const { remote } = this;
    this.remote = null;
    if (remote !== null) remote.release();
  }

  /** @param {string} reason */
  broken(reason) {
    if (this.gotClose) return;
    this.gotClose = true;
    this.context?.enter();
    this.bring(/** @type {any} */ ({ __proto__: null, kind: GONE, reason }));
    this.sentClose = true;
    this.endIfClosed();
  }

  /** @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload */
  call(path, op, payload) {
    if (path.length !== 1 || payload === null) {
      releasePayload(payload);
      return failedResult(new TypeError('A WebSocket has no such method.'));
    }
    const { bytes } = payload;
    if (path[0] === 'attach' && this.waiting !== null && payload.capabilities.length === 1 && payload.capabilities[0].kind === SOCKET) {
      const remote = payload.capabilities[0].target.retain();
      releasePayload(payload);
      this.attach(remote);
      return done();
    }
    releasePayload(payload);
    const message = path[0] === 'message' && bytes !== null && !this.gotClose ? unpack(bytes) : null;
    if (message === null) return failedResult(new Error('A malformed WebSocket message.'));
    if (message.kind === GONE) {
      this.broken(message.reason);
      return done();
    }
    if (message.kind === CLOSE) this.gotClose = true;
    this.context?.enter();
    this.bring(message);
    this.endIfClosed();
    const result = new Result();
    whenTaken(this.socket, () => settle(result));
    return result;
  }

  lastReleased() {
    this.broken('');
  }
}

/** @param {Result} result */
function settle(result) {
  result.settle(newPayload(null), new Target(), false);
  return result;
}

const done = () => settle(new Result());

/** The sender's end. @param {any} socket of a Response, not accepted @returns {Target} owned by the caller */
export function socketTarget(socket) {
  claimWebSocket(socket);
  return new SocketEnd(socket);
}

/** @param {Target} target the other side's end; owned @returns {any} a WebSocket to accept, or to pass on */
capabilityReaders[SOCKET] = (target) => {
  const { a, b } = makePair();
  const end = new SocketEnd(b);
  const capabilities = rawList();
  capabilities[0] = newCapability(SOCKET, end);
  const result = target.call(pathOf('attach'), CALL, newPayload(NOTHING, capabilities));
  result.listen(() => result.finish());
  end.attach(target);
  return a;
};
