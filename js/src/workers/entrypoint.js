/** Entrypoints: what `export default` and named exports are, how an event reaches them, and stubs of one's own entrypoints. */
import {
  ObjectGetPrototypeOf, ObjectKeys, ReflectApply, ReflectConstruct, TypeError, nullObject, promiseResolve, promiseThen,
} from '../primordials.js';
import { natives } from '../natives.js';
import { abortRequest, isRequest } from '../web/request.js';
import { isResponse } from '../web/response.js';
import { RequestContext } from '../rpc/context.js';
import { invoke } from '../rpc/local.js';
import { ReadableTarget } from '../rpc/streams.js';
import { StubHandle } from '../rpc/stub.js';
import { CONNECT, FETCH, Result, SERVICE, Target, errorPayload, later, newPayload, releasePayload } from '../rpc/target.js';
import { decodeArguments, decodeValue, encodeResult, encodeValue } from '../rpc/values.js';
import { makeExecutionContext, worker } from './ctx.js';
import { beginTrace, traceRequest, traceResponse } from './events.js';
import { acceptSocket } from './socket.js';
import { takeConnect } from './socket_rpc.js';

export class WorkerEntrypoint {
  /** @param {any} ctx @param {any} env */
  constructor(ctx, env) {
    this.ctx = ctx;
    this.env = env;
  }
}

export class DurableObject {
  /** @param {any} ctx @param {any} env */
  constructor(ctx, env) {
    this.ctx = ctx;
    this.env = env;
  }
}

/** @param {any} value @param {any} base @returns {boolean} a class that extends `base` */
export function extendsClass(value, base) {
  if (typeof value !== 'function') return false;
  for (let at = value.prototype, steps = 0; at !== null && at !== undefined && steps < 256; steps++) {
    if (at === base.prototype) return true;
    at = ObjectGetPrototypeOf(at);
  }
  return false;
}

/**
 * The object that an event is for, made anew for each.
 * @param {string} name @param {any} props @param {RequestContext} context @returns {import('../rpc/local.js').Receiver}
 */
export function receiverOf(name, props, context) {
  if (worker.failed !== null) throw worker.failed;
  const found = name in worker.exports ? worker.exports[name] : undefined;
  const ctx = makeExecutionContext(context, props);
  if (extendsClass(found, WorkerEntrypoint)) {
    return { object: ReflectConstruct(found, [ctx, worker.env]), own: false, entrypoint: true, extra: null };
  }
  if (typeof found === 'function') {
    throw new TypeError(`The export "${name}" of the Worker is no entrypoint: its class does not extend WorkerEntrypoint.`);
  }
  if (typeof found !== 'object' || found === null) {
    throw new TypeError(`The Worker has no entrypoint "${name}"${name === 'default' ? ': its main module exports no default' : ''}.`);
  }
  return { object: found, own: true, entrypoint: true, extra: { env: worker.env, ctx } };
}

/**
 * Has a request answered. Exactly one of the functions is called.
 * @param {import('../rpc/local.js').Receiver} receiver @param {any} request @param {(response: any) => void} done @param {(error: any) => void} failed
 */
export function handleFetch(receiver, request, done, failed) {
  const { object, extra } = receiver;
  try {
    const handler = object.fetch;
    if (typeof handler !== 'function') throw new TypeError('Handler does not export a fetch() function.');
    const returned = ReflectApply(handler, object, extra === null ? [request] : [request, extra.env, extra.ctx]);
    if (isResponse(returned)) {
      done(returned);
      return;
    }
    promiseThen(promiseResolve(returned), (response) => {
      if (isResponse(response)) done(response);
      else failed(new TypeError("Incorrect type for Promise: the Promise did not resolve to 'Response'."));
    }, failed);
  } catch (error) {
    failed(error);
  }
}

/**
 * Answers a call of op FETCH: the payload's Request goes to the receiver's fetch(), the Response is the result. Never throws.
 * @param {import('../rpc/local.js').Receiver} receiver @param {import('../rpc/target.js').Payload|null} payload passed on @param {Result} result
 * @param {RequestContext} context held until it is answered
 */
export function invokeFetch(receiver, payload, result, context) {
  context.hold();
  let over = false;
  /** @type {any} */
  let parameters = null;
  const end = () => {
    over = true;
    context.owed.delete(failed);
    context.drop();
  };
  const failed = (/** @type {any} */ error) => {
    if (over) return;
    context.enter();
    if (receiver.entrypoint) context.failure(error);
    result.onFinish = null;
    result.fail(errorPayload(error));
    end();
  };
  const done = (/** @type {any} */ response) => {
    if (over) return;
    context.enter();
    try {
      traceResponse(context, response);
      const encoded = encodeResult(response, context);
      // Who takes the answer finishes the call, which is no abort; to leave its body is one.
      result.onFinish = null;
      abortWith(encoded.payload, () => {
        context.enter();
        abortRequest(parameters.values[0]);
      });
      result.settle(encoded.payload, encoded.pipeline, false);
      end();
    } catch (error) {
      failed(error);
    }
  };
  context.owed.add(failed);
  try {
    if (payload === null) throw new TypeError('A request was expected.');
    parameters = decodeArguments(payload);
    const request = parameters.values[0];
    if (parameters.values.length !== 1 || !isRequest(request)) throw new TypeError('A request was expected.');
    traceRequest(context, request);
    // Who finishes a call that is not answered yet wants no answer: the client is gone.
    result.eager = true;
    result.onFinish = () => {
      if (over) return;
      context.enter();
      abortRequest(request);
    };
    handleFetch(receiver, request, done, failed);
  } catch (error) {
    parameters?.dispose();
    failed(error);
  }
}

/**
 * Answers a call of op CONNECT: the receiver's connect() gets the socket, which is closed when it is done. Never throws.
 * @param {import('../rpc/local.js').Receiver} receiver @param {import('../rpc/target.js').Payload|null} payload passed on @param {Result} result
 * @param {RequestContext} context held until the handler is done
 */
function invokeConnect(receiver, payload, result, context) {
  context.hold();
  const { object, extra } = receiver;
  let accepted = null, answered = false, over = false;
  const end = () => {
    over = true;
    context.owed.delete(failed);
    context.drop();
  };
  const failed = (/** @type {any} */ error) => {
    if (over) return;
    context.enter();
    context.failure(error);
    accepted?.fail(error);
    if (!answered) result.fail(errorPayload(error));
    end();
  };
  context.owed.add(failed);
  try {
    const given = takeConnect(payload);
    const handler = object.connect;
    if (typeof handler !== 'function') throw new TypeError('Handler does not export a connect() function.');
    accepted = acceptSocket(given.address, given.readable, given.writable);
    const { socket, close } = accepted;
    const returned = ReflectApply(handler, object, extra === null ? [socket] : [socket, extra.env, extra.ctx]);
    answered = true;
    result.settle(newPayload(null), new Target(), false);
    promiseThen(promiseResolve(returned), () => {
      if (over) return;
      context.enter();
      promiseThen(close(), end, end);
    }, failed);
  } catch (error) {
    failed(error);
  }
}

/** @param {import('../rpc/target.js').Payload} answer @param {() => void} abort the receiver leaves its body unread */
function abortWith(answer, abort) {
  const { capabilities } = answer;
  for (let i = 0; i < capabilities.length; i++) {
    const { target } = capabilities[i];
    if (target instanceof ReadableTarget) target.onCancel = abort;
  }
}

/** One entrypoint of this worker with its props. Every call is an event of its own. */
export class EntrypointTarget extends Target {
  /** @param {string} name @param {any} props @param {{cpuMs?: number, subRequests?: number, wallMs?: number}|null} [limits] */
  constructor(name, props, limits = null) {
    super();
    this.name = name;
    this.props = props;
    this.limits = limits;
  }

  /** @param {string[]} path @param {number} op @param {import('../rpc/target.js').Payload|null} payload */
  call(path, op, payload) {
    const result = new Result();
    const start = () => {
      const before = natives.requestCurrent();
      const context = new RequestContext(this.limits);
      beginTrace(context, this.name, op === FETCH ? 'fetch' : op === CONNECT ? 'connect' : 'rpc', path);
      try {
        const receiver = receiverOf(this.name, this.props, context);
        if (op === FETCH) invokeFetch(receiver, payload, result, context);
        else if (op === CONNECT) invokeConnect(receiver, payload, result, context);
        else invoke(receiver, path, op, payload, result, context);
      } catch (error) {
        releasePayload(payload);
        context.failure(error);
        result.fail(errorPayload(error));
      }
      context.drop();
      // Who called from within a request goes on in that one; else what this one left to microtasks belongs to it.
      if (before !== 0) natives.requestEnter(before);
    };
    if (worker.ready === null) later(start);
    else promiseThen(worker.ready, start, start);
    return result;
  }
}

// --- ctx.exports

/** @param {any[]} list the arguments of `ctx.exports.Name(options)` @param {string} name */
function specialize(list, name) {
  const options = list[0];
  if (options !== undefined && (typeof options !== 'object' || options === null)) throw new TypeError('ctx.exports: options with "props" are expected.');
  const props = options === undefined || options.props === undefined ? {} : decodeValue(encodeValue(options.props));
  return new StubHandle(new EntrypointTarget(name, props), SERVICE).proxy;
}

/** A stub of an entrypoint of this worker that can be called with `{props}`. @param {string} name @returns {any} */
export function loopbackStub(name) {
  return new StubHandle(new EntrypointTarget(name, {}), SERVICE, {
    persistent: true, apply: (list) => specialize(list, name),
  }).proxy;
}

/**
 * `ctx.exports` for a main module that has run. @param {any} namespace @param {(name: string, value: any) => any} objectNamespace what stands for an
 * export that is a Durable Object class; undefined: nothing does
 */
export function makeLoopback(namespace, objectNamespace) {
  const all = nullObject();
  const names = ObjectKeys(namespace);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    const value = namespace[name];
    if (extendsClass(value, WorkerEntrypoint) || (typeof value === 'object' && value !== null)) all[name] = loopbackStub(name);
    else if (typeof value === 'function') {
      const given = objectNamespace(name, value);
      if (given !== undefined) all[name] = given;
    }
  }
  return all;
}

