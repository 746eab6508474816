/**
 * The order in which modules run: the standard's algorithm for cyclic module graphs with top-level await (ECMA-262, "Evaluate").
 * Modules that are no ES modules run like ES modules without imports and without await.
 */
import { ObjectGetPrototypeOf, ReflectApply, promiseIgnore, promiseWithResolvers } from '../primordials.js';
import { newList } from './list.js';

/** @typedef {import('./module.js').Module} Module */

const GeneratorPrototype = ObjectGetPrototypeOf(function* () {}).prototype;
const { next: generatorNext, throw: generatorThrow } = GeneratorPrototype;

/** Runs `done` or `failed` when the value has settled, one turn later at the earliest. Neither may throw.
 * @param {any} value @param {(value: any) => void} done @param {(reason: any) => void} failed */
async function settle(value, done, failed) {
  let result;
  try {
    result = await value;
  } catch (reason) {
    failed(reason);
    return;
  }
  done(result);
}

/** Async modules complete in the order in which they started. */
let lastAsync = 0;

/** Runs the first part of a module's code, which gives its getters. @param {Module} module @returns {(() => any)[]} */
export function startGenerator(module) {
  return ReflectApply(generatorNext, module.generator, newList()).value;
}

/** @param {Module} module linked @returns {Promise<void>} when it and everything that it imports has run */
export function evaluate(module) {
  if ((module.state === 'evaluated' || module.state === 'waiting') && module.cycleRoot !== null) module = module.cycleRoot;
  if (module.completion !== null) return module.completion.promise;
  const completion = promiseWithResolvers();
  module.completion = completion;
  const stack = newList();
  try {
    visit(module, stack, 0);
    if (module.asyncOrder === 0) completion.resolve(undefined);
  } catch (reason) {
    for (let i = 0; i < stack.length; i++) {
      stack[i].state = 'evaluated';
      stack[i].failed = true;
      stack[i].error = reason;
    }
    if (module.state !== 'evaluated') {
      module.state = 'evaluated';
      module.failed = true;
      module.error = reason;
    }
    completion.reject(reason);
  }
  promiseIgnore(completion.promise); // whoever asked for it deals with it
  return completion.promise;
}

/** @param {Module} module @param {Module[]} stack @param {number} index @returns {number} */
function visit(module, stack, index) {
  if (module.state === 'evaluated' || module.state === 'waiting') {
    if (module.failed) throw module.error;
    return index;
  }
  if (module.state === 'evaluating') return index;
  module.state = 'evaluating';
  module.index = index;
  module.ancestor = index;
  index += 1;
  stack[stack.length] = module;
  for (let i = 0; i < module.requests.length; i++) {
    let required = module.requests[i];
    index = visit(required, stack, index);
    if (required.state === 'evaluating') {
      if (required.ancestor < module.ancestor) module.ancestor = required.ancestor;
    } else {
      required = required.cycleRoot ?? required;
      if (required.failed) throw required.error;
    }
    if (required.asyncOrder !== 0 && required.state !== 'evaluated') {
      module.pending += 1;
      required.parents[required.parents.length] = module;
    }
  }
  if (module.pending > 0 || module.tla) {
    module.asyncOrder = ++lastAsync;
    if (module.pending === 0) runAsync(module);
  } else {
    module.run();
  }
  if (module.ancestor === module.index) {
    for (;;) {
      const member = stack[stack.length - 1];
      stack.length -= 1;
      member.state = member.asyncOrder === 0 ? 'evaluated' : 'waiting';
      member.cycleRoot = module;
      if (member === module) break;
    }
  }
  return index;
}

/** Resumes a module without top-level await. @param {Module} module */
export function runToEnd(module) {
  ReflectApply(generatorNext, module.generator, newList());
}

/** @param {Module} module */
function runAsync(module) {
  advance(module, generatorNext, undefined);
}

/** @param {Module} module @param {any} method @param {any} value */
function advance(module, method, value) {
  let step;
  try {
    const args = newList();
    args[0] = value;
    step = ReflectApply(method, module.generator, args);
  } catch (reason) {
    settle(undefined, () => rejected(module, reason), never);
    return;
  }
  if (step.done) {
    settle(undefined, () => fulfilled(module), never);
    return;
  }
  const { getContext, setContext } = module.graph.context;
  const kept = getContext();
  settle(step.value, (result) => {
    setContext(kept);
    advance(module, generatorNext, result);
  }, (reason) => {
    setContext(kept);
    advance(module, generatorThrow, reason);
  });
}

const never = () => {};

/** @param {Module} module */
function fulfilled(module) {
  if (module.state === 'evaluated') return;
  module.state = 'evaluated';
  module.completion?.resolve(undefined);
  const ready = newList();
  gather(module, ready);
  sortByOrder(ready);
  for (let i = 0; i < ready.length; i++) {
    const parent = ready[i];
    if (parent.state === 'evaluated') continue; // it failed meanwhile
    if (parent.tla) {
      runAsync(parent);
      continue;
    }
    try {
      parent.run();
    } catch (reason) {
      rejected(parent, reason);
      continue;
    }
    parent.state = 'evaluated';
    parent.completion?.resolve(undefined);
  }
}

/** The importers that waited for nothing else. @param {Module} module @param {Module[]} ready */
function gather(module, ready) {
  for (let i = 0; i < module.parents.length; i++) {
    const parent = module.parents[i];
    if (parent.state === 'evaluated' || parent.cycleRoot?.failed) continue;
    parent.pending -= 1;
    if (parent.pending > 0) continue;
    ready[ready.length] = parent;
    if (!parent.tla) gather(parent, ready);
  }
}

/** @param {Module[]} list short */
function sortByOrder(list) {
  for (let i = 1; i < list.length; i++) {
    const one = list[i];
    let at = i;
    for (; at > 0 && list[at - 1].asyncOrder > one.asyncOrder; at--) list[at] = list[at - 1];
    list[at] = one;
  }
}

/** @param {Module} module @param {any} reason */
function rejected(module, reason) {
  if (module.state === 'evaluated') return;
  module.state = 'evaluated';
  module.failed = true;
  module.error = reason;
  for (let i = 0; i < module.parents.length; i++) rejected(module.parents[i], reason);
  module.completion?.reject(reason);
}
