/** WorkerCode: what the host gives to the loader, checked and copied at once. Every refusal names the field. */
import {
  ArrayIsArray, Date, DatePrototypeToISOString, Error, JSONStringify, ObjectKeys, RegExpPrototypeTest, StringPrototypeEndsWith, StringPrototypeSlice,
  StringPrototypeStartsWith, TypeError,
  TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetLength,
  TypedArrayPrototypeGetSymbolToStringTag, TypedArrayPrototypeSet, ArrayBufferIsView, DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength,
  DataViewPrototypeGetByteOffset, Uint8Array, nullObject,
} from '../primordials.js';
import { natives } from '../natives.js';
import { isArrayBuffer } from '../rpc/codec.js';
import { StubHandle, handleOf } from '../rpc/stub.js';
import { SERVICE, releasePayload } from '../rpc/target.js';
import { encodeValue } from '../rpc/values.js';
import { worker } from './ctx.js';

/** As documented for Workers. */
const MAX_CODE = 64 << 20, MAX_ENV = 1 << 20;
const KINDS = ['js', 'cjs', 'text', 'data', 'json', 'py', 'wasm'];
const BUNDLED = /\.[tj]sx$/;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const FIELDS = /** @type {any} */ ({
  __proto__: null, compatibilityDate: 1, compatibilityFlags: 1, allowExperimental: 1, mainModule: 1, modules: 1, env: 1, globalOutbound: 1, tails: 1,
  limits: 1, streamingTails: 1, cacheApiOutbound: 1,
});

/** @param {string} field @param {string} type @returns {never} */
function wrongType(field, type) {
  throw new TypeError(`Incorrect type for the '${field}' field on 'WorkerCode': the provided value is not of type '${type}'.`);
}

/** @param {any} value */
const isObject = (value) => typeof value === 'object' && value !== null;

/** @param {any} value a buffer or a view @returns {Uint8Array|null} a copy */
function copyBytes(value) {
  let view;
  if (!isObject(value)) return null;
  if (ArrayBufferIsView(value)) {
    view = TypedArrayPrototypeGetSymbolToStringTag(value) === undefined
      ? new Uint8Array(DataViewPrototypeGetBuffer(value), DataViewPrototypeGetByteOffset(value), DataViewPrototypeGetByteLength(value))
      : new Uint8Array(TypedArrayPrototypeGetBuffer(value), TypedArrayPrototypeGetByteOffset(value), TypedArrayPrototypeGetByteLength(value));
  } else if (isArrayBuffer(value)) {
    view = new Uint8Array(value);
  } else {
    return null;
  }
  const copy = new Uint8Array(TypedArrayPrototypeGetLength(view));
  TypedArrayPrototypeSet(copy, view);
  return copy;
}

/** @param {string} name @param {any} content @param {boolean} python the main module is Python @returns {{name: string, type: string, data: any}} */
function readModule(name, content, python) {
  if (name === '') throw new TypeError("A module in 'modules' has an empty name.");
  if (typeof content === 'string') {
    if (StringPrototypeEndsWith(name, '.py')) return moduleOf(name, 'py', content);
    if (StringPrototypeEndsWith(name, '.js')) return moduleOf(name, 'js', content);
    if (StringPrototypeEndsWith(name, '.ts')) return moduleOf(name, 'ts', content);
    if (python && StringPrototypeStartsWith(name, 'python_modules/')) return moduleOf(name, 'text', content);
    throw new TypeError(`Module name must end with '.js' or '.py' (or the content must be an object indicating the type explicitly). Got: ${name}${
      RegExpPrototypeTest(BUNDLED, name) ? ". It has to be bundled first: pass the JavaScript that a bundler made of it." : ''}`);
  }
  if (!isObject(content)) throw new TypeError(`The module '${name}' in 'modules' is neither a string nor an object.`);
  let kind = '', count = 0;
  const values = nullObject();
  for (let i = 0; i < KINDS.length; i++) {
    const value = content[KINDS[i]];
    if (value === undefined) continue;
    values[KINDS[i]] = value;
    kind = KINDS[i];
    count++;
  }
  if (count !== 1) throw new TypeError(`Each module must contain exactly one of 'js', 'cjs', 'text', 'data', 'json', 'py', or 'wasm'. Module '${name}' contained ${count} properties.`);
  const value = values[kind];
  if (kind === 'json') {
    const text = JSONStringify(value);
    if (typeof text !== 'string') throw new TypeError(`The 'json' of the module '${name}' cannot be written as JSON.`);
    return moduleOf(name, 'json', text);
  }
  if (kind === 'data' || kind === 'wasm') {
    const bytes = copyBytes(value);
    if (bytes === null) throw new TypeError(`The '${kind}' of the module '${name}' is not of type 'ArrayBuffer or ArrayBufferView'.`);
    return { name, type: kind, data: bytes };
  }
  if (typeof value !== 'string') throw new TypeError(`The '${kind}' of the module '${name}' is not of type 'string'.`);
  return moduleOf(name, kind, value);
}

/** @param {string} name @param {string} type @param {string} text */
function moduleOf(name, type, text) {
  return { name, type, data: new Uint8Array(natives.utf8Encode(text)) };
}

/** @param {any} value @param {string} field */
function checkService(value, field) {
  const handle = handleOf(value);
  if (!(handle instanceof StubHandle) || handle.kind !== SERVICE) throw new TypeError(`The '${field}' of 'WorkerCode' is not of type 'Fetcher' (a service binding or an entrypoint of ctx.exports).`);
  return value;
}

/** @param {any} given @param {string} what @returns {any} {cpuMs?, subRequests?} or undefined */
export function readLimits(given, what) {
  if (given === undefined || given === null) return undefined;
  if (!isObject(given)) throw new TypeError(`The 'limits' of '${what}' is not an object.`);
  const limits = nullObject();
  const keys = ObjectKeys(given);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    const value = given[key];
    if (key !== 'cpuMs' && key !== 'subRequests' && key !== 'memoryMib' && key !== 'wallMs') throw new TypeError(`'limits' of '${what}' has no field '${key}'.`);
    if (value === undefined) continue;
    if (typeof value !== 'number' || !(value >= 1 && value <= 4294967295) || value !== value >>> 0) throw new TypeError(`The '${key}' of 'limits' is not a positive whole number.`);
    limits[key] = value;
  }
  return limits;
}

/**
 * @param {any} code the guest's object: each field is read once
 * @returns {{args: any, start: import('../rpc/target.js').Payload}} args: of `load`, without channel and name; start: what the Worker is given
 */
export function readCode(code) {
  if (!isObject(code)) throw new TypeError("The Worker's code is not of type 'WorkerCode'.");
  const all = ObjectKeys(code);
  for (let i = 0; i < all.length; i++) if (!(all[i] in FIELDS)) throw new TypeError(`'WorkerCode' has no field '${all[i]}'.`);
  const { compatibilityDate, compatibilityFlags, allowExperimental, mainModule, modules, env, globalOutbound, tails, limits, streamingTails } = code;
  if (typeof compatibilityDate !== 'string') wrongType('compatibilityDate', 'string');
  // The documentation's placeholder for the day on which the code was written.
  const date = compatibilityDate === '$today' ? StringPrototypeSlice(DatePrototypeToISOString(new Date(natives.now())), 0, 10) : compatibilityDate;
  if (!RegExpPrototypeTest(DATE, date)) throw new TypeError(`The 'compatibilityDate' of 'WorkerCode' is no date like "2026-01-31": ${compatibilityDate}`);
  if (typeof mainModule !== 'string') wrongType('mainModule', 'string');
  if (!isObject(modules)) wrongType('modules', 'object');
  // There are no experimental flags here, so nothing is to be allowed.
  if (allowExperimental && !worker.flags.has('experimental')) throw new Error("'allowExperimental' is only allowed when the calling worker has the 'experimental' compat flag set.");
  if (streamingTails !== undefined) throw new Error("The 'streamingTails' of 'WorkerCode' are not supported.");
  const flags = [];
  if (compatibilityFlags !== undefined) {
    if (!ArrayIsArray(compatibilityFlags)) wrongType('compatibilityFlags', 'Array<string>');
    for (let i = 0; i < compatibilityFlags.length; i++) {
      const flag = compatibilityFlags[i];
      if (typeof flag !== 'string') wrongType('compatibilityFlags', 'Array<string>');
      flags[i] = flag;
    }
  }
  const names = ObjectKeys(modules);
  if (names.length === 0) throw new TypeError('Dynamic Worker code must contain at least one module.');
  const python = StringPrototypeEndsWith(mainModule, '.py');
  const list = [];
  let size = 0, found = false;
  for (let i = 0; i < names.length; i++) {
    const module = readModule(names[i], modules[names[i]], python);
    if (!python && module.type === 'py') throw new TypeError(`Module "${module.name}" is a Python module, but the main module isn't a Python module.`);
    size += TypedArrayPrototypeGetLength(module.data);
    if (module.name === mainModule) found = true;
    list[i] = module;
  }
  if (!found) throw new TypeError(`The 'mainModule' of 'WorkerCode' is "${mainModule}", which is not one of the 'modules'.`);
  if (size > MAX_CODE) throw new Error(`Dynamic Worker code size (${size} bytes) exceeds the maximum allowed size of ${MAX_CODE} bytes.`);
  if (python) throw new Error(`The main module "${mainModule}" is Python: install the Python runtime.`);
  const given = readLimits(limits, 'WorkerCode');
  if (env !== undefined && (!isObject(env) || ArrayIsArray(env))) wrongType('env', 'object');
  const outbound = globalOutbound === undefined || globalOutbound === null ? null : checkService(globalOutbound, 'globalOutbound');
  const listeners = [];
  if (tails !== undefined) {
    if (!ArrayIsArray(tails)) wrongType('tails', 'Array<Fetcher>');
    for (let i = 0; i < tails.length; i++) listeners[i] = checkService(tails[i], 'tails');
  }
  const start = encodeValue({ env: env ?? {}, outbound, tails: listeners });
  const bytes = TypedArrayPrototypeGetLength(/** @type {Uint8Array} */ (start.bytes));
  if (bytes > MAX_ENV) {
    releasePayload(start);
    throw new Error(`Dynamic Worker env size (${bytes} bytes) exceeds the maximum allowed size of ${MAX_ENV} bytes.`);
  }
  const args = nullObject();
  args.compatibilityDate = date;
  args.compatibilityFlags = flags;
  args.mainModule = mainModule;
  args.modules = list;
  args.outbound = globalOutbound === undefined ? 'daemon' : globalOutbound === null ? 'none' : 'channel';
  if (given !== undefined) args.limits = given;
  return { args, start };
}
