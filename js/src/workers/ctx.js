/** `ctx`, the second argument of handlers and `this.ctx` of entrypoints. */
import { Error, SymbolToStringTag, TypeError, define } from '../primordials.js';

/** What a Worker consists of, once `init` has told. */
export const worker = /** @type {any} */ ({
  __proto__: null,
  role: '',
  name: '',
  compatibilityDate: '',
  /** @type {Set<string>|null} */
  flags: null,
  /** The namespace object of the main module, when it has run. @type {any} */
  exports: null,
  /** The error with which it did not. @type {any} */
  failed: null,
  /** @type {any} */
  env: null,
  /** `ctx.exports` @type {any} */
  loopback: null,
  /** Resolves when the main module has run, rejects as it did. @type {Promise<void>|null} */
  ready: null,
});

let making = false;

export class ExecutionContext {
  #context;
  #props;
  /** @param {any} context @param {any} props */
  constructor(context, props) {
    if (!making) throw new TypeError('Illegal constructor');
    this.#context = context;
    this.#props = props;
  }
  /** Goes on after the response, until the promise is settled. @param {any} promise */
  waitUntil(promise) {
    if (arguments.length === 0) throw new TypeError("Failed to execute 'waitUntil' on 'ExecutionContext': parameter 1 is missing.");
    if (this.#context.ended) throw new Error('waitUntil() was called after the event had ended.');
    this.#context.waitUntil(promise);
  }
  /** There is no origin server to pass on to: documented to do nothing here. */
  passThroughOnException() {
    void this.#context;
  }
  /** Ends everything that this context does, with this reason. @param {any} [reason] */
  abort(reason = new Error('The context was aborted.')) {
    this.#context.kill(reason);
  }
  get props() { return this.#props; }
  get exports() {
    void this.#context;
    return worker.loopback;
  }
}
define(ExecutionContext.prototype, SymbolToStringTag, 'ExecutionContext');

/** @param {import('../rpc/context.js').RequestContext} context @param {any} [props] */
export function makeExecutionContext(context, props = {}) {
  making = true;
  try {
    return new ExecutionContext(context, props);
  } finally {
    making = false;
  }
}
