/** The scope of `using` and `await using` declarations, which the compiler turns into `try`/`finally` (js/compiler/README.md). */
import { Error, ObjectCreate, ObjectDefineProperty, ReflectApply, Symbol, SymbolFor, TypeError, define, nullObject } from '../primordials.js';
import { newList } from './list.js';

const SymbolDispose = /** @type {any} */ (Symbol).dispose ?? SymbolFor('Symbol.dispose');
const SymbolAsyncDispose = /** @type {any} */ (Symbol).asyncDispose ?? SymbolFor('Symbol.asyncDispose');

/** @param {any} value @param {symbol} key */
function method(value, key) {
  const found = value[key];
  if (found === undefined || found === null) return undefined;
  if (typeof found !== 'function') throw new TypeError('A dispose method is not a function');
  return found;
}

/** @param {any} value */
function checkObject(value) {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') throw new TypeError('Only objects can be disposed of');
}

/** @param {any} error @param {any} suppressed */
function suppressedError(error, suppressed) {
  const Known = /** @type {any} */ (globalThis).SuppressedError;
  if (typeof Known === 'function') return new Known(error, suppressed);
  const made = new Error('An error was suppressed during disposal');
  define(made, 'name', 'SuppressedError');
  define(made, 'error', error);
  define(made, 'suppressed', suppressed);
  return made;
}

/** @returns {any} */
export function createScope() {
  /** @type {{value: any, dispose: any, wait: boolean}[]} */
  const resources = newList();
  let failed = false;
  /** @type {any} */
  let error;

  /** @param {any} reason */
  function fail(reason) {
    error = failed ? suppressedError(reason, error) : reason;
    failed = true;
  }

  /** @param {any} value @param {any} dispose @param {boolean} wait */
  function push(value, dispose, wait) {
    resources[resources.length] = { value, dispose, wait };
    return value;
  }

  const scope = ObjectCreate(null);
  scope.add = (/** @type {any} */ value) => {
    if (value === null || value === undefined) return value;
    checkObject(value);
    const dispose = method(value, SymbolDispose);
    if (dispose === undefined) throw new TypeError('The value of a using declaration has no [Symbol.dispose]() method');
    return push(value, dispose, false);
  };
  scope.addAsync = (/** @type {any} */ value) => {
    if (value === null || value === undefined) return push(value, null, true);
    checkObject(value);
    const dispose = method(value, SymbolAsyncDispose);
    if (dispose !== undefined) return push(value, dispose, true);
    const plain = method(value, SymbolDispose);
    if (plain === undefined)
      throw new TypeError('The value of an await using declaration has neither a [Symbol.asyncDispose]() nor a [Symbol.dispose]() method');
    return push(value, () => { ReflectApply(plain, value, newList()); }, true);
  };
  scope.fail = fail;
  scope.end = () => {
    for (let i = resources.length - 1; i >= 0; i--) {
      try {
        ReflectApply(resources[i].dispose, resources[i].value, newList());
      } catch (reason) {
        fail(reason);
      }
    }
    if (failed) throw error;
  };
  scope.endAsync = async () => {
    for (let i = resources.length - 1; i >= 0; i--) {
      const { value, dispose, wait } = resources[i];
      try {
        const result = dispose === null ? undefined : ReflectApply(dispose, value, newList());
        if (wait) await result;
      } catch (reason) {
        fail(reason);
      }
    }
    if (failed) throw error;
  };
  return scope;
}

/**
 * What the compiled code calls (js/compiler/README.md, `hooks`).
 * @param {import('../modules.js').AsyncContext} context
 */
export function createHooks(context) {
  const hooks = nullObject();
  hooks.name = (/** @type {any} */ f) => {
    ObjectDefineProperty(f, 'name', /** @type {any} */ ({ __proto__: null, value: 'default', writable: false, enumerable: false, configurable: true }));
  };
  hooks.scope = createScope;
  const { getContext, setContext } = context;
  hooks.get = () => getContext();
  hooks.set = (/** @type {any} */ value) => setContext(value);
  hooks.after = (/** @type {any} */ value, /** @type {any} */ result) => {
    setContext(value);
    return result;
  };
  return hooks;
}
