/** Values as text for the log. Runs no code of the guest: no getters, no proxies' traps, no toString. */
import {
  ArrayIsArray, ArrayPrototypeJoin, ArrayPrototypePush, BooleanPrototypeValueOf, DatePrototypeGetTime, DatePrototypeToISOString, JSONStringify,
  MapPrototypeForEach, MapPrototypeGetSize, NumberPrototypeValueOf, ObjectGetOwnPropertyDescriptor, ObjectGetPrototypeOf, ObjectIs, ObjectPrototypeHasOwnProperty,
  ObjectPrototypeToString, ReflectOwnKeys, RegExpPrototypeExec, RegExpPrototypeToString, SafeSet, SetPrototypeForEach, SetPrototypeGetSize,
  StringPrototypeIncludes, StringPrototypeIndexOf, StringPrototypeReplaceAll, StringPrototypeSlice, StringPrototypeValueOf, SymbolPrototypeToString,
  TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag, StringPrototypeReplace, parseFloat, parseInt, rawList,
  visibleStack,
} from '../primordials.js';
import { isArrayBuffer } from './webidl.js';
import { isDOMException } from './dom_exception.js';

const MAX_ITEMS = 100, MAX_STRING = 10000, LINE = 76;
const IDENTIFIER = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

/** @type {{is: (value: any) => boolean, name: string, view: (value: any) => any}[]} */
const views = rawList();
/** Shows objects of a class by what `view` makes of them, not by their properties. @param {string} name @param {(value: any) => boolean} is @param {(value: any) => any} view */
export const registerView = (name, is, view) => { ArrayPrototypePush(views, { __proto__: null, is, name, view }); };

/** @param {string} text */
function quote(text) {
  const cut = text.length > MAX_STRING ? StringPrototypeSlice(text, 0, MAX_STRING) : text;
  const json = JSONStringify(cut);
  const more = text.length > MAX_STRING ? `... ${text.length - MAX_STRING} more characters` : '';
  if (StringPrototypeIncludes(cut, "'")) return json + more;
  return `'${StringPrototypeReplaceAll(StringPrototypeSlice(json, 1, json.length - 1), '\\"', '"')}'${more}`;
}

/** @param {any} value @param {number} [depth] how many levels of objects @returns {string} */
export function inspect(value, depth = 2) {
  return format(value, depth, new SafeSet(), 0);
}

/** Runs a function that throws for values of another kind. @param {() => any} run */
function attempt(run) {
  try { return run(); } catch { return undefined; }
}

/** @param {any} object @returns {string} the name of its class, '' for null prototypes */
function className(object) {
  for (let proto = attempt(() => ObjectGetPrototypeOf(object)), i = 0; proto && i < 8; proto = ObjectGetPrototypeOf(proto), i++) {
    const descriptor = attempt(() => ObjectGetOwnPropertyDescriptor(proto, 'constructor'));
    if (descriptor && typeof descriptor.value === 'function') {
      const name = ObjectGetOwnPropertyDescriptor(descriptor.value, 'name');
      if (name && typeof name.value === 'string' && name.value) return name.value;
    }
  }
  return '';
}

/** @param {any} value @param {number} depth @param {Set<any>} seen @param {number} indent @returns {string} */
function format(value, depth, seen, indent) {
  switch (typeof value) {
    case 'string': return quote(value);
    case 'number': return ObjectIs(value, -0) ? '-0' : `${value}`;
    case 'bigint': return `${value}n`;
    case 'boolean': case 'undefined': return `${value}`;
    case 'symbol': return SymbolPrototypeToString(value);
    case 'function': {
      const name = ownValue(value, 'name');
      const head = attempt(() => ObjectGetOwnPropertyDescriptor(value, 'prototype'))?.writable === false ? 'class' : 'Function';
      return typeof name === 'string' && name ? `[${head}${head === 'class' ? ' ' : ': '}${name}]` : `[${head} (anonymous)]`;
    }
  }
  if (value === null) return 'null';
  if (seen.has(value)) return '[Circular]';
  const name = className(value);
  if (isDOMException(value) || isError(value)) return formatError(value);
  const date = attempt(() => DatePrototypeGetTime(value));
  if (date !== undefined) return date === date ? DatePrototypeToISOString(value) : 'Invalid Date';
  if (ObjectPrototypeHasOwnProperty(value, 'lastIndex')) {
    const text = attempt(() => RegExpPrototypeToString(value));
    if (text !== undefined) return text;
  }
  if (depth < 0) return ArrayIsArray(value) ? '[Array]' : `[${name || 'Object'}]`;
  seen.add(value);
  try {
    for (let i = 0; i < views.length; i++) if (views[i].is(value)) return `${views[i].name} ${StringPrototypeReplace(format(views[i].view(value), depth, seen, indent), '[Object: null prototype] ', '')}`;
    return formatObject(value, name, depth, seen, indent);
  } finally {
    seen.delete(value);
  }
}

/** @param {any} value @param {string} name @param {number} depth @param {Set<any>} seen @param {number} indent */
function formatObject(value, name, depth, seen, indent) {
  /** @type {string[]} */ const parts = [];
  let open = '{', close = '}', prefix = name === 'Object' ? '' : name === '' ? '[Object: null prototype] ' : `${name} `;
  const inner = (/** @type {any} */ one) => format(one, depth - 1, seen, indent + 2);
  let indexed = 0;
  const tag = TypedArrayPrototypeGetSymbolToStringTag(value);
  if (ArrayIsArray(value) || tag !== undefined) {
    open = '['; close = ']';
    const length = tag !== undefined ? TypedArrayPrototypeGetLength(value) : value.length;
    prefix = name === 'Array' ? '' : `${name || tag || 'Array'}(${length}) `;
    let holes = 0;
    const flush = () => {
      if (holes > 0) ArrayPrototypePush(parts, `<${holes} empty item${holes === 1 ? '' : 's'}>`);
      holes = 0;
    };
    for (let i = 0; i < length && parts.length < MAX_ITEMS; i++) {
      const descriptor = ObjectGetOwnPropertyDescriptor(value, i);
      if (descriptor === undefined) { holes++; if (holes > 1000000) break; continue; }
      flush();
      ArrayPrototypePush(parts, 'value' in descriptor ? inner(descriptor.value) : '[Getter]');
    }
    flush();
    indexed = length;
    if (length > MAX_ITEMS && parts.length >= MAX_ITEMS) ArrayPrototypePush(parts, `... ${length - MAX_ITEMS} more item${length - MAX_ITEMS === 1 ? '' : 's'}`);
  } else {
    const mapSize = attempt(() => MapPrototypeGetSize(value)), setSize = mapSize === undefined ? attempt(() => SetPrototypeGetSize(value)) : undefined;
    if (mapSize !== undefined) {
      prefix = `${name || 'Map'}(${mapSize}) `;
      MapPrototypeForEach(value, (/** @type {any} */ item, /** @type {any} */ key) => { if (parts.length < MAX_ITEMS) ArrayPrototypePush(parts, `${inner(key)} => ${inner(item)}`); });
      if (mapSize > MAX_ITEMS) ArrayPrototypePush(parts, `... ${mapSize - MAX_ITEMS} more items`);
    } else if (setSize !== undefined) {
      prefix = `${name || 'Set'}(${setSize}) `;
      SetPrototypeForEach(value, (/** @type {any} */ item) => { if (parts.length < MAX_ITEMS) ArrayPrototypePush(parts, inner(item)); });
      if (setSize > MAX_ITEMS) ArrayPrototypePush(parts, `... ${setSize - MAX_ITEMS} more items`);
    } else if (isArrayBuffer(value)) {
      ArrayPrototypePush(parts, `byteLength: ${value.byteLength}`);
    } else {
      const boxed = attempt(() => NumberPrototypeValueOf(value)) ?? attempt(() => StringPrototypeValueOf(value)) ?? attempt(() => BooleanPrototypeValueOf(value));
      if (boxed !== undefined) prefix = `[${name}: ${format(boxed, 0, seen, 0)}] `;
      if (ObjectPrototypeToString(value) === '[object Promise]' && name === 'Promise') ArrayPrototypePush(parts, '<promise>');
    }
  }
  const keys = attempt(() => ReflectOwnKeys(value)) ?? [];
  let shown = 0;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (open === '[' && typeof key === 'string' && (key === 'length' || (RegExpPrototypeExec(/^[0-9]+$/, key) !== null && +key < indexed))) continue;
    const descriptor = attempt(() => ObjectGetOwnPropertyDescriptor(value, key));
    if (!descriptor || !descriptor.enumerable) continue;
    if (++shown > MAX_ITEMS) { ArrayPrototypePush(parts, '...'); break; }
    const label = typeof key === 'symbol' ? `[${SymbolPrototypeToString(key)}]` : RegExpPrototypeExec(IDENTIFIER, key) !== null ? key : quote(key);
    const text = 'value' in descriptor ? inner(descriptor.value) : descriptor.get ? (descriptor.set ? '[Getter/Setter]' : '[Getter]') : '[Setter]';
    ArrayPrototypePush(parts, `${label}: ${text}`);
  }
  if (parts.length === 0) return `${prefix}${open}${close}`;
  const pad = StringPrototypeSlice('                                                  ', 0, indent + 2);
  let total = 0, multi = false;
  for (let i = 0; i < parts.length; i++) { total += parts[i].length + 2; if (StringPrototypeIndexOf(parts[i], '\n') >= 0) multi = true; }
  if (!multi && total + indent <= LINE) return `${prefix}${open} ${ArrayPrototypeJoin(parts, ', ')} ${close}`;
  return `${prefix}${open}\n${pad}${ArrayPrototypeJoin(parts, `,\n${pad}`)}\n${StringPrototypeSlice(pad, 2)}${close}`;
}

/** @param {any} object @param {string} key @returns {any} the value of a data property of it or its prototypes */
function ownValue(object, key) {
  for (let at = object, i = 0; at && i < 16; at = attempt(() => ObjectGetPrototypeOf(at)), i++) {
    const descriptor = attempt(() => ObjectGetOwnPropertyDescriptor(at, key));
    if (descriptor) return 'value' in descriptor ? descriptor.value : undefined;
  }
  return undefined;
}

/** @param {any} value */
function isError(value) { return ObjectPrototypeToString(value) === '[object Error]'; }

/** @param {any} error */
function formatError(error) {
  const full = isDOMException(error) ? attempt(() => /** @type {any} */ (error).stack) : ownValue(error, 'stack');
  const stack = typeof full === 'string' ? visibleStack(full) : full;
  const name = isDOMException(error) ? error.name : ownValue(error, 'name'), message = isDOMException(error) ? error.message : ownValue(error, 'message');
  const head = `${typeof name === 'string' ? name : 'Error'}${typeof message === 'string' && message ? `: ${message}` : ''}`;
  const text = typeof stack === 'string' && stack ? (typeof message === 'string' && StringPrototypeIncludes(stack, message) && message !== '' ? stack : `${head}\n${stack}`) : `[${head}]`;
  const cause = ownValue(error, 'cause');
  return cause === undefined ? text : `${text}\n  [cause]: ${cause === error ? '[Circular]' : isObjectError(cause) ? `${ownValue(cause, 'name')}: ${ownValue(cause, 'message')}` : format(cause, 1, new SafeSet(), 2)}`;
}
/** @param {any} value */
const isObjectError = (value) => typeof value === 'object' && value !== null && isError(value);

/** The arguments of console.log as text: %s and its kin, then the rest. @param {ArrayLike<any>} args @returns {string} */
export function formatLog(args) {
  let text = '', at = 0;
  if (args.length > 1 && typeof args[0] === 'string' && StringPrototypeIndexOf(args[0], '%') >= 0) {
    const pattern = args[0];
    at = 1;
    for (let i = 0; i < pattern.length; i++) {
      if (pattern[i] !== '%' || i + 1 === pattern.length) { text += pattern[i]; continue; }
      const kind = pattern[++i];
      if (kind === '%') { text += '%'; continue; }
      if (at >= args.length || !StringPrototypeIncludes('sdifoOcj', kind)) { text += `%${kind}`; continue; }
      const value = args[at++];
      if (kind === 's') text += typeof value === 'string' ? value : inspect(value, 0);
      else if (kind === 'd') text += typeof value === 'object' ? 'NaN' : typeof value === 'bigint' ? `${value}n` : `${attempt(() => +value)}`;
      else if (kind === 'i') text += typeof value === 'object' ? 'NaN' : `${attempt(() => parseInt(value, 10))}`;
      else if (kind === 'f') text += `${attempt(() => parseFloat(value))}`;
      else if (kind === 'j') text += attempt(() => JSONStringify(value)) ?? 'undefined';
      else if (kind !== 'c') text += inspect(value, 4);
    }
  }
  for (; at < args.length; at++) {
    if (at > 0) text += ' ';
    text += typeof args[at] === 'string' ? args[at] : inspect(args[at]);
  }
  return text;
}
