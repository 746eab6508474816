/** AbortController and AbortSignal, with timeout() and any(). A signal that depends on others holds them weakly and they it. */
import { ArrayPrototypePush, ArrayPrototypeSplice, ReflectConstruct, SafeSet, TypeError, iterate } from '../primordials.js';
import { finishInterface, isObject, requireArguments, toEnforcedInteger } from './webidl.js';
import { Event, EventTarget, eventAttributes, fire, setSignals } from './events.js';
import { domError, illegalConstructor } from './dom_exception.js';

let making = false;
/** @type {(run: () => void, ms: number) => any} */
let later = () => {};
/** @param {(run: () => void, ms: number) => any} setTimer */
export const setAbortTimer = (setTimer) => { later = setTimer; };

export class AbortSignal extends EventTarget {
  #aborted = false;
  #reason = /** @type {any} */ (undefined);
  #algorithms = /** @type {any} */ (null);
  #dependents = /** @type {any} */ (null); // signals that abort with this one
  #sources = /** @type {any} */ (null);    // of a dependent signal: those that it follows, none of them dependent itself
  constructor() {
    if (!making) illegalConstructor('use AbortController');
    making = false;
    super();
  }
  get aborted() { return this.#aborted; }
  get reason() { return this.#reason; }
  throwIfAborted() { if (this.#aborted) throw this.#reason; }

  /** @param {any} [reason] */
  static abort(reason = domError('AbortError', 'The operation was aborted')) {
    const signal = newSignal();
    signal.#aborted = true;
    signal.#reason = reason;
    return signal;
  }
  /** @param {any} ms */
  static timeout(ms) {
    requireArguments(arguments.length, 1, 'AbortSignal.timeout');
    const delay = toEnforcedInteger(ms, 'AbortSignal.timeout: milliseconds');
    const signal = newSignal();
    later(() => abortSignal(signal, domError('TimeoutError', 'The operation was aborted due to timeout')), delay);
    return signal;
  }
  /** @param {any} list */
  static any(list) {
    requireArguments(arguments.length, 1, 'AbortSignal.any');
    if (!isObject(list)) throw new TypeError('AbortSignal.any: the argument is not iterable');
    /** @type {any[]} */ const signals = [];
    iterate(list, (one) => {
      if (!isSignal(one)) throw new TypeError('AbortSignal.any: an element is not an AbortSignal');
      ArrayPrototypePush(signals, one);
    });
    return anySignal(signals);
  }

  static {
    isSignal = (value) => isObject(value) && #aborted in value;
    abortSignal = (signal, reason) => {
      if (signal.#aborted) return;
      /** @type {any[]} */ const all = [];
      const mark = (/** @type {any} */ one) => {
        if (one.#aborted) return;
        one.#aborted = true;
        one.#reason = reason;
        ArrayPrototypePush(all, one);
      };
      mark(signal);
      if (signal.#dependents !== null) signal.#dependents.forEach(mark);
      for (let i = 0; i < all.length; i++) {
        const one = all[i], run = one.#algorithms;
        one.#algorithms = one.#dependents = one.#sources = null;
        if (run !== null) for (let k = 0; k < run.length; k++) run[k]();
        fire(one, new Event('abort'));
      }
    };
    addAbortAlgorithm = (signal, run) => {
      if (signal.#aborted) return;
      signal.#algorithms ??= [];
      ArrayPrototypePush(signal.#algorithms, run);
    };
    removeAbortAlgorithm = (signal, run) => {
      const list = signal.#algorithms;
      if (list === null) return;
      for (let i = 0; i < list.length; i++) if (list[i] === run) { ArrayPrototypeSplice(list, i, 1); return; }
    };
    anySignal = (signals) => {
      const made = newSignal();
      for (let i = 0; i < signals.length; i++) {
        if (signals[i].#aborted) {
          made.#aborted = true;
          made.#reason = signals[i].#reason;
          return made;
        }
      }
      made.#sources = new SafeSet();
      const follow = (/** @type {any} */ source) => {
        if (source.#aborted || made.#sources.has(source)) return;
        made.#sources.add(source);
        source.#dependents ??= new SafeSet();
        source.#dependents.add(made);
      };
      for (let i = 0; i < signals.length; i++) {
        if (signals[i].#sources !== null) signals[i].#sources.forEach(follow);
        else follow(signals[i]);
      }
      return made;
    };
  }
}
/** @type {(value: any) => boolean} */ var isSignal;
/** Aborts a signal that has no controller. @type {(signal: any, reason: any) => void} */ var abortSignal;
/** Runs once when the signal aborts, before its event. @type {(signal: any, run: () => void) => void} */ var addAbortAlgorithm;
/** @type {(signal: any, run: () => void) => void} */ var removeAbortAlgorithm;
/** @type {(signals: any[]) => any} */ var anySignal;
export { isSignal, abortSignal, addAbortAlgorithm, removeAbortAlgorithm, anySignal };
eventAttributes(AbortSignal, ['abort']);
finishInterface(AbortSignal, 'AbortSignal');

/** A signal that nothing aborts yet. @returns {any} */
export function newSignal() {
  making = true;
  return ReflectConstruct(AbortSignal, []);
}

export class AbortController {
  #signal = newSignal();
  constructor() {}
  get signal() { return this.#signal; }
  /** @param {any} [reason] */
  abort(reason = domError('AbortError', 'The operation was aborted')) { abortSignal(this.#signal, reason); }
}
finishInterface(AbortController, 'AbortController');

setSignals({ isSignal, aborted: (signal) => signal.aborted, onAbort: addAbortAlgorithm });
