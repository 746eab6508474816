/**
 * caches: there is no HTTP cache here. A cache that silently kept nothing would change what programs do, so every use rejects with an
 * error that says so; `caches` itself is there, because libraries look whether it is.
 */
import { Error, promiseReject } from '../primordials.js';
import { illegalConstructor } from './dom_exception.js';
import { finishInterface } from './webidl.js';

const KEY = Symbol('caches');
/** @param {string} what */
const refuse = (what) => promiseReject(new Error(`${what} is not implemented: this platform has no Cache API. Keep what you need in a Durable Object's storage.`));

export class Cache {
  #brand = 0;
  /** @param {any} key */
  constructor(key) { if (key !== KEY) illegalConstructor('Cache'); }
  match() { void this.#brand; return refuse('Cache.match()'); }
  put() { void this.#brand; return refuse('Cache.put()'); }
  delete() { void this.#brand; return refuse('Cache.delete()'); }
}
finishInterface(Cache, 'Cache');

export class CacheStorage {
  #only = new Cache(KEY);
  /** @param {any} key */
  constructor(key) { if (key !== KEY) illegalConstructor('CacheStorage'); }
  get default() { return this.#only; }
  open() { void this.#only; return refuse('caches.open()'); }
}
finishInterface(CacheStorage, 'CacheStorage');
export const caches = new CacheStorage(KEY);
