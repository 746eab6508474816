/**
 * ctx.storage: key-value pairs (asynchronous and `kv`), transactions, alarms. The daemon holds the data and answers at once, so every
 * operation is done when its promise is made; what is awaited is only what the program's own order asks for.
 */
import {
  ArrayIsArray, DatePrototypeGetTime, Error, Map, MapPrototypeSet, NumberIsNaN, ObjectKeys, RangeError, String,
  SymbolIterator, SymbolToStringTag, TypeError, TypedArrayPrototypeGetLength, Uint8Array, define, iterate, newPromise, nullObject,
  promiseReject, promiseResolve, promiseThen, IteratorPrototype, ObjectSetPrototypeOf,
} from '../primordials.js';
import { natives } from '../natives.js';
import { rawList } from '../rpc/cbor.js';
import { decode, encode, isDate } from '../rpc/codec.js';
import { SqlStorage, newSqlStorage } from './storage_sql.js';

const MAX_KEYS = 128, MAX_KEY = 2048, MAX_PAIR = 2 << 20;
const PUT_PIECE = 4 << 20;

/** @param {any} key @returns {string} */
function keyOf(key) {
  const text = typeof key === 'string' ? key : String(key);
  // Three bytes for each code unit at most, so short keys need no look.
  if (text.length > MAX_KEY / 3) {
    const size = new Uint8Array(natives.utf8Encode(text)).length;
    if (size > MAX_KEY) throw new RangeError(`Keys cannot be larger than ${MAX_KEY} bytes. A key of size ${size} was provided.`);
  }
  return text;
}

/** @param {any} list @returns {string[]} of null prototype */
function keysOf(list) {
  const keys = rawList();
  iterate(list, (key) => { keys[keys.length] = keyOf(key); });
  if (keys.length > MAX_KEYS) throw new RangeError(`Maximum number of keys is ${MAX_KEYS}.`);
  return keys;
}

/** @param {string} key @param {any} value @returns {Uint8Array} */
function bytesOf(key, value) {
  const bytes = encode(value);
  const size = TypedArrayPrototypeGetLength(bytes);
  if (size + key.length > MAX_PAIR) {
    throw new RangeError(`Values cannot be larger than ${MAX_PAIR} bytes, with their key. A value of size ${size} was provided.`);
  }
  return bytes;
}

/** @param {Uint8Array|null} bytes */
const valueOf = (bytes) => (bytes === null ? undefined : decode(bytes));

/** @param {any} options @param {boolean} sync @returns {any} the arguments of list* */
function rangeOf(options) {
  const range = nullObject();
  if (options === undefined || options === null) return range;
  if (typeof options !== 'object') throw new TypeError('The options of list() must be an object.');
  const { start, startAfter, end, prefix, reverse, limit } = options;
  if (start !== undefined) range.start = String(start);
  if (startAfter !== undefined) {
    if (start !== undefined) throw new TypeError('list() cannot be called with both start and startAfter values.');
    range.startAfter = String(startAfter);
  }
  if (end !== undefined) range.end = String(end);
  if (prefix !== undefined) range.prefix = String(prefix);
  if (reverse !== undefined) range.reverse = !!reverse;
  if (limit !== undefined) {
    const count = +limit;
    if (!(count > 0)) throw new TypeError('List limit must be positive.');
    range.limit = count > 9007199254740991 ? 9007199254740991 : count - (count % 1) || 1;
  }
  return range;
}

/**
 * The operations, on a storage or a transaction. Each throws or returns at once.
 * @typedef {import('./storage_link.js').StorageLink} StorageLink
 */
/** @param {StorageLink} link @param {any} key */
function getOne(link, key) {
  return valueOf(link.ask('get', { __proto__: null, keys: [keyOf(key)] }, true).values[0]);
}

/** @param {StorageLink} link @param {any} list */
function getMany(link, list) {
  const keys = keysOf(list);
  const found = new Map();
  for (let at = 0; at < keys.length;) {
    const rest = rawList();
    for (let i = at; i < keys.length; i++) rest[rest.length] = keys[i];
    const { values } = link.ask('get', { __proto__: null, keys: rest }, true);
    for (let i = 0; i < values.length; i++, at++) {
      if (values[i] !== null) MapPrototypeSet(found, keys[at], decode(values[i]));
    }
    if (values.length === 0) throw new Error('The storage answered with nothing.');
  }
  return found;
}

/** @param {StorageLink} link @param {any} options @param {(key: string, value: any) => void} each */
function listAll(link, options, each) {
  const range = rangeOf(options);
  for (;;) {
    const { entries, more } = link.ask('list', range, true);
    for (let i = 0; i < entries.length; i += 2) each(entries[i], decode(entries[i + 1]));
    if (!more) return;
    const last = entries[entries.length - 2];
    if (range.limit !== undefined) range.limit -= entries.length / 2;
    if (range.reverse) {
      range.end = last;
    } else {
      range.startAfter = last;
    }
  }
}

/** @param {StorageLink} link @param {any[]} entries key, bytes, key, bytes */
function putEntries(link, entries) {
  let size = 0, pieces = 1;
  for (let i = 1; i < entries.length; i += 2) {
    size += TypedArrayPrototypeGetLength(entries[i]);
    if (size > PUT_PIECE) {
      pieces++;
      size = 0;
    }
  }
  if (pieces === 1) {
    link.write('put', { __proto__: null, entries: entries }, true);
    return;
  }
  // Too much for one call: all of it, or nothing, all the same.
  inSavepoint(link, () => {
    for (let i = 0; i < entries.length;) {
      const some = rawList();
      for (let bytes = 0; i < entries.length && bytes <= PUT_PIECE; i += 2) {
        some[some.length] = entries[i];
        some[some.length] = entries[i + 1];
        bytes += TypedArrayPrototypeGetLength(entries[i + 1]);
      }
      link.write('put', { __proto__: null, entries: some }, true);
    }
  });
}

/** @param {StorageLink} link @param {any} key @param {any} value */
function putOne(link, key, value) {
  const entries = rawList();
  entries[0] = keyOf(key);
  if (value === undefined) throw new TypeError('put() called with undefined value.');
  entries[1] = bytesOf(entries[0], value);
  putEntries(link, entries);
}

/** @param {StorageLink} link @param {any} object */
function putMany(link, object) {
  const keys = ObjectKeys(object);
  if (keys.length > MAX_KEYS) throw new RangeError(`Maximum number of pairs is ${MAX_KEYS}.`);
  const entries = rawList();
  for (let i = 0; i < keys.length; i++) {
    const value = object[keys[i]];
    if (value === undefined) continue;
    const key = keyOf(keys[i]);
    entries[entries.length] = key;
    entries[entries.length] = bytesOf(key, value);
  }
  if (entries.length > 0) putEntries(link, entries);
}

/** @param {StorageLink} link @param {any} keys @returns {number} */
const deleteKeys = (link, keys) => link.write('delete', { __proto__: null, keys: keys }, true).count;

/** @template T @param {StorageLink} link @param {() => T} run @returns {T} */
function inSavepoint(link, run) {
  link.ask('begin', nullObject(), false);
  let result;
  try {
    result = run();
  } catch (error) {
    // A failure that undid everything leaves nothing to roll back; the first error is the one to be told.
    try { link.ask('rollback', nullObject(), false); } catch { /* told already */ }
    throw error;
  }
  link.write('commit', nullObject(), false);
  return result;
}

/** @param {any} time @returns {number} */
function timeOf(time) {
  const at = isDate(time) ? DatePrototypeGetTime(time) : +time;
  if (NumberIsNaN(at)) throw new TypeError('setAlarm() cannot be called with a time that is not a number or Date.');
  if (at <= 0) throw new TypeError('setAlarm() cannot be called with an alarm time <= 0.');
  if (at > 8.64e15) throw new TypeError('setAlarm() cannot be called with a time beyond what a Date can hold.');
  return at - (at % 1);
}

/** Rejects instead of throwing. @param {() => any} run @returns {Promise<any>} */
function promised(run) {
  try {
    return promiseResolve(run());
  } catch (error) {
    return promiseReject(error);
  }
}

/** What storages and transactions have in common. */
class Operations {
  /** @type {(name: string) => StorageLink} */
  #link;
  /** @type {import('./durable_object.js').Instance} */
  #instance;

  /** @param {any} token @param {(name: string) => StorageLink} link throws when it cannot be used @param {any} instance */
  constructor(token, link, instance) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#link = link;
    this.#instance = instance;
  }

  /** @param {any} key @param {any} [options] */
  get(key, options) {
    return promised(() => {
      const link = this.#link('get()');
      if (key === undefined) throw new TypeError('get() called with undefined key.');
      return ArrayIsArray(key) ? getMany(link, key) : getOne(link, key);
    });
  }

  /** @param {any} [options] @returns {Promise<Map<string, any>>} */
  list(options) {
    return promised(() => {
      const found = new Map();
      listAll(this.#link('list()'), options, (key, value) => { MapPrototypeSet(found, key, value); });
      return found;
    });
  }

  /** @param {any} key a key, or an object of keys and values @param {any} [value] @param {any} [options] */
  put(key, value, options) {
    return promised(() => {
      const link = this.#link('put()');
      if (key === undefined) throw new TypeError('put() called with undefined key.');
      if (typeof key === 'object' && key !== null) {
        if (options !== undefined) throw new TypeError('put() takes a key and a value, or an object of keys and values; and options after them.');
        putMany(link, key);
      } else {
        putOne(link, key, value);
      }
    });
  }

  /** @param {any} key @param {any} [options] */
  delete(key, options) {
    return promised(() => {
      const link = this.#link('delete()');
      if (key === undefined) throw new TypeError('delete() called with undefined key.');
      if (ArrayIsArray(key)) return deleteKeys(link, keysOf(key));
      const one = rawList();
      one[0] = keyOf(key);
      return deleteKeys(link, one) > 0;
    });
  }

  /** @param {any} [options] @returns {Promise<number|null>} */
  getAlarm(options) {
    return promised(() => this.#link('getAlarm()').ask('getAlarm', nullObject(), false).at);
  }

  /** @param {number|Date} time @param {any} [options] */
  setAlarm(time, options) {
    return promised(() => {
      const link = this.#link('setAlarm()');
      if (!this.#instance.hasAlarmHandler()) throw new TypeError('Your Durable Object class must have an alarm() handler in order to call setAlarm()');
      link.write('setAlarm', { __proto__: null, at: timeOf(time) }, true);
    });
  }

  /** @param {any} [options] */
  deleteAlarm(options) {
    return promised(() => { this.#link('deleteAlarm()').write('deleteAlarm', nullObject(), false); });
  }
}

const TOKEN = nullObject();

export class DurableObjectStorage extends Operations {
  #link;
  #instance;
  #sql;
  #kv;
  /** @type {any[]} open asynchronous transactions, the innermost last */
  #open = rawList();

  /** @param {any} token @param {StorageLink} link @param {any} instance @param {boolean} sql */
  constructor(token, link, instance, sql) {
    super(token, () => {
      instance.closeGate();
      return link;
    }, instance);
    this.#link = link;
    this.#instance = instance;
    this.#sql = sql ? newSqlStorage(link) : null;
    this.#kv = sql ? new SyncKvStorage(TOKEN, link) : null;
  }

  get sql() {
    if (this.#sql === null) {
      throw new Error('SQL is not enabled for this Durable Object class. To enable it, name the class in `new_sqlite_classes` of the configuration\'s migrations, or with storage "sqlite" in its `exports`.');
    }
    return this.#sql;
  }

  get kv() {
    if (this.#kv === null) throw new Error('storage.kv is there for SQLite-backed classes only; use the methods of storage itself, or declare the class in `new_sqlite_classes`.');
    return this.#kv;
  }

  /** @param {any} [options] */
  deleteAll(options) {
    return promised(() => {
      if (this.#open.length > 0) throw new Error('Cannot call deleteAll() within a transaction');
      this.#link.write('deleteAll', { __proto__: null, alarm: this.#instance.deleteAllDeletesAlarm() }, false);
    });
  }

  /** @returns {Promise<void>} */
  sync() {
    return promised(() => promiseThen(this.#link.sync(), () => undefined));
  }

  /** @template T @param {() => T} run @returns {T} */
  transactionSync(run) {
    if (typeof run !== 'function') throw new TypeError('transactionSync() takes a function.');
    if (this.#sql === null) throw new Error('Durable Object is not backed by SQL.');
    return inSavepoint(this.#link, run);
  }

  /** @param {(txn: DurableObjectTransaction) => any} run */
  transaction(run) {
    if (typeof run !== 'function') return promiseReject(new TypeError('transaction() takes a function.'));
    return promised(() => this.#instance.blockConcurrencyWhile(() => this.#transact(run), false));
  }

  /** @param {(txn: DurableObjectTransaction) => any} run */
  #transact(run) {
    const level = nullObject();
    level.ended = level.rolledBack = false;
    level.finished = newPromise((resolve) => { level.done = resolve; });
    // At once, so that what is read from now on is as it was before; what the function may still write goes the same way at its end.
    level.undo = () => {
      if (this.#open[this.#open.length - 1] !== level) return;
      this.#link.ask('rollback', nullObject(), false);
      this.#link.ask('begin', nullObject(), false);
    };
    this.#link.ask('begin', { __proto__: null, apart: true }, false);
    this.#open[this.#open.length] = level;
    const txn = new DurableObjectTransaction(TOKEN, this.#link, this.#instance, level);
    const end = (/** @type {boolean} */ keep) => promiseThen(this.#innermost(level), () => {
      this.#open.length--;
      level.ended = true;
      level.done();
      this.#link.write(keep && !level.rolledBack ? 'commit' : 'rollback', nullObject(), false);
    });
    return promiseThen(promised(() => run(txn)), (value) => promiseThen(end(true), () => value), (error) => {
      const again = () => { throw error; };
      return promiseThen(end(false), again, again);
    });
  }

  /** Transactions end in the reverse order of their beginnings: those that began later are waited for. @param {any} level @returns {Promise<any>} */
  #innermost(level) {
    const last = this.#open[this.#open.length - 1];
    return last === level ? promiseResolve() : promiseThen(last.finished, () => this.#innermost(level));
  }

  getCurrentBookmark() { return noRecovery('getCurrentBookmark()'); }
  getBookmarkForTime() { return noRecovery('getBookmarkForTime()'); }
  onNextSessionRestoreBookmark() { return noRecovery('onNextSessionRestoreBookmark()'); }
  snapshot() { return noRecovery('snapshot()'); }
}

/** @param {string} name */
const noRecovery = (name) => promiseReject(new Error(`storage.${name} is not implemented: Cloister keeps no history of an object's storage.`));

export class DurableObjectTransaction extends Operations {
  #level;

  /** @param {any} token @param {StorageLink} link @param {any} instance @param {any} level */
  constructor(token, link, instance, level) {
    super(token, (name) => {
      if (level.rolledBack) throw new Error(`Cannot ${name} on rolled back transaction`);
      if (level.ended) throw new Error(`Cannot call ${name} on transaction that has already committed: did you move \`txn\` outside of the closure?`);
      instance.closeGate();
      return link;
    }, instance);
    this.#level = level;
  }

  rollback() {
    const level = this.#level;
    if (level.rolledBack) return;
    if (level.ended) throw new Error('Cannot call rollback() on transaction that has already committed: did you move `txn` outside of the closure?');
    level.rolledBack = true;
    level.undo();
  }

  deleteAll() {
    return promiseReject(new Error('Cannot call deleteAll() within a transaction'));
  }
}

// --- kv

export class SyncKvStorage {
  #link;
  /** @type {any} the iterator that is valid */
  #listing = null;

  /** @param {any} token @param {StorageLink} link */
  constructor(token, link) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#link = link;
  }

  /** @param {string} key */
  get(key) { return getOne(this.#link, key); }

  /** @param {string} key @param {any} value */
  put(key, value) { putOne(this.#link, key, value); }

  /** @param {string} key @returns {boolean} */
  delete(key) {
    const one = rawList();
    one[0] = keyOf(key);
    return deleteKeys(this.#link, one) > 0;
  }

  /** @param {any} [options] @returns {Iterable<[string, any]>} */
  list(options) {
    const range = rangeOf(options);
    const mine = nullObject();
    this.#listing = mine;
    return new KvIterator(TOKEN, this.#link, range, () => this.#listing === mine);
  }
}

export class KvIterator {
  #link;
  #range;
  #valid;
  /** @type {any} */
  #entries = null;
  #at = 0;
  #more = true;

  /** @param {any} token @param {StorageLink} link @param {any} range @param {() => boolean} valid */
  constructor(token, link, range, valid) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#link = link;
    this.#range = range;
    this.#valid = valid;
  }

  next() {
    if (!this.#valid()) {
      throw new Error('kv.list() iterator was invalidated because a new call to kv.list() was started. Only one kv.list() iterator can exist at a time.');
    }
    if (this.#entries === null || (this.#at >= this.#entries.length && this.#more)) this.#fetch();
    if (this.#at >= this.#entries.length) return { done: true, value: undefined };
    const key = this.#entries[this.#at], value = decode(this.#entries[this.#at + 1]);
    this.#at += 2;
    return { done: false, value: [key, value] };
  }

  #fetch() {
    const range = this.#range;
    const { entries, more } = this.#link.ask('list', range, true);
    this.#entries = entries;
    this.#at = 0;
    this.#more = more;
    if (!more) return;
    const last = entries[entries.length - 2];
    if (range.limit !== undefined) range.limit -= entries.length / 2;
    if (range.reverse) range.end = last;
    else range.startAfter = last;
  }

  [SymbolIterator]() { return this; }
}
ObjectSetPrototypeOf(KvIterator.prototype, IteratorPrototype);

/** @param {StorageLink} link @param {any} instance @param {boolean} sql */
export const newStorage = (link, instance, sql) => new DurableObjectStorage(TOKEN, link, instance, sql);

define(DurableObjectStorage.prototype, SymbolToStringTag, 'DurableObjectStorage');
define(DurableObjectTransaction.prototype, SymbolToStringTag, 'DurableObjectTransaction');
define(SyncKvStorage.prototype, SymbolToStringTag, 'SyncKvStorage');
export { SqlStorage };
