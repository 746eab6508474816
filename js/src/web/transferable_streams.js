/**
 * Streams in a transfer list: the new stream is of the same process, so it takes the old one's place by piping. The old one is
 * locked from then on, as the standard wants.
 */
import {
  ReadableStream, TransformStream, WritableStream, defaultClose, defaultEnqueue, getReader, getWriter, isLocked, isReadableStream, isTransformStream, isWritableStream, isWriterLocked,
  readerCancel, readerRead, writerAbort, writerClose, writerWrite,
} from './streams.js';
import { registerTransferer } from './structured_clone.js';

/** @param {any} stream */
function moveReadable(stream) {
  const reader = getReader(stream);
  return new ReadableStream(/** @type {any} */ ({
    __proto__: null, start: undefined, type: undefined,
    pull: async (/** @type {any} */ controller) => {
      const step = await readerRead(reader);
      if (step.done) defaultClose(controller);
      else defaultEnqueue(controller, step.value);
    },
    cancel: (/** @type {any} */ reason) => readerCancel(reader, reason),
  }), /** @type {any} */ ({ __proto__: null, highWaterMark: 0, size: undefined }));
}
/** @param {any} stream */
function moveWritable(stream) {
  const writer = getWriter(stream);
  return new WritableStream(/** @type {any} */ ({
    __proto__: null, start: undefined, type: undefined,
    write: (/** @type {any} */ chunk) => writerWrite(writer, chunk),
    close: () => writerClose(writer),
    abort: (/** @type {any} */ reason) => writerAbort(writer, reason),
  }));
}
const readableOf = /** @type {any} */ (Object.getOwnPropertyDescriptor(TransformStream.prototype, 'readable')).get;
const writableOf = /** @type {any} */ (Object.getOwnPropertyDescriptor(TransformStream.prototype, 'writable')).get;
const apply = Reflect.apply;

/** The two sides in a new coat. @param {any} stream */
function moveTransform(stream) {
  const readable = moveReadable(apply(readableOf, stream, [])), writable = moveWritable(apply(writableOf, stream, []));
  const made = Object.create(TransformStream.prototype);
  Object.assign(made, { _readable: readable, _writable: writable, _transformStreamController: stream._transformStreamController, _backpressure: false });
  return made;
}
registerTransferer(isReadableStream, moveReadable, isLocked);
registerTransferer(isWritableStream, moveWritable, isWriterLocked);
registerTransferer(isTransformStream, moveTransform, (stream) => isLocked(apply(readableOf, stream, [])) || isWriterLocked(apply(writableOf, stream, [])));
