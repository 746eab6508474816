/** `connect()` of `cloudflare:sockets`: TCP, with TLS from the beginning or later. What carries the bytes is in socket_link.js. */
import {
  Error, Number, NumberIsInteger, ObjectDefineProperty, RegExpPrototypeExec, TypeError, newPromise, promiseIgnore, promiseResolve, promiseThen, uncurryThis,
} from '../primordials.js';
import { closeAtEnd, currentContext } from '../rpc/context.js';
import { setServiceConnect } from '../rpc/stub.js';
import { illegalConstructor } from '../web/dom_exception.js';
import { WritableStream, WritableStreamDefaultController, chunkBytes, getWriter, isWriterLocked, sourceStream, writerClose } from '../web/streams.js';
import { finishInterface, requireArguments, toDOMString, toDictionary } from '../web/webidl.js';
import { worker } from './ctx.js';
import { outboundTarget } from './outbound.js';
import { dial } from './socket_link.js';
import { dialThrough, transportOver } from './socket_rpc.js';

/** @typedef {import('./socket_link.js').Transport} Transport */

const ADDRESS = /^(\[[^[\]]*\]|[^:[\]]*)(?::(\d*))?$/, HOST = /^(?:[0-9A-Za-z._-]+|\[[0-9A-Fa-f:.]+\])$/;
const KEY = Symbol('socket');
const writableError = uncurryThis(WritableStreamDefaultController.prototype.error);

/** A promise with its functions, whose failure nobody has to catch. */
class Deferred {
  settled = false;
  /** @type {(value: any) => void} */ resolve = () => {};
  /** @type {(error: any) => void} */ reject = () => {};
  promise = newPromise((resolve, reject) => {
    this.resolve = (value) => { this.settled = true; resolve(value); };
    this.reject = (error) => { this.settled = true; reject(error); };
  });
  constructor() { promiseIgnore(this.promise); }
}

/** What a Socket is, out of reach of guest code. */
class Connection {
  opened = new Deferred();
  closed = new Deferred();
  /** The Transport, once it is connected. */ ready = new Deferred();
  /** @type {Transport|null} */ transport = null;
  /** @type {any} why it is over, once it failed */ failure = null;
  readOver = false;
  writeOver = false;
  closing = false;
  upgraded = false;
  /** Chunks that the stream has and the transport has not. */ queued = 0;
  /** @type {(() => void)|null} */ flushed = null;
  /** @type {any} */ controller = null;

  /**
   * @param {{text: string, host: string, port: number}} address @param {{tls: string, allowHalfOpen: boolean, mark: number}} options
   * @param {any} [info] what `opened` gives
   */
  constructor(address, options, info = { remoteAddress: address.text, localAddress: undefined }) {
    this.address = address;
    this.info = info;
    this.options = options;
    this.readable = sourceStream({ read: () => this.read(), cancel: (reason) => this.cancelRead(reason) });
    this.writable = new WritableStream(/** @type {any} */ ({
      __proto__: null, type: undefined,
      start: (/** @type {any} */ controller) => { this.controller = controller; },
      write: (/** @type {any} */ chunk) => this.write(chunk),
      close: () => this.endWrite(),
      abort: (/** @type {any} */ reason) => this.abortWrite(reason),
    }), /** @type {any} */ ({ __proto__: null, highWaterMark: options.mark, size: () => { this.queued++; return 1; } }));
    /** @type {() => void} gives up what is under way */ this.stop = () => {};
    /** Whose end ends this. */ this.forget = closeAtEnd(() => this.drop());
  }

  /** @param {(done: (transport: Transport) => void, failed: (error: any) => void, broken: (error: any) => void) => () => void} open */
  begin(open) {
    this.stop = open((transport) => {
      this.stop = () => {};
      this.transport = transport;
      this.ready.resolve(transport);
      this.opened.resolve(this.info);
    }, (error) => this.fail(error), (error) => this.fail(error));
  }

  /** @param {any} error */
  fail(error) {
    if (this.failure !== null) return;
    this.failure = error;
    this.readOver = this.writeOver = true;
    this.forget();
    this.ready.reject(error);
    this.opened.reject(error);
    this.closed.reject(error);
    this.wake(true);
    writableError(this.controller, error);
  }

  checkOver() {
    if (!this.readOver || !this.writeOver) return;
    this.forget();
    this.closed.resolve(undefined);
  }

  /** The request is over. */
  drop() {
    this.stop();
    this.transport?.abort('the request is over');
    this.fail(new Error('The socket was closed: the request that it belongs to is over.'));
  }

  // --- reading

  async read() {
    if (this.upgraded) throw new TypeError('This socket goes on as the one that startTls() returned.');
    if (this.failure !== null) throw this.failure;
    if (this.readOver) return null;
    await this.ready.promise;
    const transport = /** @type {Transport} */ (this.transport);
    let chunk;
    try {
      chunk = await transport.read();
    } catch (error) {
      this.fail(error);
      throw error;
    }
    if (this.upgraded) throw new TypeError('This socket goes on as the one that startTls() returned.');
    if (chunk === null && !this.readOver) {
      this.readOver = true;
      if (!this.options.allowHalfOpen) this.closeWritable();
      this.checkOver();
    }
    return chunk;
  }

  /** @param {any} reason */
  cancelRead(reason) {
    if (this.readOver) return;
    this.readOver = true;
    promiseIgnore(promiseThen(this.ready.promise, () => this.transport?.cancel(reason)));
    this.checkOver();
  }

  // --- writing

  /** @param {any} chunk */
  async write(chunk) {
    try {
      const bytes = chunkBytes(chunk);
      await this.ready.promise;
      await /** @type {Transport} */ (this.transport).write(bytes);
    } finally {
      this.wake(false);
    }
  }

  /** @param {boolean} all of them @returns {void} */
  wake(all) {
    this.queued = all ? 0 : this.queued - 1;
    const { flushed } = this;
    if (this.queued > 0 || flushed === null) return;
    this.flushed = null;
    flushed();
  }

  /** Resolves when what was written is on its way, or never will be. @returns {Promise<void>} */
  flush() {
    if (this.queued <= 0) return promiseResolve();
    const before = this.flushed;
    return newPromise((resolve) => {
      this.flushed = () => { before?.(); resolve(undefined); };
    });
  }

  async endWrite() {
    await this.ready.promise;
    await /** @type {Transport} */ (this.transport).end();
    this.writeOver = true;
    this.checkOver();
  }

  /** @param {any} reason */
  abortWrite(reason) {
    if (this.writeOver) return;
    this.stop();
    this.transport?.abort('aborted');
    this.fail(reason ?? new TypeError('The socket was aborted.'));
  }

  /** Closes it behind what was written, also under somebody's writer. @returns {Promise<any>} never rejects */
  closeWritable() {
    if (this.writeOver) return promiseResolve();
    const stream = /** @type {any} */ (this.writable);
    const closing = writerClose(isWriterLocked(stream) ? stream._writer : getWriter(stream));
    return promiseThen(closing, () => {}, () => {});
  }

  // --- both

  async close() {
    if (this.closing) {
      await this.closed.promise;
      return;
    }
    this.closing = true;
    try {
      await this.opened.promise;
    } catch {
      return;
    }
    await this.closeWritable();
    if (!this.writeOver) { // somebody had closed it already, and it has not come to that
      await this.flush();
      this.writeOver = true;
      await this.transport?.end();
    }
    if (!this.readOver) {
      this.readOver = true;
      this.transport?.cancel('closed');
    }
    this.checkOver();
  }

  /** @returns {Connection} with TLS */
  startTls() {
    const { tls } = this.options;
    if (tls === 'on') throw new TypeError('Cannot startTls on a TLS socket.');
    if (this.upgraded) throw new TypeError('startTls has already been called on this socket.');
    if (this.closing || this.readOver || this.writeOver) throw new TypeError('The connection was closed before startTls could be started.');
    if (tls !== 'starttls') throw new TypeError("The `secureTransport` socket option must be set to 'starttls' for startTls to be used.");
    const { allowHalfOpen, mark } = this.options;
    const next = new Connection(this.address, { tls: 'on', allowHalfOpen, mark });
    this.upgraded = true;
    const flushed = promiseThen(this.ready.promise, () => this.flush());
    next.begin((done, failed, broken) => {
      let stop = () => { stopped = true; }, stopped = false;
      promiseThen(flushed, () => {
        const { transport } = this;
        this.forget();
        this.readOver = this.writeOver = true;
        writableError(this.controller, new TypeError('This socket goes on as the one that startTls() returned.'));
        this.closed.resolve(undefined);
        if (transport === null || transport.startTls === null) failed(new TypeError('The connection was closed before startTls completed.'));
        else if (stopped) transport.abort('closed');
        else stop = transport.startTls(done, failed, broken);
      }, failed);
      return () => stop();
    });
    return next;
  }
}

export class Socket {
  /** @type {Connection} */ #connection;
  /** @param {any} key @param {Connection} connection */
  constructor(key, connection) {
    if (key !== KEY) illegalConstructor('Socket');
    this.#connection = connection;
  }
  get readable() { return this.#connection.readable; }
  get writable() { return this.#connection.writable; }
  get opened() { return this.#connection.opened.promise; }
  get closed() { return this.#connection.closed.promise; }
  get upgraded() { return this.#connection.upgraded; }
  get secureTransport() { return this.#connection.options.tls; }
  close() { return this.#connection.close(); }
  /** @param {any} [options] */
  startTls(options = undefined) {
    if (toDictionary(options, 'TlsOptions').expectedServerHostname !== undefined) throw new TypeError('The expectedServerHostname option is not supported in startTls.');
    return new Socket(KEY, this.#connection.startTls());
  }
}
finishInterface(Socket, 'Socket');

/** @param {any} address @returns {{text: string, host: string, port: number}} */
function parseAddress(address) {
  let host, port;
  if (typeof address === 'object' && address !== null) {
    host = toDOMString(address.hostname);
    port = Number(address.port);
    if (!NumberIsInteger(port) || port < 0 || port > 65535) throw new TypeError('Specified address has a port that is no number from 1 to 65535.');
  } else {
    const parts = /** @type {any} */ (RegExpPrototypeExec(ADDRESS, toDOMString(address)));
    if (parts === null) throw new TypeError('Specified address could not be parsed.');
    host = parts[1];
    if (host === '') throw new TypeError('Specified address is missing hostname.');
    if (parts[2] === undefined || parts[2] === '') throw new TypeError('Specified address is missing port.');
    port = Number(parts[2]);
    if (port > 65535) throw new TypeError('Specified address could not be parsed.');
  }
  const text = `${host}:${port}`;
  if (text.length > 255 || RegExpPrototypeExec(HOST, host) === null) throw new TypeError('Specified address is empty string, contains unsupported characters or is too long.');
  return /** @type {any} */ ({ __proto__: null, text, host, port });
}

/** @param {any} given */
function parseOptions(given) {
  const options = toDictionary(given, 'SocketOptions');
  const tls = options.secureTransport === undefined ? 'off' : toDOMString(options.secureTransport);
  if (tls !== 'off' && tls !== 'on' && tls !== 'starttls') throw new TypeError(`Unsupported value in secureTransport socket option: ${tls}`);
  const mark = options.highWaterMark === undefined ? 1 : Number(options.highWaterMark);
  return /** @type {any} */ ({ __proto__: null, tls, allowHalfOpen: !!options.allowHalfOpen, mark: mark >= 0 ? mark : 1 });
}

/** @param {any} address "host:port", or {hostname, port} @param {any} [options] @returns {Socket} */
export function connect(address, options = undefined) {
  requireArguments(arguments.length, 1, 'connect');
  const where = parseAddress(address), how = parseOptions(options);
  requireRequest();
  return open(outboundTarget(), where, how);
}
ObjectDefineProperty(connect, 'name', /** @type {any} */ ({ __proto__: null, value: 'connect', configurable: true }));

setServiceConnect((target, address, options) => {
  const where = parseAddress(address), how = parseOptions(options);
  requireRequest();
  return open(target, where, how);
});

function requireRequest() {
  if (worker.exports === null) throw new Error('Disallowed operation called within global scope. connect() belongs to a request: call it within a handler.');
}

/** @param {import('../rpc/target.js').Target|null} target whose connect() it reaches; null: a server, by way of the daemon @param {any} where @param {any} how */
function open(target, where, how) {
  if (target !== null && how.tls !== 'off') throw new TypeError('connect() through another Worker is without TLS: secureTransport must be "off".');
  currentContext()?.subRequest();
  const connection = new Connection(where, how);
  if (target === null) connection.begin((done, failed, broken) => dial(where.host, where.port, how.tls, done, failed, broken));
  else connection.begin((done, failed) => dialThrough(target, where.text, done, failed));
  return new Socket(KEY, connection);
}

/**
 * The other end of such a connection, for a handler. @param {string} address that was asked for @param {any} readable @param {any} writable
 * @returns {{socket: Socket, close: () => Promise<void>, fail: (error: any) => void}} close: the handler is done
 */
export function acceptSocket(address, readable, writable) {
  const connection = new Connection({ text: address, host: '', port: 0 }, { tls: 'off', allowHalfOpen: true, mark: 1 }, { remoteAddress: undefined, localAddress: address });
  connection.begin((done) => {
    done(transportOver(readable, writable));
    return () => {};
  });
  return {
    socket: new Socket(KEY, connection),
    close: () => connection.close(),
    fail: (error) => {
      connection.transport?.abort(error);
      connection.fail(error);
    },
  };
}
