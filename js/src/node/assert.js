/** node:assert, by the package of that name. */
import assert from 'assert';

const found = /** @type {any} */ (assert);

/** The package takes a promise only when it is no function; promises of RPC can be called. @param {any} value */
function plain(value) {
  return typeof value === 'function' && typeof value.then === 'function' && typeof value.catch === 'function' ? Promise.resolve(value) : value;
}
/** @param {any} check rejects or doesNotReject */
const taking = (check) => (/** @type {any} */ given, /** @type {any[]} */ ...more) => {
  const promise = plain(given);
  return check(typeof promise === 'function' ? () => plain(promise()) : promise, ...more);
};
found.rejects = found.strict.rejects = taking(found.rejects);
found.doesNotReject = found.strict.doesNotReject = taking(found.doesNotReject);
export const {
  AssertionError, deepEqual, deepStrictEqual, doesNotMatch, doesNotReject, doesNotThrow, equal, fail, ifError, match, notDeepEqual,
  notDeepStrictEqual, notEqual, notStrictEqual, ok, rejects, strict, strictEqual, throws,
} = found;
export default found;
