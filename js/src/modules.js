/**
 * The linker: from the compiled modules of a worker (js/compiler/README.md) to running code. Everything that guest code can do is done through
 * what its `import`s name, and they name only what was handed to the worker and what `builtins` knows.
 */
import {
  Error, ObjectKeys, ReflectApply, SafeMap, SyntaxError, TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, Uint8Array,
  JSONParse, newPromise, nullObject, promiseThen,
} from './primordials.js';
import { FORMAT } from '../compiler/format.js';
import { createHooks } from './modules/dispose.js';
import { evaluate } from './modules/evaluate.js';
import { newList } from './modules/list.js';
import { BuiltinModule, CommonJsModule, Module, SourceModule, ValueModule } from './modules/module.js';
import { candidates, directoryOf, isBuiltin, noSuchModule } from './modules/resolve.js';

const WasmModule = /** @type {any} */ (globalThis).WebAssembly?.Module;

/**
 * A module as `init` hands it over (src/link/worker_protocol.h). data: text, or its UTF-8 bytes; the bytes themselves for data and wasm.
 * @typedef {{name: string, type: "js" | "cjs" | "text" | "data" | "json" | "wasm", data: string | Uint8Array}} ModuleRecord
 */

/**
 * @typedef {object} AsyncContext
 * @property {() => any} getContext what code carries along over `await` (js/src/node/async_context.js)
 * @property {(context: any) => void} setContext
 */

/**
 * Looks at no module before it is asked for, except that two of one name are refused.
 * @param {ModuleRecord[]} records
 * @param {any} natives
 * @param {(specifier: string) => any} builtins the exports of a module of the runtime, as an object (read live); undefined: there is none
 * @param {AsyncContext} context
 */
export function createModuleGraph(records, natives, builtins, context) {
  return new ModuleGraph(records, natives, builtins, context);
}

class ModuleGraph {
  /** @type {Map<string, ModuleRecord>} */
  #records = new SafeMap();
  /** @type {Map<string, Module>} */
  #modules = new SafeMap();
  /** @type {Map<string, Module>} */
  #builtinModules = new SafeMap();
  #natives;
  #builtins;
  #main = '';

  /** @param {ModuleRecord[]} records @param {any} natives @param {(specifier: string) => any} builtins @param {AsyncContext} context */
  constructor(records, natives, builtins, context) {
    for (let i = 0; i < records.length; i++) {
      const { name } = records[i];
      if (this.#records.has(name)) throw new TypeError(`There are two modules of the name "${name}".`);
      this.#records.set(name, records[i]);
    }
    this.#natives = natives;
    this.#builtins = builtins;
    this.context = context;
    this.hooks = createHooks(this.context);
  }

  // --- for the library

  /** Runs the main module. @param {string} name @returns {Promise<any>} its namespace object, when it has run to its end */
  main(name) {
    this.#main = name;
    return this.import(name);
  }

  /** @param {string} name exactly @returns {Promise<any>} a module's namespace object */
  import(name) {
    return newPromise((resolve, reject) => {
      this.#import(() => this.find(name, '', null), resolve, reject);
    });
  }

  /** @param {string} name */
  has(name) {
    return this.#records.has(name);
  }

  /** The type of a module that was handed in. @param {string} name @returns {ModuleRecord["type"] | undefined} */
  typeOf(name) {
    return this.#records.get(name)?.type;
  }

  // --- for the modules

  /** @param {() => Module} find @param {(namespace: any) => void} resolve @param {(reason: any) => void} reject */
  #import(find, resolve, reject) {
    try {
      const module = find();
      this.#link(module);
      promiseThen(evaluate(module), () => resolve(module.namespace), reject);
    } catch (reason) {
      reject(reason);
    }
  }

  /** import() as the module `name` has it. @param {string} importer */
  importer(importer) {
    return (/** @type {any} */ specifier, /** @type {any} */ given) => newPromise((resolve, reject) => {
      /** @type {string} */
      let text;
      /** @type {string | null} */
      let type;
      try {
        text = `${specifier}`;
        type = typeAttribute(given);
      } catch (reason) {
        reject(reason);
        return;
      }
      // Never in the midst of another module's evaluation.
      later(() => this.#import(() => this.find(text, importer, type), resolve, reject));
    });
  }

  /** import.meta. @param {string} name */
  meta(name) {
    const meta = nullObject();
    meta.url = urlOf(name);
    meta.main = name === this.#main;
    meta.resolve = (/** @type {any} */ specifier) => urlOf(this.find(`${specifier}`, name, null).name);
    return meta;
  }

  /**
   * @param {string} specifier @param {string} importer @param {string | null} type what the import says that it is
   * @returns {Module}
   */
  find(specifier, importer, type) {
    const module = this.#find(specifier, importer);
    if (type !== null && (!(module instanceof ValueModule) || module.type !== type))
      throw new TypeError(`The module "${specifier}" is not of type "${type}".`);
    return module;
  }

  /** @param {string} specifier @param {string} importer @returns {Module} */
  #find(specifier, importer) {
    if (!isBuiltin(specifier)) {
      const names = candidates(specifier, importer);
      for (let i = 0; i < names.length; i++) {
        const known = this.#modules.get(names[i]);
        if (known !== undefined) return known;
        const record = this.#records.get(names[i]);
        if (record === undefined) continue;
        const module = this.#create(record);
        this.#modules.set(names[i], module);
        return module;
      }
    }
    const known = this.#builtinModules.get(specifier);
    if (known !== undefined) return known;
    const exports = this.#builtins(specifier);
    if (exports === undefined || exports === null) throw noSuchModule(specifier, importer);
    const module = new BuiltinModule(this, specifier, exports, ObjectKeys(exports));
    this.#builtinModules.set(specifier, module);
    return module;
  }

  /** @param {ModuleRecord} record @returns {Module} */
  #create({ name, type, data }) {
    switch (type) {
      case 'js':
      case 'cjs': {
        const record = this.#natives.evaluate(this.#text(name, data), name, 1);
        if (record === null || typeof record !== 'object' || record.format !== FORMAT)
          throw new Error(`The module "${name}" was compiled for another version.`);
        return record.kind === 'cjs' ? new CommonJsModule(this, name, record) : new SourceModule(this, name, record);
      }
      case 'json':
        return new ValueModule(this, name, 'json', () => {
          try {
            return JSONParse(this.#text(name, data));
          } catch (reason) {
            throw new SyntaxError(`${name}: ${/** @type {any} */ (reason).message}`);
          }
        });
      case 'text':
        return new ValueModule(this, name, 'text', () => this.#text(name, data));
      case 'data':
        return new ValueModule(this, name, 'bytes', () => TypedArrayPrototypeGetBuffer(new Uint8Array(/** @type {any} */ (data))));
      case 'wasm':
        return new ValueModule(this, name, 'wasm', () => {
          if (WasmModule === undefined) throw new Error(`${name}: WebAssembly is switched off.`);
          return new WasmModule(data);
        });
      default:
        throw new TypeError(`The module "${name}" has the unknown type "${type}".`);
    }
  }

  /** @param {string} name @param {string | Uint8Array} data @returns {string} */
  #text(name, data) {
    if (typeof data === 'string') return data;
    try {
      return this.#natives.utf8Decode(data, 0, TypedArrayPrototypeGetByteLength(data), true);
    } catch {
      throw new TypeError(`The module "${name}" is not UTF-8 text.`);
    }
  }

  /** Links a module and all that it imports. No guest code runs; after a failure the same is tried anew. @param {Module} module */
  #link(module) {
    if (module.linked) return;
    /** @type {Module[]} */
    const fresh = newList();
    const seen = new SafeMap();
    const visit = (/** @type {Module} */ one) => {
      if (one.linked || seen.has(one)) return;
      seen.set(one, true);
      one.load(visit);
      fresh[fresh.length] = one;
    };
    visit(module);
    for (let i = 0; i < fresh.length; i++) fresh[i].instantiate();
    for (let i = 0; i < fresh.length; i++) fresh[i].bind();
    for (let i = 0; i < fresh.length; i++) fresh[i].linked = true;
  }

  // --- CommonJS

  /** @param {CommonJsModule} self */
  runCommonJs(self) {
    const { module, name, record } = self;
    const args = newList();
    args[0] = module.exports;
    args[1] = this.requireFrom(name);
    args[2] = module;
    args[3] = module.filename;
    args[4] = `/${directoryOf(name)}`;
    args[5] = this.importer(name);
    args[6] = this.hooks;
    ReflectApply(record.code, module.exports, args);
  }

  /** `require` as the module `name` has it. @param {string} name @returns {any} */
  requireFrom(name) {
    const require = (/** @type {any} */ specifier) => this.#require(`${specifier}`, name);
    require.resolve = (/** @type {any} */ specifier) => this.find(`${specifier}`, name, null).name;
    return require;
  }

  /** @param {string} specifier @param {string} importer @returns {any} */
  #require(specifier, importer) {
    const module = this.find(specifier, importer, null);
    this.#link(module);
    if (module instanceof CommonJsModule) {
      module.run();
      return module.module.exports;
    }
    if (module instanceof ValueModule) return module.value;
    if (module instanceof BuiltinModule) {
      const getter = module.getter('default');
      return getter === undefined ? module.namespace : getter();
    }
    refuseCycles(module, specifier, new SafeMap());
    evaluate(module);
    if (module.failed) throw module.error;
    if (module.state !== 'evaluated')
      throw new Error(`require("${specifier}") in "${importer}": the module waits at its top level (await). Use import() instead.`);
    return module.namespace;
  }

  /** Own enumerable names of what a CommonJS module exports. @param {any} exports @param {(name: string) => void} found */
  ownNames(exports, found) {
    if ((typeof exports !== 'object' || exports === null) && typeof exports !== 'function') return;
    const keys = ObjectKeys(exports);
    for (let i = 0; i < keys.length; i++) if (keys[i] !== 'default') found(keys[i]);
  }
}

/** @param {Module} module @param {string} specifier @param {Map<Module, true>} seen */
function refuseCycles(module, specifier, seen) {
  if (seen.has(module)) return;
  seen.set(module, true);
  if (module.state === 'evaluating' && !(module instanceof CommonJsModule))
    throw new Error(`require("${specifier}") would need a module that is being evaluated (a cycle). Use import() instead.`);
  for (let i = 0; i < module.requests.length; i++) refuseCycles(module.requests[i], specifier, seen);
}

/** @param {string} name */
const urlOf = (name) => (isBuiltin(name) ? name : `file:///bundle/${name}`);

/** The `type` of the second argument of import(). @param {any} given @returns {string | null} */
function typeAttribute(given) {
  if (given === undefined) return null;
  if ((typeof given !== 'object' || given === null) && typeof given !== 'function') throw new TypeError('The second argument of import() must be an object');
  const attributes = given.with;
  if (attributes === undefined) return null;
  if ((typeof attributes !== 'object' || attributes === null) && typeof attributes !== 'function') throw new TypeError('The "with" of import() must be an object');
  let type = null;
  const keys = ObjectKeys(attributes);
  for (let i = 0; i < keys.length; i++) {
    const value = attributes[keys[i]];
    if (typeof value !== 'string') throw new TypeError(`The import attribute "${keys[i]}" is not a string`);
    if (keys[i] !== 'type') throw new TypeError(`The import attribute "${keys[i]}" is not supported (only "type" is)`);
    type = value;
  }
  return type;
}

/** @param {() => void} run may not throw */
async function later(run) {
  await undefined;
  run();
}
