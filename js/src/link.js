/**
 * The library's side of the link: who waits for which event of the dispatch (js/natives.d.ts). Calls, streams, channels and timers
 * are made here, so that the answers find their way back; the other modules never touch the natives for those.
 *
 * Handlers are called from C, one event each, with microtasks run afterwards; what they throw is logged and ends nothing else.
 */
import { ArrayBufferPrototypeGetByteLength, ArrayBufferPrototypeTransfer, Error, SafeMap, Uint8Array, describeError, newPromise, nullObject } from './primordials.js';
import { natives } from './natives.js';
import { LARGE, decodePlain, encodePlain } from './rpc/cbor.js';

/** @type {Map<number, {done: (value: any) => void, failed: (error: any) => void}>} */
const calls = new SafeMap();
/** @type {Map<number, StreamHandlers>} */
const receiving = new SafeMap();
/** @type {Map<number, StreamHandlers>} */
const sending = new SafeMap();
/** @type {Map<number, {message: (bytes: Uint8Array) => void, closed: (reason: string|null) => void}>} */
const channels = new SafeMap();
/** @type {Map<number, () => void>} */
const timers = new SafeMap();
let lastTimer = 0;

/**
 * @typedef {object} StreamHandlers
 * @property {(bytes: Uint8Array) => void} [data]
 * @property {() => void} [end]
 * @property {(message: string) => void} [reset]
 * @property {() => void} [writable]
 */

/** @param {string} code @param {string} message */
function linkError(code, message) {
  const error = /** @type {any} */ (new Error(message));
  error.code = code;
  return error;
}

/**
 * Calls a method of an object of the daemon. Exactly one of the functions is called, later; `done` with the decoded answer.
 * @param {number} capability @param {string} method @param {any} args a map (cbor.js encodePlain)
 * @param {(value: any) => void} done @param {(error: any) => void} failed an Error with a `code`
 * @returns {number} the call, for cancelCall
 */
export function startCall(capability, method, args, done, failed) {
  const id = natives.call(capability, method, encodePlain(args));
  calls.set(id, { done, failed });
  return id;
}

/** @param {number} capability @param {string} method @param {any} [args] @returns {Promise<any>} */
export function call(capability, method, args = nullObject()) {
  return newPromise((resolve, reject) => {
    startCall(capability, method, args, (value) => {
      // A null prototype keeps a polluted `then` away from the answer.
      resolve(value);
    }, reject);
  });
}

/** Waits for the answer; nothing else happens meanwhile. @param {number} capability @param {string} method @param {any} [args] @returns {any} */
export function callSync(capability, method, args = nullObject()) {
  return decodePlain(natives.callSync(capability, method, encodePlain(args)));
}

/** @param {number} id */
export function cancelCall(id) {
  if (calls.has(id)) natives.cancel(id);
}

/** Says that a capability is no longer held. @param {number} capability */
export function dropCapability(capability) {
  natives.drop(capability);
}

/**
 * A new stream that this side sends. Write with streamWrite (0: go on; else wait for handlers.writable), then streamEnd or streamReset.
 * @param {StreamHandlers} handlers writable, reset (the other side wants no more)
 * @param {number} [id] when the other side has named it already
 * @returns {number} its number, to be named in the call
 */
export function openSending(handlers, id = natives.streamNew()) {
  sending.set(id, handlers);
  natives.streamSend(id);
  return id;
}

/** @param {number} id @param {Uint8Array} bytes @returns {number} how many bytes wait for credit */
export const streamWrite = (id, bytes) => (sending.has(id) ? natives.streamWrite(id, bytes) : 0);

/** @param {number} id */
export function streamEnd(id) {
  if (!sending.delete(id)) return;
  natives.streamEnd(id);
}

/** Ends a stream of either direction with an error. @param {number} id @param {string} message */
export function streamReset(id, message) {
  const known = sending.delete(id);
  if (receiving.delete(id) || known) natives.streamReset(id, message);
}

/** Ends a stream that is received: its handler is told as if the other side had done it. @param {number} id @param {string} message */
export function breakReceiving(id, message) {
  const handlers = receiving.get(id);
  if (handlers === undefined) return;
  streamReset(id, message);
  guarded(() => handlers.reset?.(message));
}

/**
 * Receives a stream. The handler of data must have streamConsumed() called for what it has dealt with, or no more will come.
 * @param {number} id as the other side named it, or of newStream() @param {StreamHandlers} handlers data, end, reset
 */
export function openReceiving(id, handlers) {
  receiving.set(id, handlers);
  natives.streamReceive(id);
}

/** A number for a stream that the other side will send. @returns {number} */
export const newStream = () => natives.streamNew();

/** @param {number} id @param {number} bytes */
export function streamConsumed(id, bytes) {
  if (receiving.has(id)) natives.streamConsumed(id, bytes);
}

/**
 * @param {number} inSid @param {number} outSid @param {(bytes: Uint8Array) => void} message @param {(reason: string|null) => void} closed
 * @returns {number}
 */
export function openChannel(inSid, outSid, message, closed) {
  const id = natives.channelOpen(inSid, outSid);
  channels.set(id, { message, closed });
  return id;
}

/** One message. @param {number} id @param {Uint8Array} bytes @param {Uint8Array} [tail] goes on where `bytes` ends */
export function channelSend(id, bytes, tail = undefined) {
  if (!channels.has(id)) return;
  if (tail === undefined) natives.channelSend(id, bytes);
  else natives.channelSend(id, bytes, tail);
}

/** @param {number} id @param {string} reason */
export function closeChannel(id, reason) {
  if (channels.delete(id)) natives.channelClose(id, reason);
}

/** Calls `run` once, after `ms`. @param {number} ms @param {() => void} run @returns {number} for clearTimer */
export function setTimer(ms, run) {
  const id = ++lastTimer;
  timers.set(id, run);
  natives.timer(id, ms);
  return id;
}

/** @param {number} id */
export function clearTimer(id) {
  if (timers.delete(id)) natives.timerClear(id);
}

/** @param {() => void} run */
function guarded(run) {
  try {
    run();
  } catch (error) {
    natives.log(0, describeError(error));
  }
}

/** The part of the dispatch that is routing only; main.js adds the rest. */
export const routes = {
  __proto__: null,
  /** @param {number} id @param {string|null} code @param {string} message @param {ArrayBuffer|undefined} value */
  answer(id, code, message, value) {
    const waiting = calls.get(id);
    if (waiting === undefined) return;
    calls.delete(id);
    if (code !== null) {
      guarded(() => waiting.failed(linkError(code, message)));
      return;
    }
    guarded(() => {
      let decoded;
      try {
        decoded = value === undefined ? null : decodePlain(value);
      } catch (error) {
        waiting.failed(error);
        return;
      }
      waiting.done(decoded);
    });
  },
  /** @param {number} id */
  timer(id) {
    const run = timers.get(id);
    if (run === undefined) return;
    timers.delete(id);
    guarded(run);
  },
  /** @param {number} id @param {ArrayBuffer} bytes */
  streamData(id, bytes) {
    const handlers = receiving.get(id);
    if (handlers !== undefined) guarded(() => handlers.data?.(new Uint8Array(bytes)));
  },
  /** @param {number} id */
  streamEnd(id) {
    const handlers = receiving.get(id);
    if (handlers === undefined) return;
    receiving.delete(id);
    guarded(() => handlers.end?.());
  },
  /** @param {number} id @param {string} message */
  streamReset(id, message) {
    const handlers = receiving.get(id) ?? sending.get(id);
    if (handlers === undefined) return;
    receiving.delete(id);
    sending.delete(id);
    guarded(() => handlers.reset?.(message));
  },
  /** @param {number} id */
  streamWritable(id) {
    const handlers = sending.get(id);
    if (handlers !== undefined) guarded(() => handlers.writable?.());
  },
  /** @param {number} id @param {ArrayBuffer} bytes */
  channelMessage(id, bytes) {
    const channel = channels.get(id);
    if (channel === undefined) return;
    // Whoever calls this keeps what it was given until all that follows is done: of much it keeps an empty buffer.
    const whole = new Uint8Array(ArrayBufferPrototypeTransfer !== undefined && ArrayBufferPrototypeGetByteLength(bytes) >= LARGE ? ArrayBufferPrototypeTransfer(bytes) : bytes);
    guarded(() => channel.message(whole));
  },
  /** @param {number} id @param {string|null} reason */
  channelClosed(id, reason) {
    const channel = channels.get(id);
    if (channel === undefined) return;
    channels.delete(id);
    guarded(() => channel.closed(reason));
  },
};
