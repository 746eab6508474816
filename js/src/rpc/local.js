/**
 * Objects of this worker as call targets: which members a caller may reach, how a method is invoked, what becomes of arguments and
 * result. The caller is UNTRUSTED INPUT: paths and values are its own choice.
 */
import {
  Object, ObjectGetPrototypeOf, ObjectHasOwn, ReflectApply, SafeSet, TypeError, promiseResolve, promiseThen,
} from '../primordials.js';
import { natives } from '../natives.js';
import { currentContext, reportUncaught } from './context.js';
import { CALL, GET, Result, Target, errorPayload, forwardResult, isArriving, later, releasePayload } from './target.js';
import { decodeArguments, encodeResult, isRpcTarget } from './values.js';
import { disposeSymbol, handleOf, isStub, stubTargetOf } from './stub.js';

const ObjectPrototype = Object.prototype;

/** @param {string[]} names */
function nameSet(names) {
  const set = new SafeSet();
  for (let i = 0; i < names.length; i++) set.add(names[i]);
  return set;
}
const RESERVED_OF_TARGETS = nameSet(['dup', 'constructor']);
const OF_FUNCTIONS = nameSet(['prototype', 'arguments', 'caller']);
const RESERVED_OF_ENTRYPOINTS = nameSet(['fetch', 'connect', 'alarm', 'webSocketMessage', 'webSocketClose', 'webSocketError', 'dup', 'constructor']);

/**
 * What a call is made on.
 * @typedef {object} Receiver
 * @property {any} object
 * @property {boolean} own its own properties can be reached, and nothing inherited (plain objects, functions); else only what its class has
 * @property {boolean} entrypoint more names are reserved
 * @property {{env: any, ctx: any}|null} extra arguments for handlers that are plain functions
 */

/** @param {string} name @returns {never} */
function notImplemented(name) {
  throw new TypeError(`The RPC receiver does not implement the method "${name}".`);
}

/** @param {any} object @param {string} name @param {boolean} own @param {boolean} entrypoint */
function member(object, name, own, entrypoint) {
  if ((entrypoint ? RESERVED_OF_ENTRYPOINTS : RESERVED_OF_TARGETS).has(name)) {
    throw new TypeError(`'${name}' is a reserved method and cannot be called over RPC.`);
  }
  if (name === '__proto__') notImplemented(name);
  if (own) {
    // A function's own names are told apart from what every function has.
    if (!ObjectHasOwn(object, name) || (typeof object === 'function' && OF_FUNCTIONS.has(name))) notImplemented(name);
    return object[name];
  }
  const stub = stubTargetOf(object) !== null;
  if (!stub && ObjectHasOwn(object, name)) notImplemented(name);
  const value = object[name];
  if (value === /** @type {any} */ (ObjectPrototype)[name]) notImplemented(name);
  return value;
}

/** @param {Receiver} receiver @param {string[]} path */
function resolve(receiver, path) {
  let { object, own } = receiver;
  const { entrypoint } = receiver;
  const count = path.length;
  if (count === 0) return { value: object, self: undefined };
  for (let i = 0; i < count - 1; i++) {
    const name = path[i];
    const next = member(object, name, own, entrypoint && i === 0);
    if ((typeof next !== 'object' || next === null) && typeof next !== 'function') notImplemented(name);
    // What another call will give is part of a stub, but not of an object.
    if (handleOf(next) !== null && !isStub(next) && stubTargetOf(object) === null) notImplemented(name);
    object = next;
    if (stubTargetOf(object) !== null) own = false;
    else if (ObjectGetPrototypeOf(object) === ObjectPrototype) own = true;
    else if (isRpcTarget(object)) own = false;
    else if (typeof object === 'function') own = true;
    else notImplemented(name);
  }
  return { value: member(object, path[count - 1], own, entrypoint && count === 1), self: object };
}

/**
 * Does what the caller asks and settles the result. Never throws.
 * @param {Receiver} receiver @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload passed on
 * @param {Result} result @param {import('./context.js').RequestContext|null} context held until it is done
 */
export function invoke(receiver, path, op, payload, result, context) {
  if (context !== null) context.hold();
  let settled = false;
  /** @type {any} */
  let parameters = null;
  const finish = () => {
    settled = true;
    if (parameters !== null) parameters.dispose();
    if (context !== null) {
      context.owed.delete(fail);
      context.drop();
    }
  };
  const fail = (/** @type {any} */ error) => {
    if (settled) return;
    context?.enter();
    if (receiver.entrypoint) context?.failure(error);
    result.fail(errorPayload(error));
    finish();
  };
  const done = (/** @type {any} */ value) => {
    if (settled) return;
    context?.enter();
    settleWith(value, result, context, fail);
    if (!settled) finish();
  };
  if (context !== null) context.owed.add(fail);
  try {
    const { value, self } = resolve(receiver, path);
    let returned = value;
    if (op === CALL) {
      if (typeof value !== 'function') throw new TypeError(`"${path.length === 0 ? '(this)' : joinPath(path)}" is not a function.`);
      parameters = decodeArguments(/** @type {any} */ (payload));
      payload = null;
      let list = parameters.values;
      if (receiver.extra !== null && path.length === 1) list = withExtra(value, path[0], list, receiver.extra);
      returned = ReflectApply(value, self, list);
    } else if (op !== GET) {
      throw new TypeError('The receiver does not support this kind of call.');
    }
    releasePayload(payload);
    payload = null;
    if ((typeof returned !== 'object' || returned === null) && typeof returned !== 'function') done(returned);
    else promiseThen(promiseResolve(returned), done, fail);
  } catch (error) {
    releasePayload(payload);
    fail(error);
  }
}

/** @param {string[]} path */
function joinPath(path) {
  let text = path[0];
  for (let i = 1; i < path.length; i++) text += `.${path[i]}`;
  return text;
}

/**
 * A handler that is a plain function gets (argument, env, ctx).
 * @param {any} handler @param {string} name @param {any[]} list @param {{env: any, ctx: any}} extra
 */
function withExtra(handler, name, list, extra) {
  let arity = +handler.length;
  if (!(arity >= 0 && arity < 256)) throw new TypeError(`RPC function has unreasonable length attribute: ${arity}`);
  if (arity < 3) arity = 3;
  if (arity !== 3) {
    throw new TypeError(`Cannot call handler function "${name}" over RPC because it has the wrong number of arguments. A simple function handler can only be called over RPC if it has exactly the arguments (arg, env, ctx), where only the first argument comes from the client. To support multi-argument RPC functions, use class-based syntax (extending WorkerEntrypoint) instead.`);
  }
  if (list.length !== 1) {
    throw new TypeError(`Attempted to call RPC function "${name}" with the wrong number of arguments. When calling a top-level handler function that is not declared as part of a class, you must always send exactly one argument. In order to support variable numbers of arguments, the server must use class-based syntax (extending WorkerEntrypoint) instead.`);
  }
  return [list[0], extra.env, extra.ctx];
}

/** @param {any} value @param {Result} result @param {import('./context.js').RequestContext|null} context @param {(error: any) => void} fail */
function settleWith(value, result, context, fail) {
  let encoded;
  try {
    encoded = encodeResult(value, context);
  } catch (error) {
    fail(error);
    return;
  }
  const { payload, pipeline, hasDisposer } = encoded;
  if (context !== null) {
    // Calls may be made on the result until the caller has said that none will.
    context.hold();
    result.onFinish = () => context.drop();
  }
  result.settle(payload, pipeline, hasDisposer);
}

/** A function, an RpcTarget, or a plain object that is the result of a call. */
export class LocalTarget extends Target {
  /**
   * @param {any} object @param {boolean} own see Receiver
   * @param {import('./context.js').RequestContext|null} [context] that it belongs to; whoever refers to it from elsewhere holds the context
   * @param {(() => void)|null} [disposer] runs after the last reference; absent: the object's own
   */
  constructor(object, own, context = currentContext(), disposer = undefined) {
    super();
    this.receiver = /** @type {Receiver} */ ({ object, own, entrypoint: false, extra: null });
    this.context = context;
    this.disposer = disposer;
    if (disposer === undefined) {
      const own = object[disposeSymbol];
      this.disposer = typeof own === 'function' ? () => ReflectApply(own, object, []) : null;
    }
  }

  /** @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload */
  call(path, op, payload) {
    const result = new Result();
    // Between the call and its delivery, the caller may let go of its stub.
    this.retain();
    const { context } = this;
    context?.hold();
    const gate = context?.keeper ?? null;
    // What a Durable Object does to what is its own is a part of the event that it is in.
    const within = gate === null || (!isArriving() && currentContext()?.keeper === gate);
    later(() => {
      if (!within) {
        this.deliver(/** @type {any} */ (gate), path, op, payload, result);
        return;
      }
      const before = natives.requestCurrent();
      this.run(path, op, payload, result);
      // Who called from within a request goes on in that one; else what it left to microtasks belongs to it.
      if (before !== 0) natives.requestEnter(before);
      this.release();
      context?.drop();
    });
    return result;
  }

  /** @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload @param {Result} result */
  run(path, op, payload, result) {
    const { context } = this;
    if (context !== null && context.ended) {
      releasePayload(payload);
      result.fail(errorPayload(context.killed ?? new TypeError('The execution context which hosts this callback is no longer running.')));
    } else {
      context?.enter();
      invoke(this.receiver, path, op, payload, result, context);
    }
  }

  /**
   * An event of the Durable Object that handed this out: it begins when others may, and is answered when what was written is on disk.
   * @param {import('./context.js').Keeper} gate @param {string[]} path @param {number} op @param {import('./target.js').Payload|null} payload @param {Result} result
   */
  deliver(gate, path, op, payload, result) {
    const { context } = this;
    let begun = false;
    const event = /** @type {any} */ ({
      __proto__: null,
      context,
      start: () => {
        begun = true;
        const inner = new Result();
        inner.listen(() => gate.finish(event, () => forwardResult(inner, result)));
        this.run(path, op, payload, inner);
        this.release();
        context?.drop();
      },
      fail: (/** @type {any} */ error) => {
        result.fail(errorPayload(error));
        if (begun) return;
        begun = true;
        releasePayload(payload);
        this.release();
        context?.drop();
      },
    });
    gate.deliver(event);
  }

  lastReleased() {
    const { context, disposer } = this;
    if (typeof disposer !== 'function') return;
    later(() => {
      context?.enter();
      try {
        disposer();
      } catch (error) {
        reportUncaught(error, context);
      }
    });
  }
}
