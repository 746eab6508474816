/** The registry of node: modules, see README.md. */
import { Error, ObjectDefineProperty, SafeMap, StringPrototypeSlice, StringPrototypeStartsWith, nullObject } from '../primordials.js';
import { setHost } from './host.js';

export { beginEntry, bindContext, bindPromises, bindReaction, bindStore, getContext, setContext, setRequests } from './async_context.js';

// esbuild makes of each a function that evaluates the file when it is first called.
/** @type {Record<string, () => any>} */
const FILES = /** @type {any} */ ({
  __proto__: null,
  assert: () => require('./assert.js'),
  'assert/strict': () => require('./assert_strict.js'),
  async_hooks: () => require('./async_hooks.js'),
  buffer: () => require('./buffer.js'),
  console: () => require('./console.js'),
  crypto: () => require('./crypto.js'),
  diagnostics_channel: () => require('./diagnostics_channel.js'),
  events: () => require('./events.js'),
  module: () => require('./module.js'),
  path: () => require('./path.js'),
  'path/posix': () => require('./path.js'),
  process: () => require('./process.js'),
  querystring: () => require('./querystring.js'),
  stream: () => require('./stream.js'),
  'stream/promises': () => require('./stream_promises.js'),
  'stream/web': () => require('./stream_web.js'),
  string_decoder: () => require('./string_decoder.js'),
  timers: () => require('./timers.js'),
  'timers/promises': () => require('./timers_promises.js'),
  url: () => require('./url.js'),
  util: () => require('./util.js'),
  'util/types': () => require('./util_types.js'),
});

/** Names that Node.js has and a Worker has not. */
const ABSENT = nullObject();
for (const name of [
  'child_process', 'cluster', 'constants', 'dgram', 'dns', 'dns/promises', 'domain', 'fs', 'fs/promises', 'http', 'http2', 'https', 'inspector',
  'inspector/promises', 'net', 'os', 'path/win32', 'perf_hooks', 'punycode', 'readline', 'readline/promises', 'repl', 'sea', 'sqlite',
  'stream/consumers', 'sys', 'test', 'tls', 'trace_events', 'tty', 'v8', 'vm', 'wasi', 'worker_threads', 'zlib',
]) ABSENT[name] = true;

/**
 * What the compatibility flags ask for: `nodejs_compat` (of either version), or `nodejs_als`, which is node:async_hooks alone.
 * @param {string[]} flags @returns {'all'|'als'|null}
 */
export function wantedNode(flags) {
  /** @type {'all'|'als'|null} */ let wanted = null;
  for (let i = 0; i < flags.length; i++) {
    if (flags[i] === 'nodejs_compat' || flags[i] === 'nodejs_compat_v2') wanted = 'all';
    if (flags[i] === 'nodejs_als') wanted ??= 'als';
  }
  return wanted;
}

/** @param {import('./host.js').NodeHost} host @param {'all'|'als'} wanted */
export function createNode(host, wanted) {
  setHost({ __proto__: null, ...host, module });
  /** @type {Map<string, any>} */
  const loaded = new SafeMap();

  /**
   * The exports of a module, evaluated when they are asked for the first time. @param {string} specifier with or without `node:`
   * @returns {any} undefined: no module of Node.js has that name
   */
  function module(specifier) {
    const prefixed = StringPrototypeStartsWith(specifier, 'node:');
    const name = prefixed ? StringPrototypeSlice(specifier, 5) : specifier;
    const known = loaded.get(name);
    if (known !== undefined) return known;
    const file = wanted === 'all' || name === 'async_hooks' ? FILES[name] : undefined;
    if (file === undefined) {
      if (wanted !== 'all' && FILES[name] !== undefined) throw new Error(`node:${name} is not available without the compatibility flag nodejs_compat`);
      if (ABSENT[name] || prefixed) throw new Error(`node:${name} is not available in a Worker`);
      return undefined;
    }
    const exports = file();
    loaded.set(name, exports);
    return exports;
  }

  return {
    module,
    /** The globals of the flag; none is evaluated before it is used. @param {any} target the global object */
    install(target) {
      if (wanted !== 'all') return;
      lazy(target, 'Buffer', () => module('buffer').Buffer);
      lazy(target, 'process', () => module('process').default);
      lazy(target, 'setImmediate', () => module('timers').setImmediate);
      lazy(target, 'clearImmediate', () => module('timers').clearImmediate);
      ObjectDefineProperty(target, 'global', /** @type {any} */ ({ __proto__: null, value: target, writable: true, enumerable: false, configurable: true }));
    },
  };
}

/** A property that becomes its value when it is first read. @param {any} target @param {string} name @param {() => any} load */
function lazy(target, name, load) {
  /** @param {any} value */
  const set = (value) => {
    ObjectDefineProperty(target, name, /** @type {any} */ ({ __proto__: null, value, writable: true, enumerable: false, configurable: true }));
  };
  ObjectDefineProperty(target, name, /** @type {any} */ ({
    __proto__: null, set, enumerable: false, configurable: true,
    get() {
      const value = load();
      set(value);
      return value;
    },
  }));
}
