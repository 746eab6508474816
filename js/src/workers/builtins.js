/** The modules of the runtime: `cloudflare:workers`, `cloudflare:sockets`. */
import { Error } from '../primordials.js';
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

const workers = {
  __proto__: null,
  WorkerEntrypoint, DurableObject, RpcTarget, RpcStub, RpcPromise, RpcProperty, ServiceStub, waitUntil,
  get env() { return worker.env; },
  get exports() { return worker.loopback; },
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
    if (found !== undefined) return found;
  }
  return undefined;
}
