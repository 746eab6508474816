/** Between values and payloads: which values travel as capabilities, who owns stubs in arguments and results, and who disposes of them. */
import {
  ArrayIsArray, Error, Object, ObjectGetPrototypeOf, ReflectApply, ReflectDeleteProperty, define, nullObject,
} from '../primordials.js';
import { natives } from '../natives.js';
import { malformed, rawList } from './cbor.js';
import { Decoder, Encoder, className, dataCloneError } from './codec.js';
import { currentContext } from './context.js';
import { LocalTarget } from './local.js';
import { RpcTarget, StubHandle, disposeSymbol, handleOf } from './stub.js';
import { SERVICE, STUB, endCapability, newCapability, newPayload, releasePayload } from './target.js';

const ObjectPrototype = Object.prototype;
const MAX_MESSAGE = 32 << 20;

/** Set at `init` from compatibility date and flags. */
export const rules = /** @type {{duplicateParameters: boolean}} */ ({ __proto__: null, duplicateParameters: true });

/** @param {any} object @returns {boolean} RpcTarget is in its chain of prototypes, even if only a Proxy says so */
export function isRpcTarget(object) {
  for (let at = ObjectGetPrototypeOf(object), steps = 0; at !== null && steps < 256; steps++) {
    if (at === RpcTarget.prototype) return true;
    at = ObjectGetPrototypeOf(at);
  }
  return false;
}

/** @param {any} value @returns {boolean|null} whether own properties can be reached when it is a stub's object; null: it cannot be one */
function stubType(value) {
  const prototype = ObjectGetPrototypeOf(value);
  if (prototype === ObjectPrototype) return true;
  if (isRpcTarget(value)) return false;
  return typeof value === 'function' && handleOf(value) === null ? true : null;
}

/**
 * @param {any} value @param {boolean|null} own null: as its type says @param {(() => void)|null|undefined} disposer undefined: the object's own
 * @returns {LocalTarget|null}
 */
export function localStubTarget(value, own, disposer) {
  const type = own ?? stubType(value);
  return type === null ? null : new LocalTarget(value, type, currentContext(), disposer);
}

/** The capabilities of a payload while it is being encoded. */
class CapabilityList {
  /** @param {boolean} transfer stubs change hands (results) instead of being duplicated @param {import('./context.js').RequestContext|null} context */
  constructor(transfer, context) {
    /** @type {import('./target.js').Capability[]} */
    this.list = rawList();
    this.transfer = transfer;
    this.context = context;
    /** @type {StubHandle[]} stubs that changed hands, to be disposed of here */
    this.moved = rawList();
  }

  /** @param {number} kind @param {import('./target.js').Target} target owned @returns {number} */
  add(kind, target) {
    this.list[this.list.length] = newCapability(kind, target);
    return this.list.length - 1;
  }

  /** codec.js asks here first. @param {any} value @returns {number} */
  claim(value) {
    const handle = handleOf(value);
    if (handle !== null) {
      if (!(handle instanceof StubHandle)) throw dataCloneError(`Could not serialize object of type "${className(value)}". This type does not support serialization.`);
      const index = this.add(handle.kind, handle.targetForCall().retain());
      if (this.transfer && handle.kind === STUB) this.moved[this.moved.length] = handle;
      return index;
    }
    if (natives.isProxy !== undefined && natives.isProxy(value)) {
      const own = stubType(value);
      if (own === null) throw dataCloneError("Proxy could not be serialized because it is not a valid RPC receiver type. The Proxy must emulate either a plain object or an RpcTarget, as indicated by the Proxy's prototype chain.");
      return this.object(value, own, (replacement) => stubType(replacement) === own,
        'Proxy', 'the same underlying type (RpcTarget or Function) as the Proxy itself represents', 'an RpcTarget');
    }
    if (typeof value === 'function') {
      return this.object(value, true, (replacement) => typeof replacement === 'function' && handleOf(replacement) === null, 'function', 'another function', 'a function');
    }
    if (isRpcTarget(value)) {
      return this.object(value, false, isRpcTarget, 'RpcTarget', 'another RpcTarget', 'an RpcTarget');
    }
    return -1;
  }

  /**
   * An argument stays its owner's, so an object that knows how to duplicate itself is asked to.
   * @param {any} value @param {boolean} own @param {(replacement: any) => boolean} same @param {string} what @param {string} other @param {string} right
   */
  object(value, own, same, what, other, right) {
    if (!this.transfer && rules.duplicateParameters) {
      const { dup } = value;
      if (typeof dup === 'function') {
        const replacement = ReflectApply(dup, value, []);
        if (((typeof replacement !== 'object' || replacement === null) && typeof replacement !== 'function') || !same(replacement)) {
          throw dataCloneError(`Couldn't create a stub for the ${what} because it has a dup() method which did not return ${other}. Either remove the dup() method or make sure it returns ${right}.`);
        }
        value = replacement;
      }
    }
    return this.add(STUB, new LocalTarget(value, own, this.context));
  }

  abandon() {
    releasePayload(newPayload(null, this.list));
  }

  dispose() {
    for (let i = 0; i < this.moved.length; i++) this.moved[i].dispose();
  }
}

/** @param {any} value @param {CapabilityList} list @returns {import('./target.js').Payload} */
function encodeWith(value, list) {
  try {
    const encoder = new Encoder(/** @type {any} */ ({ __proto__: null, capabilities: list, errorProperties: true }));
    encoder.value(value);
    if (encoder.writer.at > MAX_MESSAGE) {
      throw new Error(`Serialized RPC arguments or return values are limited to 32MiB, but the size of this value was: ${encoder.writer.at} bytes.`);
    }
    return newPayload(encoder.writer.take(), list.list);
  } catch (error) {
    list.abandon();
    throw error;
  }
}

/** @param {any[]} list @returns {import('./target.js').Payload} */
export function encodeArguments(list) {
  const capabilities = new CapabilityList(!rules.duplicateParameters, currentContext());
  const payload = encodeWith(list, capabilities);
  capabilities.dispose();
  return payload;
}

/**
 * A value that outlives the call that it goes with: props, env. Stubs in it are duplicated.
 * @param {any} value @returns {import('./target.js').Payload}
 */
export function encodeValue(value) {
  return encodeWith(value, new CapabilityList(false, null));
}

/**
 * @param {any} value @param {import('./context.js').RequestContext|null} context
 * @returns {{payload: import('./target.js').Payload, pipeline: import('./target.js').Target, hasDisposer: boolean}}
 */
export function encodeResult(value, context) {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  /** @type {any} */
  let disposer = null;
  let plain = false;
  const proxied = isObject && natives.isProxy !== undefined && natives.isProxy(value);
  if (isObject && typeof value === 'object' && !proxied && handleOf(value) === null && ObjectGetPrototypeOf(value) === ObjectPrototype) {
    plain = true;
    const found = value[disposeSymbol];
    // The receiver gets one of its own.
    ReflectDeleteProperty(value, disposeSymbol);
    if (typeof found === 'function') disposer = found;
  }
  const list = new CapabilityList(true, context);
  const payload = encodeWith(value, list);
  if (plain) {
    const end = disposer === null && list.moved.length === 0 ? null : () => {
      list.dispose();
      if (disposer !== null) ReflectApply(disposer, value, []);
    };
    return { payload, pipeline: new LocalTarget(value, true, context, end), hasDisposer: disposer !== null };
  }
  list.dispose();
  const isCapability = isObject && list.list.length === 1 && (handleOf(value) !== null || proxied || typeof value === 'function' || isRpcTarget(value));
  return { payload, pipeline: isCapability ? list.list[0].target.retain() : new LocalTarget(nullPrototypeFree(), true, context, null), hasDisposer: false };
}

/** Something without members, for errors that name the missing one. */
const nullPrototypeFree = () => nullObject();

/** Stubs that came together and can be disposed of together. */
class Group {
  /** @param {boolean} [persistent] they belong to no request and stay */
  constructor(persistent = false) {
    this.persistent = persistent;
    /** @type {StubHandle[]} */
    this.handles = rawList();
    /** @type {import('./target.js').Result|null} finished with them */
    this.result = null;
    this.context = currentContext();
  }

  dispose() {
    const { handles, result } = this;
    this.handles = rawList();
    this.result = null;
    for (let i = 0; i < handles.length; i++) handles[i].dispose();
    if (result !== null) {
      this.context?.disposables.delete(this);
      result.finish();
    }
  }
}

/** Capabilities other than stubs, by kind; streams.js fills it. @type {((target: import('./target.js').Target) => any)[]} */
export const capabilityReaders = rawList();

/** @param {import('./target.js').Payload} payload passed on @param {Group} group */
function decodeWith(payload, group) {
  const { bytes, capabilities } = payload;
  if (bytes === null) return undefined;
  payload.bytes = null; // who passed it on may be waiting for what is done with the value
  try {
    const decoder = new Decoder(bytes, /** @type {any} */ ({
      __proto__: null,
      capability(/** @type {number} */ index, /** @type {number} */ kind) {
        const capability = index < capabilities.length ? capabilities[index] : null;
        if (capability === null || (kind !== undefined && capability.kind !== kind)) return malformed('a capability that is not there');
        capabilities[index] = /** @type {any} */ (null);
        if (capability.kind === STUB || capability.kind === SERVICE) {
          const handle = new StubHandle(capability.target, capability.kind, group.persistent ? PERSISTENT : undefined);
          group.handles[group.handles.length] = handle;
          endCapability(capability);
          return handle.proxy;
        }
        if (kind === undefined) {
          capabilities[index] = capability;
          return malformed('a capability in the wrong place');
        }
        const value = capabilityReaders[kind](capability.target);
        endCapability(capability);
        return value;
      },
    }));
    const value = decoder.value();
    if (!decoder.reader.atEnd()) malformed('something follows it');
    return value;
  } catch (error) {
    group.dispose();
    throw error;
  } finally {
    releasePayload(payload);
  }
}

/** @param {import('./target.js').Payload} payload passed on @returns {{values: any[], dispose: () => void}} */
export function decodeArguments(payload) {
  const group = new Group();
  const values = decodeWith(payload, group);
  if (!ArrayIsArray(values)) {
    group.dispose();
    return malformed('arguments were expected');
  }
  return { values, dispose: () => group.dispose() };
}

/** A value whose stubs stay: props, env. @param {import('./target.js').Payload} payload passed on @returns {any} */
export function decodeValue(payload) {
  return decodeWith(payload, new Group(true));
}
const PERSISTENT = /** @type {any} */ ({ __proto__: null, persistent: true });

/** The value of a settled result, with a disposer on it. @param {import('./target.js').Result} result owned; finished now or when the value is disposed of @returns {any} */
export function decodeResult(result) {
  const group = new Group();
  const value = decodeWith(result.take(), group);
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  if (isObject && result.hasDisposer) {
    group.result = result;
    group.context?.disposables.add(group);
  } else {
    result.finish();
  }
  if (isObject && !(handleOf(value) instanceof StubHandle)) define(value, disposeSymbol, () => group.dispose());
  return value;
}

/** @param {import('./target.js').Payload} payload passed on @returns {any} the error; always one value, however malformed */
export function decodeFailure(payload) {
  let error;
  try {
    error = decodeWith(payload, new Group());
    if (typeof error === 'object' && error !== null && !ArrayIsArray(error)) define(error, 'remote', true);
  } catch (reason) {
    error = reason;
  }
  return error;
}
