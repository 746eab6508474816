/** Boot and dispatch: from the natives to a Worker that answers (js/natives.d.ts, src/link/worker_protocol.h). */
import {
  Error, ObjectDefineProperty, ObjectFreeze, ObjectKeys, SafeMap, SafeSet, Symbol, TypeError, describeError, newPromise, nullObject, promiseResolve, promiseThen,
} from './primordials.js';
import { natives, setNatives } from './natives.js';
import { crypto, installCrypto, randomUUID } from './crypto/crypto.js';
import { channelSend, closeChannel, openChannel, openReceiving, routes, streamConsumed } from './link.js';
import { createModuleGraph } from './modules.js';
import { beginEntry, bindContext, bindPromises, bindStore, createNode, getContext, setContext, wantedNode } from './node/index.js';
import { hideSources, installNativeText } from './native_text.js';
import { decodePlain, encodePlain } from './rpc/cbor.js';
import { RequestContext, followRequests, killRequest, limits, setFailureListener, setReporter } from './rpc/context.js';
import { installRandom, seedRandom } from './random.js';
import { endRehearsal, rehearse } from './rehearsal.js';
import { Session } from './rpc/session.js';
import { asyncDisposeSymbol, disposeSymbol, handleOf } from './rpc/stub.js';
import { Target, errorPayload, newPayload } from './rpc/target.js';
import { rules } from './rpc/values.js';
import { setConsoleListener } from './web/console.js';
import { installWeb } from './web/index.js';
import { abortRequest, requestFromWire } from './web/request.js';
import { respond } from './web/response.js';
import { BootstrapTarget } from './workers/bootstrap.js';
import { addBuiltins, builtins } from './workers/builtins.js';
import { Container } from './workers/container.js';
import { ExecOutput, ExecProcess } from './workers/container_process.js';
import { ExecutionContext, worker } from './workers/ctx.js';
import { DurableObjectNamespace, DurableObjectState, DurableObjectStub, createObjects } from './workers/durable_object.js';
import { handleFetch, makeLoopback, receiverOf } from './workers/entrypoint.js';
import { makeEnv } from './workers/env.js';
import { beginTrace, setTails, traceFailure, traceLog } from './workers/events.js';
import { DurableObjectId } from './workers/object_id.js';
import { WebSocketRequestResponsePair } from './workers/object_sockets.js';
import { WorkerLoader, WorkerStub, endIdle } from './workers/loader.js';
import { fetchOutbound, setOutbound } from './workers/outbound.js';
import { Socket } from './workers/socket.js';
import { DurableObjectStorage, DurableObjectTransaction, KvIterator, SyncKvStorage } from './workers/storage.js';
import { SqlStorage, SqlStorageCursor, SqlStorageRawCursor } from './workers/storage_sql.js';

const NOTHING = encodePlain(null);
/** Where a program can meet functions of the library. */
const VISIBLE = [
  globalThis, builtins('cloudflare:workers'), builtins('cloudflare:sockets'), ExecutionContext, Container, ExecProcess, ExecOutput, DurableObjectId, DurableObjectNamespace,
  DurableObjectState, DurableObjectStub, DurableObjectStorage, DurableObjectTransaction, SyncKvStorage, KvIterator, SqlStorage, SqlStorageCursor, SqlStorageRawCursor, WorkerLoader,
  WorkerStub, Socket,
];
/** What installWeb() asks back. @type {any} */
const hooks = { __proto__: null, fetch: fetchOutbound, bindContext };
/** @type {any} */
let web = null;
/** The Worker's modules. @type {any} */
let graph = null;
/** The Durable Objects of a host Worker. @type {import('./workers/durable_object.js').Objects|null} */
let objects = null;
/** HTTP requests that are being answered, by their call. @type {Map<number, {request: any, context: RequestContext}>} */
const serving = new SafeMap();

/** @param {any} natives_ @returns {any} the dispatch */
export default function boot(natives_) {
  setNatives(natives_);
  followRequests();
  bindPromises(globalThis);
  put(Symbol, 'dispose', disposeSymbol);
  put(Symbol, 'asyncDispose', asyncDisposeSymbol);
  web = installWeb(globalThis, hooks);
  installCrypto(globalThis);
  installRandom();
  ObjectDefineProperty(globalThis, 'WebSocketRequestResponsePair', /** @type {any} */ ({
    __proto__: null, value: WebSocketRequestResponsePair, writable: true, enumerable: false, configurable: true,
  }));
  setReporter((error, context) => {
    if (context !== null) traceFailure(context, error);
    web.reportException(error);
  });
  setFailureListener((error, context) => traceFailure(context, error));
  setConsoleListener(traceLog);
  installNativeText();
  for (let i = 0; i < VISIBLE.length; i++) hideSources(VISIBLE[i]);
  return dispatch;
}

/** @param {any} on @param {string} name @param {symbol} value */
function put(on, name, value) {
  if (on[name] === undefined) ObjectDefineProperty(on, name, /** @type {any} */ ({ __proto__: null, value, writable: false, enumerable: false, configurable: false }));
}

// --- init

/** @param {string} date @param {string} flag @param {string} off @param {string} since */
function rule(date, flag, off, since) {
  const { flags } = worker;
  const on = flags.has(flag) || (!flags.has(off) && date >= since);
  ruled[flag] = on;
  delete ruled[off];
  return on;
}
/** What `Cloudflare.compatibilityFlags` says: the Worker's own flags, and those that its date decides. @type {Record<string, boolean>} */
let ruled = nullObject();

/** Rules are made before that. */
function publishFlags() {
  ObjectDefineProperty(globalThis, 'Cloudflare', /** @type {any} */ ({
    __proto__: null, value: { compatibilityFlags: ObjectFreeze(ruled) }, writable: true, enumerable: false, configurable: true,
  }));
}

/** @param {number} call @param {any} given */
function init(call, given) {
  if (worker.role !== '') throw new Error('init was called twice.');
  if (given.role !== 'host' && given.role !== 'dynamic') throw new Error(`The runtime does not know the role "${given.role}".`);
  worker.role = given.role;
  seedRandom();
  worker.name = given.name;
  worker.compatibilityDate = given.compatibilityDate ?? '';
  worker.flags = new SafeSet();
  const flags = given.compatibilityFlags ?? [];
  ruled = nullObject();
  for (let i = 0; i < flags.length; i++) {
    worker.flags.add(flags[i]);
    ruled[flags[i]] = true;
  }
  rules.duplicateParameters = rule(worker.compatibilityDate, 'rpc_params_dup_stubs', 'rpc_params_transfer_stubs', '2026-01-20');
  web.webSocketRules.blobs = rule(worker.compatibilityDate, 'websocket_standard_binary_type', 'no_websocket_standard_binary_type', '2026-03-17');
  web.webSocketRules.answerClose = rule(worker.compatibilityDate, 'web_socket_auto_reply_to_close', 'web_socket_manual_reply_to_close', '2026-04-07');
  web.webSocketRules.standardCodes = worker.flags.has('pedantic_wpt');
  const deleteAllDeletesAlarm = rule(worker.compatibilityDate, 'delete_all_deletes_alarm', 'delete_all_preserves_alarm', '2026-02-24');
  publishFlags();
  limits.cpuMs = given.limits?.cpuMs ?? 0;
  limits.subRequests = given.limits?.subRequests ?? 0;
  limits.wallMs = given.limits?.wallMs ?? 0;
  setOutbound(given.outbound ?? 'none', null);
  const node = wantedNode(toArray(flags));
  if (node !== null) {
    const { module, install } = createNode({ natives, web, crypto, randomUUID, env: textEnv, requireFrom: (name) => graph.requireFrom(name) }, node);
    addBuiltins(module);
    install(globalThis);
    hooks.bindStore = bindStore;
  }
  const modules = toArray(given.modules ?? []), received = receiveModules(modules);
  worker.ready = newPromise((resolve) => {
    const run = (/** @type {any} */ result) => {
      evaluate(given, modules, received, () => {
        resolve();
        worker.ready = null;
        result?.settle(newPayload(null), new Target(), false);
        natives.return(call, NOTHING);
      }, (error) => {
        worker.failed = error;
        resolve();
        worker.ready = null;
        // Over the channel the parent gets the error itself; the daemon gets its text.
        result?.fail(errorPayload(error));
        natives.throw(call, 'exception', describeError(error));
      });
    };
    if (given.channel === undefined) {
      objects = createObjects({
        findClass: (name) => (worker.exports !== null && name in worker.exports ? worker.exports[name] : undefined),
        env: () => worker.env,
        exports: () => worker.loopback,
        deleteAllDeletesAlarm,
      }, given.objects ?? []);
      worker.env = makeEnv(given.bindings ?? [], (className) => /** @type {any} */ (objects).namespace(className));
      run(null);
      return;
    }
    // What the parent gives comes first on the channel; the main module may look at it.
    openSession(given.channel, new BootstrapTarget((start, result) => {
      worker.env = start.env;
      if (given.outbound === 'channel') setOutbound('channel', /** @type {any} */ (handleOf(start.outbound))?.target ?? null);
      const tails = [];
      for (let i = 0; i < start.tails.length; i++) tails[i] = /** @type {any} */ (handleOf(start.tails[i])).target;
      setTails(tails);
      run(result);
    }));
  });
}

/** @param {ArrayLike<any>} list @returns {any[]} */
function toArray(list) {
  const array = [];
  for (let i = 0; i < list.length; i++) array[i] = list[i];
  return array;
}

/** The texts in `env`, as process.env has them. @returns {Record<string, string>} */
function textEnv() {
  const texts = nullObject();
  const keys = ObjectKeys(worker.env ?? {});
  for (let i = 0; i < keys.length; i++) {
    const value = worker.env[keys[i]];
    if (typeof value === 'string') texts[keys[i]] = value;
  }
  return texts;
}

/** @param {{in: number, out: number}} channel @param {Target} main */
function openSession(channel, main) {
  const id = openChannel(channel.in, channel.out, (bytes) => session.receive(bytes), (reason) => session.closed(reason));
  const session = new Session({ send: (bytes, tail) => channelSend(id, bytes, tail), close: (reason) => closeChannel(id, reason) }, main);
  return session;
}

/**
 * Modules too large for the call come on streams of their own, opened here and now. No guest code has run yet.
 * @param {any[]} modules @returns {(done: () => void, failed: (error: any) => void) => void} waits for them; once
 */
function receiveModules(modules) {
  let missing = 1;
  /** @type {any} */
  let broken = null, done = null, failed = null;
  const one = () => {
    if (--missing === 0) done();
  };
  for (let i = 0; i < modules.length; i++) {
    const module = modules[i], { stream } = module;
    if (stream === undefined) continue;
    /** @type {Uint8Array[]} */
    const pieces = [];
    let size = 0;
    missing++;
    openReceiving(stream, {
      data(/** @type {Uint8Array} */ bytes) {
        pieces[pieces.length] = bytes;
        size += bytes.length;
        streamConsumed(stream, bytes.length);
      },
      end() {
        const all = new Uint8Array(size);
        for (let k = 0, at = 0; k < pieces.length; at += pieces[k++].length) all.set(pieces[k], at);
        module.data = all;
        one();
      },
      reset(/** @type {string} */ message) {
        broken = new Error(message);
        failed?.(broken);
      },
    });
  }
  return (then, otherwise) => {
    done = then;
    failed = otherwise;
    if (broken !== null) failed(broken);
    else one();
  };
}

/** Runs the main module, as a request of its own. @param {any} given @param {any[]} modules @param {any} received @param {() => void} done @param {(error: any) => void} failed */
function evaluate(given, modules, received, done, failed) {
  const context = new RequestContext();
  context.owed.add(failed);
  const end = (/** @type {any} */ error) => {
    if (!context.owed.delete(failed)) return;
    context.enter();
    if (error !== null) failed(error.reason);
    else done();
    context.drop();
  };
  received(() => {
    context.enter();
    evaluateModules(modules, given, end);
  }, (/** @type {any} */ error) => end({ reason: error }));
}

/** @param {any[]} modules @param {any} given @param {(error: {reason: any} | null) => void} end */
function evaluateModules(modules, given, end) {
  try {
    graph = createModuleGraph(modules, natives, builtins, { getContext, setContext });
    promiseThen(graph.main(given.main), (namespace) => {
      try {
        worker.exports = namespace;
        worker.loopback = makeLoopback(namespace, (name) => objectExport(name));
        end(null);
      } catch (error) {
        end({ reason: error });
      }
    }, (error) => end({ reason: error }));
  } catch (error) {
    end({ reason: error });
  }
}

/** @param {string} name @returns {any} ctx.exports of a class that the configuration has as one of Durable Objects */
function objectExport(name) {
  return objects !== null && objects.classes.has(name) ? objects.namespace(name) : undefined;
}

// --- events

/** @param {number} call @param {any} error */
function throwTo(call, error) {
  natives.throw(call, 'exception', describeError(error));
}

/** @param {number} call @param {any} given */
function scheduled(call, given) {
  const context = new RequestContext();
  beginTrace(context, 'default', 'scheduled', []);
  const fail = (/** @type {any} */ error) => {
    if (!context.owed.delete(fail)) return;
    context.enter();
    context.failure(error);
    throwTo(call, error);
    context.drop();
  };
  context.owed.add(fail);
  try {
    const { object, extra } = receiverOf('default', {}, context);
    const handler = object.scheduled;
    if (typeof handler !== 'function') throw new TypeError('Handler does not export a scheduled() function.');
    const controller = { scheduledTime: given.scheduledTime, cron: given.cron, type: 'scheduled', noRetry() {} }; // nothing is retried
    const returned = extra === null ? handler.call(object, controller) : handler.call(object, controller, extra.env, extra.ctx);
    promiseThen(promiseResolve(returned), () => {
      if (!context.owed.delete(fail)) return;
      natives.return(call, NOTHING);
      context.drop();
    }, fail);
  } catch (error) {
    fail(error);
  }
}

/** The alarm of a Durable Object. @param {number} call @param {any} given */
function alarm(call, given) {
  const run = () => {
    if (objects === null) throw new Error('This Worker has no Durable Objects.');
    promiseThen(objects.alarm(given), () => natives.return(call, NOTHING), (error) => throwTo(call, error));
  };
  if (worker.ready === null) run();
  else promiseThen(worker.ready, run);
}

/** An HTTP request from outside. @param {number} call @param {string} method @param {string} url @param {string} headers @param {any} body @param {boolean} upgrade it asks for a WebSocket */
function serve(call, method, url, headers, body, upgrade) {
  const context = new RequestContext();
  const request = requestFromWire(method, url, headers, body, {});
  beginTrace(context, 'default', 'fetch', []);
  serving.set(call, { request, context });
  const end = () => {
    context.owed.delete(failed);
    context.drop();
  };
  let over = false;
  const failed = (/** @type {any} */ error) => {
    if (over) return;
    over = true;
    serving.delete(call);
    context.enter();
    context.failure(error);
    throwTo(call, error);
    end();
  };
  const done = (/** @type {any} */ response) => {
    if (over) return;
    context.enter();
    try {
      // Of a 101, this is called when the connection is over: it belongs to the request.
      respond(call, response, upgrade, (gone) => {
        serving.delete(call);
        if (gone === true) {
          context.enter();
          abortRequest(request);
        }
        end();
      });
      over = true;
    } catch (error) {
      failed(error);
    }
  };
  context.owed.add(failed);
  try {
    handleFetch(receiverOf('default', {}, context), request, done, failed);
  } catch (error) {
    failed(error);
  }
}

/** @type {any} */
const dispatch = {
  __proto__: null,
  ...routes,
  start() {
    web.start();
  },
  /** @param {number} times */
  warmUp(times) {
    if (times > 0) rehearse(dispatch, times);
    else endRehearsal(dispatch);
  },
  /** @param {number} call @param {string} method @param {ArrayBuffer} args */
  call(call, method, args) {
    try {
      const given = decodePlain(args);
      switch (method) {
        case 'init': init(call, given); return;
        case 'scheduled': scheduled(call, given); return;
        case 'alarm': alarm(call, given); return;
        case 'endIdle':
          endIdle();
          natives.return(call, NOTHING);
          return;
        case 'channel':
          openSession(given, new BootstrapTarget(null));
          natives.return(call, NOTHING);
          return;
        default: throw new Error(`The worker has no method "${method}".`);
      }
    } catch (error) {
      throwTo(call, error);
    }
  },
  /** @param {number} call @param {string} method @param {string} url @param {string} headers @param {any} body @param {boolean} ws @param {string} peer */
  fetch(call, method, url, headers, body, ws, peer) {
    void peer;
    if (worker.ready === null) serve(call, method, url, headers, body, ws);
    else promiseThen(worker.ready, () => serve(call, method, url, headers, body, ws));
  },
  /** @param {number} call */
  cancelled(call) {
    const one = serving.get(call);
    if (one === undefined) return;
    serving.delete(call);
    one.context.enter();
    abortRequest(one.request);
  },
  /** @param {any} promise @param {any} reason */
  unhandledRejection(promise, reason) {
    web.unhandledRejection(promise, reason);
  },
  requestKilled: killRequest,
};

// Nothing is stored when an entry begins: what is there is that of whatever ran last.
{
  const names = ObjectKeys(dispatch);
  for (let i = 0; i < names.length; i++) {
    const entry = dispatch[names[i]];
    dispatch[names[i]] = (/** @type {any} */ a, /** @type {any} */ b, /** @type {any} */ c, /** @type {any} */ d, /** @type {any} */ e, /** @type {any} */ f, /** @type {any} */ g) => {
      beginEntry();
      entry(a, b, c, d, e, f, g);
    };
  }
}
