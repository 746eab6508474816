/**
 * What guest code sees of remote objects: stubs, service stubs, promises of results, and their properties. Each is a Proxy whose handler
 * is a Handle; a private field on the Proxy says which. Property access makes paths and asks nobody; calling, or awaiting, makes a call.
 */
import {
  Error, Object, ObjectKeys, ObjectSetPrototypeOf, Proxy, ReflectDeleteProperty, ReflectGet, Symbol, TypeError, define, nullObject,
  promiseReject, promiseResolve, promiseThen, promiseWithResolvers, PromisePrototypeFinally, PromisePrototypeThen,
  SymbolFor, SymbolToStringTag,
} from '../primordials.js';
import { markUncloneable } from './codec.js';
import { bindReaction } from '../node/async_context.js';
import { currentContext } from './context.js';
import { rawList } from './cbor.js';
import { CALL, GET, SERVICE, STUB, failedResult, holdHome } from './target.js';
import { decodeFailure, decodeResult, encodeArguments, localStubTarget } from './values.js';

/** Symbol.dispose, which the engine may lack; main.js gives it to the guest then. @type {symbol} */
export const disposeSymbol = /** @type {any} */ (Symbol).dispose ?? SymbolFor('Symbol.dispose');
export const asyncDisposeSymbol = /** @type {any} */ (Symbol).asyncDispose ?? SymbolFor('Symbol.asyncDispose');

const MAX_PROPERTY_DEPTH = 64;

/** Returns its argument from `super()`, so that a private field lands on it. */
const Carrier = /** @type {any} */ (function (/** @type {any} */ object) { return object; });
class Brand extends Carrier {
  #handle;
  /** @param {any} object @param {Handle} handle */
  constructor(object, handle) {
    super(object);
    this.#handle = handle;
  }
  /** @param {any} object @returns {Handle|null} */
  static handleOf(object) {
    return #handle in object ? object.#handle : null;
  }
}

/** @param {any} value @returns {Handle|null} */
export const handleOf = (value) => ((typeof value === 'object' && value !== null) || typeof value === 'function' ? Brand.handleOf(value) : null);

/** The target of a stub or service stub; null for anything else. @param {any} value */
export function stubTargetOf(value) {
  const handle = handleOf(value);
  return handle === null || !(handle instanceof StubHandle || handle instanceof PropertyHandle) ? null : handle;
}

/** @param {any} value */
export const isStub = (value) => handleOf(value) instanceof StubHandle;

// What the Proxies stand on: never seen, so one of each is enough.
const callable = () => {};
ReflectDeleteProperty(callable, 'name');
ReflectDeleteProperty(callable, 'length');
const uncallable = {};

/** A Proxy's handler: its class's chain ends at null, so that no trap can be planted in Object.prototype. */
class Handle {
  /** @param {object} prototype what the Proxy seems to inherit from @param {any} on */
  constructor(prototype, on) {
    this.prototype = prototype;
    this.proxy = new Proxy(on, /** @type {any} */ (this));
    new Brand(this.proxy, this);
  }
  getPrototypeOf() { return this.prototype; }
  setPrototypeOf() { return false; }
  preventExtensions() { return false; }
  defineProperty() { return false; }
  deleteProperty() { return true; }
  set() { return false; }
  /** @param {any} target @param {PropertyKey} key */
  has(target, key) { return key in this.prototype; }
  /** @param {any} target @param {PropertyKey} key @param {any} receiver @returns {any} */
  get(target, key, receiver) {
    if (typeof key === 'symbol' || key in this.prototype) return ReflectGet(this.prototype, key, receiver);
    return this.property(/** @type {string} */ (key));
  }
  /** @param {string} name */
  property(name) { return new PropertyHandle(this, name, 1).proxy; }
  /** @param {any} target @param {any} self @param {any[]} list */
  apply(target, self, list) { return startCall(this, rawList(), CALL, list); }
  construct() { throw new TypeError('RPC stubs are no constructors.'); }
  /** @returns {import('./target.js').Target} borrowed; throws when it is gone */
  targetForCall() { throw new TypeError('Illegal invocation'); }
  dispose() {}
}
ObjectSetPrototypeOf(Handle.prototype, null);

/** A stub or a service stub: owns a reference. */
export class StubHandle extends Handle {
  /**
   * @param {import('./target.js').Target} target owned
   * @param {number} kind STUB or SERVICE
   * @param {{prototype?: object, extras?: any, persistent?: boolean, apply?: (list: any[]) => any, callable?: boolean}} [options] persistent: belongs to no
   *   request and is never disposed; extras: own values that seem to be properties; apply: what calling it does
   */
  constructor(target, kind, options = nullObject()) {
    super(options.prototype ?? (kind === SERVICE ? ServiceStub.prototype : RpcStub.prototype), kind === SERVICE && options.apply === undefined ? uncallable : callable);
    this.kind = kind;
    /** @type {import('./target.js').Target|null} */
    this.target = target;
    this.extras = options.extras ?? null;
    this.onApply = options.apply ?? null;
    this.persistent = options.persistent === true;
    this.context = this.persistent ? null : currentContext();
    this.context?.disposables.add(this);
    /** The context that its target lives in, held when it is another one. */
    this.held = holdHome(target, this.context);
  }

  /** @param {any} target @param {PropertyKey} key @param {any} receiver @returns {any} */
  get(target, key, receiver) {
    if (typeof key === 'symbol') return ReflectGet(this.prototype, key, receiver);
    if (this.extras !== null && key in this.extras) return this.extras[key];
    // No `then`: a promise of this stub would take it for a promise.
    if (key === 'then') return undefined;
    if (key in this.prototype) return ReflectGet(this.prototype, key, receiver);
    return new PropertyHandle(this, /** @type {string} */ (key), 1).proxy;
  }

  /** @param {any} target @param {PropertyKey} key */
  has(target, key) { return key in this.prototype || (this.extras !== null && key in this.extras); }

  // With extras: they are its own properties, and the program may add some.
  ownKeys() { return this.extras === null ? [] : ObjectKeys(this.extras); }
  /** @param {any} target @param {PropertyKey} key */
  getOwnPropertyDescriptor(target, key) {
    if (this.extras === null || !(key in this.extras)) return undefined;
    return /** @type {any} */ ({ __proto__: null, value: this.extras[key], writable: true, enumerable: true, configurable: true });
  }
  /** @param {any} target @param {PropertyKey} key @param {any} value */
  set(target, key, value) {
    if (this.extras === null || typeof key === 'symbol') return false;
    this.extras[key] = value;
    return true;
  }

  /** @param {any} target @param {any} self @param {any[]} list */
  apply(target, self, list) {
    return this.onApply !== null ? this.onApply(list) : startCall(this, rawList(), CALL, list);
  }

  targetForCall() {
    if (this.target === null) throw new Error('RPC stub used after being disposed.');
    return this.target;
  }

  /** @returns {StubHandle} */
  dup() {
    return new StubHandle(this.targetForCall().retain(), this.kind, this.kind === SERVICE ? /** @type {any} */ ({ __proto__: null, prototype: this.prototype, extras: this.extras }) : undefined);
  }

  dispose() {
    if (this.target === null || this.persistent) return;
    const { target, held } = this;
    this.target = null;
    this.context?.disposables.delete(this);
    target.release();
    held?.drop();
  }
}

class PropertyHandle extends Handle {
  /** @param {Handle} parent @param {string} name @param {number} depth */
  constructor(parent, name, depth) {
    super(RpcProperty.prototype, callable);
    this.parent = parent;
    this.name = name;
    this.depth = depth;
  }

  /** @param {string} name */
  property(name) {
    if (this.depth >= MAX_PROPERTY_DEPTH) throw new TypeError(`RPC pipelined property path is too deep (max ${MAX_PROPERTY_DEPTH}).`);
    return new PropertyHandle(this, name, this.depth + 1).proxy;
  }

  /** The root, with the names on the way to here added. @param {string[]} path @returns {Handle} */
  root(path) {
    const names = rawList();
    /** @type {Handle} */
    let at = this;
    while (at instanceof PropertyHandle) {
      names[names.length] = at.name;
      at = at.parent;
    }
    for (let i = names.length - 1; i >= 0; i--) path[path.length] = names[i];
    return at;
  }

  /** @param {any} target @param {any} self @param {any[]} list */
  apply(target, self, list) {
    const path = rawList();
    return startCall(this.root(path), path, CALL, list);
  }

  /** @returns {Promise<any>} */
  fetchValue() {
    const path = rawList();
    return new PromiseHandle(resultOf(this.root(path), path, GET, null)).promise();
  }
}

/** The promise of a call's result, on which calls can be made at once. */
class PromiseHandle extends Handle {
  /** @param {import('./target.js').Result} result owned */
  constructor(result) {
    super(RpcPromise.prototype, callable);
    this.context = currentContext();
    /** @type {import('./target.js').Result|null} */
    this.result = result;
    /** 0 pending, 1 a value, 2 an error, 3 disposed after it had a value */
    this.state = 0;
    this.value = undefined;
    /** @type {ReturnType<typeof promiseWithResolvers>|null} */
    this.waiting = null;
    this.disposed = false;
    this.context?.disposables.add(this);
    result.listen((settled) => this.settle(settled));
  }

  /** @param {import('./target.js').Result} result */
  settle(result) {
    const { context } = this;
    context?.disposables.delete(this);
    context?.enter();
    if (result.state === 2) {
      this.state = 2;
      this.value = decodeFailure(result.take());
      if (result.objectId !== '' && typeof this.value === 'object' && this.value !== null) define(this.value, 'durableObjectId', result.objectId);
      result.finish();
    } else {
      try {
        this.value = decodeResult(result);
        this.state = 1;
      } catch (error) {
        this.state = 2;
        this.value = error;
        result.finish();
      }
    }
    this.result = null;
    if (this.disposed && this.state === 1) disposeValue(this.value);
    if (this.waiting !== null) {
      if (this.state === 1) this.waiting.resolve(this.value);
      else this.waiting.reject(this.value);
    }
  }

  /** @returns {Promise<any>} */
  promise() {
    if (this.waiting === null) {
      this.waiting = promiseWithResolvers();
      if (this.state === 1) this.waiting.resolve(this.value);
      else if (this.state === 2) this.waiting.reject(this.value);
    }
    return this.waiting.promise;
  }

  targetForCall() {
    if (this.disposed) throw new Error('RPC promise used after being disposed.');
    if (this.result !== null) return this.result.pipeline;
    if (this.state === 2) throw this.value;
    const { value } = this;
    const handle = handleOf(value);
    if (handle instanceof StubHandle) return handle.targetForCall();
    if (typeof value !== 'object' || value === null) throw new TypeError("Can't pipeline on RPC that did not return an object.");
    // The value is here, but calls on it shall behave as calls do.
    return localStubTarget(value, true, null);
  }

  dispose() {
    if (this.disposed) return;
    this.disposed = true;
    const { result } = this;
    if (result !== null) {
      this.context?.disposables.delete(this);
      if (this.waiting === null) {
        // Nobody will be told any more, so whoever still asks must be.
        this.result = null;
        this.state = 2;
        this.value = new Error(this.context?.ended ? 'The request that made this RPC call has ended, and the call with it.' : 'RPC promise used after being disposed.');
        result.finish();
      }
    } else if (this.state === 1) {
      disposeValue(this.value);
    }
  }
}

/** @param {any} value */
function disposeValue(value) {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return;
  const dispose = value[disposeSymbol];
  if (typeof dispose === 'function') promiseThen(promiseResolve(), () => dispose.call(value));
}

/**
 * Never throws: errors become the result's.
 * @param {Handle} root @param {string[]} path @param {number} op @param {any[]|null} list
 */
function resultOf(root, path, op, list) {
  try {
    const target = root.targetForCall();
    return target.call(path, op, list === null ? null : encodeArguments(list));
  } catch (error) {
    return failedResult(error);
  }
}

/** @param {Handle} root @param {string[]} path @param {number} op @param {any[]|null} list @returns {any} an RpcPromise */
function startCall(root, path, op, list) {
  return new PromiseHandle(resultOf(root, path, op, list)).proxy;
}

/**
 * Makes a call without guest code: for the library's own use of stubs.
 * @param {import('./target.js').Target} target @param {string[]} path @param {number} op @param {any[]|null} list @returns {Promise<any>}
 */
export function callTarget(target, path, op, list) {
  let result;
  try {
    result = target.call(path, op, list === null ? null : encodeArguments(list));
  } catch (error) {
    return promiseReject(error);
  }
  return new PromiseHandle(result).promise();
}

// --- the classes

/** @param {any} value @param {any} kind @returns {any} */
function demand(value, kind) {
  const handle = handleOf(value);
  if (!(handle instanceof kind)) throw new TypeError('Illegal invocation');
  return handle;
}

export class RpcTarget {}

export class RpcStub {
  /** @param {any} object a function, an RpcTarget or a plain object */
  constructor(object) {
    if ((typeof object !== 'object' || object === null) && typeof object !== 'function') throw new TypeError('RpcStubs can only wrap plain objects, functions, and RpcTarget derivatives.');
    const target = localStubTarget(object, null, undefined);
    if (target === null) throw new TypeError('RpcStubs can only wrap plain objects, functions, and RpcTarget derivatives.');
    return new StubHandle(target, STUB).proxy;
  }
  dup() { return demand(this, StubHandle).dup().proxy; }
  /** Calls it once when the object cannot be reached any more. @param {(reason: any) => void} callback */
  onRpcBroken(callback) {
    if (typeof callback !== 'function') throw new TypeError('onRpcBroken() takes a function.');
    const handle = demand(this, StubHandle);
    const { context } = handle;
    handle.targetForCall().onBroken((/** @type {any} */ reason) => {
      context?.enter();
      promiseThen(promiseResolve(reason), callback);
    });
  }
}

export class RpcPromise {
  constructor() { throw new TypeError('Illegal constructor'); }
  /** @param {any} done @param {any} failed */
  then(done, failed) { return PromisePrototypeThen(demand(this, PromiseHandle).promise(), bindReaction(done), bindReaction(failed)); }
  /** @param {any} failed */
  catch(failed) { return PromisePrototypeThen(demand(this, PromiseHandle).promise(), undefined, bindReaction(failed)); }
  /** @param {any} last */
  finally(last) { return PromisePrototypeFinally(demand(this, PromiseHandle).promise(), last); }
}

export class RpcProperty {
  constructor() { throw new TypeError('Illegal constructor'); }
  /** @param {any} done @param {any} failed */
  then(done, failed) { return PromisePrototypeThen(demand(this, PropertyHandle).fetchValue(), bindReaction(done), bindReaction(failed)); }
  /** @param {any} failed */
  catch(failed) { return PromisePrototypeThen(demand(this, PropertyHandle).fetchValue(), undefined, bindReaction(failed)); }
  /** @param {any} last */
  finally(last) { return PromisePrototypeFinally(demand(this, PropertyHandle).fetchValue(), last); }
}

/** How `fetch()` of a service makes a Request of its arguments, and a Response of the answer; http.js sets it. @type {(target: any, input: any, init: any) => Promise<any>} */
let fetchThrough = () => promiseReject(new Error('fetch() is not there yet.'));
/** @param {typeof fetchThrough} how */
export function setServiceFetch(how) {
  fetchThrough = how;
}

/** The same for `connect()`, with a Socket; workers/socket.js sets it. @type {(target: any, address: any, options: any) => any} */
let connectThrough = () => { throw new Error('connect() is not there yet.'); };
/** @param {typeof connectThrough} how */
export function setServiceConnect(how) {
  connectThrough = how;
}

export class ServiceStub {
  constructor() { throw new TypeError('Illegal constructor'); }
  /** @param {any} input @param {any} [init] @returns {Promise<any>} */
  fetch(input, init) {
    try {
      return fetchThrough(demand(this, StubHandle).targetForCall(), input, init);
    } catch (error) {
      return promiseReject(error);
    }
  }
  /** @param {any} address @param {any} [options] @returns {any} a Socket, whose other end is the service's connect() */
  connect(address, options) {
    return connectThrough(demand(this, StubHandle).targetForCall(), address, options);
  }
}

const named = [RpcTarget, RpcStub, RpcPromise, RpcProperty, ServiceStub];
for (let i = 0; i < named.length; i++) {
  const { prototype, name } = named[i];
  if (i > 0) {
    ObjectSetPrototypeOf(prototype, Object.prototype);
    define(prototype, SymbolToStringTag, name);
    if (name !== 'RpcProperty') {
      define(prototype, disposeSymbol, function () { /** @type {any} */ (handleOf(/** @type {any} */ (this)))?.dispose(); });
    }
  }
  markUncloneable(prototype, name);
}
