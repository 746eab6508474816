/**
 * Bodies on the link: LinkBody receives one (a source for sourceStream, or collected whole), sendStream and relay send one.
 * What comes before somebody wants it is bounded by the stream's credit. The other side's credit comes back as bytes are taken, so a body that nobody reads
 * stops its sender.
 */
import {
  ArrayPrototypePush, ArrayPrototypeShift, Error, TypeError, Uint8Array, newPromise, promiseIgnore, promiseResolve, promiseThen, rawList,
} from '../primordials.js';
import { openReceiving, openSending, streamConsumed, streamEnd, streamReset, streamWrite } from '../link.js';
import { concat, utf8Encode } from './bytes.js';
import { chunkBytes, getReader, readerCancel, readerRead } from './streams.js';

export class LinkBody {
  #id; #open = false;
  /** @type {Uint8Array[]} */ #queue = rawList();
  #ended = false;
  /** [reason] once it failed. @type {any[]|null} */ #failed = null;
  /** @type {(() => void)|null} */ #wake = null;

  /** @type {((message: string) => void)|undefined} */ #broken;

  /** @param {number} id a stream that the other side sends; -1: none, for of() @param {(message: string) => void} [broken] told when the other side resets it */
  constructor(id, broken = undefined) {
    this.#id = id;
    this.#broken = broken;
    // At once: bytes for a stream that is not open by the end of the entry that named it are refused.
    if (id < 0) this.#open = true;
    else this.#start();
  }

  /** @param {Uint8Array} bytes @returns {LinkBody} a source that has all it will ever have */
  static of(bytes) {
    const made = new LinkBody(-1);
    made.#ended = true;
    if (bytes.length > 0) ArrayPrototypePush(made.#queue, bytes);
    return made;
  }

  /** [reason] once it failed */
  get failure() { return this.#failed; }
  #start() {
    this.#open = true;
    openReceiving(this.#id, /** @type {any} */ ({
      __proto__: null,
      data: (/** @type {Uint8Array} */ bytes) => { ArrayPrototypePush(this.#queue, bytes); this.#notify(); },
      end: () => { this.#ended = true; this.#notify(); },
      reset: (/** @type {string} */ message) => {
        this.#failed ??= [new TypeError(message || 'The body was cut off')];
        this.#broken?.(message);
        this.#notify();
      },
    }));
  }
  #notify() {
    const wake = this.#wake;
    this.#wake = null;
    if (wake !== null) wake();
  }
  #wait() { return newPromise((resolve) => { this.#wake = resolve; }); }
  #take() {
    const bytes = /** @type {Uint8Array} */ (ArrayPrototypeShift(this.#queue));
    if (this.#id >= 0) streamConsumed(this.#id, bytes.length);
    return bytes;
  }

  /** See ByteSource. @returns {Promise<{bytes: Uint8Array}|null>} */
  async read() {
    if (!this.#open) this.#start();
    for (;;) {
      if (this.#failed !== null) throw this.#failed[0];
      if (this.#queue.length > 0) return /** @type {any} */ ({ __proto__: null, bytes: this.#take() });
      if (this.#ended) return null;
      await this.#wait();
    }
  }
  /** Everything. @returns {Promise<{bytes: Uint8Array}>} */
  async readAll() {
    if (!this.#open) this.#start();
    /** @type {Uint8Array[]} */ const chunks = rawList();
    for (;;) {
      if (this.#failed !== null) throw this.#failed[0];
      while (this.#queue.length > 0) ArrayPrototypePush(chunks, this.#take());
      if (this.#ended) return /** @type {any} */ ({ __proto__: null, bytes: chunks.length === 0 ? new Uint8Array(0) : concat(chunks) });
      await this.#wait();
    }
  }
  /** No more is wanted. @param {any} [reason] */
  cancel(reason = undefined) {
    if (!this.#open) this.#start();
    if (this.#ended || this.#failed !== null) return;
    this.#ended = true;
    this.#queue.length = 0;
    streamReset(this.#id, reason === undefined ? 'cancelled' : errorText(reason));
    this.#notify();
  }
  /** Whoever reads, now or later, gets this error; nothing more is received. @param {any} reason */
  fail(reason) {
    if (this.#failed !== null) return;
    const over = this.#ended;
    if (!this.#open && !over) this.#start();
    this.#failed = [reason];
    this.#queue.length = 0;
    if (!over) streamReset(this.#id, errorText(reason));
    this.#notify();
  }
}

/** @param {any} error */
function errorText(error) {
  try {
    return typeof error === 'object' && error !== null && typeof error.message === 'string' ? `${error.name}: ${error.message}` : `${error}`;
  } catch {
    return 'an error that cannot be described';
  }
}

/** Makes room: resolves when the link takes more, rejects when the receiver wants no more. */
export class Sender {
  /** @type {string|null} */ gone = null;
  /** @type {(() => void)|null} */ wake = null;
  /** @type {((message: string) => void)|null} */ onGone = null;
  /** @param {number} [id] when the other side has named it already */
  constructor(id = undefined) {
    this.id = openSending(/** @type {any} */ ({
      __proto__: null,
      writable: () => this.#notify(),
      reset: (/** @type {string} */ message) => {
        this.gone = message;
        this.onGone?.(message);
        this.#notify();
      },
    }), id);
  }
  #notify() {
    const { wake } = this;
    this.wake = null;
    if (wake !== null) wake();
  }
  /** @param {Uint8Array} bytes */
  async write(bytes) {
    if (this.gone === null && bytes.length > 0 && streamWrite(this.id, bytes) > 0) await newPromise((resolve) => { this.wake = resolve; });
    if (this.gone !== null) throw new Error(this.gone || 'The receiver wants no more of the body');
  }
}

/**
 * Sends a ReadableStream of bytes. @param {any} stream neither locked nor disturbed
 * @param {(error: any) => void} [failed] told of an error of the stream (the receiver sees a cut body)
 * @returns {{id: number, done: Promise<boolean>}} `done` never rejects; true: the receiver wanted no more
 */
export function sendStream(stream, failed = () => {}) {
  const sender = new Sender();
  const reader = getReader(stream);
  sender.onGone = (message) => promiseIgnore(readerCancel(reader, new Error(message)));
  return { id: sender.id, done: pump(sender, async () => {
    const step = await readerRead(reader);
    return step.done ? null : /** @type {any} */ ({ __proto__: null, bytes: chunkBytes(step.value) });
  }, (error) => { promiseIgnore(readerCancel(reader, error)); failed(error); }) };
}

/** Sends what is being received, without a stream between. @param {LinkBody} body @returns {{id: number, done: Promise<boolean>}} as of sendStream() */
export function relay(body) {
  const sender = new Sender();
  sender.onGone = () => body.cancel();
  return { id: sender.id, done: pump(sender, () => body.read(), () => body.cancel()) };
}

/** What one frame holds beside a request's or a response's head (src/link/worker_protocol.h, WORKER_INLINE_MAX). */
const INLINE_MAX = 512 << 10;
/** Text or bytes of a body as they are, when they fit; else the number of a stream that brings them.
 * @param {any} body @param {(length: number) => void} [streamed] told of the bytes of one that goes as a stream @returns {any} */
export function inlineOrStream(body, streamed) {
  if (body === null || body.length <= INLINE_MAX / 3) return body;
  const bytes = typeof body === 'string' ? utf8Encode(body) : body;
  if (bytes.length <= INLINE_MAX) return bytes;
  const id = openSending(/** @type {any} */ ({ __proto__: null }));
  streamed?.(bytes.length);
  // Not before the message that names the stream.
  promiseThen(promiseResolve(), () => {
    streamWrite(id, bytes);
    streamEnd(id);
  });
  return id;
}

/** @param {Sender} sender @param {() => Promise<{bytes: Uint8Array}|null>} read @param {(error: any) => void} failed */
async function pump(sender, read, failed) {
  try {
    for (;;) {
      const chunk = await read();
      if (sender.gone !== null) return true;
      if (chunk === null) break;
      await sender.write(chunk.bytes);
    }
    streamEnd(sender.id);
  } catch (error) {
    if (sender.gone !== null) return true;
    streamReset(sender.id, errorText(error));
    failed(error);
  }
  return false;
}
