import { bindStore, getStore, runInStore, setStore, storeWith } from './async_context.js';
import { nodeError } from './host.js';

/** @param {any} storage */
function without(storage) {
  const store = new Map(getStore());
  store.delete(storage);
  return store;
}

export class AsyncLocalStorage {
  #default;
  #name;
  /** @param {{defaultValue?: any, name?: string}} [options] */
  constructor(options = {}) {
    this.#default = options.defaultValue;
    this.#name = options.name === undefined ? '' : `${options.name}`;
  }
  get name() { return this.#name; }
  /** @param {any} store @param {(...args: any[]) => any} callback @param {any[]} args */
  run(store, callback, ...args) { return runInStore(storeWith(this, store), callback, undefined, args); }
  /** @param {(...args: any[]) => any} callback @param {any[]} args */
  exit(callback, ...args) { return runInStore(without(this), callback, undefined, args); }
  getStore() {
    const store = getStore();
    return store !== undefined && store.has(this) ? store.get(this) : this.#default;
  }
  /** @param {any} store */
  enterWith(store) { setStore(storeWith(this, store)); }
  disable() { setStore(without(this)); }
  /** @param {any} callback */
  static bind(callback) {
    if (typeof callback !== 'function') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "fn" argument must be of type function');
    return bindStore(callback);
  }
  static snapshot() { return bindStore((/** @type {any} */ callback, /** @type {any[]} */ ...args) => callback(...args)); }
}

let lastId = 1;
export class AsyncResource {
  #type; #store = getStore(); #id = ++lastId; #trigger;
  /** @param {string} type @param {any} [options] */
  constructor(type, options = {}) {
    if (typeof type !== 'string') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "type" argument must be of type string');
    this.#type = type;
    this.#trigger = typeof options === 'number' ? options : options?.triggerAsyncId ?? 1;
  }
  get type() { return this.#type; }
  /** @param {(...args: any[]) => any} callback @param {any} [self] @param {any[]} args */
  runInAsyncScope(callback, self, ...args) { return runInStore(this.#store, callback, self, args); }
  emitDestroy() { return this; }
  asyncId() { return this.#id; }
  triggerAsyncId() { return this.#trigger; }
  /** @param {any} callback @param {any} [self] */
  bind(callback, self) {
    if (typeof callback !== 'function') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "fn" argument must be of type function');
    const resource = this;
    return function (/** @type {any[]} */ ...args) { return resource.runInAsyncScope(callback, self === undefined ? this : self, ...args); };
  }
  /** @param {any} callback @param {string} [type] @param {any} [self] */
  static bind(callback, type, self) { return new AsyncResource(type ?? 'bound-anonymous-fn').bind(callback, self); }
}

/** There is one stack of resources here, and nobody can watch it. */
export const executionAsyncId = () => 1;
export const triggerAsyncId = () => 1;
export const executionAsyncResource = () => ({});
export function createHook() { throw nodeError(Error, 'ERR_METHOD_NOT_IMPLEMENTED', 'async_hooks.createHook is not implemented in a Worker'); }
export default { AsyncLocalStorage, AsyncResource, executionAsyncId, triggerAsyncId, executionAsyncResource, createHook };
