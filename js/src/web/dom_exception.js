/** DOMException: an Error by its making (so it has a stack), with name, message and code of the standard. */
import { Error, ErrorPrototype, ObjectSetPrototypeOf, ReflectConstruct, TypeError } from '../primordials.js';
import { finishInterface, toDOMString } from './webidl.js';

/** The names that have a code; a hole is a code that no longer has a name. */
const CODES = /** @type {Record<string, number>} */ (/** @type {any} */ ({
  __proto__: null,
  IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5, NoModificationAllowedError: 7,
  NotFoundError: 8, NotSupportedError: 9, InUseAttributeError: 10, InvalidStateError: 11, SyntaxError: 12,
  InvalidModificationError: 13, NamespaceError: 14, InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18,
  NetworkError: 19, AbortError: 20, URLMismatchError: 21, QuotaExceededError: 22, TimeoutError: 23, InvalidNodeTypeError: 24,
  DataCloneError: 25,
}));

/** Private state on an object that another constructor made. */
class Given { constructor(/** @type {object} */ given) { return given; } }
class State extends Given {
  #name; #message;
  /** @param {object} error @param {string} message @param {string} name */
  constructor(error, message, name) { super(error); this.#name = name; this.#message = message; }
  /** @param {any} error @returns {string} */ static name(error) { return error.#name; }
  /** @param {any} error @returns {string} */ static message(error) { return error.#message; }
  /** @param {any} error @returns {boolean} */ static is(error) { return #name in error; }
}

export class DOMException {
  /** @param {any} [message] @param {any} [name] */
  constructor(message = '', name = 'Error') {
    const text = toDOMString(message);
    let label = 'Error';
    /** @type {any} */ let cause;
    if (typeof name === 'object' && name !== null) { // {name, cause}: the form of Node.js
      label = name.name === undefined ? 'Error' : toDOMString(name.name);
      cause = name;
    } else {
      label = toDOMString(name);
    }
    const error = ReflectConstruct(Error, cause !== undefined && 'cause' in cause ? [undefined, cause] : [], new.target);
    return /** @type {any} */ (new State(error, text, label));
  }
  get name() { return State.name(this); }
  get message() { return State.message(this); }
  get code() { return CODES[State.name(this)] ?? 0; }
}
ObjectSetPrototypeOf(DOMException.prototype, ErrorPrototype);
finishInterface(DOMException, 'DOMException', {
  INDEX_SIZE_ERR: 1, DOMSTRING_SIZE_ERR: 2, HIERARCHY_REQUEST_ERR: 3, WRONG_DOCUMENT_ERR: 4, INVALID_CHARACTER_ERR: 5,
  NO_DATA_ALLOWED_ERR: 6, NO_MODIFICATION_ALLOWED_ERR: 7, NOT_FOUND_ERR: 8, NOT_SUPPORTED_ERR: 9, INUSE_ATTRIBUTE_ERR: 10,
  INVALID_STATE_ERR: 11, SYNTAX_ERR: 12, INVALID_MODIFICATION_ERR: 13, NAMESPACE_ERR: 14, INVALID_ACCESS_ERR: 15,
  VALIDATION_ERR: 16, TYPE_MISMATCH_ERR: 17, SECURITY_ERR: 18, NETWORK_ERR: 19, ABORT_ERR: 20, URL_MISMATCH_ERR: 21,
  QUOTA_EXCEEDED_ERR: 22, TIMEOUT_ERR: 23, INVALID_NODE_TYPE_ERR: 24, DATA_CLONE_ERR: 25,
});

/** @param {any} value @returns {value is DOMException} */
export const isDOMException = (value) => typeof value === 'object' && value !== null && State.is(value);
/** A DOMException of ours. @param {string} name @param {string} message @returns {any} */
export const domError = (name, message) => new DOMException(message, name);
/** What the standards throw for a wrong receiver of a constructor. @param {string} what @returns {never} */
export function illegalConstructor(what) { throw new TypeError(`Illegal constructor: ${what}`); }
