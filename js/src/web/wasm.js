/** WebAssembly without shared memories: nobody is there to share one with, and no Atomics to use it by. */
import {
  ArrayBufferPrototypeGetByteLength, ObjectDefineProperty, ObjectGetOwnPropertyDescriptor, ReflectConstruct, TypeError, uncurryThis,
} from '../primordials.js';

const SHARED = "Shared memories of WebAssembly are not supported: a memory must not be 'shared'.";

/** @param {any} wasm WebAssembly, whose Memory is replaced */
export function forbidSharedMemory(wasm) {
  const Original = wasm.Memory, { prototype } = Original;
  const bufferOf = uncurryThis(/** @type {any} */ (ObjectGetOwnPropertyDescriptor(prototype, 'buffer')).get);
  const checked = (/** @type {any} */ memory) => {
    const buffer = bufferOf(memory);
    try {
      ArrayBufferPrototypeGetByteLength(buffer);
    } catch {
      throw new TypeError(SHARED);
    }
    return buffer;
  };
  /** @param {any} descriptor */
  function Memory(descriptor) {
    if (new.target === undefined) throw new TypeError('calling WebAssembly.Memory constructor without new is invalid');
    const made = ReflectConstruct(Original, [descriptor], new.target);
    checked(made);
    return made;
  }
  ObjectDefineProperty(Memory, 'prototype', /** @type {any} */ ({ __proto__: null, value: prototype, writable: false }));
  ObjectDefineProperty(prototype, 'constructor', /** @type {any} */ ({ __proto__: null, value: Memory }));
  ObjectDefineProperty(wasm, 'Memory', /** @type {any} */ ({ __proto__: null, value: Memory }));
  // What a module defines itself, and exports, comes past the constructor.
  const getter = /** @type {any} */ (ObjectGetOwnPropertyDescriptor({ get buffer() { return checked(this); } }, 'buffer')).get;
  ObjectDefineProperty(prototype, 'buffer', /** @type {any} */ ({ __proto__: null, get: getter }));
}
