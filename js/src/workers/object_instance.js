/**
 * One Durable Object in memory. Events (calls, requests, alarms, messages of WebSockets) come in through `deliver`, one after the other as
 * long as something blocks (the input gate), and what they answer leaves when everything that was written is on disk (the output
 * gate). Storage answers at once, so no event can come between an operation and what follows its `await`.
 */
import {
  Error, ObjectDefineProperty, ObjectSetPrototypeOf, SafeSet, String, describeError, newPromise, nullObject, promiseIgnore, promiseReject, promiseResolve,
  promiseThen,
} from '../primordials.js';
import { call, clearTimer, setTimer } from '../link.js';
import { natives } from '../natives.js';
import { rawList } from '../rpc/cbor.js';
import { isError } from '../rpc/codec.js';
import { RequestContext, outsideRequests } from '../rpc/context.js';
import { later } from '../rpc/target.js';
import { StorageLink } from './storage_link.js';

const BLOCK_MS = 30000, MAX_BLOCKS = 64;
export const STARTING = 0, READY = 1, BROKEN = 2, GONE = 3;

/**
 * @typedef {object} Event
 * @property {(object: any, context: RequestContext) => void} start
 * @property {RequestContext} [context] of an earlier event that it belongs to; absent: it gets one of its own
 * @property {(error: any) => void} fail it will not be started, or what it answers is void; once
 */

/** @param {any} reason @returns {any} an error that says that the object was reset */
function resetError(reason, fallback = 'The Durable Object was reset.') {
  const error = isError(reason) ? reason : new Error(reason === undefined ? fallback : String(reason));
  try {
    // Enumerable, so that it travels with the error.
    ObjectDefineProperty(error, 'durableObjectReset', /** @type {any} */ ({ __proto__: null, value: true, writable: true, enumerable: true, configurable: true }));
  } catch { /* frozen */ }
  return error;
}

export class Instance {
  /**
   * @param {any} slot its place among the objects of its class: {host, className, id, create(instance, storage, container)}
   */
  constructor(slot) {
    this.slot = slot;
    this.state = STARTING;
    /** @type {any} */ this.object = null;
    /** @type {StorageLink|null} */ this.storage = null;
    /** @type {any} */ this.container = null;
    /** @type {any} */ this.reason = null;
    /** @type {Event[]} */ this.queue = rawList();
    /** @type {Set<Event>} */ this.running = new SafeSet();
    /** Of its events, as long as anything that they handed out can come back. @type {Set<RequestContext>} */ this.contexts = new SafeSet();
    this.blocks = 0;
    /** Until the present turn of the event loop is over. */
    this.gated = false;
    this.holds = 0;
    this.retryAlarm = true;
    this.lastUse = 0;
    /** @type {Set<(reason: any) => void>} */ this.brokenCallbacks = new SafeSet();
    /** Its connections to elsewhere. @type {Set<{dispose: () => void}>} */ this.disposables = new SafeSet();
    this.begin();
  }

  // --- life

  begin() {
    outsideRequests(() => {
      promiseThen(call(0, 'object', { __proto__: null, class: this.slot.className, id: this.slot.id }), (answer) => this.construct(answer), (error) => this.break(error));
    });
  }

  /** @param {any} answer of `object` */
  construct(answer) {
    if (this.state !== STARTING) return;
    this.storage = new StorageLink(answer.storage, (error) => this.break(error));
    this.lastUse = natives.monotonic();
    const context = new RequestContext();
    context.keeper = this;
    try {
      this.slot.construct(this, answer);
      this.state = READY;
    } catch (error) {
      this.break(error);
    }
    context.drop();
    this.pump();
  }

  /** Ends it with an error: whatever waits for it, and whoever holds a stub of it, is told. @param {any} reason */
  break(reason) {
    if (this.state === BROKEN || this.state === GONE) return;
    const error = resetError(reason);
    this.state = BROKEN;
    this.reason = error;
    this.slot.left(this);
    this.storage?.close(new Error(`This instance of the Durable Object was reset: ${error.message}`));
    const { queue, running, brokenCallbacks } = this;
    this.queue = rawList();
    this.running = new SafeSet();
    this.brokenCallbacks = new SafeSet();
    this.closeConnections();
    running.forEach((event) => event.fail(error));
    for (let i = 0; i < queue.length; i++) queue[i].fail(error);
    // What they handed out, such as an RpcTarget, is of this instance, too.
    const { contexts } = this;
    this.contexts = new SafeSet();
    contexts.forEach((each) => each.kill(error));
    brokenCallbacks.forEach((each) => later(() => each(error)));
  }

  /** Forgets it without an error: it is idle, and a new one can take its place. */
  evict() {
    this.state = GONE;
    this.slot.left(this);
    this.closeConnections();
    promiseIgnore(promiseThen(/** @type {any} */ (this.storage).sync(), () => this.storage?.close(new Error('This instance of the Durable Object was removed from memory.'))));
  }

  closeConnections() {
    this.disposables.forEach((each) => each.dispose());
  }

  isIdle() {
    return this.state === READY && this.running.size === 0 && this.queue.length === 0 && this.holds === 0 && this.blocks === 0 && this.storage?.flushing === null;
  }

  // --- events

  /** @param {Event} event */
  deliver(event) {
    if (this.state === BROKEN) {
      event.fail(this.reason);
    } else if (this.state === READY && this.blocks === 0 && !this.gated && this.queue.length === 0) {
      this.startEvent(event);
    } else {
      this.queue[this.queue.length] = event;
    }
  }

  pump() {
    while (this.state === READY && this.blocks === 0 && !this.gated && this.queue.length > 0) {
      const { queue } = this;
      const first = queue[0];
      for (let i = 1; i < queue.length; i++) queue[i - 1] = queue[i];
      queue.length--;
      this.startEvent(first);
    }
  }

  /**
   * No event begins before all that awaits something which is there already has gone on: an operation of the storage, and what follows it, are one
   * step, and so is an event up to where it waits for something from outside.
   */
  closeGate() {
    if (this.gated) return;
    this.gated = true;
    outsideRequests(() => setTimer(0, () => {
      this.gated = false;
      this.pump();
    }));
  }

  /** @param {Event} event */
  startEvent(event) {
    this.running.add(event);
    this.closeGate();
    const context = event.context ?? this.newContext();
    context.hold();
    context.enter();
    try {
      event.start(this.object, context);
    } catch (error) {
      natives.log(0, describeError(error));
    }
    context.drop();
    if (event.context === undefined) context.drop();
  }

  newContext() {
    const context = new RequestContext();
    context.keeper = this;
    this.contexts.add(context);
    this.holds++;
    context.onEnd = () => {
      this.contexts.delete(context);
      this.holds--;
    };
    return context;
  }

  /** Its handler is done. Then, once what was written is on disk, `run`; or fail() of the event. @param {Event} event @param {() => void} run */
  finish(event, run) {
    const done = () => {
      if (!this.running.delete(event)) return;
      this.lastUse = natives.monotonic();
      run();
    };
    if (this.state === BROKEN) return; // fail() was called
    const flushing = this.storage?.flushing ?? null;
    if (flushing === null) done();
    else promiseThen(flushing, () => this.finish(event, run), () => {});
  }

  /** Runs `handler` as an event. @param {(object: any) => any} handler @returns {Promise<any>} */
  event(handler) {
    return newPromise((resolve, reject) => {
      let failed = false;
      const event = {
        __proto__: null,
        /** @param {any} object @param {RequestContext} context */
        start: (object, context) => {
          context.hold();
          const end = () => context.drop();
          let result;
          try {
            result = promiseResolve(handler(object));
          } catch (error) {
            result = promiseReject(error);
          }
          promiseThen(result, (value) => {
            this.finish(/** @type {any} */ (event), () => resolve(value));
            end();
          }, (error) => {
            this.finish(/** @type {any} */ (event), () => reject(error));
            end();
          });
        },
        /** @param {any} error */
        fail: (error) => {
          if (failed) return;
          failed = true;
          reject(error);
        },
      };
      this.deliver(/** @type {any} */ (event));
    });
  }

  /**
   * No event is delivered until what `run` returns is settled.
   * @param {() => any} run @param {boolean} strict an error resets the object, and so does taking too long
   * @returns {Promise<any>}
   */
  blockConcurrencyWhile(run, strict = true) {
    if (this.blocks >= MAX_BLOCKS) throw new Error('blockConcurrencyWhile() calls are nested too deeply.');
    this.blocks++;
    let ended = false;
    const timer = strict ? outsideRequests(() => setTimer(BLOCK_MS, () => {
      if (!ended) this.break(new Error('A call to blockConcurrencyWhile() in a Durable Object waited for too long. The call was canceled and the Durable Object was reset.'));
    })) : 0;
    const end = () => {
      ended = true;
      if (strict) clearTimer(timer);
      this.blocks--;
      this.closeGate();
    };
    let result;
    try {
      result = promiseResolve(run());
    } catch (error) {
      result = promiseReject(error);
    }
    return promiseThen(result, (value) => {
      end();
      return value;
    }, (error) => {
      end();
      if (strict) this.break(error);
      throw error;
    });
  }

  /** @param {any} promise */
  waitUntil(promise) {
    const settled = promiseResolve(promise);
    this.holds++;
    const end = () => {
      this.holds--;
      this.lastUse = natives.monotonic();
    };
    promiseThen(settled, end, (error) => {
      end();
      natives.log(0, `Uncaught (in promise) ${describeError(error)}`);
    });
  }

  // --- what the storage asks

  hasAlarmHandler() {
    return typeof this.slot.findClass()?.prototype?.alarm === 'function';
  }

  deleteAllDeletesAlarm() {
    return this.slot.host.deleteAllDeletesAlarm === true;
  }
}
ObjectSetPrototypeOf(Instance.prototype, null);
