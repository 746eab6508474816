/**
 * Durable Objects: namespaces and stubs, one instance for each id, and `ctx`. What an instance does with its events is in
 * object_instance.js.
 *
 * createObjects() is called once in a worker that has classes; the rest of the library gives it what it needs to know (ObjectHost).
 */
import {
  Error, ObjectSetPrototypeOf, ReflectConstruct, SafeMap, String, SymbolToStringTag, TypeError, define,
  nullObject, promiseReject, promiseThen,
} from '../primordials.js';
import { setTimer } from '../link.js';
import { natives } from '../natives.js';
import { invoke } from '../rpc/local.js';
import { ServiceStub, StubHandle } from '../rpc/stub.js';
import { FETCH, Result, SERVICE, Target, errorPayload, failedResult, forwardResult, later, releasePayload } from '../rpc/target.js';
import { newContainer } from './container.js';
import { worker } from './ctx.js';
import { DurableObject, extendsClass, invokeFetch } from './entrypoint.js';
import { IdSpace, classOfId, isObjectId, refuseJurisdiction, textOfId } from './object_id.js';
import { BROKEN, GONE, Instance } from './object_instance.js';
import { ObjectSockets } from './object_sockets.js';
import { newStorage } from './storage.js';

const TOKEN = nullObject();
const NO_RPC = 'The receiving Durable Object does not support RPC, because its class was not declared with `extends DurableObject`. In order to enable RPC, make sure your class extends the special class `DurableObject`, which can be imported from the module "cloudflare:workers".';
/** How long an instance is kept that nothing needs. */
const IDLE_MS = 120000, SWEEP_MS = 30000;

/**
 * @typedef {object} ObjectHost
 * @property {(name: string) => any} findClass the class that the main module exports under this name, or undefined
 * @property {() => any} env
 * @property {() => any} exports ctx.exports
 * @property {boolean} deleteAllDeletesAlarm by compatibility date
 */

// --- ctx

export class DurableObjectState {
  #instance;
  #slot;
  #storage;

  /** @param {any} token @param {Instance} instance @param {any} slot @param {any} storage */
  constructor(token, instance, slot, storage) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#instance = instance;
    this.#slot = slot;
    this.#storage = storage;
  }

  get id() { return this.#slot.objectId; }
  get storage() { return this.#storage; }
  get container() { return this.#instance.container ?? undefined; }
  get exports() { return this.#slot.host.exports(); }
  get props() { return this.#slot.props; }

  /** @param {any} promise */
  waitUntil(promise) { this.#instance.waitUntil(promise); }
  /** @param {() => any} run */
  blockConcurrencyWhile(run) {
    if (typeof run !== 'function') return promiseReject(new TypeError('blockConcurrencyWhile() takes a function.'));
    return this.#instance.blockConcurrencyWhile(run);
  }

  /** @param {any} [reason] @param {{retryAlarm?: boolean}} [options] @returns {never} */
  abort(reason, options) {
    const instance = this.#instance;
    if (options !== undefined && options !== null && options.retryAlarm === false) instance.retryAlarm = false;
    const error = reason === undefined ? new Error('Application called abort() to reset Durable Object.') : reason;
    instance.break(error);
    throw instance.reason;
  }

  /** @param {any} socket @param {string[]} [tags] */
  acceptWebSocket(socket, tags) { this.#slot.sockets.accept(socket, tags); }
  /** @param {string} [tag] @returns {any[]} */
  getWebSockets(tag) { return this.#slot.sockets.list(tag); }
  /** @param {any} socket @returns {string[]} */
  getTags(socket) { return this.#slot.sockets.tags(socket); }
  /** @param {any} [pair] */
  setWebSocketAutoResponse(pair) { this.#slot.sockets.setAutoResponse(pair); }
  getWebSocketAutoResponse() { return this.#slot.sockets.pair; }
  /** @param {any} socket */
  getWebSocketAutoResponseTimestamp(socket) { return this.#slot.sockets.autoResponded(socket); }
  /** @param {number} [ms] */
  setHibernatableWebSocketEventTimeout(ms) { this.#slot.sockets.setTimeout(ms); }
  getHibernatableWebSocketEventTimeout() { return this.#slot.sockets.timeout || null; }
}
define(DurableObjectState.prototype, SymbolToStringTag, 'DurableObjectState');

// --- one object's place

class Slot {
  /** @param {Objects} objects @param {any} id */
  constructor(objects, id) {
    this.objects = objects;
    this.host = objects.host;
    this.className = classOfId(id);
    this.id = textOfId(id);
    this.objectId = id;
    this.props = {};
    this.sockets = new ObjectSockets(this);
    /** @type {Instance|null} */ this.instance = null;
  }

  findClass() { return this.host.findClass(this.className); }

  /** @returns {Instance} the one there is, or a new one */
  wake() {
    if (this.instance === null) this.instance = new Instance(this);
    return this.instance;
  }

  /** @param {Instance} instance it has ended */
  left(instance) {
    if (this.instance === instance) this.instance = null;
  }

  /** @param {Instance} instance @param {any} answer of `object` */
  construct(instance, answer) {
    const Class = this.findClass();
    if (typeof Class !== 'function') throw new TypeError(`The Worker exports no Durable Object class "${this.className}".`);
    const config = this.objects.classes.get(this.className);
    const storage = newStorage(/** @type {any} */ (instance.storage), instance, config.sql);
    if (answer.container !== undefined) instance.container = newContainer(answer.container, config.images);
    const state = new DurableObjectState(TOKEN, instance, this, storage);
    instance.object = ReflectConstruct(Class, [state, this.host.env()]);
  }
}
ObjectSetPrototypeOf(Slot.prototype, null);

// --- stubs

/** What a stub calls. It stays with the instance that it first reached: when that breaks, so does the stub. */
class ObjectTarget extends Target {
  /** @param {Objects} objects @param {any} id */
  constructor(objects, id) {
    super();
    this.objects = objects;
    this.id = id;
    /** @type {Instance|null} */ this.instance = null;
  }

  reach() {
    if (this.instance === null || this.instance.state === GONE) this.instance = this.objects.slot(this.id).wake();
    return this.instance;
  }

  /** @param {string[]} path @param {number} op @param {import('../rpc/target.js').Payload|null} payload */
  call(path, op, payload) {
    const instance = this.reach();
    if (instance.state === BROKEN) {
      releasePayload(payload);
      const failed = failedResult(instance.reason);
      failed.objectId = textOfId(this.id);
      return failed;
    }
    const result = new Result();
    result.objectId = textOfId(this.id);
    /** @type {any} */ let given = payload;
    const event = /** @type {any} */ ({
      __proto__: null,
      /** @param {any} object @param {import('../rpc/context.js').RequestContext} context */
      start: (object, context) => {
        const inner = new Result();
        const own = given;
        given = null;
        inner.listen(() => instance.finish(event, () => forwardResult(inner, result)));
        const receiver = { object, own: false, entrypoint: true, extra: null };
        if (op !== FETCH && !worker.flags.has('js_rpc') && !extendsClass(instance.slot.findClass(), DurableObject)) {
          releasePayload(own);
          inner.fail(errorPayload(new TypeError(NO_RPC)));
          return;
        }
        if (op !== FETCH) {
          invoke(receiver, path, op, own, inner, context);
          return;
        }
        // Who asked and wants no answer any more: the request is aborted.
        result.eager = true;
        result.onFinish = () => {
          if (inner.state !== 0) return;
          inner.finish();
          instance.finish(event, () => {});
        };
        invokeFetch(receiver, own, inner, context);
      },
      /** @param {any} error */
      fail: (error) => {
        releasePayload(given);
        given = null;
        result.fail(errorPayload(error));
      },
    });
    // Calls of one stub arrive in the order in which they were made.
    later(() => instance.deliver(event));
    return result;
  }

  /** @param {(reason: any) => void} callback */
  onBroken(callback) {
    const { brokenCallbacks } = this.reach();
    brokenCallbacks.add(callback);
    return () => { brokenCallbacks.delete(callback); };
  }
}

/** The seeming class of stubs. */
export class DurableObjectStub {
  constructor() { throw new TypeError('Illegal constructor'); }
}
ObjectSetPrototypeOf(DurableObjectStub.prototype, ServiceStub.prototype);
define(DurableObjectStub.prototype, SymbolToStringTag, 'DurableObject');

export class DurableObjectNamespace {
  #space;
  #objects;

  /** @param {any} token @param {Objects} objects @param {string} className */
  constructor(token, objects, className) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#objects = objects;
    this.#space = objects.space(className);
  }

  /** @param {any} [options] */
  newUniqueId(options) {
    refuseJurisdiction(options, 'newUniqueId()');
    return this.#space.unique();
  }
  /** @param {string} name */
  idFromName(name) {
    if (arguments.length < 1) throw new TypeError('idFromName() takes a name.');
    return this.#space.fromName(name);
  }
  /** @param {string} text */
  idFromString(text) { return this.#space.fromString(text); }

  /** @param {any} id @param {any} [options] locationHint has no meaning on one machine */
  get(id, options) {
    if (!isObjectId(id)) throw new TypeError('get() takes a DurableObjectId: of idFromName(), idFromString() or newUniqueId().');
    if (classOfId(id) !== this.#space.className) throw new TypeError('get() called with an id of another Durable Object namespace.');
    return this.#objects.stub(id);
  }
  /** @param {string} name @param {any} [options] */
  getByName(name, options) {
    if (arguments.length < 1) throw new TypeError('getByName() takes a name.');
    return this.#objects.stub(this.#space.fromName(name));
  }
  /** @param {any} name */
  jurisdiction(name) {
    if (name === undefined || name === null) return this;
    refuseJurisdiction({ __proto__: null, jurisdiction: name }, `jurisdiction("${String(name)}")`);
    return this;
  }
}
define(DurableObjectNamespace.prototype, SymbolToStringTag, 'DurableObjectNamespace');

// --- all of a worker

export class Objects {
  /** @param {ObjectHost} host @param {any} classes of `init`: [{class, sql, container, images}] */
  constructor(host, classes) {
    this.host = host;
    /** @type {Map<string, any>} */ this.classes = new SafeMap();
    for (let i = 0; i < classes.length; i++) this.classes.set(classes[i].class, classes[i]);
    /** @type {Map<string, IdSpace>} */ this.spaces = new SafeMap();
    /** @type {Map<string, Slot>} */ this.slots = new SafeMap();
    this.sweeping = false;
  }

  /** @param {string} className @returns {IdSpace} */
  space(className) {
    let space = this.spaces.get(className);
    if (space === undefined) {
      if (!this.classes.has(className)) throw new TypeError(`"${className}" is no Durable Object class of this Worker's configuration.`);
      space = new IdSpace(className);
      this.spaces.set(className, space);
    }
    return space;
  }

  /** env's value for a binding, and ctx.exports' for a class. @param {string} className @returns {DurableObjectNamespace} */
  namespace(className) { return new DurableObjectNamespace(TOKEN, this, className); }

  /** @param {any} id @returns {Slot} */
  slot(id) {
    const key = `${classOfId(id)}/${textOfId(id)}`;
    let slot = this.slots.get(key);
    if (slot === undefined) {
      slot = new Slot(this, id);
      this.slots.set(key, slot);
      this.sweepLater();
    } else if (slot.objectId.name === undefined && id.name !== undefined) {
      slot.objectId = id;
    }
    return slot;
  }

  /** @param {any} id @returns {any} a stub */
  stub(id) {
    const extras = nullObject();
    extras.id = id;
    extras.name = id.name;
    return new StubHandle(new ObjectTarget(this, id), SERVICE, /** @type {any} */ ({ __proto__: null, prototype: DurableObjectStub.prototype, extras })).proxy;
  }

  /**
   * The daemon's `alarm`. Rejects when it is to be tried again.
   * @param {{class: string, id: string, retryCount: number, scheduledTime: number}} args @returns {Promise<void>}
   */
  alarm(args) {
    let slot;
    try {
      slot = this.slot(this.space(args.class).fromString(args.id));
    } catch (error) {
      return promiseReject(error);
    }
    const instance = slot.wake();
    const info = { retryCount: args.retryCount, isRetry: args.retryCount > 0, scheduledTime: args.scheduledTime };
    const done = instance.event((/** @type {any} */ object) => {
      if (typeof object.alarm === 'function') return object.alarm(info);
      natives.log(1, `The alarm of a Durable Object of class "${args.class}" is due, but the class has no alarm() handler.`);
      return undefined;
    });
    return promiseThen(done, () => undefined, (error) => {
      if (!instance.retryAlarm) return undefined;
      throw error;
    });
  }

  // --- instances that nothing needs are forgotten

  sweepLater() {
    if (this.sweeping) return;
    this.sweeping = true;
    setTimer(SWEEP_MS, () => {
      this.sweeping = false;
      this.sweep(natives.monotonic() - IDLE_MS);
      if (this.slots.size > 0) this.sweepLater();
    });
  }

  /** @param {number} before instances that were used last before this go */
  sweep(before) {
    this.slots.forEach((slot, key) => {
      const { instance } = slot;
      if (instance !== null && instance.lastUse <= before && instance.isIdle()) instance.evict();
      if (slot.instance === null && slot.sockets.size === 0) this.slots.delete(key);
    });
  }
}
ObjectSetPrototypeOf(Objects.prototype, null);

/** @param {ObjectHost} host @param {any} classes @returns {Objects} */
export const createObjects = (host, classes) => new Objects(host, classes);
