import { alike, equal, natives, ok, rejects, test, throws, until, wait } from './harness.js';
import { pair } from './pair.js';
import { RpcPromise, RpcProperty, RpcStub, RpcTarget, callTarget, disposeSymbol as dispose, handleOf } from '../../js/src/rpc/stub.js';
import { CALL } from '../../js/src/rpc/target.js';
import { rules } from '../../js/src/rpc/values.js';

class Counter extends RpcTarget {
  #secret = 1;
  constructor(i = 0) { super(); this.i = i; this.arrow = () => 'no'; }
  async increment(j) { this.i += j; return this.i; }
  get value() { return this.i; }
  async fetch(a) { return `fetched ${a}`; }
  disposed = 0;
  [dispose]() { this.disposed++; }
  secret() { return this.#secret; }
}
class Plain { foo() { return 123; } }

class Service extends RpcTarget {
  constructor() { super(); this.own = () => 'nope'; this.env = { secret: 1 }; }
  makeCounter(i) { return new Counter(i); }
  async incrementCounter(counter, i) { return await counter.increment(i); }
  getAnObject(i) { return { foo: 123 + i, counter: new Counter(i) }; }
  getMap() { return new Map([['foo', 1]]); }
  get property() { return { foo: 123 }; }
  get functionProperty() { return (a, b) => a - b; }
  get objectProperty() {
    return { func: (a, b) => a * b, deeper: { deepFunc: (a, b) => a / b }, counter5: new Counter(5), plain: new Plain(), nothing: Object.assign(Object.create(null), { foo: 1 }), text: 'hello' };
  }
  get promiseProperty() { return wait(2).then(() => 123); }
  get rejecting() { return Promise.reject(new Error('REJECTED')); }
  get throwing() { throw new Error('PROPERTY THREW'); }
  thrower() { const error = new RangeError('METHOD THREW'); error.abc = 123; throw error; }
  notAnError(value) { throw value; }
  getPlain() { return { obj: new Plain() }; }
  getFunction() { const f = (a, b) => a ^ b; f.someProperty = 123; return f; }
  getClass() { return class Exposed { static visible() { return 1; } hidden() { return 2; } }; }
  call(f, ...x) { return f(...x); }
  getProp(o, p) { return o[p]; }
  identity(x) { return x; }
  thenable() { return { then(resolve) { resolve(7); } }; }
  nested(f) { return { value: f() }; }
  never() { return new Promise(() => {}); }
  async keep(counter) {
    const count = await counter.increment(5);
    const duplicate = counter.dup();
    return {
      count, counter: counter.dup(),
      async incrementOriginal(n) { return await counter.increment(n); },
      async incrementDup(n) { return await duplicate.increment(n); },
      [dispose]() { duplicate[dispose](); },
    };
  }
  order = [];
  note(x) { this.order.push(x); return this.order.length; }
}

const missing = (name) => ({ name: 'TypeError', message: `The RPC receiver does not implement the method "${name}".` });
const gone = { name: 'Error', message: 'RPC stub used after being disposed.' };
/** A call of any path, as a hostile caller can make it. */
const raw = (stub, path, ...args) => callTarget(handleOf(stub).targetForCall(), path, CALL, args);

/** Everything holds in the same way for a local stub, over a session, and over a session beyond another. */
function everywhere(name, run) {
  test(`${name} (local)`, () => run(new RpcStub(new Service())));
  test(`${name} (session)`, () => run(pair(new Service()).stub));
  test(`${name} (through a third)`, async () => {
    const { stub } = pair(new Service());
    class Middle extends RpcTarget { get service() { return stub.dup(); } }
    const first = pair(new Middle());
    await run(await first.stub.service);
  });
}

everywhere('calls, properties, pipelining', async (S) => {
  const counter = await S.makeCounter(12);
  ok(counter instanceof RpcStub && S.x instanceof RpcProperty && S.identity(1) instanceof RpcPromise);
  equal(typeof counter, 'function');
  equal(await counter.increment(3), 15);
  equal(await counter.value, 15);
  equal(await S.makeCounter(12).increment(3), 15);
  equal(await S.getAnObject(5).foo, 128);
  equal(await S.getAnObject(5).counter.increment(7), 12);
  alike(await Promise.all([counter.increment(6), counter.increment(4), counter.increment(3)]), [21, 25, 28]);
  equal((await S.property).foo, 123);
  equal(await S.functionProperty(19, 6), 13);
  equal(await S.objectProperty.func(6, 4), 24);
  equal(await S.objectProperty.deeper.deepFunc(6, 3), 2);
  equal(await S.objectProperty.counter5.increment(3), 8);
  equal(await S.objectProperty.text, 'hello');
  const f = await S.getFunction();
  equal(await f(3, 6), 5);
  equal(await f.someProperty, 123);
  const pipelined = S.getFunction();
  equal(await pipelined(3, 6), 5);
  equal(await pipelined.someProperty, 123);
  equal(await S.promiseProperty, 123);
  let last = false;
  equal(await S.promiseProperty.finally(() => { last = true; }), 123);
  ok(last);
  equal(await counter.fetch(1), 'fetched 1', 'fetch is nothing special on an RpcTarget');
  equal(await S.thenable(), 7);
  equal(await S.call((x) => x * 2, 4), 8);
  const p = S.makeCounter(1);
  await p;
  equal(await p.increment(1), 2, 'a settled promise can still be called on');
});

everywhere('order of calls is kept, over promises that are still to come', async (S) => {
  const made = S.makeCounter(0);
  const all = [];
  for (let i = 0; i < 20; i++) all.push(made.increment(1));
  alike(await Promise.all(all), Array.from({ length: 20 }, (_, i) => i + 1));
  const notes = [];
  for (let i = 0; i < 10; i++) notes.push(S.note(i));
  alike(await Promise.all(notes), Array.from({ length: 10 }, (_, i) => i + 1));
});

everywhere('what a caller cannot reach', async (S) => {
  for (const name of ['toString', 'hasOwnProperty', 'valueOf', '__proto__', '__defineGetter__', '__lookupGetter__', 'isPrototypeOf', 'nope', 'own', 'env', 'order', '']) {
    await rejects(raw(S, [name]), missing(name));
  }
  for (const name of ['constructor', 'dup']) await rejects(raw(S, [name]), { message: `'${name}' is a reserved method and cannot be called over RPC.` });
  await rejects(raw(S, ['makeCounter', 'constructor'], 'return process'), /'constructor' is a reserved/);
  for (const name of ['call', 'apply', 'bind', 'prototype', 'arguments', 'caller', 'toString', '__proto__']) await rejects(raw(S, ['makeCounter', name], 1), missing(name));
  await rejects(raw(S, ['property', '__proto__', 'constructor']), missing('__proto__'));
  await rejects(raw(S, ['property', 'constructor', 'constructor'], 'return 1'), /'constructor' is a reserved/);
  await rejects(S.objectProperty.plain.foo(), missing('plain'));
  await rejects(async () => await S.objectProperty.nothing.foo, missing('nothing'));
  await rejects(S.property(), { name: 'TypeError', message: '"property" is not a function.' });
  await rejects(S.property.foo(), { name: 'TypeError', message: '"property.foo" is not a function.' });
  await rejects(S.getMap().foo(), missing('foo'));
  await rejects(S.identity(5).foo(), missing('foo'));
  await rejects(S.identity('text').length, /does not implement the method "length"|Can't pipeline on RPC that did not return an object/);
  const counter = await S.makeCounter(1);
  for (const name of ['i', 'arrow', 'disposed', '#secret']) await rejects(raw(counter, [name]), missing(name));
  equal(await counter.secret(), 1);
  const exposed = await S.getClass();
  equal(await exposed.visible(), 1);
  await rejects(raw(exposed, ['prototype', 'hidden']), missing('prototype'));
  let deep = S;
  throws(() => { for (let i = 0; i < 100; i++) deep = deep.x; }, { name: 'TypeError', message: 'RPC pipelined property path is too deep (max 64).' });
});

everywhere('errors keep name, message and properties, and no stack', async (S) => {
  await rejects(async () => await S.rejecting, { message: 'REJECTED' });
  await rejects(async () => await S.throwing, { message: 'PROPERTY THREW' });
  const error = await rejects(S.thrower(), { name: 'RangeError', message: 'METHOD THREW', abc: 123, remote: true });
  ok(error instanceof RangeError);
  equal(error.stack, 'RangeError: METHOD THREW');
  equal(await S.rejecting.catch((reason) => reason.message), 'REJECTED');
  equal(await S.rejecting.then(() => 1, (reason) => reason.message), 'REJECTED');
  for (const value of [undefined, null, 5, 'text', { a: 1 }, [1]]) {
    let got = 'nothing';
    try {
      await S.notAnError(value);
    } catch (reason) {
      got = reason;
    }
    alike(got, value);
  }
  await rejects(S.notAnError(() => {}), { name: 'Error', message: 'An exception was thrown that could not be cloned.' });
  await rejects(S.getPlain(), { name: 'DataCloneError', message: 'Could not serialize object of type "Plain". This type does not support serialization.' });
  await rejects(S.identity(new Plain()), { name: 'DataCloneError', message: 'Could not serialize object of type "Plain". This type does not support serialization.' });
  await rejects(S.identity(Symbol('s')), { name: 'DataCloneError' });
  const f = () => ({ x: 123 });
  f.foo = { x: 456 };
  equal((await S.call(f)).x, 123);
  equal(await S.call(f).x, 123);
  equal((await S.getProp(f, 'foo')).x, 456);
  await rejects(S.nested(f), { name: 'DataCloneError', message: 'Could not serialize object of type "RpcPromise". This type does not support serialization.' });
});

everywhere('disposal', async (S) => {
  const counter = await S.makeCounter(12);
  counter[dispose]();
  await rejects(counter.increment(2), gone);
  const object = await S.getAnObject(5);
  equal(await object.counter.increment(7), 12);
  object[dispose]();
  await rejects(object.counter.increment(2), gone);
  const passed = new Counter(3);
  equal(await S.incrementCounter(passed, 5), 8);
  await until(() => passed.disposed === 1, 'an argument is disposed of after the call');
  const kept = new Counter(3);
  const result = await S.keep(kept);
  equal(result.count, 8);
  await rejects(result.incrementOriginal(1), gone);
  equal(await result.incrementDup(7), 15);
  equal(await result.counter.increment(4), 19);
  equal(kept.disposed, 0);
  result[dispose]();
  await rejects(result.counter.increment(2), gone);
  await until(() => kept.disposed === 1, 'the last reference is gone');
  const pending = S.identity(1);
  pending[dispose]();
  await rejects(pending.foo(), { message: 'RPC promise used after being disposed.' });
  await rejects(pending, { message: 'RPC promise used after being disposed.' });
});

test('stubs of local objects', async () => {
  const counter = new Counter(4);
  const stub = new RpcStub(counter);
  equal(await stub.increment(5), 9);
  const duplicate = stub.dup();
  stub[dispose]();
  await rejects(stub.increment(1), gone);
  equal(await duplicate.increment(1), 10);
  equal(counter.disposed, 0);
  duplicate[dispose]();
  duplicate[dispose]();
  await until(() => counter.disposed === 1, 'disposed once');
  equal(await new RpcStub({ sum: (a, b) => a + b }).sum(12, 34), 46);
  const f = (a, b) => a + b;
  f.own = 'hello';
  equal(await new RpcStub(f)(12, 34), 46);
  equal(await new RpcStub(f).own, 'hello');
  for (const wrong of [1, 'x', null, undefined, new Plain(), [], Object.create(null)]) throws(() => new RpcStub(wrong), { name: 'TypeError', message: 'RpcStubs can only wrap plain objects, functions, and RpcTarget derivatives.' });
  throws(() => new RpcPromise(), /Illegal constructor/);
  throws(() => new RpcProperty(), /Illegal constructor/);
  throws(() => RpcStub.prototype.dup.call({}), /Illegal invocation/);
  equal(await Promise.resolve(new RpcStub(counter)).then((s) => s instanceof RpcStub), true, 'a stub is no thenable');
});

test('who owns an argument: duplicated by default, moved with older dates', async () => {
  const { stub } = pair(new Service());
  const counter = new Counter(4);
  const own = new RpcStub(counter);
  equal(await stub.incrementCounter(own, 5), 9);
  equal(await own.increment(1), 10);
  rules.duplicateParameters = false;
  try {
    equal(await stub.incrementCounter(own, 5), 15);
    await rejects(own.increment(1), gone);
  } finally {
    rules.duplicateParameters = true;
  }
  let made = 0;
  class Dupable extends Counter { dup() { made++; return new Dupable(100); } }
  equal(await stub.incrementCounter(new Dupable(0), 1), 101);
  equal(made, 1);
  class Wrong extends Counter { dup() { return 5; } }
  await rejects(stub.incrementCounter(new Wrong(), 1), { name: 'DataCloneError' });
});

test('Proxies stand for what their prototype says', async () => {
  if (natives.isProxy === undefined) return;
  const { stub } = pair(new Service());
  const proxy = new Proxy(new Counter(0), { get(target, key) { return key === 'increment' ? (i) => target.increment(i + 123) : typeof target[key] === 'function' ? target[key].bind(target) : target[key]; } });
  equal(await stub.incrementCounter(proxy, 1), 124);
  const f = new Proxy((i) => i * 3, { apply: (target, self, list) => target(...list) + 2 });
  equal(await stub.call(f, 2), 8);
  await rejects(stub.incrementCounter(new Proxy(new Plain(), {}), 1), { name: 'DataCloneError', message: /^Proxy could not be serialized/ });
  await rejects(stub.incrementCounter(new Proxy(new Counter(0), { getPrototypeOf: () => Plain.prototype }), 1), { name: 'DataCloneError', message: /^Proxy could not be serialized/ });
});

test('a dead session breaks its stubs and calls with the reason', async () => {
  const { a, stub } = pair(new Service());
  const counter = await stub.makeCounter(1);
  let broken = null;
  counter.onRpcBroken((reason) => { broken = reason.message; });
  const never = stub.never();
  const reason = 'Worker exceeded its memory limit of 128 MiB.';
  setTimeout(() => a.closed(reason), 5);
  await rejects(never, { name: 'Error', message: reason });
  equal(broken, reason);
  await rejects(counter.increment(1), { message: reason });
  await rejects(stub.makeCounter(1).increment(1), { message: reason });
});

test('holes cross, but no array of almost nothing else', async () => {
  const { stub } = pair(new Service());
  const array = [];
  array.length = 2 ** 32 - 1;
  await rejects(stub.identity(array), { name: 'DataCloneError', message: 'An array of length 4294967295 in which all but 0 elements are missing could not be cloned: above 1048576, every 64th must be there.' });
  array.length = 1 << 20;
  array[5] = 'five';
  const got = await stub.identity([array, [1, , 3]]);
  equal([got[0].length, Object.keys(got[0]).join(), got[1].length, 1 in got[1]].join(), '1048576,5,3,false');
});

test('tables are empty when everything was disposed of', async () => {
  const { a, b, stub } = pair(new Service());
  for (let i = 0; i < 20; i++) {
    const counter = await stub.makeCounter(i);
    await stub.incrementCounter(new Counter(i), 1);
    counter[dispose]();
    const object = await stub.getAnObject(1);
    object[dispose]();
    await stub.makeCounter(1).increment(1);
    await rejects(stub.thrower(), /METHOD THREW/);
  }
  await until(() => a.questions.size === 0 && b.answers.size === 0, 'calls are forgotten');
  equal(a.exports.size, 0);
  await until(() => b.exports.size <= 21, 'only what was pipelined on is still referenced');
});

test('a stub of a bigger object is not copied, and a big value has a bound', async () => {
  const { stub } = pair(new Service());
  const big = 'x'.repeat(1 << 20);
  equal((await stub.identity(big)).length, big.length);
  await rejects(stub.identity('x'.repeat((32 << 20) + 1)), /Error: Serialized RPC arguments or return values are limited to 32MiB, but the size of this value was: \d+ bytes\./);
});
