/** MessageChannel and MessagePort, within one Worker. A message is copied when it is sent and told later. */
import { ArrayPrototypePush, ArrayPrototypeShift, ReflectConstruct, SymbolIterator, TypeError, promiseResolve, promiseThen } from '../primordials.js';
import { setTimer } from '../link.js';
import { illegalConstructor } from './dom_exception.js';
import { EventTarget, MessageEvent, eventAttributes, fire } from './events.js';
import { cloneWithTransfer, registerTransferer } from './structured_clone.js';
import { finishInterface, isObject, requireArguments } from './webidl.js';

const KEY = Symbol('port');

export class MessagePort extends EventTarget {
  /** @type {any} */ #other = null;
  /** @type {any[]} */ #queue = [];
  #started = false; #closed = false; #detached = false; #busy = false;
  /** @param {any} key */
  constructor(key) {
    if (key !== KEY) illegalConstructor('MessagePort');
    super();
  }
  /** @param {any} message @param {any} [options] a list of what to transfer, or {transfer} */
  postMessage(message, options = undefined) {
    void this.#queue;
    requireArguments(arguments.length, 1, 'MessagePort.postMessage');
    if (options !== undefined && options !== null && !isObject(options)) throw new TypeError('MessagePort.postMessage: the second argument is not an object');
    const list = isObject(options) ? (options[SymbolIterator] !== undefined && options[SymbolIterator] !== null ? options : options.transfer) : undefined;
    const other = this.#other;
    const { value, transferred } = cloneWithTransfer(message, list, this);
    if (other === null || other.#closed) return;
    /** @type {any[]} */ const ports = [];
    for (let i = 0; i < transferred.length; i++) if (isPort(transferred[i])) ArrayPrototypePush(ports, transferred[i]);
    ArrayPrototypePush(other.#queue, { __proto__: null, value, ports });
    other.#schedule();
  }
  start() {
    this.#started = true;
    this.#schedule();
  }
  close() {
    void this.#queue;
    const other = this.#other;
    this.#other = null;
    this.#closed = true;
    if (other !== null) other.#other = null;
  }
  #schedule() {
    if (this.#busy || !this.#started || this.#queue.length === 0) return;
    this.#busy = true;
    setTimer(0, () => this.#drain(this.#queue.length));
  }
  /** @param {number} left */
  #drain(left) {
    if (left === 0 || this.#queue.length === 0 || this.#detached) {
      this.#busy = false;
      if (!this.#detached) this.#schedule();
      return;
    }
    const { value, ports } = ArrayPrototypeShift(this.#queue);
    fire(this, new MessageEvent('message', { __proto__: null, data: value, ports }));
    promiseThen(promiseResolve(), () => this.#drain(left - 1));
  }
  static {
    isPort = (value) => isObject(value) && #other in value;
    isDetached = (port) => port.#detached;
    startPort = (port) => port.start();
    entangle = (a, b) => { a.#other = b; b.#other = a; };
    movePort = (port) => {
      const made = /** @type {any} */ (ReflectConstruct(MessagePort, [KEY]));
      made.#other = port.#other;
      if (made.#other !== null) made.#other.#other = made;
      made.#queue = port.#queue;
      made.#closed = port.#closed;
      port.#queue = [];
      port.#other = null;
      port.#detached = port.#closed = true;
      return made;
    };
  }
}
/** @type {(value: any) => boolean} */ var isPort;
/** @type {(port: any) => boolean} */ var isDetached;
/** @type {(port: any) => void} */ var startPort;
/** @type {(a: any, b: any) => void} */ var entangle;
/** @type {(port: any) => any} */ var movePort;
export { isPort };
eventAttributes(MessagePort, ['message', 'messageerror', 'close']);
{ // Setting onmessage starts the port.
  const descriptor = /** @type {any} */ (Object.getOwnPropertyDescriptor(MessagePort.prototype, 'onmessage'));
  const set = descriptor.set, apply = Reflect.apply;
  Object.defineProperty(MessagePort.prototype, 'onmessage', { ...descriptor, set(/** @type {any} */ value) { apply(set, this, [value]); startPort(this); } });
}
finishInterface(MessagePort, 'MessagePort');
registerTransferer(isPort, movePort, isDetached);

export class MessageChannel {
  #first; #second;
  constructor() {
    this.#first = /** @type {any} */ (ReflectConstruct(MessagePort, [KEY]));
    this.#second = /** @type {any} */ (ReflectConstruct(MessagePort, [KEY]));
    entangle(this.#first, this.#second);
  }
  get port1() { return this.#first; }
  get port2() { return this.#second; }
}
finishInterface(MessageChannel, 'MessageChannel');
