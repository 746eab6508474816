/** A process that ctx.container.exec() started: its streams, its end. */
import {
  ArrayBuffer, ArrayPrototypePush, ArrayPrototypeShift, Error, Number, RangeError, SymbolToStringTag, TypeError, TypedArrayPrototypeGetBuffer,
  TypedArrayPrototypeGetLength, TypedArrayPrototypeSet, Uint8Array, define, newPromise, nullObject, promiseIgnore, promiseReject, promiseResolve,
  promiseThen, describeError,
} from '../primordials.js';
import { call, openReceiving, openSending, newStream, streamConsumed, streamEnd, streamReset, streamWrite } from '../link.js';
import { WritableStream, chunkBytes, consumeStream, isDisturbed, isLocked, sourceStream } from '../web/streams.js';

const TOKEN = nullObject();
/** What output() collects at most, of each stream. */
const OUTPUT_MAX = 256 << 20;

/** Output that the daemon sends: received from the start, within the stream's credit, which comes back as it is read. */
export class OutputSource {
  constructor() {
    this.id = newStream();
    /** @type {Uint8Array[]} */ this.queue = [];
    this.ended = false;
    /** @type {any} */ this.error = undefined;
    /** @type {(() => void)|null} */ this.wake = null;
    const notify = () => {
      const { wake } = this;
      this.wake = null;
      if (wake !== null) wake();
    };
    openReceiving(this.id, /** @type {any} */ ({
      __proto__: null,
      data: (/** @type {Uint8Array} */ bytes) => { ArrayPrototypePush(this.queue, bytes); notify(); },
      end: () => { this.ended = true; notify(); },
      reset: (/** @type {string} */ message) => { this.error = new Error(message || 'The output was cut off.'); notify(); },
    }));
  }

  /** @returns {Promise<{bytes: Uint8Array}|null>} */
  async read() {
    while (this.queue.length === 0) {
      if (this.error !== undefined) throw this.error;
      if (this.ended) return null;
      await newPromise((resolve) => { this.wake = resolve; });
    }
    const bytes = /** @type {Uint8Array} */ (ArrayPrototypeShift(this.queue));
    streamConsumed(this.id, TypedArrayPrototypeGetLength(bytes));
    return { __proto__: null, bytes };
  }

  /** @param {any} [reason] */
  cancel(reason) {
    if (this.ended || this.error !== undefined) return;
    this.ended = true;
    this.queue.length = 0;
    streamReset(this.id, reason === undefined ? 'cancelled' : describeError(reason));
  }

  /** @returns {Promise<ArrayBuffer>} */
  async all() {
    /** @type {Uint8Array[]} */ const chunks = [];
    let size = 0;
    for (let chunk = await this.read(); chunk !== null; chunk = await this.read()) {
      const { bytes } = chunk;
      size += TypedArrayPrototypeGetLength(bytes);
      if (size > OUTPUT_MAX) {
        this.cancel();
        throw new RangeError(`output() collects at most ${OUTPUT_MAX} bytes of a stream; read the streams instead.`);
      }
      ArrayPrototypePush(chunks, bytes);
    }
    const all = new Uint8Array(size);
    for (let i = 0, at = 0; i < chunks.length; i++) {
      TypedArrayPrototypeSet(all, chunks[i], at);
      at += TypedArrayPrototypeGetLength(chunks[i]);
    }
    return TypedArrayPrototypeGetBuffer(all);
  }
}

/** A WritableStream of bytes over a link stream that this side sends. @returns {{id: number, stream: any}} */
export function inputStream() {
  /** @type {(() => void)|null} */ let wake = null;
  /** @type {any} */ let gone;
  const notify = () => {
    const run = wake;
    wake = null;
    if (run !== null) run();
  };
  const id = openSending(/** @type {any} */ ({
    __proto__: null,
    writable: notify,
    reset: (/** @type {string} */ message) => { gone = new Error(message || 'The process takes no more input.'); notify(); },
  }));
  const stream = new WritableStream(/** @type {any} */ ({
    __proto__: null, type: undefined, start: undefined,
    write: async (/** @type {any} */ chunk) => {
      const bytes = chunkBytes(chunk);
      if (gone === undefined && TypedArrayPrototypeGetLength(bytes) > 0 && streamWrite(id, bytes) > 0) await newPromise((resolve) => { wake = resolve; });
      if (gone !== undefined) throw gone;
    },
    close: () => streamEnd(id),
    abort: (/** @type {any} */ reason) => streamReset(id, reason === undefined ? 'aborted' : describeError(reason)),
  }), /** @type {any} */ ({ __proto__: null, highWaterMark: 1, size: undefined }));
  return { id, stream };
}

export class ExecOutput {
  #stdout; #stderr; #exitCode;
  /** @param {any} token @param {ArrayBuffer} stdout @param {ArrayBuffer} stderr @param {number} exitCode */
  constructor(token, stdout, stderr, exitCode) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#exitCode = exitCode;
  }
  get stdout() { return this.#stdout; }
  get stderr() { return this.#stderr; }
  get exitCode() { return this.#exitCode; }
}

export class ExecProcess {
  #process; #pid; #isPty; #stdin; #out; #err; #stdout; #stderr;
  /** @type {Promise<number>} */ #exitCode;
  #outputCalled = false;

  /**
   * @param {any} token @param {{process: number, pid: number}} answer
   * @param {{stdin: any, out: OutputSource|null, err: OutputSource|null, isPty: boolean}} parts
   */
  constructor(token, answer, parts) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#process = answer.process;
    this.#pid = answer.pid;
    this.#isPty = parts.isPty;
    this.#stdin = parts.stdin;
    this.#out = parts.out;
    this.#err = parts.err;
    this.#stdout = parts.out === null ? null : sourceStream(parts.out);
    this.#stderr = parts.err === null ? null : sourceStream(parts.err);
    this.#exitCode = promiseThen(call(this.#process, 'wait'), (/** @type {any} */ end) => end.code, (error) => { throw new Error(error.message); });
    promiseIgnore(this.#exitCode);
  }

  get stdin() { return this.#stdin; }
  get stdout() { return this.#stdout; }
  get stderr() { return this.#stderr; }
  get pid() { return this.#pid; }
  get isPty() { return this.#isPty; }
  get exitCode() { return this.#exitCode; }

  /** @returns {Promise<ExecOutput>} */
  output() {
    try {
      if (this.#outputCalled) throw new TypeError('output() can only be called once.');
      untouched(this.#stdout, 'stdout');
      untouched(this.#stderr, 'stderr');
    } catch (error) {
      return promiseReject(error);
    }
    this.#outputCalled = true;
    const out = collect(this.#out, this.#stdout), err = collect(this.#err, this.#stderr);
    promiseIgnore(err);
    return promiseThen(out, (stdout) => promiseThen(err, (stderr) => promiseThen(this.#exitCode, (code) => new ExecOutput(TOKEN, stdout, stderr, code))));
  }

  /** @param {number} [signal] */
  kill(signal = 15) {
    promiseIgnore(call(this.#process, 'kill', { __proto__: null, signal: checkedSignal(signal) }));
  }

  /** @param {number} cols @param {number} rows */
  resize(cols, rows) {
    if (!this.#isPty) throw new TypeError('resize() can only be called on a process that was started with a PTY.');
    promiseIgnore(call(this.#process, 'resize', { __proto__: null, cols: dimension(cols, 'cols'), rows: dimension(rows, 'rows') }));
  }
}

/** @param {any} signal @returns {number} */
export function checkedSignal(signal) {
  const number = Number(signal);
  if (!(number >= 1 && number <= 64) || number % 1 !== 0) throw new RangeError('Invalid signal number: expected 1 to 64.');
  return number;
}

/** @param {any} value @param {string} name @returns {number} */
export function dimension(value, name) {
  const number = Number(value);
  if (!(number >= 1 && number <= 65535) || number % 1 !== 0) throw new RangeError(`PTY ${name} must be between 1 and 65535.`);
  return number;
}

/** @param {any} stream @param {string} name */
function untouched(stream, name) {
  if (stream !== null && (isDisturbed(stream) || isLocked(stream))) throw new TypeError(`Cannot call output() after ${name} has started being consumed.`);
}

/** @param {OutputSource|null} source @param {any} stream @returns {Promise<ArrayBuffer>} */
function collect(source, stream) {
  if (source === null) return promiseResolve(new ArrayBuffer(0));
  consumeStream(stream);
  return source.all();
}

/** @param {any} answer @param {any} parts */
export const newProcess = (answer, parts) => new ExecProcess(TOKEN, answer, parts);
define(ExecProcess.prototype, SymbolToStringTag, 'ExecProcess');
define(ExecOutput.prototype, SymbolToStringTag, 'ExecOutput');
