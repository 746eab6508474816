/** node:util/types. */
/** @param {string} tag */
const tagged = (tag) => (/** @type {any} */ value) => typeof value === 'object' && value !== null && Object.prototype.toString.call(value) === `[object ${tag}]`;
/** A test by a method that works on the real thing alone. @param {(value: any) => any} probe */
const probed = (probe) => (/** @type {any} */ value) => {
  if (typeof value !== 'object' || value === null) return false;
  try {
    probe(value);
    return true;
  } catch {
    return false;
  }
};
/** @param {any} proto @param {string} name */
const getter = (proto, name) => /** @type {any} */ (Object.getOwnPropertyDescriptor(proto, name)).get;
const TypedArray = Object.getPrototypeOf(Uint8Array);
const typedTag = getter(TypedArray.prototype, Symbol.toStringTag);
/** @param {string} name */
const typed = (name) => (/** @type {any} */ value) => typedTag.call(value) === name;
const bufferLength = getter(ArrayBuffer.prototype, 'byteLength'), mapSize = getter(Map.prototype, 'size'), setSize = getter(Set.prototype, 'size');
const viewBuffer = getter(DataView.prototype, 'buffer');
const AsyncFunction = (async () => {}).constructor, GeneratorFunction = (function* () {}).constructor;
const AsyncGeneratorFunction = (async function* () {}).constructor;

export const isAnyArrayBuffer = probed((value) => bufferLength.call(value));
export const isArrayBuffer = isAnyArrayBuffer;
export const isArrayBufferView = ArrayBuffer.isView;
export const isArgumentsObject = tagged('Arguments');
/** @param {any} value */ export const isAsyncFunction = (value) => value instanceof AsyncFunction || value instanceof AsyncGeneratorFunction;
/** @param {any} value */ export const isGeneratorFunction = (value) => value instanceof GeneratorFunction || value instanceof AsyncGeneratorFunction;
export const isBigInt64Array = typed('BigInt64Array');
export const isBigUint64Array = typed('BigUint64Array');
export const isBooleanObject = probed((value) => Boolean.prototype.valueOf.call(value));
export const isNumberObject = probed((value) => Number.prototype.valueOf.call(value));
export const isStringObject = probed((value) => String.prototype.valueOf.call(value));
export const isSymbolObject = probed((value) => Symbol.prototype.valueOf.call(value));
export const isBigIntObject = probed((value) => BigInt.prototype.valueOf.call(value));
/** @param {any} value */ export const isBoxedPrimitive = (value) => isBooleanObject(value) || isNumberObject(value) || isStringObject(value) || isSymbolObject(value) || isBigIntObject(value);
export const isDataView = probed((value) => viewBuffer.call(value));
export const isDate = probed((value) => Date.prototype.getTime.call(value));
export const isFloat32Array = typed('Float32Array');
export const isFloat64Array = typed('Float64Array');
export const isGeneratorObject = tagged('Generator');
export const isInt8Array = typed('Int8Array');
export const isInt16Array = typed('Int16Array');
export const isInt32Array = typed('Int32Array');
export const isMap = probed((value) => mapSize.call(value));
export const isMapIterator = tagged('Map Iterator');
/** @param {any} value */ export const isModuleNamespaceObject = (value) => typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === null && value[Symbol.toStringTag] === 'Module';
/** @param {any} value */ export const isNativeError = (value) => value instanceof Error;
/** @param {any} value */ export const isPromise = (value) => value instanceof Promise;
export const isRegExp = probed((value) => getter(RegExp.prototype, 'source').call(value) === undefined || RegExp.prototype.exec.call(value, ''));
export const isSet = probed((value) => setSize.call(value));
export const isSetIterator = tagged('Set Iterator');
export const isSharedArrayBuffer = () => false;
/** @param {any} value */ export const isTypedArray = (value) => typedTag.call(value) !== undefined;
export const isUint8Array = typed('Uint8Array');
export const isUint8ClampedArray = typed('Uint8ClampedArray');
export const isUint16Array = typed('Uint16Array');
export const isUint32Array = typed('Uint32Array');
export const isWeakMap = probed((value) => WeakMap.prototype.has.call(value, {}));
export const isWeakSet = probed((value) => WeakSet.prototype.has.call(value, {}));
/** @param {any} value */ export const isCryptoKey = (value) => value instanceof /** @type {any} */ (globalThis).CryptoKey;

export default {
  isAnyArrayBuffer, isArrayBuffer, isArrayBufferView, isArgumentsObject, isAsyncFunction, isBigInt64Array, isBigIntObject, isBigUint64Array,
  isBooleanObject, isBoxedPrimitive, isCryptoKey, isDataView, isDate, isFloat32Array, isFloat64Array, isGeneratorFunction, isGeneratorObject, isInt16Array,
  isInt32Array, isInt8Array, isMap, isMapIterator, isModuleNamespaceObject, isNativeError, isNumberObject, isPromise, isRegExp, isSet, isSetIterator,
  isSharedArrayBuffer, isStringObject, isSymbolObject, isTypedArray, isUint16Array, isUint32Array, isUint8Array, isUint8ClampedArray, isWeakMap, isWeakSet,
};
