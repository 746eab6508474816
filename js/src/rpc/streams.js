/**
 * Streams and abort signals over RPC. A stream is a target with calls of its own, pushed by the side that has the data, so backpressure
 * and middle workers come for free: each chunk is a call, answered when it was taken, and at most a window of them is under way. Bytes only.
 *
 *   readable  pipe [sink]; cancel error          held by the reader; the other side then calls the sink
 *   sink      write bytes; end; error error      held by the writer
 *   signal    wait                               answered with the reason when it aborts
 */
import {
  Error, SafeSet, TypeError, TypedArrayPrototypeGetLength, Uint8Array, newPromise, promiseIgnore, promiseReject, promiseResolve, promiseThen,
} from '../primordials.js';
import { AbortSignal, abortSignal, addAbortAlgorithm, isSignal, newSignal } from '../web/abort.js';
import {
  ReadableStream, WritableStream, chunkBytes, consumeStream, getReader, getWriter, isLocked, isReadableStream, isWritableStream, isWriterLocked,
  originOf, readerCancel, readerRead, sourceStream, writerAbort, writerClose, writerWrite,
} from '../web/streams.js';
import { rawList } from './cbor.js';
import { registerPlatformType } from './codec.js';
import { currentContext } from './context.js';
import { CALL, READABLE, Result, SIGNAL, Target, WRITABLE, errorPayload, failedResult, newCapability, newPayload, releasePayload, holdHome } from './target.js';
import { capabilityReaders, decodeFailure } from './values.js';

/** Bytes under way at most, beyond one chunk. */
const WINDOW = 256 << 10;
/** A payload without bytes is a call without arguments; these calls have some. */
const NOTHING = new Uint8Array(0);

/** @param {string} name */
function pathOf(name) {
  const path = rawList();
  path[0] = name;
  return path;
}

/** @returns {Result} an answer that says nothing */
function done() {
  const result = new Result();
  result.settle(newPayload(NOTHING), new Target(), false);
  return result;
}

/** @param {any} error */
const closed = (error) => failedResult(error);

/**
 * Where bytes come from (ByteSource of js/src/web/streams.js): `read` gives null at the end and rejects on failure.
 * @typedef {{read: () => Promise<{bytes: Uint8Array}|null>, cancel: (reason: any) => any}} Source
 */

/** Locks the stream. @param {any} stream @returns {Source} */
export function streamSource(stream) {
  if (isLocked(stream)) throw new TypeError('The ReadableStream has been locked to a reader.');
  const origin = originOf(stream);
  if (origin !== undefined && !(origin instanceof Uint8Array)) {
    consumeStream(stream);
    return origin;
  }
  const reader = getReader(stream);
  return {
    read: () => promiseThen(readerRead(reader), (step) => (step.done ? null : { __proto__: null, bytes: chunkBytes(step.value) })),
    cancel: (reason) => readerCancel(reader, reason),
  };
}

/** The sender's end of a readable stream. */
export class ReadableTarget extends Target {
  /** @param {Source} source */
  constructor(source) {
    super();
    /** @type {Source|null} */
    this.source = source;
    this.context = currentContext();
    /** Ends what is under way. @type {((reason: any) => void)|null} */
    this.stop = null;
    /** The receiver does not want the rest. @type {(() => void)|null} */
    this.onCancel = null;
  }

  /** @param {any} reason */
  cancel(reason) {
    const { source, stop } = this;
    this.source = this.stop = null;
    if (source !== null) this.cancelSource(source, reason);
    else if (stop !== null) stop(reason);
  }

  /** @param {Source} source @param {any} reason */
  cancelSource(source, reason) {
    quietly(source.cancel(reason));
    if (this.onCancel !== null) this.onCancel();
  }

  /** @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload */
  call(path, op, payload) {
    const { source } = this;
    const sink = payload !== null && payload.capabilities.length === 1 ? payload.capabilities[0] : null;
    if (path.length === 1 && path[0] === 'pipe' && source !== null && sink !== null && sink.kind === WRITABLE) {
      this.source = null;
      this.stop = pump(source, sink.target.retain(), this.context, (reason) => this.cancelSource(source, reason));
      releasePayload(payload);
      return done();
    }
    if (path.length === 1 && path[0] === 'cancel') {
      this.cancel(payload === null ? undefined : decodeFailure(payload));
      return done();
    }
    releasePayload(payload);
    return closed(new TypeError('The stream is being read already.'));
  }

  lastReleased() {
    this.cancel(new Error('The stream was dropped by its receiver.'));
  }
}

/** @param {any} promise of which only the failure could matter, and that not */
function quietly(promise) {
  promiseIgnore(promiseResolve(promise));
}

/**
 * Moves everything from a source to a remote sink.
 * @param {Source} source @param {Target} sink owned @param {import('./context.js').RequestContext|null} context held meanwhile
 * @param {(reason: any) => void} cancel the sink takes no more @returns {(reason: any) => void} ends it, if it has not ended
 */
function pump(source, sink, context, cancel) {
  context?.hold();
  let underWay = 0, over = false;
  const finish = () => {
    if (over) return;
    over = true;
    sink.release();
    context?.drop();
  };
  const next = () => {
    if (over) return;
    context?.enter();
    let reading;
    try {
      reading = source.read();
    } catch (error) {
      reading = promiseReject(error);
    }
    promiseThen(reading, (chunk) => {
      if (over) return;
      if (chunk === null) {
        send('end', newPayload(NOTHING), finish);
        return;
      }
      const { bytes } = chunk;
      const size = TypedArrayPrototypeGetLength(bytes);
      underWay += size;
      // A copy: its owner may change or detach what it has read from its own stream.
      send('write', newPayload(new Uint8Array(bytes)), () => {
        const full = underWay > WINDOW;
        underWay -= size;
        if (full && underWay <= WINDOW) next();
      });
      if (underWay <= WINDOW) next();
    }, (error) => {
      if (!over) send('error', errorPayload(error), finish);
    });
  };
  /** @param {string} name @param {import('./target.js').Payload} payload @param {() => void} then */
  const send = (name, payload, then) => {
    const result = sink.call(pathOf(name), CALL, payload);
    result.listen(() => {
      if (result.state === 2) {
        const error = decodeFailure(result.take());
        if (!over) cancel(error);
        finish();
      } else if (!over) {
        then();
      }
      result.finish();
    });
  };
  next();
  return (reason) => {
    if (over) return;
    cancel(reason);
    finish();
  };
}

/** The reader's end: what the other side pushes, as a source. */
class SinkTarget extends Target {
  /** @param {Source & {push: (bytes: Uint8Array, taken: () => void) => void, end: (error?: any) => void}} queue */
  constructor(queue) {
    super();
    this.queue = queue;
    this.context = currentContext();
    this.ended = false;
  }

  /** @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload */
  call(path, op, payload) {
    if (payload === null || this.ended || path.length !== 1) {
      releasePayload(payload);
      return closed(new TypeError('The stream has ended.'));
    }
    switch (path[0]) {
      case 'write': {
        const { bytes } = payload;
        releasePayload(payload);
        if (bytes === null) return closed(new TypeError('Bytes were expected.'));
        if (this.queue.cancelled) return closed(this.queue.reason ?? new Error('The reader cancelled the stream.'));
        const result = new Result();
        this.queue.push(bytes, (/** @type {any} */ error) => {
          if (error === undefined) result.settle(newPayload(NOTHING), new Target(), false);
          else result.fail(errorPayload(error));
        });
        return result;
      }
      case 'end':
        this.ended = true;
        releasePayload(payload);
        this.queue.end();
        return done();
      case 'error':
        this.ended = true;
        this.queue.end(decodeFailure(payload));
        return done();
      default:
        releasePayload(payload);
        return closed(new TypeError('A stream has no such method.'));
    }
  }

  lastReleased() {
    if (!this.ended) this.queue.end(new Error('ReadableStream received over RPC disconnected prematurely.'));
  }
}

/** @implements {Source} */
class RemoteSource {
  /** @param {Target} target a ReadableTarget; owned */
  constructor(target) {
    /** @type {Target|null} */
    this.target = target;
    /** @type {{bytes: Uint8Array, taken: (error?: any) => void}[]} */
    this.queue = rawList();
    this.first = 0;
    this.started = false;
    this.over = false;
    /** @type {any} */
    this.error = undefined;
    this.cancelled = false;
    /** @type {any} */
    this.reason = undefined;
    /** @type {((chunk: {bytes: Uint8Array}|null) => void)|null} */
    this.wake = null;
    /** @type {((error: any) => void)|null} */
    this.wakeFailed = null;
    this.context = currentContext();
    this.context?.disposables.add(this);
    this.held = holdHome(target, this.context);
    this.forget = target.onBroken((reason) => this.end(reason));
  }

  /** @returns {Promise<{bytes: Uint8Array}|null>} */
  read() {
    if (this.first < this.queue.length) return promiseResolve(this.shift());
    if (this.over) return this.error === undefined ? promiseResolve(null) : promiseReject(this.error);
    return newPromise((resolve, reject) => {
      this.wake = resolve;
      this.wakeFailed = reject;
      this.start();
    });
  }

  start() {
    if (this.started || this.target === null) return;
    this.started = true;
    const sink = new SinkTarget(/** @type {any} */ (this));
    const capabilities = rawList();
    capabilities[0] = newCapability(WRITABLE, sink);
    const result = this.target.call(pathOf('pipe'), CALL, newPayload(NOTHING, capabilities));
    result.listen(() => {
      if (result.state === 2) this.end(decodeFailure(result.take()));
      result.finish();
    });
  }

  shift() {
    const { bytes, taken } = this.queue[this.first];
    this.queue[this.first++] = /** @type {any} */ (undefined);
    if (this.first === this.queue.length) {
      this.queue = rawList();
      this.first = 0;
    }
    taken();
    return { __proto__: null, bytes };
  }

  /** @param {Uint8Array} bytes @param {(error?: any) => void} taken */
  push(bytes, taken) {
    this.queue[this.queue.length] = { bytes, taken };
    const { wake } = this;
    if (wake === null) return;
    this.wake = null;
    this.context?.enter();
    wake(this.shift());
  }

  /** @param {any} [error] */
  end(error) {
    if (this.over) return;
    this.over = true;
    this.error = error;
    this.release();
    const { wake, wakeFailed } = this;
    if (wake === null || wakeFailed === null) return;
    this.wake = null;
    this.context?.enter();
    if (error === undefined) wake(null);
    else wakeFailed(error);
  }

  /** @param {any} reason */
  cancel(reason) {
    if (this.over) return;
    this.cancelled = true;
    this.reason = reason;
    const { queue, target } = this;
    if (target !== null) {
      const result = target.call(pathOf('cancel'), CALL, errorPayload(reason));
      result.listen(() => result.finish());
    }
    this.over = true;
    this.release();
    for (let i = this.first; i < queue.length; i++) queue[i].taken(reason ?? new Error('The reader cancelled the stream.'));
    this.queue = rawList();
    this.first = 0;
  }

  /** The request that it came with has ended. */
  dispose() {
    if (!this.over) this.cancel(new Error('The request that read the stream has ended.'));
  }

  release() {
    const { target } = this;
    this.target = null;
    this.context?.disposables.delete(this);
    this.forget();
    if (target === null) return;
    target.release();
    this.held?.drop();
  }
}

/** @param {Target} target owned @returns {Source} */
export const remoteSource = (target) => new RemoteSource(target);

/** The sender's end of a writable stream. */
class WriterTarget extends Target {
  /** @param {any} stream */
  constructor(stream) {
    super();
    if (isWriterLocked(stream)) throw new TypeError('The WritableStream has been locked to a writer.');
    this.writer = getWriter(stream);
    this.context = currentContext();
    this.ended = false;
  }

  /** @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload */
  call(path, op, payload) {
    if (payload === null || this.ended || path.length !== 1) {
      releasePayload(payload);
      return closed(new TypeError('The stream has ended.'));
    }
    const { bytes } = payload;
    this.context?.enter();
    switch (path[0]) {
      case 'write':
        releasePayload(payload);
        return bytes === null ? closed(new TypeError('Bytes were expected.')) : this.answer(writerWrite(this.writer, new Uint8Array(bytes)));
      case 'end':
        this.ended = true;
        releasePayload(payload);
        return this.answer(writerClose(this.writer));
      case 'error':
        this.ended = true;
        quietly(writerAbort(this.writer, decodeFailure(payload)));
        return done();
      default:
        releasePayload(payload);
        return closed(new TypeError('A stream has no such method.'));
    }
  }

  /** @param {Promise<any>} promise */
  answer(promise) {
    const result = new Result();
    promiseThen(promise, () => result.settle(newPayload(NOTHING), new Target(), false), (error) => result.fail(errorPayload(error)));
    return result;
  }

  lastReleased() {
    if (this.ended) return;
    this.ended = true;
    quietly(writerAbort(this.writer, new Error('WritableStream received over RPC was disconnected because the remote execution context has ended.')));
  }
}

/** @param {Target} target a WriterTarget; owned @returns {any} a WritableStream */
function remoteWritable(target) {
  const context = currentContext();
  /** @type {any} */
  let failure;
  let failed = false, underWay = 0, over = false;
  /** @type {{resolve: () => void, reject: (error: any) => void, all: boolean}|null} */
  let waiting = null;
  const wake = () => {
    if (waiting === null || (!failed && (waiting.all ? underWay > 0 : underWay > WINDOW))) return;
    const { resolve, reject } = waiting;
    waiting = null;
    context?.enter();
    if (failed) reject(failure);
    else resolve();
  };
  /** @param {boolean} all nothing under way, or only within the window @returns {any} */
  const room = (all) => {
    if (failed) return promiseReject(failure);
    if (all ? underWay === 0 : underWay <= WINDOW) return undefined;
    return newPromise((resolve, reject) => { waiting = { resolve, reject, all }; });
  };
  const end = () => {
    if (over) return;
    over = true;
    context?.disposables.delete(handle);
    target.release();
    held?.drop();
  };
  const handle = { dispose: end }, held = holdHome(target, context);
  context?.disposables.add(handle);
  /** @param {string} name @param {import('./target.js').Payload} payload @param {number} size */
  const send = (name, payload, size) => {
    underWay += size;
    const result = target.call(pathOf(name), CALL, payload);
    return newPromise((resolve, reject) => {
      result.listen(() => {
        underWay -= size;
        if (result.state === 2) {
          failure = decodeFailure(result.take());
          failed = true;
          end();
          reject(failure);
        } else {
          resolve();
        }
        result.finish();
        wake();
      });
    });
  };
  return new WritableStream(/** @type {any} */ ({
    __proto__: null,
    start: undefined,
    type: undefined,
    write(/** @type {any} */ chunk) {
      if (failed) throw failure;
      if (over) throw new Error('The request that wrote the stream has ended.');
      const bytes = new Uint8Array(chunkBytes(chunk));
      promiseIgnore(send('write', newPayload(bytes), TypedArrayPrototypeGetLength(bytes) || 1));
      return room(false);
    },
    close() {
      return promiseThen(promiseResolve(room(true)), () => promiseThen(send('end', newPayload(NOTHING), 0), end));
    },
    abort(/** @type {any} */ reason) {
      if (over) return undefined;
      promiseIgnore(promiseThen(send('error', errorPayload(reason), 0), end));
      return undefined;
    },
  }), /** @type {any} */ ({ __proto__: null, highWaterMark: 1, size: undefined }));
}

class SignalTarget extends Target {
  /** @param {any} signal */
  constructor(signal) {
    super();
    this.signal = signal;
    this.context = currentContext();
    /** @type {Set<Result>} */
    this.waiting = new SafeSet();
    if (!signal.aborted) {
      addAbortAlgorithm(signal, () => {
        this.waiting.forEach((result) => result.fail(errorPayload(signal.reason)));
        this.waiting.clear();
      });
    }
  }

  /** @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload */
  call(path, op, payload) {
    releasePayload(payload);
    if (this.signal.aborted) return closed(this.signal.reason);
    const result = new Result();
    this.waiting.add(result);
    result.eager = true;
    result.onFinish = () => { this.waiting.delete(result); };
    return result;
  }
}

/** @param {Target} target a SignalTarget; owned */
function remoteSignal(target) {
  const signal = newSignal();
  const context = currentContext(), held = holdHome(target, context);
  const result = target.call(pathOf('wait'), CALL, newPayload(NOTHING));
  const handle = {
    dispose() {
      result.finish();
      target.release();
      held?.drop();
    },
  };
  context?.disposables.add(handle);
  result.listen(() => {
    context?.disposables.delete(handle);
    context?.enter();
    if (result.state === 2) abortSignal(signal, decodeFailure(result.take()));
    handle.dispose();
  });
  return signal;
}

capabilityReaders[READABLE] = (target) => sourceStream(remoteSource(target), false);
capabilityReaders[WRITABLE] = remoteWritable;
capabilityReaders[SIGNAL] = remoteSignal;

/** @param {import('./codec.js').Encoder} encoder @param {number} kind @param {Target} target owned */
export function writeCapability(encoder, kind, target) {
  encoder.writer.head(0, /** @type {any} */ (encoder.capabilities).add(kind, target));
}

/** @param {import('./codec.js').Decoder} decoder @param {number} kind @returns {any} */
export function readCapability(decoder, kind) {
  return /** @type {any} */ (decoder.options.capability)(decoder.reader.readUint(), kind);
}

registerPlatformType(ReadableStream.prototype, {
  number: 4, rpcOnly: true, test: isReadableStream,
  write: (stream, encoder) => writeCapability(encoder, READABLE, new ReadableTarget(streamSource(stream))),
  read: (decoder) => readCapability(decoder, READABLE),
});
registerPlatformType(WritableStream.prototype, {
  number: 5, rpcOnly: true, test: isWritableStream,
  write: (stream, encoder) => writeCapability(encoder, WRITABLE, new WriterTarget(stream)),
  read: (decoder) => readCapability(decoder, WRITABLE),
});
registerPlatformType(AbortSignal.prototype, {
  number: 6, rpcOnly: true, test: isSignal,
  write: (signal, encoder) => writeCapability(encoder, SIGNAL, new SignalTarget(signal)),
  read: (decoder) => readCapability(decoder, SIGNAL),
});
