/** setTimeout and its kin over the link's one-shot timers (js/src/link.js). */
import { ReflectApply, SafeMap, TypeError, newPromise, promiseThen, promiseResolve } from '../primordials.js';
import { clearTimer, setTimer } from '../link.js';
import { finishInterface, isObject, requireArguments } from './webidl.js';
import { isSignal, addAbortAlgorithm, removeAbortAlgorithm } from './abort.js';

/**
 * @param {{bindStore?: (callback: any) => any, bindContext?: (callback: any) => any}} hooks see index.js
 * @param {(error: any) => void} report what to do with an error that a callback threw
 */
export function createTimers(hooks, report) {
  /** By the number that the guest has. @type {Map<number, any>} */
  const live = new SafeMap();
  let last = 0;

  /** @param {any} callback @param {any} ms @param {any[]} args @param {boolean} repeat @param {string} what */
  function start(callback, ms, args, repeat, what) {
    if (typeof callback !== 'function') throw new TypeError(`${what}: the first argument is not a function (text is not evaluated)`);
    let delay = (+ms) | 0;
    if (delay < 0) delay = 0;
    if (repeat && delay < 1) delay = 1;
    if (last === 0x7fffffff) last = 0;
    do last++; while (live.has(last));
    const id = last;
    const run = hooks.bindStore ? hooks.bindStore(callback) : callback;
    const timer = /** @type {any} */ ({ __proto__: null, link: 0 });
    const fire = () => {
      if (!repeat) live.delete(id);
      try {
        ReflectApply(run, undefined, args);
      } catch (error) {
        report(error);
      }
      if (repeat && live.get(id) === timer) timer.link = setTimer(delay, fire);
    };
    live.set(id, timer);
    timer.link = setTimer(delay, fire);
    return id;
  }
  /** @param {any} id */
  function stop(id) {
    const number = (+id) | 0;
    const timer = live.get(number);
    if (timer === undefined) return;
    live.delete(number);
    clearTimer(timer.link);
  }

  const functions = {
    setTimeout(/** @type {any} */ callback, /** @type {any} */ ms = 0, /** @type {any[]} */ ...args) {
      requireArguments(arguments.length, 1, 'setTimeout');
      return start(callback, ms, args, false, 'setTimeout');
    },
    setInterval(/** @type {any} */ callback, /** @type {any} */ ms = 0, /** @type {any[]} */ ...args) {
      requireArguments(arguments.length, 1, 'setInterval');
      return start(callback, ms, args, true, 'setInterval');
    },
    clearTimeout(/** @type {any} */ id = undefined) { stop(id); },
    clearInterval(/** @type {any} */ id = undefined) { stop(id); },
    queueMicrotask(/** @type {any} */ callback) {
      requireArguments(arguments.length, 1, 'queueMicrotask');
      if (typeof callback !== 'function') throw new TypeError('queueMicrotask: the argument is not a function');
      const run = hooks.bindContext ? hooks.bindContext(callback) : callback;
      promiseThen(promiseResolve(), () => {
        try {
          ReflectApply(run, undefined, []);
        } catch (error) {
          report(error);
        }
      });
    },
  };

  class Scheduler {
    /** @param {any} ms @param {any} [options] */
    wait(ms, options = undefined) {
      return newPromise((resolve, reject) => {
        const signal = isObject(options) ? options.signal : undefined;
        if (signal !== undefined) {
          if (!isSignal(signal)) throw new TypeError('scheduler.wait: signal is not an AbortSignal');
          if (signal.aborted) throw signal.reason;
        }
        const delay = (+ms) | 0;
        const stopped = () => { clearTimer(id); reject(signal.reason); };
        const id = setTimer(delay < 0 ? 0 : delay, () => {
          if (signal !== undefined) removeAbortAlgorithm(signal, stopped);
          resolve();
        });
        if (signal !== undefined) addAbortAlgorithm(signal, stopped);
      });
    }
  }
  finishInterface(Scheduler, 'Scheduler');
  return { functions, scheduler: new Scheduler() };
}
