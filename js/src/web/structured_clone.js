/**
 * structuredClone within one Worker: a copy of a graph, by the HTML standard. (What crosses to another process is encoded by
 * js/src/rpc instead.) Classes of the platform register how they are copied or transferred.
 */
import {
  AggregateError, ArrayBuffer, ArrayBufferPrototypeGetByteLength, ArrayBufferPrototypeGetDetached, ArrayBufferPrototypeSlice, ArrayBufferPrototypeTransfer,
  ArrayBufferIsView, ArrayIsArray, ArrayPrototypePush, BigIntPrototypeValueOf, BooleanPrototypeValueOf, DataView, DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength,
  DataViewPrototypeGetByteOffset, Date, DatePrototypeGetTime, Error, EvalError, MapPrototypeForEach, MapPrototypeGetSize, MapPrototypeSet, Map,
  NumberPrototypeValueOf, Object, ObjectDefineProperty, ObjectGetOwnPropertyDescriptor, ObjectKeys, ObjectPrototypeHasOwnProperty, RangeError, ReferenceError, RegExp,
  RegExpPrototypeGetFlags, RegExpPrototypeGetSource, SafeMap, Set, SetPrototypeAdd, SetPrototypeForEach, SetPrototypeGetSize, StringPrototypeValueOf, SymbolIterator,
  SyntaxError, TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag, URIError,
  iterate, ObjectPrototypeToString, ObjectGetPrototypeOf,
} from '../primordials.js';
import { blobBytes, blobOf, fileOf, isBlob, isFile } from './blob.js';
import { DOMException, domError, isDOMException } from './dom_exception.js';
import { isArrayBuffer, isObject, requireArguments } from './webidl.js';

/** @type {{is: (value: any) => boolean, copy: (value: any, clone: (inner: any) => any) => any}[]} */
const copiers = [];
/** @type {{is: (value: any) => boolean, transfer: (value: any) => any, locked?: (value: any) => boolean}[]} */
const transferers = [];
/** @param {(value: any) => boolean} is @param {(value: any, clone: (inner: any) => any) => any} copy */
export const registerCopier = (is, copy) => { ArrayPrototypePush(copiers, { __proto__: null, is, copy }); };
/** @param {(value: any) => boolean} is @param {(value: any) => any} transfer the new object; the old one is unusable afterwards @param {(value: any) => boolean} [locked] it cannot be transferred now */
export const registerTransferer = (is, transfer, locked) => { ArrayPrototypePush(transferers, { __proto__: null, is, transfer, locked }); };

const ERRORS = /** @type {any} */ ({ __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError, AggregateError });
const VIEWS = /** @type {any} */ ({ __proto__: null });
for (const name of ['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array', 'Float16Array', 'Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array']) {
  const found = /** @type {any} */ (globalThis)[name];
  if (found !== undefined) VIEWS[name] = found;
}
const MAX_DEPTH = 2000;

/** @param {() => any} run */
function attempt(run) {
  try { return run(); } catch { return undefined; }
}
/** @param {any} value @param {string} [why] @returns {never} */
function refuse(value, why) {
  const name = attempt(() => typeof value === 'function' ? 'a function' : typeof value === 'symbol' ? 'a symbol' : `an object of type ${ObjectPrototypeToString(value)}`);
  throw domError('DataCloneError', why ?? `Could not be cloned: ${name}`);
}

/** @param {any} value @param {any} [options] */
export function structuredClone(value, options = undefined) {
  requireArguments(arguments.length, 1, 'structuredClone');
  if (options !== undefined && options !== null && !isObject(options)) throw new TypeError('structuredClone: the options are not an object');
  const list = options?.transfer;
  return cloneWithTransfer(value, list).value;
}

/** @param {any} list an iterable, or undefined @returns {any[]} */
export function transferList(list) {
  /** @type {any[]} */ const all = [];
  if (list !== undefined && list !== null) {
    if (!isObject(list)) throw new TypeError('The transfer list is not a sequence');
    const method = list[SymbolIterator];
    if (method === undefined || method === null) throw new TypeError('The transfer list is not a sequence');
    iterate(list, (one) => {
      if (!isObject(one)) throw new TypeError('An element of the transfer list is not an object');
      ArrayPrototypePush(all, one);
    }, method);
  }
  return all;
}

/**
 * @param {any} value @param {any} transfer an iterable, or undefined @param {any} [except] what must not be in it
 * @returns {{value: any, transferred: any[]}} transferred: the new objects, in the order of the list
 */
export function cloneWithTransfer(value, transfer, except = undefined) {
  const list = transferList(transfer);
  const memory = new SafeMap();
  /** @type {(() => any)[]} */ const moves = [];
  /** @type {any[]} */ const placed = [];
  // Placeholders first: nothing may be detached when cloning fails.
  for (let i = 0; i < list.length; i++) {
    const one = list[i];
    if (memory.has(one)) throw domError('DataCloneError', 'The transfer list names an object twice');
    if (one === except) throw domError('DataCloneError', 'A port cannot be transferred through itself');
    /** @type {any} */ let by = null;
    if (isArrayBuffer(one)) {
      if (ArrayBufferPrototypeGetDetached !== undefined && ArrayBufferPrototypeGetDetached(one)) throw domError('DataCloneError', 'An ArrayBuffer of the transfer list is detached');
      if (ArrayBufferPrototypeTransfer === undefined) throw domError('DataCloneError', 'This engine cannot detach an ArrayBuffer');
    } else {
      for (let k = 0; k < transferers.length && by === null; k++) if (transferers[k].is(one)) by = transferers[k];
      if (by === null) throw domError('DataCloneError', `Not transferable: ${ObjectPrototypeToString(one)}`);
      if (by.locked?.(one)) throw domError('DataCloneError', 'A stream of the transfer list is locked');
    }
    const holder = { __proto__: null, later: true, made: /** @type {any} */ (null) };
    memory.set(one, holder);
    ArrayPrototypePush(placed, holder);
    ArrayPrototypePush(moves, by === null ? () => ArrayBufferPrototypeTransfer(one) : () => by.transfer(one));
  }
  /** Puts right what refers to a transferred object, afterwards. @type {(() => void)[]} */ const fixes = [];
  const cloned = clone(value, memory, fixes, 0, (made) => { result = made; });
  /** @type {any} */ var result = cloned;
  /** @type {any[]} */ const transferred = [];
  for (let i = 0; i < list.length; i++) {
    const made = moves[i]();
    placed[i].made = made;
    ArrayPrototypePush(transferred, made);
  }
  for (let i = 0; i < fixes.length; i++) fixes[i]();
  return { value: result, transferred };
}

/**
 * @param {any} value @param {Map<any, any>} memory @param {(() => void)[]} fixes @param {number} depth
 * @param {(made: any) => void} place where the result goes, for what is known only after the transfer
 * @returns {any}
 */
function clone(value, memory, fixes, depth, place) {
  switch (typeof value) {
    case 'undefined': case 'boolean': case 'number': case 'bigint': case 'string': return value;
    case 'symbol': case 'function': return refuse(value);
  }
  if (value === null) return null;
  const known = memory.get(value);
  if (known !== undefined) {
    if (known.later !== true) return known.made;
    ArrayPrototypePush(fixes, () => place(known.made));
    return undefined;
  }
  if (depth > MAX_DEPTH) throw domError('DataCloneError', `Nested deeper than ${MAX_DEPTH} levels`);
  const inner = (/** @type {any} */ one, /** @type {(made: any) => void} */ to) => clone(one, memory, fixes, depth + 1, to);
  const remember = (/** @type {any} */ made) => { memory.set(value, { __proto__: null, later: false, made }); return made; };

  const tag = TypedArrayPrototypeGetSymbolToStringTag(value);
  if (tag !== undefined) {
    const View = VIEWS[tag], buffer = TypedArrayPrototypeGetBuffer(value), offset = TypedArrayPrototypeGetByteOffset(value), length = TypedArrayPrototypeGetLength(value);
    return cloneView(buffer, (copy) => new View(copy, offset, length));
  }
  if (ArrayBufferIsView(value)) {
    const buffer = DataViewPrototypeGetBuffer(value), offset = DataViewPrototypeGetByteOffset(value), length = DataViewPrototypeGetByteLength(value);
    return cloneView(buffer, (copy) => new DataView(copy, offset, length));
  }
  /** @param {ArrayBuffer} buffer @param {(buffer: ArrayBuffer) => any} make */
  function cloneView(buffer, make) {
    const held = memory.get(buffer);
    if (held !== undefined && held.later === true) {
      const holder = { __proto__: null, later: true, made: /** @type {any} */ (null) };
      memory.set(value, holder);
      ArrayPrototypePush(fixes, () => { holder.made = make(held.made); place(holder.made); });
      return undefined;
    }
    return remember(make(clone(buffer, memory, fixes, depth + 1, place)));
  }
  if (isArrayBuffer(value)) {
    if (ArrayBufferPrototypeGetDetached !== undefined && ArrayBufferPrototypeGetDetached(value)) refuse(value, 'Could not be cloned: a detached ArrayBuffer');
    const max = /** @type {any} */ (value).resizable ? /** @type {any} */ (value).maxByteLength : undefined;
    if (max !== undefined) {
      const made = new /** @type {any} */ (ArrayBuffer)(ArrayBufferPrototypeGetByteLength(value), { maxByteLength: max });
      new VIEWS.Uint8Array(made).set(new VIEWS.Uint8Array(value));
      return remember(made);
    }
    return remember(ArrayBufferPrototypeSlice(value, 0, ArrayBufferPrototypeGetByteLength(value)));
  }
  if (ArrayIsArray(value)) {
    const made = remember([]);
    made.length = value.length;
    return properties(value, made);
  }
  /** @param {any} from @param {any} made */
  function properties(from, made) {
    const keys = ObjectKeys(from);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (!ObjectPrototypeHasOwnProperty(from, key)) continue; // a getter before it removed it
      const put = (/** @type {any} */ one) => ObjectDefineProperty(made, key, /** @type {any} */ ({ __proto__: null, value: one, writable: true, enumerable: true, configurable: true }));
      put(inner(from[key], put));
    }
    return made;
  }
  for (let i = 0; i < copiers.length; i++) if (copiers[i].is(value)) return remember(copiers[i].copy(value, (one) => inner(one, () => {})));
  if (isBlob(value)) return remember(isFile(value) ? fileOf(blobBytes(value), value.name, value.type, value.lastModified) : blobOf(blobBytes(value), value.type));
  if (isDOMException(value)) {
    const made = remember(new DOMException(value.message, value.name));
    const { stack } = /** @type {any} */ (value);
    if (typeof stack === 'string') ObjectDefineProperty(made, 'stack', /** @type {any} */ ({ __proto__: null, value: stack, writable: true, configurable: true }));
    return made;
  }
  for (let i = 0; i < transferers.length; i++) if (transferers[i].is(value)) refuse(value, 'Could not be cloned: an object that must be named in the transfer list');
  const text = ObjectPrototypeToString(value);
  if (isErrorLike(value, text)) {
    let name = attempt(() => value.name);
    name = name === undefined ? 'Error' : `${name}`;
    const Make = ERRORS[name] ?? Error;
    const message = ObjectGetOwnPropertyDescriptor(value, 'message');
    const plain = Make === AggregateError ? new AggregateError([]) : new Make();
    const made = remember(plain);
    const put = (/** @type {string} */ key, /** @type {any} */ one) => ObjectDefineProperty(made, key, /** @type {any} */ ({ __proto__: null, value: one, writable: true, enumerable: false, configurable: true }));
    if (message !== undefined && 'value' in message) put('message', `${message.value}`);
    const { stack } = value;
    if (typeof stack === 'string') put('stack', stack);
    if (ObjectPrototypeHasOwnProperty(value, 'cause')) put('cause', inner(value.cause, (one) => put('cause', one)));
    if (Make === AggregateError && ObjectPrototypeHasOwnProperty(value, 'errors')) put('errors', inner(value.errors, (one) => put('errors', one)));
    return made;
  }
  const date = attempt(() => [DatePrototypeGetTime(value)]);
  if (date !== undefined) return remember(new Date(date[0]));
  if (attempt(() => MapPrototypeGetSize(value)) !== undefined) {
    const made = remember(new Map());
    /** @type {any[][]} */ const entries = [];
    MapPrototypeForEach(value, (/** @type {any} */ item, /** @type {any} */ key) => ArrayPrototypePush(entries, [key, item]));
    for (let i = 0; i < entries.length; i++) {
      const key = inner(entries[i][0], () => {});
      MapPrototypeSet(made, key, inner(entries[i][1], (one) => MapPrototypeSet(made, key, one)));
    }
    return made;
  }
  if (attempt(() => SetPrototypeGetSize(value)) !== undefined) {
    const made = remember(new Set());
    /** @type {any[]} */ const items = [];
    SetPrototypeForEach(value, (/** @type {any} */ item) => ArrayPrototypePush(items, item));
    for (let i = 0; i < items.length; i++) SetPrototypeAdd(made, inner(items[i], (one) => SetPrototypeAdd(made, one)));
    return made;
  }
  if (ObjectPrototypeHasOwnProperty(value, 'lastIndex')) {
    // source and flags are getters of the prototype; these are the original ones.
    const pattern = attempt(() => [RegExpPrototypeGetSource(value), RegExpPrototypeGetFlags(value)]);
    if (pattern !== undefined) return remember(new RegExp(pattern[0], pattern[1]));
  }
  const boxed = attempt(() => [NumberPrototypeValueOf(value)]) ?? attempt(() => [StringPrototypeValueOf(value)]) ?? attempt(() => [BooleanPrototypeValueOf(value)]) ?? attempt(() => [BigIntPrototypeValueOf(value)]);
  if (boxed !== undefined) return remember(Object(boxed[0]));
  if (text === '[object Promise]' || text === '[object WeakMap]' || text === '[object WeakSet]' || text === '[object WeakRef]' || text === '[object Symbol]' || text === '[object Generator]') {
    if (isPlatform(value)) refuse(value);
  }
  if (isInterface(value)) refuse(value);
  return properties(value, remember({}));
}

/** An Error by its making, or one of a class that extends it. @param {any} value @param {string} text */
const isErrorLike = (value, text) => text === '[object Error]' || (typeof (/** @type {any} */ (Error).isError) === 'function' && /** @type {any} */ (Error).isError(value));
/** Its tag is not one that a guest put there. @param {any} value */
const isPlatform = (value) => ObjectGetOwnPropertyDescriptor(value, Symbol.toStringTag) === undefined;
/** @type {any[]} */
const interfaces = [];
/** Objects with such a prototype are refused, unless a copier takes them. @param {any} prototype */
export const registerInterface = (prototype) => { ArrayPrototypePush(interfaces, prototype); };
/** @param {any} value */
function isInterface(value) {
  for (let at = ObjectGetPrototypeOf(value), i = 0; at !== null && i < 32; at = ObjectGetPrototypeOf(at), i++) {
    for (let k = 0; k < interfaces.length; k++) if (interfaces[k] === at) return true;
  }
  return false;
}
