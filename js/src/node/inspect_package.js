/**
 * The package node-inspect-extracted, which copies the functions of every namespace object of the language while it is evaluated, and so
 * fails where one of them is missing, as Atomics is in a Worker. It is lent an empty one for that moment.
 */
const target = /** @type {any} */ (globalThis);
const lent = !('Atomics' in target);
if (lent) Object.defineProperty(target, 'Atomics', { value: {}, configurable: true });
let found;
try {
  found = require('node-inspect-extracted');
} finally {
  if (lent) delete target.Atomics;
}
export default found;
