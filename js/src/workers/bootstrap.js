/**
 * The main object of a Worker towards who may ask for its entrypoints: the parent of a Dynamic Worker, another hosted Worker. It is spoken to by
 * the library on the other side (RemoteEntrypoints) and never handed to guest code.
 *
 *   entrypoint {name, props, limits}   the result can be called on as that entrypoint
 *   start {env, outbound, tails}       once, by the parent: what the Worker is given
 */
import { Error, TypeError } from '../primordials.js';
import { rawList } from '../rpc/cbor.js';
import { CALL, Result, Target, failedResult, newPayload, releasePayload } from '../rpc/target.js';
import { decodeValue, encodeValue } from '../rpc/values.js';
import { EntrypointTarget } from './entrypoint.js';

export class BootstrapTarget extends Target {
  /** @param {((given: any, result: Result) => void)|null} onStart settles the result */
  constructor(onStart) {
    super();
    this.onStart = onStart;
  }

  /** @param {string[]} path @param {number} op @param {import('../rpc/target.js').Payload|null} payload */
  call(path, op, payload) {
    if (op !== CALL || path.length !== 1 || payload === null) {
      releasePayload(payload);
      return failedResult(new TypeError('A Worker has no such method.'));
    }
    let given;
    try {
      given = decodeValue(payload);
      if (typeof given !== 'object' || given === null) throw new TypeError('An object was expected.');
    } catch (error) {
      return failedResult(error);
    }
    if (path[0] === 'entrypoint' && typeof given.name === 'string') {
      const result = new Result();
      const { cpuMs, subRequests, wallMs } = given.limits ?? NO_LIMITS;
      result.settle(newPayload(null), new EntrypointTarget(given.name, given.props ?? {}, /** @type {any} */ ({ __proto__: null, cpuMs, subRequests, wallMs })), false);
      return result;
    }
    if (path[0] === 'start' && this.onStart !== null) {
      const { onStart } = this;
      this.onStart = null;
      const result = new Result();
      onStart(given, result);
      return result;
    }
    return failedResult(new TypeError('A Worker has no such method.'));
  }
}
const NO_LIMITS = /** @type {any} */ ({ __proto__: null, cpuMs: undefined, subRequests: undefined, wallMs: undefined });

/**
 * An entrypoint of the Worker whose main object it is. @param {Target} main borrowed @param {import('../rpc/target.js').Payload} given encodeValue({name,
 * props, limits}); passed on @returns {Result} call on its pipeline, until finish()
 */
export function openEntrypoint(main, given) {
  const path = rawList();
  path[0] = 'entrypoint';
  return main.call(path, CALL, given);
}

/** An entrypoint of another hosted Worker, which may be started anew between calls. */
export class RemoteEntrypoint extends Target {
  /** @param {() => Target} connect a session's main object, borrowed; another one after the session's end @param {string} name @param {any} props */
  constructor(connect, name, props) {
    super();
    this.connect = connect;
    this.name = name;
    this.props = props;
    /** @type {Target|null} */
    this.main = null;
    /** @type {Result|null} */
    this.opened = null;
  }

  /** @param {string[]} path @param {number} op @param {import('../rpc/target.js').Payload|null} payload */
  call(path, op, payload) {
    try {
      const main = this.connect();
      if (this.opened === null || this.main !== main) {
        this.opened?.finish();
        this.main = main;
        this.opened = openEntrypoint(main, encodeValue({ name: this.name, props: this.props, limits: undefined }));
      }
    } catch (error) {
      releasePayload(payload);
      return failedResult(error instanceof Error ? error : new Error('The Worker cannot be reached.'));
    }
    return this.opened.pipeline.call(path, op, payload);
  }

  lastReleased() {
    this.opened?.finish();
    this.opened = null;
  }
}
