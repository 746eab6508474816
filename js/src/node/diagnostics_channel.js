/** node:diagnostics_channel: named channels, within the worker. */
import { nodeError } from './host.js';
import { runInStore, getStore } from './async_context.js';

export class Channel {
  /** @type {any[]} */ #subscribers = [];
  /** @type {Map<any, any>} */ #stores = new Map();
  /** @param {string|symbol} name */
  constructor(name) { this.name = name; }
  get hasSubscribers() { return this.#subscribers.length > 0 || this.#stores.size > 0; }
  /** @param {any} subscriber */
  subscribe(subscriber) {
    if (typeof subscriber !== 'function') throw nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "subscription" argument must be of type function');
    this.#subscribers = [...this.#subscribers, subscriber];
  }
  /** @param {any} subscriber */
  unsubscribe(subscriber) {
    const at = this.#subscribers.indexOf(subscriber);
    if (at < 0) return false;
    this.#subscribers = this.#subscribers.filter((_, i) => i !== at);
    return true;
  }
  /** @param {any} message */
  publish(message) {
    for (const subscriber of this.#subscribers) {
      try {
        subscriber(message, this.name);
      } catch (error) {
        reportError(error);
      }
    }
  }
  /** @param {any} store @param {any} [transform] */
  bindStore(store, transform) { this.#stores.set(store, transform); }
  /** @param {any} store */
  unbindStore(store) { return this.#stores.delete(store); }
  /** @param {any} data @param {any} callback @param {any} [self] @param {any[]} args */
  runStores(data, callback, self, ...args) {
    let run = () => {
      this.publish(data);
      return runInStore(getStore(), callback, self, args);
    };
    for (const [store, transform] of this.#stores) {
      const inner = run;
      run = () => store.run(transform === undefined ? data : transform(data), inner);
    }
    return run();
  }
}

/** @type {Map<string|symbol, Channel>} */
const channels = new Map();
/** @param {string|symbol} name */
export function channel(name) {
  let found = channels.get(name);
  if (found === undefined) channels.set(name, (found = new Channel(name)));
  return found;
}
/** @param {string|symbol} name */ export const hasSubscribers = (name) => channels.get(name)?.hasSubscribers ?? false;
/** @param {string|symbol} name @param {any} subscriber */ export const subscribe = (name, subscriber) => channel(name).subscribe(subscriber);
/** @param {string|symbol} name @param {any} subscriber */ export const unsubscribe = (name, subscriber) => channel(name).unsubscribe(subscriber);

const EVENTS = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'];
export class TracingChannel {
  /** @param {any} of a name, or the five channels */
  constructor(of) {
    for (const event of EVENTS) /** @type {any} */ (this)[event] = typeof of === 'string' ? channel(`tracing:${of}:${event}`) : of[event];
  }
  get hasSubscribers() { return EVENTS.some((event) => /** @type {any} */ (this)[event].hasSubscribers); }
  /** @param {any} handlers */
  subscribe(handlers) { for (const event of EVENTS) if (handlers[event]) /** @type {any} */ (this)[event].subscribe(handlers[event]); }
  /** @param {any} handlers */
  unsubscribe(handlers) {
    let all = true;
    for (const event of EVENTS) if (handlers[event] && !/** @type {any} */ (this)[event].unsubscribe(handlers[event])) all = false;
    return all;
  }
  /** @param {any} callback @param {any} [context] @param {any} [self] @param {any[]} args */
  traceSync(callback, context = {}, self, ...args) {
    const { start, end, error: failed } = /** @type {any} */ (this);
    return start.runStores(context, () => {
      try {
        context.result = Reflect.apply(callback, self, args);
        return context.result;
      } catch (error) {
        context.error = error;
        failed.publish(context);
        throw error;
      } finally {
        end.publish(context);
      }
    });
  }
  /** @param {any} callback @param {any} [context] @param {any} [self] @param {any[]} args */
  tracePromise(callback, context = {}, self, ...args) {
    const { start, end, asyncStart, asyncEnd, error: failed } = /** @type {any} */ (this);
    return start.runStores(context, () => {
      try {
        return Promise.resolve(Reflect.apply(callback, self, args)).then((result) => {
          context.result = result;
          asyncStart.publish(context);
          asyncEnd.publish(context);
          return result;
        }, (error) => {
          context.error = error;
          failed.publish(context);
          asyncStart.publish(context);
          asyncEnd.publish(context);
          throw error;
        });
      } catch (error) {
        context.error = error;
        failed.publish(context);
        throw error;
      } finally {
        end.publish(context);
      }
    });
  }
}
/** @param {any} of */
export const tracingChannel = (of) => new TracingChannel(of);
export default { Channel, TracingChannel, channel, hasSubscribers, subscribe, unsubscribe, tracingChannel };
