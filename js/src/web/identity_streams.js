/**
 * IdentityTransformStream and FixedLengthStream: bytes through unchanged. Their ends are made by hand, because those of a TransformStream look at a
 * chunk only when somebody reads, and cannot fill a reader's own buffer. A write is done when it was read.
 */
import {
  Number, Object, SafeWeakMap, TypeError, TypedArrayPrototypeGetLength, TypedArrayPrototypeSet, Uint8Array, newPromise, uncurryThis,
} from '../primordials.js';
import { viewOf } from '../rpc/cbor.js';
import {
  ReadableByteStreamController, ReadableStream, ReadableStreamBYOBRequest, TransformStream, WritableStream, WritableStreamDefaultController, controllerEnqueue,
  controllerRequest, finishBytes, requestRespond,
} from './streams.js';
import { finishInterface, isBufferSource, isObject, toEnforcedInteger, viewBytes } from './webidl.js';

const controllerError = uncurryThis(ReadableByteStreamController.prototype.error), inputError = uncurryThis(WritableStreamDefaultController.prototype.error);
const requestView = uncurryThis(/** @type {any} */ (Object.getOwnPropertyDescriptor(ReadableStreamBYOBRequest.prototype, 'view')).get);

/** Between a writer and a reader. */
class Passage {
  /** Of the readable end. @type {any} */ controller = null;
  /** Of the writable end. @type {any} */ input = null;
  /** Neither end takes anything any more. */ over = false;
  /** The reader waits. */ wanted = false;
  /** What the reader has not taken yet of the present write. @type {Uint8Array|null} */ waiting = null;
  /** @type {(() => void)|null} */ written = null;
  /** @type {((reason: any) => void)|null} */ failed = null;
  /** @param {number} left bytes that are still expected; Infinity: any number */
  constructor(left) { this.left = left; }

  pull() {
    if (this.waiting === null) this.wanted = true;
    else this.give();
  }

  /** Hands over what fits. Each step leaves this as it should be before it does anything that may come back here. */
  give() {
    const bytes = /** @type {Uint8Array} */ (this.waiting), request = controllerRequest(this.controller);
    this.wanted = false;
    this.waiting = null;
    if (request === null || request === undefined) {
      controllerEnqueue(this.controller, bytes);
    } else {
      const room = viewBytes(requestView(request), 'view'), size = TypedArrayPrototypeGetLength(room);
      let part = bytes;
      if (size < TypedArrayPrototypeGetLength(bytes)) {
        part = viewOf(bytes, 0, size);
        this.waiting = viewOf(bytes, size, TypedArrayPrototypeGetLength(bytes));
      }
      TypedArrayPrototypeSet(room, part);
      requestRespond(request, TypedArrayPrototypeGetLength(part));
    }
    const { written } = this;
    if (this.waiting !== null || written === null) return;
    this.written = this.failed = null;
    written();
  }

  /** @param {any} chunk */
  take(chunk) {
    if (!isBufferSource(chunk)) throw new TypeError('This stream carries bytes: a chunk must be an ArrayBuffer or a view of one');
    const bytes = new Uint8Array(viewBytes(chunk, 'chunk'));
    if (TypedArrayPrototypeGetLength(bytes) > this.left) throw new TypeError('Attempt to write too many bytes through a FixedLengthStream.');
    this.left -= TypedArrayPrototypeGetLength(bytes);
    return bytes;
  }

  /** @param {any} chunk */
  write(chunk) {
    const bytes = this.run(() => this.take(chunk));
    if (TypedArrayPrototypeGetLength(bytes) === 0) return undefined;
    return newPromise((resolve, reject) => {
      this.waiting = bytes;
      this.written = resolve;
      this.failed = reject;
      if (this.wanted) this.give();
    });
  }

  close() {
    this.run(() => {
      if (this.left > 0 && this.left !== Infinity) throw new TypeError('FixedLengthStream did not see all expected bytes before close().');
    });
    this.over = true;
    finishBytes(this.controller);
  }

  /** What fails at one end fails the other. @template T @param {() => T} step @returns {T} */
  run(step) {
    try {
      return step();
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  /** @param {any} reason */
  fail(reason) {
    if (this.over) return;
    this.over = true;
    controllerError(this.controller, reason);
  }

  /** @param {any} reason */
  cancel(reason) {
    if (this.over) return;
    this.over = true;
    const { failed } = this;
    this.waiting = this.written = this.failed = null;
    inputError(this.input, reason);
    if (failed !== null) failed(reason);
  }
}

/** @param {any} chunk what is no bytes is refused when it is written */
const sizeOf = (chunk) => (isBufferSource(chunk) ? TypedArrayPrototypeGetLength(viewBytes(chunk, 'chunk')) : 0);

/** @param {any} options highWaterMark: bytes that may wait; absent: one chunk @param {number} expected */
function makeEnds(options, expected) {
  const passage = new Passage(expected);
  let mark = isObject(options) ? options.highWaterMark : undefined;
  if (mark !== undefined && (mark = Number(mark)) > expected) mark = expected;
  const readable = new ReadableStream(/** @type {any} */ ({
    __proto__: null, type: 'bytes', autoAllocateChunkSize: undefined,
    start(/** @type {any} */ controller) { passage.controller = controller; },
    pull() { passage.pull(); },
    cancel(/** @type {any} */ reason) { passage.cancel(reason); },
  }), /** @type {any} */ ({ __proto__: null, highWaterMark: 0, size: undefined }));
  const writable = new WritableStream(/** @type {any} */ ({
    __proto__: null, type: undefined,
    start(/** @type {any} */ controller) { passage.input = controller; },
    write: (/** @type {any} */ chunk) => passage.write(chunk),
    close: () => passage.close(),
    abort(/** @type {any} */ reason) { passage.fail(reason); },
  }), /** @type {any} */ (mark === undefined ? { __proto__: null, highWaterMark: 1, size: undefined } : { __proto__: null, highWaterMark: mark, size: sizeOf }));
  return { __proto__: null, readable, writable };
}

/** How long the stream that is being made will be; Infinity: nobody knows. */
let expected = Infinity;

export class IdentityTransformStream extends TransformStream {
  #ends;
  /** @param {any} [options] */
  constructor(options = undefined) {
    super();
    const length = expected;
    expected = Infinity;
    this.#ends = makeEnds(options, length);
    if (length !== Infinity) lengths.set(this.#ends.readable, length);
  }
  get readable() { return this.#ends.readable; }
  get writable() { return this.#ends.writable; }
}
finishInterface(IdentityTransformStream, 'IdentityTransformStream');

/** Exactly so many bytes; a response with its readable side has that Content-Length. */
export class FixedLengthStream extends IdentityTransformStream {
  /** @param {any} length @param {any} [options] */
  constructor(length, options = undefined) {
    expected = typeof length === 'bigint' ? Number(length) : toEnforcedInteger(length, 'FixedLengthStream: the length');
    super(options);
  }
}
finishInterface(FixedLengthStream, 'FixedLengthStream');
/** @type {WeakMap<any, number>} */
const lengths = new SafeWeakMap();
/** How many bytes a stream will give, where that is known. @param {any} stream @returns {number|undefined} */
export const lengthOf = (stream) => lengths.get(stream);
