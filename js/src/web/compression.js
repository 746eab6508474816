/**
 * CompressionStream and DecompressionStream. The standard makes them of a TransformStream; these have the two ends made by hand, so
 * that output is made as it is read, up to AHEAD bytes before: a few bytes that unpack to gigabytes take no more memory than that.
 */
import { TypeError, TypedArrayPrototypeGetByteLength, Uint8Array, newPromise } from '../primordials.js';
import { natives } from '../natives.js';
import { ReadableStream, WritableStream } from './streams.js';
import { concat } from './bytes.js';
import { copyBytes, finishInterface, requireArguments, toDOMString } from './webidl.js';

const FORMATS = /** @type {Record<string, 0|1|2>} */ (/** @type {any} */ ({ __proto__: null, gzip: 0, deflate: 1, 'deflate-raw': 2 }));

const AHEAD = 1 << 20;
/** No format begins with more than that (gzip: 10). */
const SMALL = 16;

/** @param {any} value @param {string} what @returns {0|1|2} */
function toFormat(value, what) {
  const format = FORMATS[toDOMString(value)];
  if (format === undefined) throw new TypeError(`${what}: ${toDOMString(value)} is not a compression format`);
  return format;
}

/** One end's promise at a time: whoever waits for the reader. */
class Pipe {
  /** @type {any} */ controller;
  /** @type {any} */ writable;
  ended = false;
  /** @type {(() => void)|undefined} */ wake;
  /** @type {Uint8Array|null} */ head = null;
  /** @param {boolean} compress @param {0|1|2} format */
  constructor(compress, format) {
    this.compress = compress;
    this.handle = natives.zlib.open(compress, format);
  }

  /** Waits for room; false when there will never be. @returns {Promise<boolean>} */
  async room() {
    while (!this.ended && this.controller.desiredSize <= 0) await newPromise((resolve) => { this.wake = resolve; });
    return !this.ended;
  }
  wakeUp() {
    const { wake } = this;
    this.wake = undefined;
    if (wake !== undefined) wake();
  }
  /** The few bytes with which a format begins wait for what follows them. @param {Uint8Array} bytes */
  give(bytes) {
    const { head } = this;
    this.head = null;
    if (head !== null) bytes = concat([head, bytes]);
    if (this.compress && TypedArrayPrototypeGetByteLength(bytes) < SMALL) this.head = bytes;
    else this.controller.enqueue(bytes);
  }
  /** Gives all that the input so far makes. @param {boolean} finish */
  async drain(finish) {
    while (await this.room()) {
      const made = this.run(() => natives.zlib.pull(this.handle, finish));
      if (made === null) return;
      this.give(new Uint8Array(made));
    }
  }
  /** @param {any} chunk */
  async write(chunk) {
    const bytes = this.run(() => copyBytes(chunk, 'chunk'));
    if (this.ended) return;
    this.run(() => natives.zlib.push(this.handle, bytes));
    await this.drain(false);
  }
  async close() {
    await this.drain(true);
    if (this.ended) return;
    if (this.head !== null) this.controller.enqueue(this.head);
    this.end();
    this.controller.close();
  }
  /** What fails here fails both ends, with a TypeError. @template T @param {() => T} step @returns {T} */
  run(step) {
    try {
      return step();
    } catch (error) {
      const shown = error instanceof TypeError ? error : new TypeError(/** @type {any} */ (error).message);
      this.fail(shown);
      throw shown;
    }
  }
  /** @param {any} reason */
  fail(reason) {
    if (this.ended) return;
    this.end();
    this.controller.error(reason);
  }
  end() {
    this.ended = true;
    natives.zlib.close(this.handle);
    this.wakeUp();
  }
}

/** @param {boolean} compress @param {0|1|2} format */
function makeEnds(compress, format) {
  const pipe = new Pipe(compress, format);
  /** @type {any} */ let input;
  const readable = new ReadableStream(/** @type {any} */ ({
    __proto__: null,
    start(/** @type {any} */ controller) { pipe.controller = controller; },
    pull() { pipe.wakeUp(); },
    cancel(/** @type {any} */ reason) {
      if (pipe.ended) return;
      pipe.end();
      input.error(reason);
    },
  }), /** @type {any} */ ({ __proto__: null, highWaterMark: AHEAD, size: TypedArrayPrototypeGetByteLength }));
  const writable = new WritableStream(/** @type {any} */ ({
    __proto__: null,
    start(/** @type {any} */ controller) { input = controller; },
    write: (/** @type {any} */ chunk) => pipe.write(chunk),
    close: () => pipe.close(),
    abort(/** @type {any} */ reason) { pipe.fail(reason); },
  }));
  return { __proto__: null, readable, writable };
}

export class CompressionStream {
  #ends;
  /** @param {any} format */
  constructor(format) {
    requireArguments(arguments.length, 1, 'CompressionStream');
    this.#ends = makeEnds(true, toFormat(format, 'CompressionStream'));
  }
  get readable() { return this.#ends.readable; }
  get writable() { return this.#ends.writable; }
}
finishInterface(CompressionStream, 'CompressionStream');

export class DecompressionStream {
  #ends;
  /** @param {any} format */
  constructor(format) {
    requireArguments(arguments.length, 1, 'DecompressionStream');
    this.#ends = makeEnds(false, toFormat(format, 'DecompressionStream'));
  }
  get readable() { return this.#ends.readable; }
  get writable() { return this.#ends.writable; }
}
finishInterface(DecompressionStream, 'DecompressionStream');
