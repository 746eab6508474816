/** The Worker Loader binding: Dynamic Workers, their stubs, and the cache of `get`. */
import {
  Error, ReflectApply, SafeMap, SafeSet, String, SymbolToStringTag, TypeError, TypedArrayPrototypeGetLength, define, promiseResolve, promiseThen,
} from '../primordials.js';
import { natives } from '../natives.js';
import { channelSend, closeChannel, dropCapability, newStream, openChannel, openSending, setTimer, startCall, streamEnd, streamWrite } from '../link.js';
import { encodePlain, rawList } from '../rpc/cbor.js';
import { currentContext, outsideRequests } from '../rpc/context.js';
import { Session } from '../rpc/session.js';
import { StubHandle } from '../rpc/stub.js';
import { CALL, Result, SERVICE, Target, errorPayload, failedResult, newPayload, releasePayload } from '../rpc/target.js';
import { decodeFailure, encodeValue } from '../rpc/values.js';
import { openEntrypoint } from './bootstrap.js';
import { readCode, readLimits } from './code.js';

/** A cached Worker that did nothing for so long is ended, and beyond so many the one that did nothing for longest. */
const IDLE_MS = 60000, MAX_CACHED = 64, SWEEP_MS = 10000;
/** Arguments of `load` beyond this go as a stream. */
const INLINE_MAX = 512 << 10;
const IDLE_REASON = 'The Dynamic Worker was ended because it was idle.', SHORT_REASON = 'The Dynamic Worker was ended because it was idle and memory is short.';

/** One Dynamic Worker: from being asked for to its end. Stubs belong to one for ever. */
class DynamicWorker {
  constructor() {
    /** @type {Session|null} */
    this.session = null;
    /** @type {any} */
    this.main = null;
    this.capability = -1;
    /** @type {any} the error that ended it */
    this.over = null;
    /** @type {((main: any) => void)[]|null} until it is being loaded */
    this.waiting = rawList();
    this.lastUse = natives.monotonic();
    /** @type {Set<(reason: any) => void>} */
    this.endCallbacks = new SafeSet();
    /** The request that it lives as long as; null: it is cached. @type {import('../rpc/context.js').RequestContext|null} */
    this.context = null;
  }

  /** @param {(reason: any) => void} callback @returns {() => void} */
  onEnd(callback) {
    if (this.over !== null) {
      callback(this.over);
      return () => {};
    }
    this.endCallbacks.add(callback);
    return () => { this.endCallbacks.delete(callback); };
  }

  /** Asks the daemon for the process. @param {string|undefined} name @param {any} code */
  load(name, code) {
    const { args, start } = readCode(code);
    if (name !== undefined) args.name = name;
    outsideRequests(() => {
      const inSid = newStream(), outSid = newStream();
      const channel = { in: inSid, out: outSid };
      args.channel = channel;
      const bytes = encodePlain(args);
      let message = args, stream = 0;
      if (TypedArrayPrototypeGetLength(bytes) > INLINE_MAX) {
        stream = openSending(/** @type {any} */ ({ __proto__: null }));
        message = { stream, channel };
      }
      startCall(0, 'load', message, (answer) => {
        this.capability = answer.worker;
        if (this.over !== null) this.drop();
      }, (error) => this.end(new Error(error.message)));
      if (stream !== 0) { // after the call: the daemon refuses bytes of a stream that nothing has named yet
        streamWrite(stream, bytes);
        streamEnd(stream);
      }
      const id = openChannel(inSid, outSid, (bytes) => session.receive(bytes), (reason) => {
        session.closed(reason);
        this.end(session.over);
      });
      const session = new Session({ send: (bytes, tail) => channelSend(id, bytes, tail), close: (reason) => closeChannel(id, reason) }, null);
      this.session = session;
      session.onEnd((reason) => this.end(reason));
      this.main = session.main();
    });
    this.start(start);
    const waiting = /** @type {any} */ (this.waiting);
    this.waiting = null;
    for (let i = 0; i < waiting.length; i++) waiting[i](this.main);
  }

  /** The first message: what the Worker is given. Its answer says that the main module has run. @param {import('../rpc/target.js').Payload} given passed on */
  start(given) {
    const path = rawList();
    path[0] = 'start';
    const result = this.main.call(path, CALL, given);
    result.listen(() => {
      if (result.state === 2) this.end(decodeFailure(result.take()));
      result.finish();
    });
  }

  /** Runs with its main object, now or when it is there; with null when it never will be. @param {(main: any) => void} run */
  whenMain(run) {
    this.lastUse = natives.monotonic();
    if (this.over !== null) run(null);
    else if (this.waiting !== null) this.waiting[this.waiting.length] = run;
    else run(this.main);
  }

  busy() {
    if (this.waiting !== null) return true;
    const { session } = this;
    return session !== null && (session.questions.size > 0 || session.answers.size > 0);
  }

  /** @param {any} error */
  end(error) {
    if (this.over !== null) return;
    this.over = error;
    const { waiting, session } = this;
    this.waiting = rawList();
    if (session !== null && session.over === null) session.end(error, false);
    if (waiting !== null) for (let i = 0; i < waiting.length; i++) waiting[i](null);
    this.drop();
    this.context?.disposables.delete(this);
    const callbacks = this.endCallbacks;
    this.endCallbacks = new SafeSet();
    callbacks.forEach((each) => each(error));
  }

  drop() {
    if (this.capability < 0) return;
    dropCapability(this.capability);
    this.capability = -1;
  }

  /** The request that loaded it without an id has ended. */
  dispose() {
    this.end(new Error('The request that loaded the Dynamic Worker has ended.'));
  }
}

/** An entrypoint of one Dynamic Worker, never of another that comes after it. */
class DynamicEntrypoint extends Target {
  /** @param {DynamicWorker} worker @param {import('../rpc/target.js').Payload} given passed on */
  constructor(worker, given) {
    super();
    this.worker = worker;
    this.context = worker.context;
    /** Calls wait in its pipeline until the Worker is being loaded; from then on they travel ahead of its answers. */
    this.opened = new Result();
    /** @type {Result|null} */
    this.remote = null;
    worker.whenMain((main) => {
      if (main !== null) {
        this.remote = openEntrypoint(main, given);
        this.opened.settle(newPayload(null), this.remote.pipeline.retain(), false);
      } else {
        releasePayload(given);
        this.opened.fail(errorPayload(worker.over));
      }
    });
  }

  /** @param {string[]} path @param {number} op @param {import('../rpc/target.js').Payload|null} payload */
  call(path, op, payload) {
    const { worker } = this;
    worker.lastUse = natives.monotonic();
    if (worker.over === null) return this.opened.pipeline.call(path, op, payload);
    releasePayload(payload);
    return failedResult(worker.over);
  }

  lastReleased() {
    this.opened.finish();
    this.remote?.finish();
  }

  /** @param {(reason: any) => void} callback */
  onBroken(callback) {
    return this.worker.onEnd(callback);
  }
}

let making = false;

export class WorkerStub {
  #worker;
  /** @param {DynamicWorker} worker */
  constructor(worker) {
    if (!making) throw new TypeError('Illegal constructor');
    this.#worker = worker;
  }

  /** @param {any} [name] @param {any} [options] */
  getEntrypoint(name, options) {
    const worker = this.#worker;
    const entrypoint = name === undefined || name === null ? 'default' : `${name}`;
    let limits, props;
    if (options !== undefined && options !== null) {
      if (typeof options !== 'object') throw new TypeError("The options of getEntrypoint() are not an object.");
      // Values that travel inherit from Object.prototype.
      const own = readLimits(options.limits, 'WorkerStubEntrypointOptions');
      limits = own === undefined ? undefined : { ...own };
      props = options.props;
      if (props !== undefined && (typeof props !== 'object' || props === null)) throw new TypeError("The 'props' of getEntrypoint() are not an object.");
    }
    // What is in props is copied now, whenever the Worker is there.
    const given = encodeValue({ name: entrypoint, props, limits });
    return new StubHandle(new DynamicEntrypoint(worker, given), SERVICE).proxy;
  }

  getDurableObjectClass() {
    void this.#worker;
    throw new Error('getDurableObjectClass() is not supported yet: Durable Object facets of Dynamic Workers are not there.');
  }
}
define(WorkerStub.prototype, SymbolToStringTag, 'WorkerStub');

/** @param {DynamicWorker} worker */
function makeStub(worker) {
  making = true;
  try {
    return new WorkerStub(worker);
  } finally {
    making = false;
  }
}

/** The Workers that `get` made, by their ids; the cache of one binding, or of those that name the same `id`. */
class Cache {
  /** @type {Map<string, DynamicWorker>} */
  #workers = new SafeMap();
  #sweeping = false;

  /** @param {string} name @returns {DynamicWorker|null} one that has not ended */
  find(name) {
    const worker = this.#workers.get(name);
    return worker !== undefined && worker.over === null ? worker : null;
  }

  /** @param {string} name @param {DynamicWorker} worker */
  add(name, worker) {
    this.#workers.set(name, worker);
    worker.onEnd(() => {
      if (this.#workers.get(name) === worker) this.#workers.delete(name);
    });
    this.#sweep();
  }

  /** @param {any} list of DynamicWorker, to which those that do nothing are added */
  idle(list) {
    this.#workers.forEach((worker) => {
      if (!worker.busy()) list[list.length] = worker;
    });
  }

  /** Ends what is idle, and beyond MAX_CACHED what is idle for longest. */
  #sweep() {
    if (this.#workers.size > MAX_CACHED) {
      /** @type {DynamicWorker|null} */
      let oldest = null;
      this.#workers.forEach((worker) => {
        if (!worker.busy() && (oldest === null || worker.lastUse < oldest.lastUse)) oldest = worker;
      });
      /** @type {DynamicWorker|null} */ (oldest)?.end(new Error('The Dynamic Worker was ended to make room for another.'));
    }
    if (this.#sweeping) return;
    this.#sweeping = true;
    outsideRequests(() => setTimer(SWEEP_MS, () => {
      this.#sweeping = false;
      const since = natives.monotonic() - IDLE_MS;
      this.#workers.forEach((worker) => {
        if (worker.lastUse < since && !worker.busy()) worker.end(new Error(IDLE_REASON));
      });
      if (this.#workers.size > 0) this.#sweep();
    }));
  }
}

export class WorkerLoader {
  #cache;
  /** @param {Cache} cache */
  constructor(cache) {
    if (!making) throw new TypeError('Illegal constructor');
    this.#cache = cache;
  }

  /** A new Worker. @param {any} code WorkerCode */
  load(code) {
    const worker = new DynamicWorker();
    worker.load(undefined, code);
    this.#bind(worker);
    return makeStub(worker);
  }

  /** The Worker of this id; the callback is asked for its code when there is none. @param {any} id @param {any} callback */
  get(id, callback) {
    if (typeof callback !== 'function') throw new TypeError("Failed to execute 'get' on 'WorkerLoader': parameter 2 is not of type 'Function'.");
    const name = id === null || id === undefined ? null : String(id);
    const known = name === null ? null : this.#cache.find(name);
    if (known !== null) {
      known.lastUse = natives.monotonic();
      return makeStub(known);
    }
    const fresh = new DynamicWorker();
    if (name === null) this.#bind(fresh);
    else this.#cache.add(name, fresh);
    let given;
    try {
      given = promiseResolve(ReflectApply(callback, undefined, []));
    } catch (error) {
      fresh.end(error);
      return makeStub(fresh);
    }
    promiseThen(promiseThen(given, (code) => {
      if (fresh.over === null) fresh.load(name ?? undefined, code);
    }), undefined, (error) => fresh.end(error));
    return makeStub(fresh);
  }

  /** Without an id it lives as long as the request. @param {DynamicWorker} worker */
  #bind(worker) {
    const context = currentContext();
    worker.context = context;
    context?.disposables.add(worker);
  }
}
define(WorkerLoader.prototype, SymbolToStringTag, 'WorkerLoader');

/** @type {Map<string, Cache>} */
const shared = new SafeMap();
/** @type {Set<Cache>} they live as long as the bindings, and those as long as this Worker */
const caches = new SafeSet();

/** Memory is short: of those that do nothing, the half that did nothing for longest ends. */
export function endIdle() {
  /** @type {any} */
  const idle = rawList();
  caches.forEach((cache) => cache.idle(idle));
  for (let left = (idle.length + 1) >> 1; left > 0; left--) {
    let oldest = -1;
    for (let i = 0; i < idle.length; i++) {
      if (idle[i] !== null && (oldest < 0 || idle[i].lastUse < idle[oldest].lastUse)) oldest = i;
    }
    const worker = idle[oldest];
    idle[oldest] = null;
    worker.end(new Error(SHORT_REASON));
  }
}

/** @param {string|undefined} id loaders of this Worker that name the same one share their cache; undefined: has one of its own */
export function makeLoader(id) {
  let cache = id === undefined ? undefined : shared.get(id);
  if (cache === undefined) {
    cache = new Cache();
    caches.add(cache);
    if (id !== undefined) shared.set(id, cache);
  }
  making = true;
  try {
    return new WorkerLoader(cache);
  } finally {
    making = false;
  }
}
