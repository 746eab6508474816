/** ctx.storage.sql: statements and their rows. */
import {
  ArrayBufferIsView, FinalizationRegistry, FinalizationRegistryPrototypeRegister, ArrayBufferPrototypeGetByteLength, ArrayPrototypePush, DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength,
  DataViewPrototypeGetByteOffset, Error, IteratorPrototype, Object, ObjectDefineProperty, ObjectSetPrototypeOf, String, SymbolIterator,
  SymbolToStringTag, TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset,
  TypedArrayPrototypeGetSymbolToStringTag, Uint8Array, define, nullObject,
} from '../primordials.js';
import { copyOf } from '../rpc/cbor.js';

const TOKEN = nullObject();

/** Cursors that were not read to their end. */
const abandoned = new FinalizationRegistry((/** @type {any} */ held) => {
  try {
    held.link.ask('close', { __proto__: null, cursor: held.cursor }, false);
  } catch { /* closed with its instance */ }
});

/** @param {any} value @returns {number} of an ArrayBuffer; -1 for anything else */
function bufferSize(value) {
  try {
    return ArrayBufferPrototypeGetByteLength(value);
  } catch {
    return -1;
  }
}

/** @param {any} value @returns {any} what crosses the link */
function parameterOf(value) {
  switch (typeof value) {
    case 'number': case 'string': case 'bigint': return value;
    case 'boolean': return String(value);
    case 'undefined': return null;
    case 'object': break;
    default: throw new TypeError(`A ${typeof value} cannot be bound to a parameter of a SQL query.`);
  }
  if (value === null) return null;
  if (ArrayBufferIsView(value)) {
    const typed = TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined;
    const buffer = typed ? TypedArrayPrototypeGetBuffer(value) : DataViewPrototypeGetBuffer(value);
    const offset = typed ? TypedArrayPrototypeGetByteOffset(value) : DataViewPrototypeGetByteOffset(value);
    const size = typed ? TypedArrayPrototypeGetByteLength(value) : DataViewPrototypeGetByteLength(value);
    return copyOf(new Uint8Array(buffer, offset, size), 0, size);
  }
  const size = bufferSize(value);
  if (size >= 0) return copyOf(new Uint8Array(value), 0, size);
  throw new TypeError('A parameter of a SQL query must be null, a number, a string, or an ArrayBuffer.');
}

/** @param {any} value as it came over the link */
const columnOf = (value) => (typeof value === 'object' && value !== null ? TypedArrayPrototypeGetBuffer(value) : value);

export class SqlStorageCursor {
  #link;
  /** @type {string[]} */
  #columns;
  /** @type {any} */
  #rows;
  #at = 0;
  /** @type {number|undefined} */
  #cursor;
  #read;
  #written;

  /** @param {any} token @param {import('./storage_link.js').StorageLink} link @param {any} answer */
  constructor(token, link, answer) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#link = link;
    this.#columns = answer.columns;
    this.#rows = answer.rows;
    this.#cursor = answer.cursor;
    this.#read = answer.read;
    this.#written = answer.written;
    if (this.#cursor !== undefined) FinalizationRegistryPrototypeRegister(abandoned, this, { __proto__: null, link, cursor: this.#cursor });
  }

  /** The next row as it came, or undefined. @returns {any} */
  #row() {
    if (this.#at >= this.#rows.length && this.#cursor !== undefined) {
      const answer = this.#link.ask('next', { __proto__: null, cursor: this.#cursor }, false);
      this.#rows = answer.rows;
      this.#at = 0;
      this.#cursor = answer.cursor;
      this.#read = answer.read;
    }
    return this.#at < this.#rows.length ? this.#rows[this.#at++] : undefined;
  }

  /** @param {any} row */
  #object(row) {
    /** @type {any} */
    const object = {};
    const columns = this.#columns;
    for (let i = 0; i < columns.length; i++) {
      const name = columns[i], value = columnOf(row[i]);
      if (name in Object.prototype) ObjectDefineProperty(object, name, /** @type {any} */ ({ __proto__: null, value, writable: true, enumerable: true, configurable: true }));
      else object[name] = value;
    }
    return object;
  }

  /** @param {any} row */
  #values(row) {
    const values = [];
    for (let i = 0; i < row.length; i++) ArrayPrototypePush(values, columnOf(row[i]));
    return values;
  }

  next() {
    const row = this.#row();
    return row === undefined ? { done: true } : { done: false, value: this.#object(row) };
  }

  toArray() {
    const list = [];
    for (let row = this.#row(); row !== undefined; row = this.#row()) ArrayPrototypePush(list, this.#object(row));
    return list;
  }

  one() {
    const row = this.#row();
    if (row === undefined) throw new Error('Expected exactly one result from SQL query, but got no results.');
    if (this.#row() !== undefined) throw new Error('Expected exactly one result from SQL query, but got multiple results.');
    return this.#object(row);
  }

  raw() {
    return new SqlStorageRawCursor(TOKEN, () => {
      const row = this.#row();
      return row === undefined ? undefined : this.#values(row);
    });
  }

  get columnNames() {
    const names = [];
    for (let i = 0; i < this.#columns.length; i++) ArrayPrototypePush(names, this.#columns[i]);
    return names;
  }
  get rowsRead() { return this.#read; }
  get rowsWritten() { return this.#written; }
  [SymbolIterator]() { return this; }
}

export class SqlStorageRawCursor {
  #next;
  /** @param {any} token @param {() => any[]|undefined} next */
  constructor(token, next) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#next = next;
  }

  next() {
    const value = this.#next();
    return value === undefined ? { done: true } : { done: false, value };
  }

  toArray() {
    const list = [];
    for (let row = this.#next(); row !== undefined; row = this.#next()) ArrayPrototypePush(list, row);
    return list;
  }

  [SymbolIterator]() { return this; }
}

export class SqlStorage {
  #link;
  /** @param {any} token @param {import('./storage_link.js').StorageLink} link */
  constructor(token, link) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#link = link;
  }

  /** @param {string} query @param {...any} bindings @returns {SqlStorageCursor} */
  exec(query, ...bindings) {
    const params = [];
    for (let i = 0; i < bindings.length; i++) ArrayPrototypePush(params, parameterOf(bindings[i]));
    const link = this.#link;
    let answer;
    try {
      answer = link.ask('sql', { __proto__: null, query: String(query), params }, false);
    } catch (error) {
      // The statements before the one that failed count.
      if (link.closed === null) link.wrote();
      throw error;
    }
    if (answer.dirty) link.wrote();
    return new SqlStorageCursor(TOKEN, link, answer);
  }

  get databaseSize() {
    return this.#link.ask('size', nullObject(), false).bytes;
  }
}

ObjectSetPrototypeOf(SqlStorageCursor.prototype, IteratorPrototype);
ObjectSetPrototypeOf(SqlStorageRawCursor.prototype, IteratorPrototype);
/** @param {any} link */
export const newSqlStorage = (link) => new SqlStorage(TOKEN, link);
define(SqlStorage.prototype, SymbolToStringTag, 'SqlStorage');
define(SqlStorageCursor.prototype, SymbolToStringTag, 'SqlStorageCursor');
