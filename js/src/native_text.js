/**
 * What a program sees of the library's making: nothing. Its functions and classes look native to toString(), so that no program comes to depend
 * on their text; its places are left out of stacks that are logged. (What `error.stack` holds when code reads it is the engine's own.)
 */
import {
  FunctionPrototype, FunctionPrototypeToString, ObjectDefineProperty, ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf, ReflectOwnKeys, SafeWeakSet,
} from './primordials.js';
import { natives } from './natives.js';
import { rawList } from './rpc/cbor.js';

/** Objects that were looked at, and the library's functions among them. @type {WeakSet<any>} */
const seen = new SafeWeakSet(), hidden = new SafeWeakSet();

/** @param {any} value */
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

/** Hides the functions that can be reached from here without running anything. @param {any} root */
export function hideSources(root) {
  const list = rawList();
  let count = 0;
  const push = (/** @type {any} */ value) => {
    if (!isObject(value) || seen.has(value) || (value !== root && natives.isProxy?.(value))) return; // the global object looks like a Proxy
    seen.add(value);
    if (typeof value === 'function') hidden.add(value);
    list[count++] = value;
  };
  push(root);
  while (count > 0) {
    const object = list[--count];
    push(ObjectGetPrototypeOf(object));
    const keys = ReflectOwnKeys(object);
    for (let i = 0; i < keys.length; i++) {
      const descriptor = /** @type {any} */ (ObjectGetOwnPropertyDescriptor(object, keys[i]));
      push(descriptor.value);
      push(descriptor.get);
      push(descriptor.set);
    }
  }
}

/** Before the program runs. */
export function installNativeText() {
  const { toString } = {
    toString() {
      if (!hidden.has(this)) return FunctionPrototypeToString(this);
      const name = ObjectGetOwnPropertyDescriptor(this, 'name')?.value;
      return `function ${typeof name === 'string' ? name : ''}() {\n    [native code]\n}`;
    },
  };
  ObjectDefineProperty(FunctionPrototype, 'toString', /** @type {any} */ ({ __proto__: null, value: toString, writable: true, enumerable: false, configurable: true }));
}
