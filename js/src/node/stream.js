/** node:stream, by the package readable-stream (that of Node.js itself, as a package). */
import base from 'readable-stream/lib/ours/browser.js';

const stream = /** @type {any} */ (base);
export const {
  Duplex, PassThrough, Readable, Stream, Transform, Writable, addAbortSignal, compose, destroy, finished, getDefaultHighWaterMark, isDestroyed, isDisturbed,
  isErrored, isReadable, isWritable, pipeline, promises, setDefaultHighWaterMark,
} = stream;
export default stream;
