/** performance: whole milliseconds (a guest must not time the machine), marks and measures in memory. */
import { ArrayPrototypePush, ArrayPrototypeSlice, ArrayPrototypeSort, TypeError } from '../primordials.js';
import { natives } from '../natives.js';
import { domError, illegalConstructor } from './dom_exception.js';
import { EventTarget } from './events.js';
import { structuredClone } from './structured_clone.js';
import { finishInterface, isObject, requireArguments, toDOMString } from './webidl.js';

const MAX_ENTRIES = 10000;
const KEY = Symbol('performance');

export class PerformanceEntry {
  #name; #type; #start; #duration;
  /** @param {any} key @param {string} name @param {string} type @param {number} start @param {number} duration */
  constructor(key, name, type, start, duration) {
    if (key !== KEY) illegalConstructor('PerformanceEntry');
    this.#name = name; this.#type = type; this.#start = start; this.#duration = duration;
  }
  get name() { return this.#name; }
  get entryType() { return this.#type; }
  get startTime() { return this.#start; }
  get duration() { return this.#duration; }
  toJSON() { return { name: this.#name, entryType: this.#type, startTime: this.#start, duration: this.#duration }; }
}
finishInterface(PerformanceEntry, 'PerformanceEntry');

export class PerformanceMark extends PerformanceEntry {
  #detail;
  /** @param {any} name @param {any} [options] */
  constructor(name, options = undefined) {
    requireArguments(arguments.length, 1, 'PerformanceMark constructor');
    const label = toDOMString(name);
    if (options !== undefined && options !== null && !isObject(options)) throw new TypeError('PerformanceMarkOptions is not an object');
    let start = now();
    if (options?.startTime !== undefined) {
      start = +options.startTime;
      if (start !== start || start - start !== 0) throw new TypeError('PerformanceMark: startTime is not finite');
      if (start < 0) throw new TypeError('PerformanceMark: startTime is negative');
    }
    super(KEY, label, 'mark', start, 0);
    this.#detail = options?.detail === undefined || options.detail === null ? null : structuredClone(options.detail);
  }
  get detail() { return this.#detail; }
}
finishInterface(PerformanceMark, 'PerformanceMark');

export class PerformanceMeasure extends PerformanceEntry {
  #detail;
  /** @param {any} key @param {string} name @param {number} start @param {number} duration @param {any} detail */
  constructor(key, name, start, duration, detail) {
    super(key, name, 'measure', start, duration);
    this.#detail = detail;
  }
  get detail() { return this.#detail; }
}
finishInterface(PerformanceMeasure, 'PerformanceMeasure');

let origin = 0, originMonotonic = 0;
const now = () => natives.monotonic() - originMonotonic;
/** Starts the clock: in the child, after the fork. */
export function startClock() {
  origin = natives.now();
  originMonotonic = natives.monotonic();
}
export const eventClock = () => (origin === 0 ? 0 : now());

export class Performance extends EventTarget {
  /** @type {any[]} */ #entries = [];
  constructor() {
    if (arguments[0] !== KEY) illegalConstructor('Performance');
    super();
  }
  now() { void this.#entries; return now(); }
  get timeOrigin() { void this.#entries; return origin; }
  toJSON() { void this.#entries; return { timeOrigin: origin }; }
  /** @param {any} name @param {any} [options] */
  mark(name, options = undefined) {
    requireArguments(arguments.length, 1, 'Performance.mark');
    const entry = new PerformanceMark(name, options);
    this.#add(entry);
    return entry;
  }
  /** @param {any} name @param {any} [startOrOptions] @param {any} [end] */
  measure(name, startOrOptions = undefined, end = undefined) {
    requireArguments(arguments.length, 1, 'Performance.measure');
    const label = toDOMString(name);
    const options = isObject(startOrOptions) ? startOrOptions : undefined;
    if (options !== undefined) {
      if (end !== undefined) throw new TypeError('Performance.measure: an end mark next to options');
      if (options.start === undefined && options.end === undefined && (options.duration !== undefined || options.detail !== undefined)) throw new TypeError('Performance.measure: neither start nor end');
      if (options.start !== undefined && options.end !== undefined && options.duration !== undefined) throw new TypeError('Performance.measure: start, end and duration');
    }
    const startGiven = options === undefined ? startOrOptions ?? undefined : options.start;
    const endGiven = options === undefined ? end : options.end;
    const duration = options?.duration;
    const to = endGiven !== undefined ? this.#time(endGiven) : startGiven !== undefined && duration !== undefined ? this.#time(startGiven) + this.#time(+duration) : now();
    const from = startGiven !== undefined ? this.#time(startGiven) : duration !== undefined && endGiven !== undefined ? to - this.#time(+duration) : 0;
    const entry = new PerformanceMeasure(KEY, label, from, to - from, options?.detail === undefined || options.detail === null ? null : structuredClone(options.detail));
    this.#add(entry);
    return entry;
  }
  /** @param {any} [name] */ clearMarks(name = undefined) { this.#clear('mark', name); }
  /** @param {any} [name] */ clearMeasures(name = undefined) { this.#clear('measure', name); }
  clearResourceTimings() { void this.#entries; }
  setResourceTimingBufferSize() { void this.#entries; }
  getEntries() { return this.#find(() => true); }
  /** @param {any} type */
  getEntriesByType(type) {
    requireArguments(arguments.length, 1, 'Performance.getEntriesByType');
    const text = toDOMString(type);
    return this.#find((entry) => entry.entryType === text);
  }
  /** @param {any} name @param {any} [type] */
  getEntriesByName(name, type = undefined) {
    requireArguments(arguments.length, 1, 'Performance.getEntriesByName');
    const text = toDOMString(name), kind = type === undefined ? undefined : toDOMString(type);
    return this.#find((entry) => entry.name === text && (kind === undefined || entry.entryType === kind));
  }

  /** @param {any} mark a name or a time @returns {number} */
  #time(mark) {
    if (typeof mark === 'number') {
      if (mark - mark !== 0) throw new TypeError('Performance.measure: a time is not finite');
      if (mark < 0) throw new TypeError('Performance.measure: a time is negative');
      return mark;
    }
    const name = toDOMString(mark);
    for (let i = this.#entries.length - 1; i >= 0; i--) if (this.#entries[i].entryType === 'mark' && this.#entries[i].name === name) return this.#entries[i].startTime;
    throw domError('SyntaxError', `The mark '${name}' does not exist.`);
  }
  /** @param {any} entry */
  #add(entry) {
    if (this.#entries.length >= MAX_ENTRIES) throw domError('QuotaExceededError', `performance keeps at most ${MAX_ENTRIES} marks and measures`);
    ArrayPrototypePush(this.#entries, entry);
  }
  /** @param {string} type @param {any} name */
  #clear(type, name) {
    const only = name === undefined ? undefined : toDOMString(name), list = this.#entries;
    let to = 0;
    for (let i = 0; i < list.length; i++) if (list[i].entryType !== type || (only !== undefined && list[i].name !== only)) list[to++] = list[i];
    list.length = to;
  }
  /** @param {(entry: any) => boolean} wanted */
  #find(wanted) {
    /** @type {any[]} */ const found = [];
    for (let i = 0; i < this.#entries.length; i++) if (wanted(this.#entries[i])) ArrayPrototypePush(found, this.#entries[i]);
    return ArrayPrototypeSort(ArrayPrototypeSlice(found), (/** @type {any} */ a, /** @type {any} */ b) => a.startTime - b.startTime);
  }
}
finishInterface(Performance, 'Performance');
export const performance = new (/** @type {any} */ (Performance))(KEY);
