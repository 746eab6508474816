/** node:assert, by the package of that name. */
import assert from 'assert';

const found = /** @type {any} */ (assert);
export const {
  AssertionError, deepEqual, deepStrictEqual, doesNotMatch, doesNotReject, doesNotThrow, equal, fail, ifError, match, notDeepEqual,
  notDeepStrictEqual, notEqual, notStrictEqual, ok, rejects, strict, strictEqual, throws,
} = found;
export default found;
