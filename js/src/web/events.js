/**
 * Event and EventTarget (there is no tree here: a path is the target alone), the event classes of Workers, and attributes
 * such as onmessage. A listener that throws is reported (`setReporter`), and the others still run.
 */
import {
  ArrayPrototypeIndexOf, ArrayPrototypePush, ArrayPrototypeSlice, ArrayPrototypeSplice, MathMax, ObjectDefineProperty, ReflectApply,
  ObjectFreeze, SafeMap, TypeError,
} from '../primordials.js';
import { finishInterface, isObject, requireArguments, toDOMString, toDictionary, toUint16, toUSVString } from './webidl.js';
import { domError } from './dom_exception.js';

/** @type {() => number} */
let clock = () => 0;
/** @type {(error: any) => void} */
let report = () => {};
/** @type {(callback: any) => any} binds a callback to the asynchronous context of now */
let bindStore = (callback) => callback;
/** @param {{clock?: () => number, report?: (error: any) => void, bindStore?: (callback: any) => any}} services */
export function setEventServices(services) {
  if (services.clock) clock = services.clock;
  if (services.report) report = services.report;
  if (services.bindStore) bindStore = services.bindStore;
}

export class Event {
  #type; #bubbles; #cancelable; #composed;
  #target = /** @type {any} */ (null);
  #phase = 0; #canceled = false; #stop = false; #stopNow = false; #passive = false; #dispatching = false; #initialized = true;
  #trusted = false;
  #time = clock();

  /** @param {any} type @param {any} [init] */
  constructor(type, init = undefined) {
    requireArguments(arguments.length, 1, 'Event constructor');
    this.#type = toDOMString(type);
    const options = toDictionary(init, 'EventInit');
    this.#bubbles = !!options.bubbles;
    this.#cancelable = !!options.cancelable;
    this.#composed = !!options.composed;
  }
  get type() { return this.#type; }
  get target() { return this.#target; }
  get srcElement() { return this.#target; }
  get currentTarget() { return this.#dispatching ? this.#target : null; }
  composedPath() { return this.#dispatching ? [this.#target] : []; }
  get eventPhase() { return this.#phase; }
  stopPropagation() { this.#stop = true; }
  get cancelBubble() { return this.#stop; }
  set cancelBubble(value) { if (value) this.#stop = true; }
  stopImmediatePropagation() { this.#stop = true; this.#stopNow = true; }
  get bubbles() { return this.#bubbles; }
  get cancelable() { return this.#cancelable; }
  get returnValue() { return !this.#canceled; }
  set returnValue(value) { if (!value) this.preventDefault(); }
  preventDefault() { if (this.#cancelable && !this.#passive) this.#canceled = true; }
  get defaultPrevented() { return this.#canceled; }
  get composed() { return this.#composed; }
  get isTrusted() { return this.#trusted; }
  get timeStamp() { return this.#time; }
  /** @param {any} type @param {any} [bubbles] @param {any} [cancelable] */
  initEvent(type, bubbles = false, cancelable = false) {
    requireArguments(arguments.length, 1, 'Event.initEvent');
    if (this.#dispatching) return;
    this.#stop = this.#stopNow = this.#canceled = false;
    this.#trusted = false;
    this.#target = null;
    this.#type = toDOMString(type);
    this.#bubbles = !!bubbles;
    this.#cancelable = !!cancelable;
  }

  /** Calls a target's listeners. @param {any} event @param {any} target @param {any[]} listeners its live list @param {boolean} trusted */
  static #dispatch(event, target, listeners, trusted) {
    event.#trusted = trusted;
    event.#target = target;
    event.#dispatching = true;
    event.#phase = 2;
    if (!event.#stop && listeners.length > 0) {
      const now = ArrayPrototypeSlice(listeners);
      for (let i = 0; i < now.length && !event.#stopNow; i++) {
        const listener = now[i];
        if (listener.removed || listener.type !== event.#type) continue;
        if (listener.once) remove(listeners, listener);
        event.#passive = listener.passive;
        try {
          const { callback } = listener;
          if (typeof callback === 'function') ReflectApply(callback, target, [event]);
          else {
            const { handleEvent } = callback;
            if (typeof handleEvent !== 'function') throw new TypeError('handleEvent is not a function');
            ReflectApply(handleEvent, callback, [event]);
          }
        } catch (error) {
          report(error);
        }
        event.#passive = false;
      }
    }
    event.#phase = 0;
    event.#dispatching = event.#stop = event.#stopNow = false;
    return !event.#canceled;
  }
  /** @param {any} event */
  static #mayDispatch(event) { return event.#initialized && !event.#dispatching; }
  static {
    dispatchTo = Event.#dispatch;
    mayDispatch = Event.#mayDispatch;
    isEvent = (value) => #type in value;
  }
}
/** @type {(event: any, target: any, listeners: any[], trusted: boolean) => boolean} */ var dispatchTo;
/** @type {(event: any) => boolean} */ var mayDispatch;
/** @type {(value: any) => boolean} */ var isEvent;
finishInterface(Event, 'Event', { NONE: 0, CAPTURING_PHASE: 1, AT_TARGET: 2, BUBBLING_PHASE: 3 });

/** @param {any[]} listeners @param {any} listener */
function remove(listeners, listener) {
  listener.removed = true;
  const at = ArrayPrototypeIndexOf(listeners, listener);
  if (at >= 0) ArrayPrototypeSplice(listeners, at, 1);
}

/** addEventListener's signal, set by abort.js. @type {{isSignal: (value: any) => boolean, aborted: (signal: any) => boolean, onAbort: (signal: any, run: () => void) => void}} */
let signals = { isSignal: () => false, aborted: () => false, onAbort: () => {} };
/** @param {typeof signals} given */
export const setSignals = (given) => { signals = given; };

const NONE = /** @type {any} */ (ObjectFreeze([]));

export class EventTarget {
  /** @type {any[]} */ #listeners = /** @type {any} */ (NONE);
  #attributes = /** @type {any} */ (null);
  constructor() {}

  /** @param {any} type @param {any} callback @param {any} [options] */
  addEventListener(type, callback, options = undefined) {
    const self = this ?? globalTarget;
    if (!(#listeners in self)) return redirect(self).addEventListener(type, callback, options);
    requireArguments(arguments.length, 2, 'addEventListener');
    type = toDOMString(type);
    let capture = false, once = false, passive = false, /** @type {any} */ signal;
    if (isObject(options)) {
      capture = !!options.capture;
      once = !!options.once;
      passive = !!options.passive;
      signal = options.signal;
      if (signal !== undefined && !signals.isSignal(signal)) throw new TypeError('addEventListener: signal is not an AbortSignal');
    } else {
      capture = !!options;
    }
    if (callback === null || callback === undefined) return;
    if (!isObject(callback)) throw new TypeError('addEventListener: the listener is neither a function nor an object');
    if (signal !== undefined && signals.aborted(signal)) return;
    if (self.#listeners === NONE) self.#listeners = [];
    const list = self.#listeners;
    for (let i = 0; i < list.length; i++) {
      const one = list[i];
      if (one.type === type && one.given === callback && one.capture === capture) return;
    }
    const listener = { __proto__: null, type, given: callback, callback: typeof callback === 'function' ? bindStore(callback) : callback, capture, once, passive, removed: false };
    ArrayPrototypePush(list, listener);
    if (signal !== undefined) signals.onAbort(signal, () => remove(list, listener));
  }
  /** @param {any} type @param {any} callback @param {any} [options] */
  removeEventListener(type, callback, options = undefined) {
    const self = this ?? globalTarget;
    if (!(#listeners in self)) return redirect(self).removeEventListener(type, callback, options);
    requireArguments(arguments.length, 2, 'removeEventListener');
    type = toDOMString(type);
    const capture = isObject(options) ? !!options.capture : !!options;
    if (callback !== null && callback !== undefined && !isObject(callback)) throw new TypeError('removeEventListener: the listener is neither a function nor an object');
    const list = self.#listeners;
    for (let i = 0; i < list.length; i++) {
      const one = list[i];
      if (one.type === type && one.given === callback && one.capture === capture) {
        remove(list, one);
        return;
      }
    }
  }
  /** @param {any} event */
  dispatchEvent(event) {
    const self = this ?? globalTarget;
    if (!(#listeners in self)) return redirect(self).dispatchEvent(event);
    requireArguments(arguments.length, 1, 'dispatchEvent');
    if (!isObject(event) || !isEvent(event)) throw new TypeError('dispatchEvent: the argument is not an Event');
    if (!mayDispatch(event)) throw domError('InvalidStateError', 'The event is being dispatched already');
    return dispatchTo(event, globalTarget === self ? globalObject : self, self.#listeners, false);
  }

  static {
    fire = (target, event) => dispatchTo(event, globalTarget === target ? globalObject : target, target.#listeners, true);
    hasListener = (target, type) => {
      const list = target.#listeners;
      for (let i = 0; i < list.length; i++) if (list[i].type === type) return true;
      return false;
    };
    attribute = (target, name, value) => {
      target.#attributes ??= new SafeMap();
      const entry = target.#attributes.get(name);
      if (value === undefined) return entry === undefined ? null : entry.handler;
      if (!isObject(value)) value = null;
      if (entry !== undefined) {
        entry.handler = value;
        if (value === null) { target.#attributes.delete(name); remove(target.#listeners, entry.listener); }
        return null;
      }
      if (value === null) return null;
      const fresh = /** @type {any} */ ({ __proto__: null, handler: value });
      const callback = bindStore(/** @this {any} @param {any} event */ function (event) {
        const { handler } = fresh;
        if (typeof handler !== 'function') return;
        const result = name === 'error' && event instanceof ErrorEvent && this === globalObject
          ? ReflectApply(handler, this, [event.message, event.filename, event.lineno, event.colno, event.error])
          : ReflectApply(handler, this, [event]);
        if (name === 'error' && this === globalObject ? result === true : result === false) event.preventDefault();
      });
      fresh.listener = { __proto__: null, type: name, given: callback, callback, capture: false, once: false, passive: false, removed: false };
      if (target.#listeners === NONE) target.#listeners = [];
      ArrayPrototypePush(target.#listeners, fresh.listener);
      target.#attributes.set(name, fresh);
      return null;
    };
  }
}
finishInterface(EventTarget, 'EventTarget');
/** Dispatches an event of ours (isTrusted). @type {(target: any, event: any) => boolean} */ var fire;
/** @type {(target: any, type: string) => boolean} */ var hasListener;
/** @type {(target: any, name: string, value?: any) => any} */ var attribute;
export { fire, hasListener, isEvent };

/** The global object is an EventTarget by this one, since the engine made it. @type {any} */
let globalTarget = new EventTarget();
/** @type {any} */
let globalObject = globalTarget;
/** @param {any} object */
export const setGlobalObject = (object) => { globalObject = object; };
export const getGlobalTarget = () => globalTarget;
/** @param {any} self @returns {any} */
function redirect(self) {
  if (self === globalObject) return globalTarget;
  throw new TypeError('Illegal invocation');
}

/** Adds `on<type>` to a class. @param {any} Class @param {string[]} types */
export function eventAttributes(Class, types) {
  for (let i = 0; i < types.length; i++) {
    const type = types[i];
    ObjectDefineProperty(Class.prototype ?? Class, `on${type}`, /** @type {any} */ ({
      __proto__: null,
      get() { return attribute(this === globalObject || this === undefined ? globalTarget : this, type); },
      set(/** @type {any} */ value) { attribute(this === globalObject || this === undefined ? globalTarget : this, type, value ?? null); },
      enumerable: true, configurable: true,
    }));
  }
}

export class CustomEvent extends Event {
  #detail;
  /** @param {any} type @param {any} [init] */
  constructor(type, init = undefined) {
    requireArguments(arguments.length, 1, 'CustomEvent constructor');
    super(type, init);
    this.#detail = toDictionary(init, 'CustomEventInit').detail ?? null;
  }
  get detail() { return this.#detail; }
  /** @param {any} type @param {any} [bubbles] @param {any} [cancelable] @param {any} [detail] */
  initCustomEvent(type, bubbles = false, cancelable = false, detail = null) {
    requireArguments(arguments.length, 1, 'CustomEvent.initCustomEvent');
    this.#detail = detail;
    this.initEvent(type, bubbles, cancelable);
  }
}
finishInterface(CustomEvent, 'CustomEvent');

export class ErrorEvent extends Event {
  #message; #filename; #lineno; #colno; #error;
  /** @param {any} type @param {any} [init] */
  constructor(type, init = undefined) {
    requireArguments(arguments.length, 1, 'ErrorEvent constructor');
    super(type, init);
    const options = toDictionary(init, 'ErrorEventInit');
    this.#message = options.message === undefined ? '' : toDOMString(options.message);
    this.#filename = options.filename === undefined ? '' : toUSVString(options.filename);
    this.#lineno = options.lineno === undefined ? 0 : options.lineno >>> 0;
    this.#colno = options.colno === undefined ? 0 : options.colno >>> 0;
    this.#error = options.error;
  }
  get message() { return this.#message; }
  get filename() { return this.#filename; }
  get lineno() { return this.#lineno; }
  get colno() { return this.#colno; }
  get error() { return this.#error; }
}
finishInterface(ErrorEvent, 'ErrorEvent');

export class MessageEvent extends Event {
  #data; #origin; #lastEventId; #source; #ports;
  /** @param {any} type @param {any} [init] */
  constructor(type, init = undefined) {
    requireArguments(arguments.length, 1, 'MessageEvent constructor');
    super(type, init);
    const options = toDictionary(init, 'MessageEventInit');
    this.#data = options.data === undefined ? null : options.data;
    this.#origin = options.origin === undefined ? '' : toUSVString(options.origin);
    this.#lastEventId = options.lastEventId === undefined ? '' : toDOMString(options.lastEventId);
    this.#source = options.source ?? null;
    this.#ports = ObjectFreeze(options.ports === undefined ? [] : ArrayPrototypeSlice(options.ports));
  }
  get data() { return this.#data; }
  get origin() { return this.#origin; }
  get lastEventId() { return this.#lastEventId; }
  get source() { return this.#source; }
  get ports() { return this.#ports; }
}
finishInterface(MessageEvent, 'MessageEvent');

export class CloseEvent extends Event {
  #wasClean; #code; #reason;
  /** @param {any} type @param {any} [init] */
  constructor(type, init = undefined) {
    requireArguments(arguments.length, 1, 'CloseEvent constructor');
    super(type, init);
    const options = toDictionary(init, 'CloseEventInit');
    this.#wasClean = !!options.wasClean;
    this.#code = options.code === undefined ? 0 : toUint16(options.code);
    this.#reason = options.reason === undefined ? '' : toUSVString(options.reason);
  }
  get wasClean() { return this.#wasClean; }
  get code() { return this.#code; }
  get reason() { return this.#reason; }
}
finishInterface(CloseEvent, 'CloseEvent');

export class PromiseRejectionEvent extends Event {
  #promise; #reason;
  /** @param {any} type @param {any} init */
  constructor(type, init) {
    requireArguments(arguments.length, 2, 'PromiseRejectionEvent constructor');
    super(type, init);
    const options = toDictionary(init, 'PromiseRejectionEventInit');
    if (!isObject(options.promise)) throw new TypeError('PromiseRejectionEventInit: promise is required');
    this.#promise = options.promise;
    this.#reason = options.reason;
  }
  get promise() { return this.#promise; }
  get reason() { return this.#reason; }
}
finishInterface(PromiseRejectionEvent, 'PromiseRejectionEvent');

export class ProgressEvent extends Event {
  #lengthComputable; #loaded; #total;
  /** @param {any} type @param {any} [init] */
  constructor(type, init = undefined) {
    requireArguments(arguments.length, 1, 'ProgressEvent constructor');
    super(type, init);
    const options = toDictionary(init, 'ProgressEventInit');
    this.#lengthComputable = !!options.lengthComputable;
    this.#loaded = MathMax(0, +(options.loaded ?? 0));
    this.#total = MathMax(0, +(options.total ?? 0));
  }
  get lengthComputable() { return this.#lengthComputable; }
  get loaded() { return this.#loaded; }
  get total() { return this.#total; }
}
finishInterface(ProgressEvent, 'ProgressEvent');
