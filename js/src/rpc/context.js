/**
 * The execution context of one event: an HTTP request, an RPC session's calls, an alarm. It lasts until its handler, what it gave to
 * waitUntil(), and every stub that points into it are done; then the stubs that it holds are disposed. It is also whom CPU time is charged to
 * (js/natives.d.ts, "Accounting"), and so what is killed when it uses too much.
 */
import { Error, SafeMap, SafeSet, describeError, promiseResolve, promiseThen } from '../primordials.js';
import { natives } from '../natives.js';
import { clearTimer, setTimer } from '../link.js';
import { setRequests } from '../node/async_context.js';

/** @type {Map<number, RequestContext>} */
const contexts = new SafeMap();

/** Code carries its request over `await` (async_context.js); again after the natives have changed. */
export function followRequests() {
  setRequests(natives.requestCell, (id) => natives.requestEnter(id));
}

/** Of the whole worker, told by `init`. @type {{cpuMs: number, subRequests: number, wallMs: number}} */
export const limits = /** @type {any} */ ({ __proto__: null, cpuMs: 0, subRequests: 0, wallMs: 0 });

/**
 * A Durable Object, as its events see it: connections that outlast them, and the gates for what is to begin and to be answered (object_instance.js).
 * @typedef {{disposables: Set<{dispose: () => void}>, holds: number, deliver: (event: any) => void, finish: (event: any, run: () => void) => void}} Keeper
 */

export class RequestContext {
  /** Begins a request and makes it current. @param {{cpuMs?: number, subRequests?: number, wallMs?: number}|null} [own] tighter limits than the worker's */
  constructor(own = null) {
    this.id = natives.requestBegin(tighter(limits.cpuMs, own?.cpuMs));
    this.subRequestsLeft = tighter(limits.subRequests, own?.subRequests) || Infinity;
    this.holds = 1;
    this.ended = false;
    /** @type {any} why it was killed, or null */
    this.killed = null;
    /** @type {Set<{dispose: () => void}>} */
    this.disposables = new SafeSet();
    /** @type {Set<(error: any) => void>} the answers that it owes */
    this.owed = new SafeSet();
    /** @type {((context: RequestContext) => void)|null} */
    this.onEnd = null;
    /** What its trace says (events.js), when someone listens. @type {any} */
    this.trace = null;
    /** The Durable Object whose event it is. @type {Keeper|null} */
    this.keeper = null;
    contexts.set(this.id, this);
    const wallMs = tighter(limits.wallMs, own?.wallMs);
    /** Of the wall time limit; 0: there is none. */
    this.timer = wallMs ? setTimer(wallMs, () => this.kill(new Error(`Worker exceeded its wall time limit of ${wallMs} ms.`))) : 0;
  }

  /** Makes it current for the rest of this entry. @returns {void} */
  enter() {
    natives.requestEnter(this.ended ? 0 : this.id);
  }

  hold() {
    this.holds++;
  }

  drop() {
    if (--this.holds === 0) this.end();
  }

  /** Keeps the context until the promise is settled. @param {any} promise */
  waitUntil(promise) {
    this.hold();
    promiseThen(promiseResolve(promise), () => this.drop(), (error) => {
      reportUncaught(error, this);
      this.drop();
    });
  }

  /** What its event ended with, for the log and the trace. @param {any} error */
  failure(error) {
    onFailure(error, this);
  }

  /** Counts an outgoing request. Throws when there were too many. */
  subRequest() {
    if (this.subRequestsLeft-- <= 0) {
      this.subRequestsLeft = 0;
      throw new Error('Too many subrequests.');
    }
  }

  end() {
    if (this.ended) return;
    this.ended = true;
    contexts.delete(this.id);
    if (this.timer !== 0) clearTimer(this.timer);
    this.disposables.forEach((each) => each.dispose());
    this.disposables.clear();
    this.owed.clear();
    const { onEnd } = this;
    this.onEnd = null;
    natives.requestEnd(this.id);
    if (onEnd !== null) onEnd(this);
  }

  /** Ends it at once: what it owes is rejected. @param {any} error */
  kill(error) {
    if (this.ended) return;
    this.killed = error;
    const owed = this.owed;
    this.owed = new SafeSet();
    owed.forEach((reject) => reject(error));
    this.end();
  }
}

/**
 * Closes something at the end of the request that is running, or of the Durable Object that it is for. @param {() => void} close called once, unless the
 * returned function is @returns {() => void} it is closed already
 */
export function closeAtEnd(close) {
  const context = currentContext();
  if (context === null) return () => {};
  const { keeper } = context;
  const { disposables } = keeper ?? context;
  const entry = { dispose: () => { forget(); close(); } };
  if (keeper !== null) keeper.holds++;
  const forget = () => {
    if (disposables.delete(entry) && keeper !== null) keeper.holds--;
  };
  disposables.add(entry);
  return forget;
}

/** @param {number} common @param {number|undefined} own 0 or absent: none */
function tighter(common, own) {
  if (!own) return common;
  return common && common < own ? common : own;
}

/** @returns {RequestContext|null} whose code is running, as far as one can tell */
export function currentContext() {
  return contexts.get(natives.requestCell[0]) ?? null;
}

/** The engine was stopped while it ran for this request. @param {number} id @param {string} message */
export function killRequest(id, message) {
  contexts.get(id)?.kill(new Error(message));
}

/** Runs without any request being current, then restores it. @template T @param {() => T} run @returns {T} */
export function outsideRequests(run) {
  const id = natives.requestCurrent();
  if (id === 0) return run();
  natives.requestEnter(0);
  try {
    return run();
  } finally {
    natives.requestEnter(id);
  }
}

/** @type {(error: any, context: RequestContext) => void} */
let onFailure = () => {};

/** @param {(error: any, context: RequestContext) => void} to */
export function setFailureListener(to) {
  onFailure = to;
}

/** @type {(error: any, context: RequestContext|null) => void} */
let report = (error) => natives.log(0, `Uncaught (in promise) ${describeError(error)}`);

/** @param {(error: any, context: RequestContext|null) => void} to */
export function setReporter(to) {
  report = to;
}

/** Nobody else will hear of this error. @param {any} error @param {RequestContext|null} [context] */
export function reportUncaught(error, context = currentContext()) {
  report(error, context);
}
