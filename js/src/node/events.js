/** node:events: the package `events`, and what Node.js added since. */
import EventEmitter from 'events';
import { AsyncResource } from './async_hooks.js';
import { nodeError } from './host.js';

const emitter = /** @type {any} */ (EventEmitter);
const errorMonitor = Symbol('events.errorMonitor');
const captureRejectionSymbol = Symbol.for('nodejs.rejection');
const { emit } = emitter.prototype;
emitter.prototype.emit = function (/** @type {any} */ type, /** @type {any[]} */ ...args) {
  if (type === 'error' && this._events !== undefined && this._events[errorMonitor] !== undefined) emit.call(this, errorMonitor, ...args);
  return emit.call(this, type, ...args);
};
emitter.errorMonitor = errorMonitor;
emitter.captureRejectionSymbol = captureRejectionSymbol;
emitter.usingDomains = false;

/** @param {any} signal */
function checkSignal(signal) {
  if (signal === undefined) return;
  if (signal === null || typeof signal !== 'object' || !('aborted' in signal)) throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "options.signal" property must be an instance of AbortSignal');
}
/** @param {any} signal */
function abortError(signal) {
  const error = nodeError(Error, 'ABORT_ERR', 'The operation was aborted');
  error.name = 'AbortError';
  error.cause = signal.reason;
  return error;
}

const { once: onceOriginal } = emitter;
/** @param {any} source @param {any} name @param {{signal?: any}} [options] @returns {Promise<any[]>} */
export async function once(source, name, options = {}) {
  const { signal } = options;
  checkSignal(signal);
  if (signal === undefined) return onceOriginal(source, name);
  if (signal.aborted) throw abortError(signal);
  return new Promise((resolve, reject) => {
    const stop = () => { source.removeListener?.(name, done); source.removeListener?.('error', failed); reject(abortError(signal)); };
    /** @param {any[]} args */ const done = (...args) => { signal.removeEventListener('abort', stop); source.removeListener?.('error', failed); resolve(args); };
    /** @param {any} error */ const failed = (error) => { signal.removeEventListener('abort', stop); source.removeListener?.(name, done); reject(error); };
    signal.addEventListener('abort', stop, { once: true });
    if (typeof source.addEventListener === 'function') {
      source.addEventListener(name, done, { once: true });
    } else {
      source.once(name, done);
      if (name !== 'error') source.once('error', failed);
    }
  });
}

/** @param {any} source @param {any} name @param {{signal?: any, close?: string[]}} [options] */
export function on(source, name, options = {}) {
  const { signal, close = [] } = options;
  checkSignal(signal);
  if (signal?.aborted) throw abortError(signal);
  /** @type {any[]} */ const values = [], /** @type {any[]} */ waiting = [];
  /** @type {any} */ let failure;
  let ended = false;
  /** @param {any[]} args */ const got = (...args) => { waiting.length > 0 ? waiting.shift().resolve({ value: args, done: false }) : values.push(args); };
  /** @param {any} error */ const failed = (error) => { waiting.length > 0 ? waiting.shift().reject(error) : (failure = { error }); stop(); };
  const aborted = () => failed(abortError(signal));
  const stop = () => {
    if (ended) return;
    ended = true;
    if (typeof source.removeEventListener === 'function') source.removeEventListener(name, got);
    else {
      source.removeListener(name, got);
      source.removeListener('error', failed);
      for (const one of close) source.removeListener(one, stop);
    }
    signal?.removeEventListener('abort', aborted);
    for (const one of waiting.splice(0)) one.resolve({ value: undefined, done: true });
  };
  if (typeof source.addEventListener === 'function') source.addEventListener(name, got);
  else {
    source.on(name, got);
    if (name !== 'error') source.on('error', failed);
    for (const one of close) source.on(one, stop);
  }
  signal?.addEventListener('abort', aborted, { once: true });
  return {
    next() {
      if (values.length > 0) return Promise.resolve({ value: values.shift(), done: false });
      if (failure !== undefined) {
        const { error } = failure;
        failure = undefined;
        return Promise.reject(error);
      }
      if (ended) return Promise.resolve({ value: undefined, done: true });
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    return() { stop(); return Promise.resolve({ value: undefined, done: true }); },
    /** @param {any} error */ throw(error) { failed(error); return Promise.resolve({ value: undefined, done: true }); },
    [Symbol.asyncIterator]() { return this; },
  };
}

/** @param {any} source @param {any} name */
export function getEventListeners(source, name) {
  if (typeof source.listeners === 'function') return source.listeners(name);
  throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "emitter" argument must be an instance of EventEmitter');
}
/** @param {any} source */
export const getMaxListeners = (source) => (typeof source.getMaxListeners === 'function' ? source.getMaxListeners() : 0);
/** @param {number} n @param {any[]} targets */
export function setMaxListeners(n, ...targets) {
  if (typeof n !== 'number' || !(n >= 0)) throw nodeError(RangeError, 'ERR_OUT_OF_RANGE', 'The value of "n" is out of range. It must be a non-negative number');
  if (targets.length === 0) emitter.defaultMaxListeners = n;
  for (const target of targets) target.setMaxListeners?.(n);
}
/** @param {any} source @param {any} name */
export const listenerCount = (source, name) => source.listenerCount(name);
/** @param {any} signal @param {any} listener */
export function addAbortListener(signal, listener) {
  checkSignal(signal);
  if (signal.aborted) queueMicrotask(() => listener());
  else signal.addEventListener('abort', listener, { once: true });
  return { [Symbol.dispose ?? Symbol.for('Symbol.dispose')]() { signal.removeEventListener('abort', listener); } };
}
export class EventEmitterAsyncResource extends emitter {
  #resource;
  /** @param {any} [options] */
  constructor(options) {
    super(options);
    this.#resource = new AsyncResource(typeof options === 'string' ? options : options?.name ?? new.target.name, options);
  }
  /** @param {any} type @param {any[]} args */
  emit(type, ...args) { return this.#resource.runInAsyncScope(super.emit, this, type, ...args); }
  emitDestroy() { this.#resource.emitDestroy(); }
  get asyncResource() { return this.#resource; }
  get asyncId() { return this.#resource.asyncId(); }
  get triggerAsyncId() { return this.#resource.triggerAsyncId(); }
}
const { defaultMaxListeners } = emitter;
Object.assign(emitter, { once, on, getEventListeners, getMaxListeners, setMaxListeners, listenerCount, addAbortListener, EventEmitterAsyncResource, EventEmitter: emitter });
export { emitter as EventEmitter, defaultMaxListeners, errorMonitor, captureRejectionSymbol };
export default emitter;
