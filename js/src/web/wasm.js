/**
 * WebAssembly without shared memories: nobody is there to share one with, and no Atomics to use it by. Its compile() and instantiate() use the
 * constructors: the promises of the engine's own never settle in a worker.
 */
import {
  ArrayBufferPrototypeGetByteLength, ObjectDefineProperty, ObjectGetOwnPropertyDescriptor, ReflectConstruct, TypeError, newPromise, promiseResolve, promiseThen, uncurryThis,
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

/** @param {any} wasm WebAssembly, whose compile and instantiate are replaced */
export function compileAtOnce(wasm) {
  const { Module, Instance } = wasm, { exports } = Module;
  const isModule = (/** @type {any} */ value) => {
    try {
      exports(value);
      return true;
    } catch {
      return false;
    }
  };
  const replacements = {
    /** @param {any} bytes */
    compile(bytes) {
      return newPromise((resolve) => resolve(new Module(bytes)));
    },
    /** @param {any} source bytes or a module @param {any} imports */
    instantiate(source, imports = undefined) {
      return newPromise((resolve, reject) => {
        const given = isModule(source), module = given ? source : new Module(source);
        // Its start function runs after the caller, as anywhere.
        promiseThen(promiseResolve(undefined), () => {
          try {
            const instance = new Instance(module, imports);
            resolve(given ? instance : { module, instance });
          } catch (error) {
            reject(error);
          }
        });
      });
    },
  };
  put(wasm, 'compile', replacements.compile);
  put(wasm, 'instantiate', replacements.instantiate);
}

/** @param {any} on @param {string} name @param {any} value */
function put(on, name, value) {
  ObjectDefineProperty(on, name, /** @type {any} */ ({ __proto__: null, value, writable: true, enumerable: true, configurable: true }));
}
