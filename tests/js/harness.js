/**
 * Tests of the library (js/src), run by run.mjs in `cloister-worker --shell`: each file is bundled by itself with the modules that it
 * tests, so it reaches what guest code cannot. Prints TAP.
 */
import { setNatives } from '../../js/src/natives.js';
import { routes } from '../../js/src/link.js';

const { natives: real, print, exit } = globalThis.__shell;
const text = String, stringify = JSON.stringify;

// The shell has the bundled library's timers; the modules under test get their own through setTimeout.
let lastRequest = 0;
const requestCell = new Uint32Array(1);
export const natives = {
  ...real,
  timer(id, ms) { setTimeout(() => routes.timer(id), ms); },
  timerClear() {},
  requestCell,
  requestBegin: () => (requestCell[0] = ++lastRequest),
  requestEnter(id) { requestCell[0] = id; },
  requestEnd(id) { if (requestCell[0] === id) requestCell[0] = 0; },
  requestCurrent: () => requestCell[0],
  log(level, line) { print(`# log ${level} ${line}`); },
};
setNatives(natives);

const tests = [];
/** @param {string} name @param {() => any} run */
export function test(name, run) {
  tests.push([name, run]);
}

export class Failure extends Error {}

/** @param {any} condition @param {any} [what] */
export function ok(condition, what = 'expected something true') {
  if (!condition) throw new Failure(text(what));
}

/** @param {any} value */
function show(value) {
  try {
    return typeof value === 'object' && value !== null ? `${value.constructor?.name} ${stringify(value)}` : text(value);
  } catch {
    return typeof value;
  }
}

/** @param {any} actual @param {any} expected @param {string} [what] */
export function equal(actual, expected, what = '') {
  if (!Object.is(actual, expected)) throw new Failure(`${what} expected ${show(expected)}, got ${show(actual)}`);
}

/** Same shape, classes and identities within. @param {any} a @param {any} b @param {Map<any, any>} [seen] */
export function same(a, b, seen = new Map()) {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (seen.has(a)) return seen.get(a) === b;
  seen.set(a, b);
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (a instanceof Date) return Object.is(a.getTime(), b.getTime());
  if (a instanceof RegExp) return text(a) === text(b);
  if (a instanceof Map) return a.size === b.size && same([...a], [...b], seen);
  if (a instanceof Set) return a.size === b.size && same([...a], [...b], seen);
  if (a instanceof ArrayBuffer) return a.byteLength === b.byteLength && text(new Uint8Array(a)) === text(new Uint8Array(b));
  if (ArrayBuffer.isView(a)) return a.byteOffset === b.byteOffset && a.byteLength === b.byteLength && same(a.buffer, b.buffer, seen);
  if (a instanceof Number || a instanceof String || a instanceof Boolean || a instanceof BigInt) return Object.is(a.valueOf(), b.valueOf());
  if (Array.isArray(a) && a.length !== b.length) return false;
  const keys = Object.keys(a), others = Object.keys(b);
  return keys.length === others.length && keys.every((key, i) => key === others[i] && same(a[key], b[key], seen));
}

/** @param {any} actual @param {any} expected @param {string} [what] */
export function alike(actual, expected, what = '') {
  if (!same(actual, expected)) throw new Failure(`${what} expected ${show(expected)}, got ${show(actual)}`);
}

/** @param {any} error @param {any} expected a RegExp for "name: message", or {name, message} */
function checkError(error, expected) {
  const said = `${error?.name}: ${error?.message}`;
  const fits = expected instanceof RegExp ? expected.test(said)
    : Object.keys(expected).every((key) => (expected[key] instanceof RegExp ? expected[key].test(error?.[key]) : Object.is(error?.[key], expected[key])));
  if (!fits) throw new Failure(`expected ${expected instanceof RegExp ? expected : stringify(expected)}, got ${said}`);
  return error;
}

/** @param {() => any} run @param {any} expected */
export function throws(run, expected) {
  let error;
  try {
    run();
  } catch (reason) {
    error = reason;
    return checkError(error, expected);
  }
  throw new Failure(`nothing was thrown; expected ${expected}`);
}

/** @param {any} promise or a function that gives one @param {any} expected */
export async function rejects(promise, expected) {
  let error;
  try {
    await (typeof promise === 'function' && !(promise instanceof Promise) && typeof promise.then !== 'function' ? promise() : promise);
  } catch (reason) {
    error = reason;
    return checkError(error, expected);
  }
  throw new Failure(`nothing was rejected; expected ${expected}`);
}

/** @param {number} [ms] */
export const wait = (ms = 10) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** Waits until it is true, a second at most. @param {() => any} condition @param {string} what */
export async function until(condition, what) {
  for (let i = 0; i < 200; i++) {
    if (condition()) return;
    await wait(5);
  }
  throw new Failure(`it did not happen: ${what}`);
}

/** A repeatable source of numbers. @param {number} seed */
export function randomness(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ t >>> 15, t | 1);
    t ^= t + Math.imul(t ^ t >>> 7, t | 61);
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
  return { next, below: (/** @type {number} */ n) => Math.floor(next() * n) };
}

const TIMEOUT_MS = 60000;

setTimeout(async () => {
  print(`1..${tests.length}`);
  let failed = 0;
  for (let i = 0; i < tests.length; i++) {
    const [name, run] = tests[i];
    let error = null;
    try {
      await Promise.race([run(), wait(TIMEOUT_MS).then(() => { throw new Failure('it takes too long'); })]);
    } catch (reason) {
      error = reason ?? new Failure('something was thrown');
    }
    print(`${error === null ? 'ok' : 'not ok'} ${i + 1} - ${name}`);
    if (error !== null) {
      failed++;
      print(`# ${text(error)}\n${text(error.stack).split('\n').map((line) => `#   ${line}`).join('\n')}`);
    }
  }
  exit(failed === 0 ? 0 : 1);
}, 0);
