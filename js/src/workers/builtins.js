/** The modules of the runtime: `cloudflare:workers`, `cloudflare:sockets`. */
import { Error } from '../primordials.js';
import { hideSources } from '../native_text.js';
import { getStore, runInStore, storeWith } from '../node/async_context.js';
import { currentContext } from '../rpc/context.js';
import { RpcPromise, RpcProperty, RpcStub, RpcTarget, ServiceStub } from '../rpc/stub.js';
import { worker } from './ctx.js';
import { DurableObject, WorkerEntrypoint } from './entrypoint.js';
import { connect } from './socket.js';

/** @param {any} promise */
function waitUntil(promise) {
  const context = currentContext();
  if (context === null || worker.exports === null) {
    throw new Error('Disallowed operation called within global scope. waitUntil() belongs to a request: call it within a handler.');
  }
  context.waitUntil(promise);
}

/** Keys of what code can have in place of `env` and `exports`. */
const ENV = {}, EXPORTS = {};

/** @param {any} key @param {any} common @returns {any} */
function replaced(key, common) {
  const store = getStore();
  return store !== undefined && store.has(key) ? store.get(key) : common;
}

/** Runs it, and what it goes on with, with another value. @param {any} key @param {any} value null: nothing; other than an object: no other @param {() => any} run */
function withValue(key, value, run) {
  const store = value === null || value === undefined ? storeWith(key, {}) : typeof value === 'object' ? storeWith(key, value) : getStore();
  return runInStore(store, run, undefined, []);
}

const workers = {
  __proto__: null,
  WorkerEntrypoint, DurableObject, RpcTarget, RpcStub, RpcPromise, RpcProperty, ServiceStub, waitUntil,
  get env() { return replaced(ENV, worker.env); },
  get exports() { return replaced(EXPORTS, worker.loopback); },
  withEnv(/** @type {any} */ value, /** @type {() => any} */ run) { return withValue(ENV, value, run); },
  withExports(/** @type {any} */ value, /** @type {() => any} */ run) { return withValue(EXPORTS, value, run); },
  withEnvAndExports(/** @type {any} */ env, /** @type {any} */ exports, /** @type {() => any} */ run) {
    return withValue(ENV, env, () => withValue(EXPORTS, exports, run));
  },
};

const sockets = { __proto__: null, connect };

/** @type {((specifier: string) => any)[]} */
const more = [];

/** Further modules, as node:... @param {(specifier: string) => any} find gives their exports, or undefined */
export function addBuiltins(find) {
  more[more.length] = find;
}

/** @param {string} specifier @returns {any} the exports; undefined: there is no such module */
export function builtins(specifier) {
  if (specifier === 'cloudflare:workers') return workers;
  if (specifier === 'cloudflare:sockets') return sockets;
  for (let i = 0; i < more.length; i++) {
    const found = more[i](specifier);
    if (found === undefined) continue;
    hideSources(found);
    return found;
  }
  return undefined;
}
