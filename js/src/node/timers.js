/** node:timers: the Web API's timers, as objects. */
import { host, nodeError } from './host.js';

const { timers } = host.web;

/** @param {any} callback */
function check(callback) {
  if (typeof callback !== 'function') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "callback" argument must be of type function');
}

export class Timeout {
  #start; #stop; #id;
  /** @param {() => any} start @param {(id: any) => void} stop */
  constructor(start, stop) {
    this.#start = start;
    this.#stop = stop;
    this.#id = start();
  }
  ref() { return this; }
  unref() { return this; }
  hasRef() { return true; }
  refresh() {
    this.#stop(this.#id);
    this.#id = this.#start();
    return this;
  }
  close() {
    this.#stop(this.#id);
    return this;
  }
  [Symbol.toPrimitive]() { return this.#id; }
  [Symbol.dispose ?? Symbol.for('Symbol.dispose')]() { this.close(); }
}
class Immediate extends Timeout {}

/** @param {any} callback @param {number} [ms] @param {any[]} args */
export function setTimeout(callback, ms, ...args) {
  check(callback);
  return new Timeout(() => timers.setTimeout(callback, ms, ...args), timers.clearTimeout);
}
/** @param {any} callback @param {number} [ms] @param {any[]} args */
export function setInterval(callback, ms, ...args) {
  check(callback);
  return new Timeout(() => timers.setInterval(callback, ms, ...args), timers.clearInterval);
}
/** @param {any} callback @param {any[]} args */
export function setImmediate(callback, ...args) {
  check(callback);
  return new Immediate(() => timers.setTimeout(callback, 0, ...args), timers.clearTimeout);
}
/** @param {any} timer */
export function clearTimeout(timer) {
  if (timer instanceof Timeout) timer.close();
  else timers.clearTimeout(timer);
}
export { clearTimeout as clearInterval, clearTimeout as clearImmediate };

import promises from './timers_promises.js';
export { promises };
export default { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval: clearTimeout, clearImmediate: clearTimeout, promises };
