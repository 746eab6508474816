import assert from './assert.js';

const found = /** @type {any} */ (assert).strict;
export const {
  AssertionError, deepEqual, deepStrictEqual, doesNotMatch, doesNotReject, doesNotThrow, equal, fail, ifError, match, notDeepEqual,
  notDeepStrictEqual, notEqual, notStrictEqual, ok, rejects, strict, strictEqual, throws,
} = found;
export default found;
