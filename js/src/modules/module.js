/** One module of a graph, of any kind, and what its exports are. */
import { ObjectCreate, ObjectDefineProperty, ReflectApply, SafeMap, SyntaxError, TypeError, nullObject } from '../primordials.js';
import { runToEnd, startGenerator } from './evaluate.js';
import { newList } from './list.js';
import { createNamespace, newGetters } from './namespace.js';

/**
 * Where an export comes from: a name of a module, or (name null) the module's namespace object.
 * @typedef {{module: Module, name: string | null}} Binding
 */

/** Two `export *` give different bindings the same name. */
export const AMBIGUOUS = /** @type {Binding} */ (nullObject());

/** @param {Binding} binding @returns {() => any} */
function getterOf({ module, name }) {
  if (name === null) return () => module.namespace;
  return /** @type {() => any} */ (module.getter(name));
}

export class Module {
  // --- linking
  linked = false;
  /** Modules that it imports, in the order of its requests. @type {Module[]} */
  requests = newList();
  /** Readers of its own exports. @type {Map<string, () => any>} */
  getters = newGetters();
  /** What importers read from. */
  env = ObjectCreate(null);
  /** @type {any} */
  #namespace = null;
  /** @type {any} */
  generator = null;

  // --- evaluation (evaluate.js)
  /** waiting: itself or an import has not come to its end. @type {"new" | "evaluating" | "waiting" | "evaluated"} */
  state = 'new';
  tla = false;
  failed = false;
  /** @type {any} */
  error = undefined;
  index = 0;
  ancestor = 0;
  /** When it became asynchronous; 0: it is not. */
  asyncOrder = 0;
  /** Imports that it waits for. */
  pending = 0;
  /** @type {Module[]} */
  parents = newList();
  /** @type {Module | null} */
  cycleRoot = null;
  /** @type {{promise: Promise<void>, resolve: (value?: any) => void, reject: (reason?: any) => void} | null} */
  completion = null;

  /** @param {any} graph @param {string} name */
  constructor(graph, name) {
    this.graph = graph;
    this.name = name;
  }

  get namespace() {
    this.#namespace ??= createNamespace(() => this.collect());
    return this.#namespace;
  }

  /** Finds the requested modules. @param {(module: Module) => void} _link links one of them */
  load(_link) {}
  /** Lets it have getters; no guest code runs. */
  instantiate() {}
  /** Checks its imports, once every module of the graph is instantiated. */
  bind() {}
  run() {}

  /** @param {string} name @returns {(() => any) | undefined} reader of an export of its own */
  getter(name) {
    return this.getters.get(name);
  }

  /**
   * @param {string} name @param {Map<Module, Map<string, true>>} _seen
   * @returns {Binding | null}
   */
  resolve(name, _seen) {
    return this.getter(name) === undefined ? null : { module: this, name };
  }

  /** All exported names. @param {Map<string, true>} names @param {Map<Module, true>} _seen @param {boolean} star without default */
  names(names, _seen, star) {
    this.getters.forEach((_getter, name) => {
      if (!star || name !== 'default') names.set(name, true);
    });
  }

  /** For the namespace object. @returns {Map<string, () => any>} */
  collect() {
    const names = new SafeMap();
    this.names(names, new SafeMap(), false);
    const getters = newGetters();
    names.forEach((_true, name) => {
      const binding = this.resolve(name, new SafeMap());
      if (binding !== null && binding !== AMBIGUOUS) getters.set(name, getterOf(binding));
    });
    return getters;
  }

  /** Lets `env` have an export. @param {string} name @param {string} specifier as the importer wrote it */
  provide(name, specifier) {
    if (name in this.env) return;
    const binding = this.resolve(name, new SafeMap());
    if (binding === null) throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${name}'`);
    if (binding === AMBIGUOUS) throw new SyntaxError(`The requested module '${specifier}' contains conflicting star exports for name '${name}'`);
    ObjectDefineProperty(this.env, name, /** @type {any} */ ({ __proto__: null, get: getterOf(binding), set: constant, enumerable: false, configurable: true }));
  }
}

function constant() {
  throw new TypeError('Assignment to constant variable.');
}

/** An ES module. */
export class SourceModule extends Module {
  /** @param {any} graph @param {string} name @param {any} record the compiler's output */
  constructor(graph, name, record) {
    super(graph, name);
    this.record = record;
    this.tla = record.tla;
  }

  /** @param {(module: Module) => void} link */
  load(link) {
    const { requests } = this.record;
    const found = newList();
    for (let i = 0; i < requests.length; i++) {
      const module = this.graph.find(requests[i][0], this.name, requests[i][1]);
      found[i] = module;
      link(module);
    }
    this.requests = found;
  }

  instantiate() {
    const { code, locals, namespaces } = this.record;
    const args = newList();
    args[0] = this.graph.importer(this.name);
    args[1] = this.graph.meta(this.name);
    args[2] = this.graph.hooks;
    for (let i = 0; i < this.requests.length; i++) args[args.length] = this.requests[i].env;
    for (let i = 0; i < namespaces.length; i++) args[args.length] = this.requests[namespaces[i]].namespace;
    this.generator = ReflectApply(code, undefined, args);
    const getters = startGenerator(this);
    for (let i = 0; i < locals.length; i++) this.getters.set(locals[i], getters[i]);
  }

  bind() {
    const { imports, indirect, requests } = this.record;
    for (let i = 0; i < imports.length; i++) this.requests[imports[i][0]].provide(imports[i][1], requests[imports[i][0]][0]);
    for (let i = 0; i < indirect.length; i++) {
      const { 0: exported, 1: request, 2: name } = indirect[i];
      if (name === null) continue;
      const binding = this.resolve(exported, new SafeMap());
      const specifier = requests[request][0];
      if (binding === null) throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${name}'`);
      if (binding === AMBIGUOUS) throw new SyntaxError(`The requested module '${specifier}' contains conflicting star exports for name '${name}'`);
    }
  }

  run() {
    runToEnd(this);
  }

  /** @param {string} name @param {Map<Module, Map<string, true>>} seen @returns {Binding | null} */
  resolve(name, seen) {
    let names = seen.get(this);
    if (names === undefined) seen.set(this, names = new SafeMap());
    if (names.has(name)) return null; // a circle of re-exports
    names.set(name, true);
    if (this.getters.has(name)) return { module: this, name };
    const { indirect, stars } = this.record;
    for (let i = 0; i < indirect.length; i++) {
      const { 0: exported, 1: request, 2: from } = indirect[i];
      if (exported !== name) continue;
      const target = this.requests[request];
      return from === null ? { module: target, name: null } : target.resolve(from, seen);
    }
    if (name === 'default') return null;
    /** @type {Binding | null} */
    let found = null;
    for (let i = 0; i < stars.length; i++) {
      const one = this.requests[stars[i]].resolve(name, seen);
      if (one === AMBIGUOUS) return AMBIGUOUS;
      if (one === null) continue;
      if (found === null) found = one;
      else if (found.module !== one.module || found.name !== one.name) return AMBIGUOUS;
    }
    return found;
  }

  /** @param {Map<string, true>} names @param {Map<Module, true>} seen @param {boolean} star */
  names(names, seen, star) {
    if (seen.has(this)) return;
    seen.set(this, true);
    super.names(names, seen, star);
    const { indirect, stars } = this.record;
    for (let i = 0; i < indirect.length; i++) if (!star || indirect[i][0] !== 'default') names.set(indirect[i][0], true);
    for (let i = 0; i < stars.length; i++) this.requests[stars[i]].names(names, seen, true);
  }
}

/** Text, data, JSON, Wasm: one value, the default export. */
export class ValueModule extends Module {
  /** @param {any} graph @param {string} name @param {string} type json, text, bytes or wasm @param {() => any} make */
  constructor(graph, name, type, make) {
    super(graph, name);
    this.type = type;
    this.make = make;
    this.made = false;
    /** @type {any} */
    this.value = undefined;
    this.getters.set('default', () => this.value);
  }

  instantiate() {
    if (this.made) return;
    this.value = this.make();
    this.made = true;
  }
}

/** A module of the runtime: the own enumerable properties of an object, read live. */
export class BuiltinModule extends Module {
  /** @param {any} graph @param {string} name @param {any} exports @param {string[]} keys */
  constructor(graph, name, exports, keys) {
    super(graph, name);
    for (let i = 0; i < keys.length; i++) this.getters.set(keys[i], () => exports[keys[i]]);
  }
}

/** A CommonJS module: `default` is module.exports, and each of its properties can be imported by name. */
export class CommonJsModule extends Module {
  /** @param {any} graph @param {string} name @param {any} record */
  constructor(graph, name, record) {
    super(graph, name);
    this.record = record;
    this.started = false;
    /** What the code sees as `module`. */
    this.module = { exports: {}, id: name, filename: `/${name}`, loaded: false, children: [], paths: [] };
    this.getters.set('default', () => this.module.exports);
    for (let i = 0; i < record.names.length; i++) this.getter(record.names[i]);
  }

  /** Any name: which there are is known only when the code has run. @param {string} name @returns {() => any} */
  getter(name) {
    let getter = this.getters.get(name);
    if (getter === undefined) {
      getter = () => {
        const { exports } = this.module;
        return exports === null || exports === undefined ? undefined : exports[name];
      };
      this.getters.set(name, getter);
    }
    return getter;
  }

  run() {
    if (this.failed) throw this.error;
    if (this.started) return; // by require()
    this.started = true;
    try {
      this.graph.runCommonJs(this);
    } catch (reason) {
      this.failed = true;
      this.error = reason;
      throw reason;
    }
    this.module.loaded = true;
  }

  /** @param {Map<string, true>} names @param {Map<Module, true>} seen @param {boolean} star */
  names(names, seen, star) {
    if (this.module.loaded) this.graph.ownNames(this.module.exports, (/** @type {string} */ name) => this.getter(name));
    super.names(names, seen, star);
  }
}

