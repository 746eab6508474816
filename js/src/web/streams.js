/**
 * The Streams standard by web-streams-polyfill, and what the rest of the library needs to know of a stream without asking guest
 * code: the polyfill keeps its state in own properties, which are read here and nowhere else.
 */
import {
  ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableByteStreamController, ReadableStream, ReadableStreamBYOBReader,
  ReadableStreamBYOBRequest, ReadableStreamDefaultController, ReadableStreamDefaultReader, TransformStream,
  TransformStreamDefaultController, WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter,
} from 'web-streams-polyfill';
import {
  ArrayPrototypePush, AsyncIteratorPrototype, ObjectDefineProperty, ObjectFreeze, ObjectGetPrototypeOf, ObjectSetPrototypeOf, ObjectGetOwnPropertySymbols, ObjectPrototypeHasOwnProperty, SafeWeakMap, SymbolPrototypeGetDescription, SymbolToStringTag, TypeError,
  TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag, Uint8Array, define, newPromise, promiseIgnore, rawList, uncurryThis,
} from '../primordials.js';
import { concat } from './bytes.js';
import { isBufferSource, isObject, toEnforcedInteger, viewBytes } from './webidl.js';

export {
  ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableByteStreamController, ReadableStream, ReadableStreamBYOBReader,
  ReadableStreamBYOBRequest, ReadableStreamDefaultController, ReadableStreamDefaultReader, TransformStream,
  TransformStreamDefaultController, WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter,
};

// The bundler may have renamed the classes.
const NAMED = /** @type {any} */ ({
  __proto__: null, ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableByteStreamController, ReadableStream, ReadableStreamBYOBReader,
  ReadableStreamBYOBRequest, ReadableStreamDefaultController, ReadableStreamDefaultReader, TransformStream,
  TransformStreamDefaultController, WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter,
});
for (const name in NAMED) ObjectDefineProperty(NAMED[name], 'name', /** @type {any} */ ({ __proto__: null, value: name, configurable: true }));
{ // The polyfill's async iterators inherit from a look-alike of the language's prototype.
  const prototype = ObjectGetPrototypeOf(new ReadableStream().values());
  ObjectSetPrototypeOf(prototype, AsyncIteratorPrototype);
}

/** @type {(stream: any) => any} */ export const getReader = uncurryThis(ReadableStream.prototype.getReader);
/** @type {(stream: any, reason?: any) => Promise<void>} */ export const cancelStream = uncurryThis(ReadableStream.prototype.cancel);
/** @type {(stream: any) => [any, any]} */ export const teeStream = uncurryThis(ReadableStream.prototype.tee);
/** @type {(from: any, to: any, options?: any) => Promise<void>} */ export const pipeTo = uncurryThis(ReadableStream.prototype.pipeTo);
/** @type {(stream: any) => any} */ export const getWriter = uncurryThis(WritableStream.prototype.getWriter);
/** @type {(reader: any, reason?: any) => Promise<void>} */ export const readerCancel = uncurryThis(ReadableStreamDefaultReader.prototype.cancel);
/** @type {(reader: any) => void} */ export const readerRelease = uncurryThis(ReadableStreamDefaultReader.prototype.releaseLock);
/** @type {(writer: any, chunk: any) => Promise<void>} */ export const writerWrite = uncurryThis(WritableStreamDefaultWriter.prototype.write);
/** @type {(writer: any) => Promise<void>} */ export const writerClose = uncurryThis(WritableStreamDefaultWriter.prototype.close);
/** @type {(writer: any, reason?: any) => Promise<void>} */ export const writerAbort = uncurryThis(WritableStreamDefaultWriter.prototype.abort);
/** @type {(controller: any, bytes: Uint8Array) => void} */ export const controllerEnqueue = uncurryThis(ReadableByteStreamController.prototype.enqueue);
const controllerClose = uncurryThis(ReadableByteStreamController.prototype.close);
/** @type {(controller: any, chunk: any) => void} */ export const defaultEnqueue = uncurryThis(ReadableStreamDefaultController.prototype.enqueue);
/** @type {(controller: any) => void} */ export const defaultClose = uncurryThis(ReadableStreamDefaultController.prototype.close);
/** @type {(controller: any) => any} */ export const controllerRequest = uncurryThis(/** @type {any} */ (Object.getOwnPropertyDescriptor(ReadableByteStreamController.prototype, 'byobRequest')).get);
/** @type {(request: any, bytes: number) => void} */ export const requestRespond = uncurryThis(ReadableStreamBYOBRequest.prototype.respond);

const readInto = uncurryThis(ReadableStreamBYOBReader.prototype.read);
/** A read that waits for so many bytes: Workers had it before the standard had `min`, which counts elements. */
define(ReadableStreamBYOBReader.prototype, 'readAtLeast', {
  /** @this {any} @param {any} bytes @param {any} view @returns {Promise<any>} */
  readAtLeast(bytes, view) {
    const length = TypedArrayPrototypeGetSymbolToStringTag(view) === undefined ? 0 : TypedArrayPrototypeGetLength(view);
    const size = length === 0 ? 1 : TypedArrayPrototypeGetByteLength(view) / length, least = toEnforcedInteger(bytes, 'readAtLeast: the number of bytes');
    return readInto(this, view, { __proto__: null, min: (least + (size - least % size) % size) / size });
  },
}.readAtLeast);

const pullSteps = symbolOf(ReadableStreamDefaultController.prototype, '[[PullSteps]]');
/** @param {any} prototype @param {string} description @returns {symbol} */
function symbolOf(prototype, description) {
  const symbols = ObjectGetOwnPropertySymbols(prototype);
  for (let i = 0; i < symbols.length; i++) if (SymbolPrototypeGetDescription(symbols[i]) === description) return symbols[i];
  throw new TypeError(`web-streams-polyfill has no ${description}`);
}
// What the streams call on each other stays theirs.
for (const { prototype } of [ReadableStreamDefaultController, ReadableByteStreamController, WritableStreamDefaultController]) {
  const symbols = ObjectGetOwnPropertySymbols(prototype);
  for (let i = 0; i < symbols.length; i++) {
    if (symbols[i] !== SymbolToStringTag) ObjectDefineProperty(prototype, symbols[i], /** @type {any} */ ({ __proto__: null, writable: false, configurable: false }));
  }
}
/**
 * Reads one chunk by the standard's read request, without a promise of an object that Object.prototype.then could catch.
 * @param {any} reader @param {(chunk: any) => void} chunk may be called before this returns @param {() => void} close @param {(error: any) => void} failed
 */
export function readRequest(reader, chunk, close, failed) {
  const stream = reader._ownerReadableStream;
  if (stream === undefined) { failed(new TypeError('The reader was released')); return; }
  stream._disturbed = true;
  if (stream._state === 'closed') close();
  else if (stream._state === 'errored') failed(stream._storedError);
  else stream._readableStreamController[pullSteps]({ __proto__: null, _chunkSteps: chunk, _closeSteps: close, _errorSteps: failed });
}
/** As reader.read(), but the step inherits nothing. @param {any} reader @returns {Promise<{value: any, done: boolean}>} */
export const readerRead = (reader) => newPromise((resolve, reject) => {
  readRequest(reader, (value) => resolve({ __proto__: null, value, done: false }), () => resolve(DONE), reject);
});
const DONE = ObjectFreeze({ __proto__: null, value: undefined, done: true });

/** @param {any} value @returns {boolean} */
export const isReadableStream = (value) => isObject(value) && ObjectPrototypeHasOwnProperty(value, '_readableStreamController');
/** @param {any} value @returns {boolean} */
export const isWritableStream = (value) => isObject(value) && ObjectPrototypeHasOwnProperty(value, '_writableStreamController');
/** @param {any} value @returns {boolean} */
export const isTransformStream = (value) => isObject(value) && ObjectPrototypeHasOwnProperty(value, '_transformStreamController');
/** @param {any} stream @returns {boolean} something was read from it, or it was cancelled */
export const isDisturbed = (stream) => stream._disturbed;
/** @param {any} stream @returns {boolean} */
export const isLocked = (stream) => stream._reader !== undefined;
/** @param {any} stream @returns {boolean} */
export const isWriterLocked = (stream) => stream._writer !== undefined;
/** @param {any} stream @returns {boolean} */
export const isByteStream = (stream) => ObjectPrototypeHasOwnProperty(stream._readableStreamController, '_controlledReadableByteStream');
/** Locks a stream for ever, as one that was read to its end. @param {any} stream */
export function consumeStream(stream) {
  stream._disturbed = true;
  getReader(stream);
}

/**
 * What a stream of ours is made from, while nothing has been read: bytes or a source with readAll() (link_body.js). Lets `new Response(other.body, other)` go
 * out without being pumped. @type {WeakMap<any, any>}
 */
const origins = new SafeWeakMap();
/** @param {any} stream @returns {any} undefined: none, or it was touched */
export const originOf = (stream) => (isDisturbed(stream) || isLocked(stream) ? undefined : origins.get(stream));

/** A byte stream by which all of `bytes` come at once. @param {Uint8Array} bytes @returns {any} */
export function bytesStream(bytes) {
  const stream = byteSource((controller) => {
    if (TypedArrayPrototypeGetByteLength(bytes) > 0) controllerEnqueue(controller, new Uint8Array(bytes));
    finishBytes(controller);
  });
  origins.set(stream, bytes);
  return stream;
}

/** @param {any} controller of a byte stream */
export function finishBytes(controller) {
  controllerClose(controller);
  const request = controllerRequest(controller);
  if (request !== null && request !== undefined) requestRespond(request, 0);
}

/** @param {(controller: any) => any} pull @param {(reason: any) => any} [cancel] */
function byteSource(pull, cancel) {
  return new ReadableStream(/** @type {any} */ ({
    __proto__: null, type: 'bytes', autoAllocateChunkSize: undefined, start: undefined, pull, cancel,
  }), /** @type {any} */ ({ __proto__: null, highWaterMark: 0, size: undefined }));
}

/**
 * Bytes that come from elsewhere. `read`: the next of them, in an object that inherits nothing (so that no `then` is found), null at
 * the end; one call at a time. @typedef {{read: () => Promise<{bytes: Uint8Array}|null>, cancel: (reason?: any) => any}} ByteSource
 */
/** A byte stream over a source of ours. @param {ByteSource} source @param {boolean} [whole] the source may be taken in the stream's place @returns {any} */
export function sourceStream(source, whole = false) {
  const stream = byteSource(async (controller) => {
    /** @type {{bytes: Uint8Array}|null} */ let chunk;
    do chunk = await source.read(); while (chunk !== null && chunk.bytes.length === 0);
    if (chunk === null) finishBytes(controller);
    else controllerEnqueue(controller, chunk.bytes);
  }, (reason) => source.cancel(reason));
  if (whole) origins.set(stream, source);
  return stream;
}

/** The bytes of a chunk of a body. @param {any} chunk @returns {Uint8Array} */
export function chunkBytes(chunk) {
  if (isBufferSource(chunk)) return viewBytes(chunk, 'chunk');
  throw new TypeError('A chunk of a body is not bytes (a Uint8Array): encode text with TextEncoder or pipe it through a TextEncoderStream');
}

/** Reads everything. @param {any} stream neither locked nor disturbed @returns {Promise<{bytes: Uint8Array}>} */
export function readAll(stream) {
  const reader = getReader(stream);
  /** @type {Uint8Array[]} */ const chunks = rawList();
  return newPromise((resolve, reject) => {
    let pulling = false, again = false;
    const chunk = (/** @type {any} */ value) => {
      try {
        ArrayPrototypePush(chunks, chunkBytes(value));
      } catch (error) {
        promiseIgnore(readerCancel(reader, error));
        reject(error);
        return;
      }
      next();
    };
    const close = () => resolve({ __proto__: null, bytes: chunks.length === 0 ? new Uint8Array(0) : chunks.length === 1 ? new Uint8Array(chunks[0]) : concat(chunks) });
    // Chunks that are there already come before the request returns: a loop, so that no number of them deepens the stack.
    function next() {
      again = true;
      if (pulling) return;
      pulling = true;
      while (again) { again = false; readRequest(reader, chunk, close, reject); }
      pulling = false;
    }
    next();
  });
}
