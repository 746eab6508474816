/**
 * Module namespace objects: what `import * as ns` and `import()` give. A proxy, because nothing else has data properties that change
 * and cannot be changed.
 */
import {
  ArrayPrototypeSort, ObjectCreate, ObjectDefineProperty, ObjectPreventExtensions, Proxy, SafeMap, SymbolToStringTag, nullObject,
} from '../primordials.js';
import { newList } from './list.js';

/** @param {string} a @param {string} b */
const byCodeUnits = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** @param {any} value @param {boolean} writable @param {boolean} enumerable */
const fixed = (value, writable, enumerable) => ({ __proto__: null, value, writable, enumerable, configurable: false });

/**
 * @param {() => Map<string, () => any>} collect the exported names with what reads each; called once, at the first look
 * @returns {any}
 */
export function createNamespace(collect) {
  const target = ObjectCreate(null);
  /** @type {Map<string, () => any> | null} */
  let getters = null;
  /** @type {any[]} */
  let keys;

  function prepare() {
    if (getters !== null) return getters;
    const found = collect();
    const names = newList();
    found.forEach((_getter, name) => { names[names.length] = name; });
    ArrayPrototypeSort(names, byCodeUnits);
    // The proxy may only report what its target agrees with.
    for (let i = 0; i < names.length; i++) ObjectDefineProperty(target, names[i], /** @type {any} */ (fixed(undefined, true, true)));
    ObjectDefineProperty(target, SymbolToStringTag, /** @type {any} */ (fixed('Module', false, false)));
    ObjectPreventExtensions(target);
    names[names.length] = SymbolToStringTag;
    keys = names;
    getters = found;
    return found;
  }

  /** @param {PropertyKey} key @returns {(() => any) | undefined} */
  const getterOf = (key) => (typeof key === 'string' ? prepare().get(key) : (prepare(), undefined));
  /** @param {PropertyKey} key */
  const has = (key) => getterOf(key) !== undefined || key === SymbolToStringTag;

  /** @param {PropertyKey} key @returns {any} */
  function descriptor(key) {
    if (key === SymbolToStringTag) {
      prepare();
      return fixed('Module', false, false);
    }
    const getter = getterOf(key);
    return getter === undefined ? undefined : fixed(getter(), true, true);
  }

  const handler = nullObject();
  handler.get = (/** @type {any} */ _target, /** @type {PropertyKey} */ key) => {
    if (key === SymbolToStringTag) return 'Module';
    const getter = getterOf(key);
    return getter === undefined ? undefined : getter();
  };
  handler.has = (/** @type {any} */ _target, /** @type {PropertyKey} */ key) => has(key);
  handler.set = () => false;
  handler.deleteProperty = (/** @type {any} */ _target, /** @type {PropertyKey} */ key) => !has(key);
  handler.getOwnPropertyDescriptor = (/** @type {any} */ _target, /** @type {PropertyKey} */ key) => descriptor(key);
  handler.defineProperty = (/** @type {any} */ _target, /** @type {PropertyKey} */ key, /** @type {any} */ wanted) => {
    const present = descriptor(key);
    if (present === undefined || wanted.configurable === true || wanted.get !== undefined || wanted.set !== undefined) return false;
    if (wanted.enumerable !== undefined && wanted.enumerable !== present.enumerable) return false;
    if (wanted.writable !== undefined && wanted.writable !== present.writable) return false;
    return !('value' in wanted) || same(wanted.value, present.value);
  };
  handler.ownKeys = () => {
    prepare();
    const copy = newList();
    for (let i = 0; i < keys.length; i++) copy[i] = keys[i];
    return copy;
  };
  handler.getPrototypeOf = () => null;
  handler.setPrototypeOf = (/** @type {any} */ _target, /** @type {any} */ proto) => proto === null;
  handler.isExtensible = () => {
    prepare();
    return false;
  };
  handler.preventExtensions = () => {
    prepare();
    return true;
  };
  return new Proxy(target, handler);
}

/** @param {any} a @param {any} b */
const same = (a, b) => (a === b ? a !== 0 || 1 / a === 1 / b : a !== a && b !== b);

/** @returns {Map<string, () => any>} */
export const newGetters = () => new SafeMap();
