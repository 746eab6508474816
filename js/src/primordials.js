/**
 * The language's own functions as they were before any guest code ran. Library code calls these and never a method that
 * guest code could have replaced: `ArrayPrototypePush(list, x)` for `list.push(x)`. A guest that replaces a prototype's method
 * spoils its own program, not the serving of its requests, and cannot get hold of the library's objects this way.
 *
 * What stays true of plain syntax, so needs nothing of here: property access of own properties, literals, classes and
 * private fields, `async`/`await` of our own promises (but see `promiseThen`), template strings of strings. What does not:
 * `for...of`, spread and array destructuring (they look up Symbol.iterator: use an index, or `iterate`), methods of any kind,
 * `{}` as a dictionary (inherits from Object.prototype: use `nullObject()`), property descriptors (`define`).
 */
// --- constructors and globals
export const {
  AggregateError, Array, ArrayBuffer, BigInt, BigInt64Array, BigUint64Array, Boolean, DataView, Date, Error,
  EvalError, FinalizationRegistry, Float32Array, Float64Array, Function, Int16Array, Int32Array, Int8Array, Map,
  Number, Object, Promise, Proxy, RangeError, ReferenceError, RegExp, Set, String, Symbol, SyntaxError,
  TypeError, URIError, Uint16Array, Uint32Array, Uint8Array, Uint8ClampedArray, WeakMap, WeakRef, WeakSet,
} = globalThis;
export const { decodeURIComponent, encodeURIComponent, isNaN, isFinite, parseInt, parseFloat } = globalThis;
export const GlobalEval = globalThis.eval;

const { bind, call } = Function.prototype;

/** `uncurryThis(f)(self, a)` is `f.call(self, a)`, whatever became of `call`. @type {(f: any) => any} */
export const uncurryThis = bind.bind(call);
/** @param {any} f a method that an engine may lack */
const maybeUncurry = (f) => (f === undefined ? undefined : uncurryThis(f));
const MathObject = Math, JSONObject = JSON, ReflectObject = Reflect, ArrayConstructor = Array;
const lookUp = Object.getOwnPropertyDescriptor;
/** @param {object} proto @param {PropertyKey} name @returns {any} */
const getter = (proto, name) => {
  const found = /** @type {any} */ (lookUp(proto, name));
  return found === undefined ? undefined : uncurryThis(found.get);
};

// --- static functions
export const ArrayFrom = ArrayConstructor.from.bind(ArrayConstructor);
export const ArrayIsArray = Array.isArray;
export const ArrayOf = ArrayConstructor.of.bind(ArrayConstructor);
export const ArrayBufferIsView = ArrayBuffer.isView;
export const BigIntAsIntN = BigInt.asIntN;
export const BigIntAsUintN = BigInt.asUintN;
export const DateNow = Date.now;
export const DateParse = Date.parse;
export const DateUTC = Date.UTC;
export const JSONParse = JSONObject.parse;
export const JSONStringify = JSONObject.stringify;
export const MathAbs = MathObject.abs;
export const MathCeil = MathObject.ceil;
export const MathFloor = MathObject.floor;
export const MathMax = MathObject.max;
export const MathMin = MathObject.min;
export const MathPow = MathObject.pow;
export const MathRandom = MathObject.random;
export const MathRound = MathObject.round;
export const MathTrunc = MathObject.trunc;
export const MathClz32 = MathObject.clz32;
export const MathLog2 = MathObject.log2;
export const MathImul = MathObject.imul;
export const MathSign = MathObject.sign;
export const NumberIsFinite = Number.isFinite;
export const NumberIsInteger = Number.isInteger;
export const NumberIsNaN = Number.isNaN;
export const NumberIsSafeInteger = Number.isSafeInteger;
export const NumberParseFloat = Number.parseFloat;
export const NumberParseInt = Number.parseInt;
export const ObjectAssign = Object.assign;
export const ObjectCreate = Object.create;
export const ObjectDefineProperties = Object.defineProperties;
export const ObjectDefineProperty = Object.defineProperty;
export const ObjectEntries = Object.entries;
export const ObjectFreeze = Object.freeze;
export const ObjectFromEntries = Object.fromEntries;
export const ObjectGetOwnPropertyDescriptor = Object.getOwnPropertyDescriptor;
export const ObjectGetOwnPropertyDescriptors = Object.getOwnPropertyDescriptors;
export const ObjectGetOwnPropertyNames = Object.getOwnPropertyNames;
export const ObjectGetOwnPropertySymbols = Object.getOwnPropertySymbols;
export const ObjectGetPrototypeOf = Object.getPrototypeOf;
export const ObjectIs = Object.is;
export const ObjectIsExtensible = Object.isExtensible;
export const ObjectIsFrozen = Object.isFrozen;
export const ObjectKeys = Object.keys;
export const ObjectPreventExtensions = Object.preventExtensions;
export const ObjectSetPrototypeOf = Object.setPrototypeOf;
export const ObjectValues = Object.values;
export const ObjectHasOwn = Object.hasOwn;
export const ReflectApply = ReflectObject.apply;
export const ReflectConstruct = ReflectObject.construct;
export const ReflectDefineProperty = ReflectObject.defineProperty;
export const ReflectDeleteProperty = ReflectObject.deleteProperty;
export const ReflectGet = ReflectObject.get;
export const ReflectGetOwnPropertyDescriptor = ReflectObject.getOwnPropertyDescriptor;
export const ReflectGetPrototypeOf = ReflectObject.getPrototypeOf;
export const ReflectHas = ReflectObject.has;
export const ReflectIsExtensible = ReflectObject.isExtensible;
export const ReflectOwnKeys = ReflectObject.ownKeys;
export const ReflectSet = ReflectObject.set;
export const ReflectSetPrototypeOf = ReflectObject.setPrototypeOf;
export const StringFromCharCode = String.fromCharCode;
export const StringFromCodePoint = String.fromCodePoint;
export const StringRaw = String.raw;
export const SymbolFor = Symbol.for;
export const SymbolKeyFor = Symbol.keyFor;

// --- well-known symbols
export const {
  asyncIterator: SymbolAsyncIterator, hasInstance: SymbolHasInstance, iterator: SymbolIterator,
  species: SymbolSpecies, toPrimitive: SymbolToPrimitive, toStringTag: SymbolToStringTag,
} = Symbol;

// --- prototypes, their methods (first argument: the receiver) and getters
export const ArrayPrototype = Array.prototype;
export const ArrayPrototypeAt = uncurryThis(Array.prototype.at);
export const ArrayPrototypeConcat = uncurryThis(Array.prototype.concat);
export const ArrayPrototypeCopyWithin = uncurryThis(Array.prototype.copyWithin);
export const ArrayPrototypeFill = uncurryThis(Array.prototype.fill);
export const ArrayPrototypeFind = uncurryThis(Array.prototype.find);
export const ArrayPrototypeFindIndex = uncurryThis(Array.prototype.findIndex);
export const ArrayPrototypeFindLast = maybeUncurry(Array.prototype.findLast);
export const ArrayPrototypeFindLastIndex = maybeUncurry(Array.prototype.findLastIndex);
export const ArrayPrototypeLastIndexOf = uncurryThis(Array.prototype.lastIndexOf);
export const ArrayPrototypePop = uncurryThis(Array.prototype.pop);
export const ArrayPrototypePush = uncurryThis(Array.prototype.push);
export const ArrayPrototypeReverse = uncurryThis(Array.prototype.reverse);
export const ArrayPrototypeShift = uncurryThis(Array.prototype.shift);
export const ArrayPrototypeUnshift = uncurryThis(Array.prototype.unshift);
export const ArrayPrototypeSlice = uncurryThis(Array.prototype.slice);
export const ArrayPrototypeSort = uncurryThis(Array.prototype.sort);
export const ArrayPrototypeSplice = uncurryThis(Array.prototype.splice);
export const ArrayPrototypeIncludes = uncurryThis(Array.prototype.includes);
export const ArrayPrototypeIndexOf = uncurryThis(Array.prototype.indexOf);
export const ArrayPrototypeJoin = uncurryThis(Array.prototype.join);
export const ArrayPrototypeKeys = uncurryThis(Array.prototype.keys);
export const ArrayPrototypeEntries = uncurryThis(Array.prototype.entries);
export const ArrayPrototypeValues = uncurryThis(Array.prototype.values);
export const ArrayPrototypeForEach = uncurryThis(Array.prototype.forEach);
export const ArrayPrototypeFilter = uncurryThis(Array.prototype.filter);
export const ArrayPrototypeFlat = uncurryThis(Array.prototype.flat);
export const ArrayPrototypeFlatMap = uncurryThis(Array.prototype.flatMap);
export const ArrayPrototypeMap = uncurryThis(Array.prototype.map);
export const ArrayPrototypeEvery = uncurryThis(Array.prototype.every);
export const ArrayPrototypeSome = uncurryThis(Array.prototype.some);
export const ArrayPrototypeReduce = uncurryThis(Array.prototype.reduce);
export const ArrayPrototypeReduceRight = uncurryThis(Array.prototype.reduceRight);
export const ArrayPrototypeToLocaleString = uncurryThis(Array.prototype.toLocaleString);
export const ArrayPrototypeToString = uncurryThis(Array.prototype.toString);
export const ArrayPrototypeToReversed = maybeUncurry(Array.prototype.toReversed);
export const ArrayPrototypeToSorted = maybeUncurry(Array.prototype.toSorted);
export const ArrayPrototypeToSpliced = maybeUncurry(Array.prototype.toSpliced);
export const ArrayPrototypeWith = maybeUncurry(Array.prototype.with);
export const ArrayPrototypeSymbolIterator = uncurryThis(Array.prototype[Symbol.iterator]);
export const ArrayBufferPrototype = ArrayBuffer.prototype;
export const ArrayBufferPrototypeGetByteLength = getter(ArrayBuffer.prototype, 'byteLength');
export const ArrayBufferPrototypeTransfer = maybeUncurry(/** @type {any} */ (ArrayBuffer.prototype).transfer);
export const ArrayBufferPrototypeGetDetached = getter(ArrayBuffer.prototype, 'detached');
export const ArrayBufferPrototypeSlice = uncurryThis(ArrayBuffer.prototype.slice);
export const ArrayBufferPrototypeGetMaxByteLength = getter(ArrayBuffer.prototype, 'maxByteLength');
export const ArrayBufferPrototypeGetResizable = getter(ArrayBuffer.prototype, 'resizable');
export const ArrayBufferPrototypeResize = maybeUncurry(ArrayBuffer.prototype.resize);
export const BigIntPrototype = BigInt.prototype;
export const BigIntPrototypeToLocaleString = uncurryThis(BigInt.prototype.toLocaleString);
export const BigIntPrototypeToString = uncurryThis(BigInt.prototype.toString);
export const BigIntPrototypeValueOf = uncurryThis(BigInt.prototype.valueOf);
export const BooleanPrototype = Boolean.prototype;
export const BooleanPrototypeToString = uncurryThis(Boolean.prototype.toString);
export const BooleanPrototypeValueOf = uncurryThis(Boolean.prototype.valueOf);
export const DataViewPrototype = DataView.prototype;
export const DataViewPrototypeGetBuffer = getter(DataView.prototype, 'buffer');
export const DataViewPrototypeGetByteLength = getter(DataView.prototype, 'byteLength');
export const DataViewPrototypeGetByteOffset = getter(DataView.prototype, 'byteOffset');
export const DataViewPrototypeGetInt8 = uncurryThis(DataView.prototype.getInt8);
export const DataViewPrototypeSetInt8 = uncurryThis(DataView.prototype.setInt8);
export const DataViewPrototypeGetUint8 = uncurryThis(DataView.prototype.getUint8);
export const DataViewPrototypeSetUint8 = uncurryThis(DataView.prototype.setUint8);
export const DataViewPrototypeGetInt16 = uncurryThis(DataView.prototype.getInt16);
export const DataViewPrototypeSetInt16 = uncurryThis(DataView.prototype.setInt16);
export const DataViewPrototypeGetUint16 = uncurryThis(DataView.prototype.getUint16);
export const DataViewPrototypeSetUint16 = uncurryThis(DataView.prototype.setUint16);
export const DataViewPrototypeGetInt32 = uncurryThis(DataView.prototype.getInt32);
export const DataViewPrototypeSetInt32 = uncurryThis(DataView.prototype.setInt32);
export const DataViewPrototypeGetUint32 = uncurryThis(DataView.prototype.getUint32);
export const DataViewPrototypeSetUint32 = uncurryThis(DataView.prototype.setUint32);
export const DataViewPrototypeGetFloat32 = uncurryThis(DataView.prototype.getFloat32);
export const DataViewPrototypeSetFloat32 = uncurryThis(DataView.prototype.setFloat32);
export const DataViewPrototypeGetFloat64 = uncurryThis(DataView.prototype.getFloat64);
export const DataViewPrototypeSetFloat64 = uncurryThis(DataView.prototype.setFloat64);
export const DataViewPrototypeGetBigInt64 = uncurryThis(DataView.prototype.getBigInt64);
export const DataViewPrototypeSetBigInt64 = uncurryThis(DataView.prototype.setBigInt64);
export const DataViewPrototypeGetBigUint64 = uncurryThis(DataView.prototype.getBigUint64);
export const DataViewPrototypeSetBigUint64 = uncurryThis(DataView.prototype.setBigUint64);
export const DatePrototype = Date.prototype;
export const DatePrototypeToString = uncurryThis(Date.prototype.toString);
export const DatePrototypeToDateString = uncurryThis(Date.prototype.toDateString);
export const DatePrototypeToTimeString = uncurryThis(Date.prototype.toTimeString);
export const DatePrototypeToISOString = uncurryThis(Date.prototype.toISOString);
export const DatePrototypeToUTCString = uncurryThis(Date.prototype.toUTCString);
export const DatePrototypeGetDate = uncurryThis(Date.prototype.getDate);
export const DatePrototypeSetDate = uncurryThis(Date.prototype.setDate);
export const DatePrototypeGetDay = uncurryThis(Date.prototype.getDay);
export const DatePrototypeGetFullYear = uncurryThis(Date.prototype.getFullYear);
export const DatePrototypeSetFullYear = uncurryThis(Date.prototype.setFullYear);
export const DatePrototypeGetHours = uncurryThis(Date.prototype.getHours);
export const DatePrototypeSetHours = uncurryThis(Date.prototype.setHours);
export const DatePrototypeGetMilliseconds = uncurryThis(Date.prototype.getMilliseconds);
export const DatePrototypeSetMilliseconds = uncurryThis(Date.prototype.setMilliseconds);
export const DatePrototypeGetMinutes = uncurryThis(Date.prototype.getMinutes);
export const DatePrototypeSetMinutes = uncurryThis(Date.prototype.setMinutes);
export const DatePrototypeGetMonth = uncurryThis(Date.prototype.getMonth);
export const DatePrototypeSetMonth = uncurryThis(Date.prototype.setMonth);
export const DatePrototypeGetSeconds = uncurryThis(Date.prototype.getSeconds);
export const DatePrototypeSetSeconds = uncurryThis(Date.prototype.setSeconds);
export const DatePrototypeGetTime = uncurryThis(Date.prototype.getTime);
export const DatePrototypeSetTime = uncurryThis(Date.prototype.setTime);
export const DatePrototypeGetTimezoneOffset = uncurryThis(Date.prototype.getTimezoneOffset);
export const DatePrototypeGetUTCDate = uncurryThis(Date.prototype.getUTCDate);
export const DatePrototypeSetUTCDate = uncurryThis(Date.prototype.setUTCDate);
export const DatePrototypeGetUTCDay = uncurryThis(Date.prototype.getUTCDay);
export const DatePrototypeGetUTCFullYear = uncurryThis(Date.prototype.getUTCFullYear);
export const DatePrototypeSetUTCFullYear = uncurryThis(Date.prototype.setUTCFullYear);
export const DatePrototypeGetUTCHours = uncurryThis(Date.prototype.getUTCHours);
export const DatePrototypeSetUTCHours = uncurryThis(Date.prototype.setUTCHours);
export const DatePrototypeGetUTCMilliseconds = uncurryThis(Date.prototype.getUTCMilliseconds);
export const DatePrototypeSetUTCMilliseconds = uncurryThis(Date.prototype.setUTCMilliseconds);
export const DatePrototypeGetUTCMinutes = uncurryThis(Date.prototype.getUTCMinutes);
export const DatePrototypeSetUTCMinutes = uncurryThis(Date.prototype.setUTCMinutes);
export const DatePrototypeGetUTCMonth = uncurryThis(Date.prototype.getUTCMonth);
export const DatePrototypeSetUTCMonth = uncurryThis(Date.prototype.setUTCMonth);
export const DatePrototypeGetUTCSeconds = uncurryThis(Date.prototype.getUTCSeconds);
export const DatePrototypeSetUTCSeconds = uncurryThis(Date.prototype.setUTCSeconds);
export const DatePrototypeValueOf = uncurryThis(Date.prototype.valueOf);
export const DatePrototypeToJSON = uncurryThis(Date.prototype.toJSON);
export const DatePrototypeToLocaleString = uncurryThis(Date.prototype.toLocaleString);
export const DatePrototypeSymbolToPrimitive = uncurryThis(Date.prototype[Symbol.toPrimitive]);
export const ErrorPrototype = Error.prototype;
export const ErrorPrototypeToString = uncurryThis(Error.prototype.toString);
export const FinalizationRegistryPrototype = FinalizationRegistry.prototype;
export const FinalizationRegistryPrototypeRegister = uncurryThis(FinalizationRegistry.prototype.register);
export const FinalizationRegistryPrototypeUnregister = uncurryThis(FinalizationRegistry.prototype.unregister);
export const FunctionPrototype = Function.prototype;
export const FunctionPrototypeApply = uncurryThis(Function.prototype.apply);
export const FunctionPrototypeBind = uncurryThis(Function.prototype.bind);
export const FunctionPrototypeCall = uncurryThis(Function.prototype.call);
export const FunctionPrototypeToString = uncurryThis(Function.prototype.toString);
export const FunctionPrototypeSymbolHasInstance = uncurryThis(Function.prototype[Symbol.hasInstance]);
export const MapPrototype = Map.prototype;
export const MapPrototypeGet = uncurryThis(Map.prototype.get);
export const MapPrototypeSet = uncurryThis(Map.prototype.set);
export const MapPrototypeHas = uncurryThis(Map.prototype.has);
export const MapPrototypeDelete = uncurryThis(Map.prototype.delete);
export const MapPrototypeClear = uncurryThis(Map.prototype.clear);
export const MapPrototypeEntries = uncurryThis(Map.prototype.entries);
export const MapPrototypeForEach = uncurryThis(Map.prototype.forEach);
export const MapPrototypeKeys = uncurryThis(Map.prototype.keys);
export const MapPrototypeGetSize = getter(Map.prototype, 'size');
export const MapPrototypeValues = uncurryThis(Map.prototype.values);
export const MapPrototypeSymbolIterator = uncurryThis(Map.prototype[Symbol.iterator]);
export const NumberPrototype = Number.prototype;
export const NumberPrototypeToExponential = uncurryThis(Number.prototype.toExponential);
export const NumberPrototypeToFixed = uncurryThis(Number.prototype.toFixed);
export const NumberPrototypeToPrecision = uncurryThis(Number.prototype.toPrecision);
export const NumberPrototypeToString = uncurryThis(Number.prototype.toString);
export const NumberPrototypeValueOf = uncurryThis(Number.prototype.valueOf);
export const NumberPrototypeToLocaleString = uncurryThis(Number.prototype.toLocaleString);
export const ObjectPrototype = Object.prototype;
export const ObjectPrototypeHasOwnProperty = uncurryThis(Object.prototype.hasOwnProperty);
export const ObjectPrototypeIsPrototypeOf = uncurryThis(Object.prototype.isPrototypeOf);
export const ObjectPrototypePropertyIsEnumerable = uncurryThis(Object.prototype.propertyIsEnumerable);
export const ObjectPrototypeToString = uncurryThis(Object.prototype.toString);
export const ObjectPrototypeValueOf = uncurryThis(Object.prototype.valueOf);
export const ObjectPrototypeToLocaleString = uncurryThis(Object.prototype.toLocaleString);
export const PromisePrototype = Promise.prototype;
export const PromisePrototypeThen = uncurryThis(Promise.prototype.then);
export const PromisePrototypeCatch = uncurryThis(Promise.prototype.catch);
export const PromisePrototypeFinally = uncurryThis(Promise.prototype.finally);
export const RegExpPrototype = RegExp.prototype;
export const RegExpPrototypeExec = uncurryThis(RegExp.prototype.exec);
export const RegExpPrototypeGetDotAll = getter(RegExp.prototype, 'dotAll');
export const RegExpPrototypeGetFlags = getter(RegExp.prototype, 'flags');
export const RegExpPrototypeGetGlobal = getter(RegExp.prototype, 'global');
export const RegExpPrototypeGetHasIndices = getter(RegExp.prototype, 'hasIndices');
export const RegExpPrototypeGetIgnoreCase = getter(RegExp.prototype, 'ignoreCase');
export const RegExpPrototypeGetMultiline = getter(RegExp.prototype, 'multiline');
export const RegExpPrototypeGetSource = getter(RegExp.prototype, 'source');
export const RegExpPrototypeGetSticky = getter(RegExp.prototype, 'sticky');
export const RegExpPrototypeGetUnicode = getter(RegExp.prototype, 'unicode');
export const RegExpPrototypeToString = uncurryThis(RegExp.prototype.toString);
export const RegExpPrototypeTest = uncurryThis(RegExp.prototype.test);
export const RegExpPrototypeGetUnicodeSets = getter(RegExp.prototype, 'unicodeSets');
export const RegExpPrototypeSymbolReplace = uncurryThis(RegExp.prototype[Symbol.replace]);
export const SetPrototype = Set.prototype;
export const SetPrototypeHas = uncurryThis(Set.prototype.has);
export const SetPrototypeAdd = uncurryThis(Set.prototype.add);
export const SetPrototypeDelete = uncurryThis(Set.prototype.delete);
export const SetPrototypeClear = uncurryThis(Set.prototype.clear);
export const SetPrototypeEntries = uncurryThis(Set.prototype.entries);
export const SetPrototypeForEach = uncurryThis(Set.prototype.forEach);
export const SetPrototypeGetSize = getter(Set.prototype, 'size');
export const SetPrototypeValues = uncurryThis(Set.prototype.values);
export const SetPrototypeKeys = uncurryThis(Set.prototype.keys);
export const SetPrototypeSymbolIterator = uncurryThis(Set.prototype[Symbol.iterator]);
export const StringPrototype = String.prototype;
export const StringPrototypeAt = uncurryThis(String.prototype.at);
export const StringPrototypeCharAt = uncurryThis(String.prototype.charAt);
export const StringPrototypeCharCodeAt = uncurryThis(String.prototype.charCodeAt);
export const StringPrototypeCodePointAt = uncurryThis(String.prototype.codePointAt);
export const StringPrototypeConcat = uncurryThis(String.prototype.concat);
export const StringPrototypeEndsWith = uncurryThis(String.prototype.endsWith);
export const StringPrototypeIncludes = uncurryThis(String.prototype.includes);
export const StringPrototypeIndexOf = uncurryThis(String.prototype.indexOf);
export const StringPrototypeIsWellFormed = maybeUncurry(String.prototype.isWellFormed);
export const StringPrototypeLastIndexOf = uncurryThis(String.prototype.lastIndexOf);
export const StringPrototypeLocaleCompare = uncurryThis(String.prototype.localeCompare);
export const StringPrototypeMatch = uncurryThis(String.prototype.match);
export const StringPrototypeMatchAll = uncurryThis(String.prototype.matchAll);
export const StringPrototypeNormalize = uncurryThis(String.prototype.normalize);
export const StringPrototypePadEnd = uncurryThis(String.prototype.padEnd);
export const StringPrototypePadStart = uncurryThis(String.prototype.padStart);
export const StringPrototypeRepeat = uncurryThis(String.prototype.repeat);
export const StringPrototypeReplace = uncurryThis(String.prototype.replace);
export const StringPrototypeReplaceAll = uncurryThis(String.prototype.replaceAll);
export const StringPrototypeSearch = uncurryThis(String.prototype.search);
export const StringPrototypeSlice = uncurryThis(String.prototype.slice);
export const StringPrototypeSplit = uncurryThis(String.prototype.split);
export const StringPrototypeSubstring = uncurryThis(String.prototype.substring);
export const StringPrototypeStartsWith = uncurryThis(String.prototype.startsWith);
export const StringPrototypeToString = uncurryThis(String.prototype.toString);
export const StringPrototypeToWellFormed = maybeUncurry(String.prototype.toWellFormed);
export const StringPrototypeTrim = uncurryThis(String.prototype.trim);
export const StringPrototypeTrimStart = uncurryThis(String.prototype.trimStart);
export const StringPrototypeTrimEnd = uncurryThis(String.prototype.trimEnd);
export const StringPrototypeToLocaleLowerCase = uncurryThis(String.prototype.toLocaleLowerCase);
export const StringPrototypeToLocaleUpperCase = uncurryThis(String.prototype.toLocaleUpperCase);
export const StringPrototypeToLowerCase = uncurryThis(String.prototype.toLowerCase);
export const StringPrototypeToUpperCase = uncurryThis(String.prototype.toUpperCase);
export const StringPrototypeValueOf = uncurryThis(String.prototype.valueOf);
export const StringPrototypeSymbolIterator = uncurryThis(String.prototype[Symbol.iterator]);
export const SymbolPrototype = Symbol.prototype;
export const SymbolPrototypeToString = uncurryThis(Symbol.prototype.toString);
export const SymbolPrototypeValueOf = uncurryThis(Symbol.prototype.valueOf);
export const SymbolPrototypeGetDescription = getter(Symbol.prototype, 'description');
export const SymbolPrototypeSymbolToPrimitive = uncurryThis(Symbol.prototype[Symbol.toPrimitive]);
export const WeakMapPrototype = WeakMap.prototype;
export const WeakMapPrototypeDelete = uncurryThis(WeakMap.prototype.delete);
export const WeakMapPrototypeGet = uncurryThis(WeakMap.prototype.get);
export const WeakMapPrototypeSet = uncurryThis(WeakMap.prototype.set);
export const WeakMapPrototypeHas = uncurryThis(WeakMap.prototype.has);
export const WeakRefPrototype = WeakRef.prototype;
export const WeakRefPrototypeDeref = uncurryThis(WeakRef.prototype.deref);
export const WeakSetPrototype = WeakSet.prototype;
export const WeakSetPrototypeDelete = uncurryThis(WeakSet.prototype.delete);
export const WeakSetPrototypeHas = uncurryThis(WeakSet.prototype.has);
export const WeakSetPrototypeAdd = uncurryThis(WeakSet.prototype.add);
export const TypedArray = ObjectGetPrototypeOf(Uint8Array);
export const TypedArrayPrototype = TypedArray.prototype;
export const TypedArrayPrototypeGetBuffer = getter(TypedArray.prototype, 'buffer');
export const TypedArrayPrototypeGetByteLength = getter(TypedArray.prototype, 'byteLength');
export const TypedArrayPrototypeGetByteOffset = getter(TypedArray.prototype, 'byteOffset');
export const TypedArrayPrototypeGetLength = getter(TypedArray.prototype, 'length');
export const TypedArrayPrototypeEntries = uncurryThis(TypedArray.prototype.entries);
export const TypedArrayPrototypeKeys = uncurryThis(TypedArray.prototype.keys);
export const TypedArrayPrototypeValues = uncurryThis(TypedArray.prototype.values);
export const TypedArrayPrototypeAt = uncurryThis(TypedArray.prototype.at);
export const TypedArrayPrototypeCopyWithin = uncurryThis(TypedArray.prototype.copyWithin);
export const TypedArrayPrototypeEvery = uncurryThis(TypedArray.prototype.every);
export const TypedArrayPrototypeFill = uncurryThis(TypedArray.prototype.fill);
export const TypedArrayPrototypeFilter = uncurryThis(TypedArray.prototype.filter);
export const TypedArrayPrototypeFind = uncurryThis(TypedArray.prototype.find);
export const TypedArrayPrototypeFindIndex = uncurryThis(TypedArray.prototype.findIndex);
export const TypedArrayPrototypeFindLast = maybeUncurry(TypedArray.prototype.findLast);
export const TypedArrayPrototypeFindLastIndex = maybeUncurry(TypedArray.prototype.findLastIndex);
export const TypedArrayPrototypeForEach = uncurryThis(TypedArray.prototype.forEach);
export const TypedArrayPrototypeIncludes = uncurryThis(TypedArray.prototype.includes);
export const TypedArrayPrototypeIndexOf = uncurryThis(TypedArray.prototype.indexOf);
export const TypedArrayPrototypeJoin = uncurryThis(TypedArray.prototype.join);
export const TypedArrayPrototypeLastIndexOf = uncurryThis(TypedArray.prototype.lastIndexOf);
export const TypedArrayPrototypeMap = uncurryThis(TypedArray.prototype.map);
export const TypedArrayPrototypeReverse = uncurryThis(TypedArray.prototype.reverse);
export const TypedArrayPrototypeReduce = uncurryThis(TypedArray.prototype.reduce);
export const TypedArrayPrototypeReduceRight = uncurryThis(TypedArray.prototype.reduceRight);
export const TypedArrayPrototypeSet = uncurryThis(TypedArray.prototype.set);
export const TypedArrayPrototypeSlice = uncurryThis(TypedArray.prototype.slice);
export const TypedArrayPrototypeSome = uncurryThis(TypedArray.prototype.some);
export const TypedArrayPrototypeSort = uncurryThis(TypedArray.prototype.sort);
export const TypedArrayPrototypeSubarray = uncurryThis(TypedArray.prototype.subarray);
export const TypedArrayPrototypeToLocaleString = uncurryThis(TypedArray.prototype.toLocaleString);
export const TypedArrayPrototypeToString = uncurryThis(TypedArray.prototype.toString);
export const TypedArrayPrototypeToReversed = maybeUncurry(TypedArray.prototype.toReversed);
export const TypedArrayPrototypeToSorted = maybeUncurry(TypedArray.prototype.toSorted);
export const TypedArrayPrototypeWith = maybeUncurry(TypedArray.prototype.with);
export const TypedArrayPrototypeGetSymbolToStringTag = getter(TypedArray.prototype, SymbolToStringTag);
export const TypedArrayPrototypeSymbolIterator = uncurryThis(TypedArray.prototype[Symbol.iterator]);

// --- iterators
const ArrayIteratorPrototype = ObjectGetPrototypeOf(/** @type {any} */ (Array.prototype)[SymbolIterator]());
export const ArrayIteratorPrototypeNext = uncurryThis(ArrayIteratorPrototype.next);
export const IteratorPrototype = ObjectGetPrototypeOf(ArrayIteratorPrototype);
export const AsyncIteratorPrototype = ObjectGetPrototypeOf(ObjectGetPrototypeOf(async function* () {}.prototype));
export const MapIteratorPrototypeNext = uncurryThis(ObjectGetPrototypeOf(/** @type {any} */ (new Map())[SymbolIterator]()).next);
export const SetIteratorPrototypeNext = uncurryThis(ObjectGetPrototypeOf(/** @type {any} */ (new Set())[SymbolIterator]()).next);

/** An object that inherits nothing: a dictionary, or a property descriptor that Object.prototype cannot spoil. @returns {any} */
export const nullObject = () => ({ __proto__: null });

/** A list that inherits nothing: no setter of Array.prototype stands between it and its elements. Index, length, and the functions of here. @returns {any[]} */
export function rawList() { return ObjectSetPrototypeOf([], null); }

/** Defines a writable, configurable property that is not enumerable. @param {object} on @param {PropertyKey} name @param {any} value */
export function define(on, name, value) {
  ObjectDefineProperty(on, name, /** @type {any} */ ({ __proto__: null, value, writable: true, enumerable: false, configurable: true }));
}

/** Defines a getter. @param {object} on @param {PropertyKey} name @param {() => any} get @param {boolean} [enumerable] */
export function defineGetter(on, name, get, enumerable = true) {
  ObjectDefineProperty(on, name, /** @type {any} */ ({ __proto__: null, get, set: undefined, enumerable, configurable: true }));
}

/**
 * Walks what guest code gave as an iterable, by the protocol (and so through guest code: that is what the standards say).
 * @param {any} iterable @param {(value: any) => void} each @param {any} [method] the iterator method when it was looked up already
 */
export function iterate(iterable, each, method = iterable[SymbolIterator]) {
  const iterator = ReflectApply(method, iterable, []);
  if ((typeof iterator !== 'object' || iterator === null) && typeof iterator !== 'function') throw new TypeError('An iterator is not an object');
  const next = iterator.next;
  for (;;) {
    const step = ReflectApply(next, iterator, []);
    if ((typeof step !== 'object' || step === null) && typeof step !== 'function') throw new TypeError('An iterator result is not an object');
    if (step.done) return;
    const value = step.value;
    try {
      each(value);
    } catch (error) {
      const close = iterator.return;
      if (close !== undefined && close !== null) {
        try { ReflectApply(close, iterator, []); } catch { /* the first error counts */ }
      }
      throw error;
    }
  }
}

/** A live view of an array as an iterator that no prototype change reaches. @template T @param {ArrayLike<T>} list @returns {any} */
export function arrayIterator(list) {
  let at = 0;
  return {
    __proto__: null,
    next: () => (at < list.length ? { __proto__: null, value: list[at++], done: false } : { __proto__: null, value: undefined, done: true }),
    [SymbolIterator]() { return this; },
  };
}

// --- collections and promises
/** Copies the methods of a class to a null prototype, so that lookups on instances end there. @param {any} from @param {any} to */
function seal(from, to) {
  const keys = ReflectOwnKeys(from.prototype);
  for (let i = 0; i < keys.length; i++) {
    if (!ObjectPrototypeHasOwnProperty(to.prototype, keys[i])) {
      const descriptor = /** @type {any} */ (ObjectGetOwnPropertyDescriptor(from.prototype, keys[i]));
      ObjectDefineProperty(to.prototype, keys[i], ObjectAssign(nullObject(), descriptor));
    }
  }
  ObjectSetPrototypeOf(to.prototype, null);
  ObjectFreeze(to.prototype);
  return to;
}

/** As Map, but its methods are the original ones for ever. Do not iterate with for...of; use forEach. @type {MapConstructor} */
export const SafeMap = seal(Map, class SafeMap extends Map { constructor() { super(); } });
/** @type {SetConstructor} */
export const SafeSet = seal(Set, class SafeSet extends Set { constructor() { super(); } });
/** @type {WeakMapConstructor} */
export const SafeWeakMap = seal(WeakMap, class SafeWeakMap extends WeakMap { constructor() { super(); } });
/** @type {WeakSetConstructor} */
export const SafeWeakSet = seal(WeakSet, class SafeWeakSet extends WeakSet { constructor() { super(); } });
/** @type {WeakRefConstructor} */
export const SafeWeakRef = seal(WeakRef, class SafeWeakRef extends /** @type {any} */ (WeakRef) { constructor(/** @type {object} */ of) { super(of); } });

const PromiseConstructor = Promise;
/** A promise of ours. @template T @param {(resolve: (value?: any) => void, reject: (reason?: any) => void) => void} run @returns {Promise<T>} */
export const newPromise = (run) => new PromiseConstructor(run);
/** A promise of the value; a promise of any kind is followed. @param {any} [value] @returns {Promise<any>} */
export const promiseResolve = (value) => ReflectApply(resolve, PromiseConstructor, [value]);
/** @param {any} reason @returns {Promise<any>} */
export const promiseReject = (reason) => ReflectApply(reject, PromiseConstructor, [reason]);
const { resolve, reject } = Promise;
/** then() of a real promise. @param {Promise<any>} promise @param {((value: any) => any)|undefined} done @param {((reason: any) => any)} [failed] @returns {Promise<any>} */
export const promiseThen = (promise, done, failed) => PromisePrototypeThen(promise, done, failed);
/** Says that a rejection is dealt with elsewhere. @param {Promise<any>} promise */
export const promiseIgnore = (promise) => { PromisePrototypeThen(promise, undefined, ignore); };
const ignore = () => {};
/** @returns {{promise: Promise<any>, resolve: (value?: any) => void, reject: (reason?: any) => void}} */
export function promiseWithResolvers() {
  /** @type {any} */ let resolve; /** @type {any} */ let reject;
  const promise = new PromiseConstructor((yes, no) => { resolve = yes; reject = no; });
  return /** @type {any} */ ({ __proto__: null, promise, resolve, reject });
}

/** Without the library's own places, unless there are no others. @param {string} stack of JavaScriptCore */
export function visibleStack(stack) {
  if (!StringPrototypeIncludes(stack, '@cloister:runtime:')) return stack;
  let text = '';
  for (let at = 0; at <= stack.length;) {
    let end = StringPrototypeIndexOf(stack, '\n', at);
    if (end < 0) end = stack.length;
    const line = StringPrototypeSlice(stack, at, end);
    if (!StringPrototypeIncludes(line, '@cloister:runtime:')) text += text === '' ? line : `\n${line}`;
    at = end + 1;
  }
  return text === '' ? stack : text;
}

/** The text of an error for a log: never throws, whatever was thrown. @param {any} error @returns {string} */
export function describeError(error) {
  try {
    if ((typeof error === 'object' || typeof error === 'function') && error !== null) {
      const { name, message, stack } = error;
      const head = typeof message === 'string' ? `${typeof name === 'string' && name ? name : 'Error'}: ${message}` : undefined;
      if (typeof stack === 'string' && stack) {
        // JavaScriptCore's stack has no first line with the message.
        const visible = visibleStack(stack);
        return head === undefined || StringPrototypeIncludes(visible, message) ? visible : `${head}\n${visible}`;
      }
      if (head !== undefined) return head;
    }
    return String(error);
  } catch {
    return 'an error that cannot be described';
  }
}
