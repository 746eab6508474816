/**
 * What can be called, on the level below stubs: objects of this worker (local.js), imports of a session (session.js), results that are
 * still to come. A call carries a payload, never values: bytes of codec.js and a list of capabilities. So whatever only passes a call on, as
 * a stub that travelled through this worker does, understands nothing of it.
 *
 * References are counted, by hand, because the count is what the other side is told: whoever stores a Target owns one reference, and
 * release() of the last one tells its home. A payload owns its capabilities; passing it to call() passes them on.
 */
import { Error, ObjectSetPrototypeOf, PromisePrototypeThen, SafeSet, promiseResolve } from '../primordials.js';
import { encode } from './codec.js';
import { rawList } from './cbor.js';

export const GET = 0, CALL = 1, FETCH = 2, CONNECT = 3;

/** What a capability becomes at the receiver. */
export const STUB = 0, SERVICE = 1, READABLE = 2, WRITABLE = 3, SIGNAL = 4, SOCKET = 5;
export const LAST_KIND = SOCKET;

/** @typedef {{kind: number, target: Target}} Capability */
/** @typedef {{bytes: Uint8Array|null, capabilities: Capability[]}} Payload capabilities: of null prototype */

/** @param {Uint8Array|null} bytes @param {Capability[]} [capabilities] @returns {Payload} */
export const newPayload = (bytes, capabilities = rawList()) => /** @type {any} */ ({ __proto__: null, bytes, capabilities });

/** While it is under way it keeps the context of its target. @param {number} kind @param {Target} target owned @returns {Capability} */
export function newCapability(kind, target) {
  target.context?.hold();
  return /** @type {any} */ ({ __proto__: null, kind, target });
}

/** @param {Capability} capability its reference goes to somebody else, who holds the context already where that is needed */
export function endCapability(capability) {
  capability.target.context?.drop();
}

/** @param {Payload|null} payload */
export function releasePayload(payload) {
  if (payload === null) return;
  const list = payload.capabilities;
  for (let i = 0; i < list.length; i++) {
    const capability = list[i];
    list[i] = /** @type {any} */ (null);
    if (capability === null) continue;
    const { context } = capability.target;
    capability.target.release();
    context?.drop();
  }
}

const settled = promiseResolve();
/** Runs it after what is running now. @param {() => void} run */
export const later = (run) => { PromisePrototypeThen(settled, run); };

let arriving = false;
/** Is the call that is being made one of another worker, rather than of code of this one? */
export const isArriving = () => arriving;
/** Makes a call that came from elsewhere. @param {Target} target @param {string[]} path @param {number} op @param {Payload} payload @returns {Result} */
export function callFromElsewhere(target, path, op, payload) {
  const before = arriving;
  arriving = true;
  try {
    return target.call(path, op, payload);
  } finally {
    arriving = before;
  }
}

/** An error as a payload: name, message and own properties, no stack. @param {any} error @returns {Payload} */
export function errorPayload(error) {
  try {
    return newPayload(encode(error, ERROR));
  } catch {
    return newPayload(encode(new Error('An exception was thrown that could not be cloned.'), ERROR));
  }
}
const ERROR = ObjectSetPrototypeOf({ errorProperties: true }, null);

export class Target {
  constructor() {
    this.references = 1;
    /** Where calls run, when that is in this worker. @type {import('./context.js').RequestContext|null} */
    this.context = null;
  }

  /** @returns {this} */
  retain() {
    this.references++;
    return this;
  }

  release() {
    if (--this.references === 0) this.lastReleased();
  }

  lastReleased() {}

  /**
   * @param {string[]} path @param {number} op @param {Payload|null} payload passed on; null without arguments (GET)
   * @returns {Result}
   */
  call(path, op, payload) {
    releasePayload(payload);
    return failedResult(new Error('This object cannot be called.'));
  }

  /** Calls it once when the target cannot be reached any more. @param {(reason: any) => void} callback @returns {() => void} forgets it */
  onBroken(callback) {
    return () => {};
  }
}

/**
 * Whoever refers to a target from another request keeps the one that it lives in. @param {Target} target
 * @param {import('./context.js').RequestContext|null} context who refers to it @returns {import('./context.js').RequestContext|null} held: to be dropped with the reference
 */
export function holdHome(target, context) {
  const home = target.context !== context ? target.context : null;
  home?.hold();
  return home;
}

/** Always answers with the same error. */
export class BrokenTarget extends Target {
  /** @param {Payload} error */
  constructor(error) {
    super();
    this.error = error;
  }

  /** @param {string[]} path @param {number} op @param {Payload|null} payload */
  call(path, op, payload) {
    releasePayload(payload);
    const result = new Result();
    result.fail(this.error);
    return result;
  }
}

/**
 * The result of a call. It is settled once, with a payload or an error's payload, and told to one listener. `pipeline` can be called
 * before that: such calls wait, or travel ahead where the result is remote. The holder calls finish() when it will neither listen nor pipeline
 * any more.
 */
export class Result {
  /** @param {Target} [pipeline] owned; without one, calls wait here for settle() */
  constructor(pipeline) {
    /** @type {Target} */
    this.pipeline = pipeline ?? new WaitingTarget();
    /** 0 pending, 1 a value, 2 an error */
    this.state = 0;
    /** @type {Payload|null} */
    this.payload = null;
    /** Something at the callee waits for finish(), beside stubs: a disposer of the returned object. */
    this.hasDisposer = false;
    /** @type {((result: Result) => void)|null} */
    this.listener = null;
    this.finished = false;
    /** Called once the result is finished; when it is not settled by then, only after that, unless `eager`. @type {(() => void)|null} */
    this.onFinish = null;
    this.eager = false;
    /** The Durable Object of this worker that was called; its errors say so to the caller here. */
    this.objectId = '';
  }

  /** @param {Payload} payload passed on @param {Target|null} pipeline owned; null: the one it has stays @param {boolean} hasDisposer */
  settle(payload, pipeline, hasDisposer) {
    if (this.state !== 0) {
      releasePayload(payload);
      pipeline?.release();
      return;
    }
    this.state = 1;
    this.hasDisposer = hasDisposer;
    if (pipeline !== null) this.resolvePipeline(pipeline);
    if (this.finished) {
      releasePayload(payload);
      this.ended();
      return;
    }
    this.payload = payload;
    this.tell();
  }

  /** @param {Payload} error */
  fail(error) {
    if (this.state !== 0) return;
    this.state = 2;
    this.resolvePipeline(new BrokenTarget(error));
    if (this.finished) {
      this.ended();
      return;
    }
    this.payload = error;
    this.tell();
  }

  /** @param {Target} to owned */
  resolvePipeline(to) {
    const pipeline = this.pipeline;
    if (pipeline instanceof WaitingTarget) pipeline.resolve(to);
    else to.release();
  }

  tell() {
    const listener = this.listener;
    this.listener = null;
    if (listener !== null) listener(this);
  }

  /** @param {(result: Result) => void} listener takes the payload with take() */
  listen(listener) {
    if (this.state === 0) this.listener = listener;
    else listener(this);
  }

  /** @returns {Payload} now the caller's */
  take() {
    const payload = /** @type {Payload} */ (this.payload);
    this.payload = null;
    return payload;
  }

  finish() {
    if (this.finished) return;
    this.finished = true;
    this.listener = null;
    releasePayload(this.payload);
    this.payload = null;
    this.pipeline.release();
    if (this.state !== 0 || this.eager) this.ended();
  }

  /** Finished and settled: the callee may forget it. */
  ended() {
    const onFinish = this.onFinish;
    this.onFinish = null;
    if (onFinish !== null) onFinish();
  }
}

/** @param {any} error @returns {Result} */
export function failedResult(error) {
  const result = new Result();
  result.fail(errorPayload(error));
  return result;
}

/** Copies what becomes of one result to another, with calls passed along the pipeline already. @param {Result} from @param {Result} to */
export function forwardResult(from, to) {
  from.listen(() => {
    if (from.state === 2) {
      to.fail(from.take());
      from.finish();
      return;
    }
    to.onFinish = () => from.finish();
    to.settle(from.take(), from.pipeline.retain(), from.hasDisposer);
  });
}

/** Calls kept until it is known where they go. */
class WaitingTarget extends Target {
  constructor() {
    super();
    /** @type {Target|null} */
    this.to = null;
    /** @type {{path: string[], op: number, payload: Payload|null, result: Result}[]} */
    this.waiting = rawList();
    /** @type {Set<(reason: any) => void>} */
    this.brokenCallbacks = new SafeSet();
  }

  /** @param {Target} to owned */
  resolve(to) {
    if (this.references === 0) {
      to.release();
      return;
    }
    this.to = to;
    const { waiting } = this;
    this.waiting = rawList();
    for (let i = 0; i < waiting.length; i++) {
      const { path, op, payload, result } = waiting[i];
      forwardResult(to.call(path, op, payload), result);
    }
    this.brokenCallbacks.forEach((each) => to.onBroken(each));
    for (let i = 0; i < waiting.length; i++) this.release();
  }

  /** @param {string[]} path @param {number} op @param {Payload|null} payload */
  call(path, op, payload) {
    if (this.to !== null) return this.to.call(path, op, payload);
    const result = new Result();
    this.waiting[this.waiting.length] = { path, op, payload, result };
    // The call is to be delivered even when nobody else holds the pipeline by then.
    this.retain();
    return result;
  }

  lastReleased() {
    if (this.to !== null) {
      this.to.release();
      this.to = null;
    }
  }

  /** @param {(reason: any) => void} callback */
  onBroken(callback) {
    if (this.to !== null) return this.to.onBroken(callback);
    this.brokenCallbacks.add(callback);
    return () => { this.brokenCallbacks.delete(callback); };
  }
}
