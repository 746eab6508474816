import { alike, equal, natives, ok, randomness, rejects, test, throws } from './harness.js';
import { Decoder, MAX_DEPTH, clone, decode, encode } from '../../js/src/rpc/codec.js';
import { decodePlain, encodePlain } from '../../js/src/rpc/cbor.js';

void rejects;
const utf8 = (n, unit) => unit.repeat(n);

test('values come back as they were', () => {
  const values = [
    0, -0, 1, -1, 23, 24, 255, 256, 65535, 65536, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, -(2 ** 53 - 1), 2 ** 53, 1.5, NaN, Infinity, -Infinity, 5e-324,
    '', 'a', 'ä', '😀', utf8(47, 'x'), utf8(48, 'x'), utf8(1000, 'x'), utf8(500, 'ü'), utf8(23, 'ü'), utf8(127, 'ü'), `${utf8(254, 'x')}é`, `${utf8(65535, 'x')}é`,
    '\ud800', 'a\udc00b', '\udc00\ud800', true, false, null, undefined, 0n, 1n, -1n, 255n, 256n, -256n, 2n ** 64n, -(2n ** 64n), 2n ** 5000n,
    [], [1, 2, [3]], {}, { a: 1, b: { c: [1] }, '': 2, 'é': 3, '\ud800': 4, 1: 5 }, new Map([[1, { a: 2 }], [{}, new Map()]]), new Set([1, 'a', {}]),
    new Date(0), new Date(8.64e15), new Date(NaN), /a+\/b/gimsuy, new RegExp(''), new Uint8Array([1, 2, 3]), new Float64Array([1.5, NaN]), new BigInt64Array([-1n]),
    new DataView(new ArrayBuffer(8), 2, 4), new ArrayBuffer(5), [1, , 3], new Array(10), Object.assign([1, 2], { x: 1, '-1': 2 }), Object(1), Object('s'), Object(true),
    Object(5n), 'x'.match(/x/),
  ];
  for (const value of values) alike(clone(value), value);
});

test('identity: shared values, cycles, views of one buffer', () => {
  const shared = { x: 1 };
  const value = { a: shared, b: [shared], map: new Map(), set: new Set() };
  value.self = value;
  value.map.set(value, value.map);
  value.set.add(value.set);
  const copy = clone(value);
  ok(copy.self === copy && copy.a === copy.b[0] && copy.map.get(copy) === copy.map && copy.set.has(copy.set));
  const buffer = new ArrayBuffer(16);
  const [a, b, c] = clone([new Uint8Array(buffer, 4, 4), new Uint16Array(buffer, 2, 2), buffer]);
  ok(a.buffer === b.buffer && b.buffer === c && a.byteOffset === 4 && b.length === 2);
});

test('__proto__ is a name like others', () => {
  const copy = clone(JSON.parse('{"__proto__": {"polluted": 1}, "a": 2}'));
  ok(Object.hasOwn(copy, '__proto__'));
  equal(copy.polluted, undefined);
  equal(Object.getPrototypeOf(copy), Object.prototype);
  equal(copy.a, 2);
});

test('an array as long as can be is not made of its length', () => {
  const array = [];
  array.length = 4294967295;
  array[5] = 1;
  const copy = clone(array);
  equal(copy.length, 4294967295);
  equal(copy[5], 1);
  equal(Object.keys(copy).length, 1);
});

test('errors: class, name, message, cause; never a stack of elsewhere', () => {
  class Own extends Error { name = 'Own'; }
  const over = (error) => decode(encode(error, { errorProperties: true }));
  for (const Class of [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError]) {
    const copy = over(new Class('m'));
    ok(copy instanceof Class && copy.message === 'm' && copy.name === Class.name);
  }
  const own = over(new Own('x'));
  equal(own.name, 'Own');
  equal(own.message, 'x');
  equal(own.stack, 'Own: x');
  const rich = new Error('x', { cause: { deep: [1] } });
  rich.code = 7;
  rich.self = rich;
  rich.f = () => {};
  rich.part = { ok: 1, bad: Symbol('s') };
  rich.last = 'kept';
  const copy = over(rich);
  equal(copy.code, 7);
  ok(copy.self === copy && !('f' in copy) && !('part' in copy) && copy.last === 'kept');
  alike(copy.cause, { deep: [1] });
  const kept = new Error('here');
  equal(clone(kept).stack, kept.stack, 'within a worker it stays');
  equal(decode(encode(kept, { stacks: true })).stack, 'Error: here', 'a sender cannot make one up');
});

test('what cannot be cloned says so', () => {
  for (const [value, message] of [
    [() => {}, /could not be cloned/], [function named() {}, /function named\(\)/], [Symbol('x'), /Symbol\(x\) could not be cloned/], [new WeakMap(), /#<WeakMap>/],
    [new WeakSet(), /#<WeakSet>/], [Promise.resolve(), /#<Promise>/], [new WeakRef({}), /#<WeakRef>/], [{ a: [() => {}] }, /could not be cloned/],
  ]) {
    throws(() => clone(value), { name: 'DataCloneError', message });
  }
  throws(() => encode(new (class Foo {})()), { name: 'DataCloneError', message: 'Could not serialize object of type "Foo". This type does not support serialization.' });
  throws(() => encode(Object.create(null)), { name: 'DataCloneError', message: 'Could not serialize object of type "Object". This type does not support serialization.' });
  alike(clone(new (class { a = 1; })()), { a: 1 });
  if (natives.isProxy !== undefined) throws(() => clone(new Proxy({}, {})), { name: 'DataCloneError' });
});

test('getters run once, and what they change does not matter', () => {
  let calls = 0;
  alike(clone({ get a() { calls++; return 1; } }), { a: 1 });
  equal(calls, 1);
  const victim = { get a() { delete victim.b; return 1; }, b: 2 };
  alike(clone(victim), { a: 1, b: undefined });
  const list = [{ get a() { list.length = 1; return 1; } }, 2, 3];
  equal(clone(list).length, 3);
  const map = new Map([[{ get a() { map.clear(); return 1; } }, 1], [2, 2]]);
  equal(clone(map).size, 2);
  const bytes = new Uint8Array([1, 2, 3]);
  const late = { bytes, get then_() { bytes[0] = 9; return 0; } };
  equal(clone(late).bytes[0], 1, 'bytes are copied when they are met');
  throws(() => clone({ get a() { throw new RangeError('mine'); } }), /RangeError: mine/);
});

test('a polluted prototype is not asked', () => {
  let touched = 0;
  const plant = (on, name) => Object.defineProperty(on, name, { configurable: true, get() { touched++; return undefined; }, set() { touched++; } });
  plant(Object.prototype, 'a');
  plant(Object.prototype, 'get');
  plant(Array.prototype, '0');
  plant(Object.prototype, 'then');
  try {
    const copy = decode(encode({ a: 1, list: [1, 2], nested: { a: 2 } }));
    equal(touched, 0);
    equal(Object.getOwnPropertyDescriptor(copy, 'a').value, 1);
    ok(Object.hasOwn(copy.list, 0));
  } finally {
    delete Object.prototype.a;
    delete Object.prototype.get;
    delete Array.prototype[0];
    delete Object.prototype.then;
  }
});

test('depth is bounded in both directions', () => {
  let value = {};
  for (let i = 1; i < MAX_DEPTH; i++) value = { d: value };
  clone(value);
  throws(() => clone({ d: value }), { name: 'DataCloneError', message: `The value is nested more than ${MAX_DEPTH} levels deep and could not be cloned.` });
  const deep = new Uint8Array(1e6).fill(0x81);
  throws(() => decode(deep), { name: 'TypeError', message: 'Malformed message: it is nested too deeply.' });
});

test('hostile bytes: lengths, counts, references, memory', () => {
  const bad = (hex, message) => throws(() => decode(new Uint8Array((hex.match(/../g) ?? []).map((byte) => parseInt(byte, 16)))), { name: 'TypeError', message: `Malformed message: ${message}.` });
  bad('9b0000000100000000', 'more items than the message has bytes');
  bad('9affffffff', 'more items than the message has bytes');
  bad('baffffffff', 'more items than the message has bytes');
  bad('7affffffff', 'a string longer than the message');
  bad('1800', 'a length or number that is not in its shortest form');
  bad('1b00000000ffffffff', 'a length or number that is not in its shortest form');
  bad('9f01ff', 'an indefinite or reserved length');
  bad('f97e00', 'a float that is no double, or a reserved value');
  bad('fb0000', 'it ends early');
  bad('d9c10000', 'a reference to nothing');
  bad('81d9c10005', 'a reference to nothing');
  bad('d9c10100', 'a capability where none may be');
  bad('a2616101616102', 'a key occurs twice');
  bad('a10101', 'text was expected');
  bad('4101', 'bytes without a meaning');
  bad('d9c1ff00', 'an unknown tag');
  bad('0000', 'something follows it');
  bad('', 'it ends early');
  bad('d9c10a01000080', 'a view of something else than a buffer');
  bad('d9c10a010005d9c1084101', 'a view beyond its buffer');
  bad('d9c10a050104d9c10844000000', 'a string longer than the message');
  bad('d9c10a0d0000d9c10840', 'a view of an unknown kind');
  bad('d9c1091b001fffffffffffff4100', 'it would take too much memory');
  bad('c24100', 'a BigInt that is not in its shortest form');
  bad('d9c106612861675a00', 'a regular expression that is none');
  bad('d9c10c4261', 'a string longer than the message');
  bad('d9c10c426100', 'text in the wrong form');
  bad('d9c1020203', 'more items than the message has bytes');
  bad('d9c102010105f6', 'an index beyond its array');
  throws(() => decode(new Uint8Array([0x62, 0xc3, 0x28])), /TypeError/);
});

test('a billion laughs stay shared, and a flood of objects meets a bound', () => {
  let value = ['lol'];
  for (let i = 0; i < 40; i++) value = [value, value];
  const copy = clone(value);
  ok(copy[0] === copy[1] && copy[0][0] === copy[1][1]);
  const flood = new Uint8Array(5 + (4 << 20)).fill(0xa0);
  flood.set([0x9a, 0x00, 0x40, 0x00, 0x00]);
  throws(() => decode(flood), { name: 'TypeError', message: 'Malformed message: it would take too much memory.' });
});

function generator(random) {
  const value = (depth) => {
    switch (random.below(depth > 5 ? 9 : 17)) {
      case 0: return random.below(1 << 30) - (1 << 29);
      case 1: return (random.next() - 0.5) * 2 ** random.below(1000);
      case 2: return String.fromCharCode(...Array.from({ length: random.below(60) }, () => random.below(random.below(3) === 0 ? 65536 : 128)));
      case 3: return [null, undefined, true, false, NaN, -0][random.below(6)];
      case 4: return BigInt(random.below(1 << 30)) ** BigInt(random.below(6)) * (random.below(2) ? 1n : -1n);
      case 5: return new Date(random.below(2 ** 31) * 1000);
      case 6: return new Uint8Array(Array.from({ length: random.below(40) }, () => random.below(256)));
      case 7: return new Float32Array(Array.from({ length: random.below(8) }, () => random.next()));
      case 8: return Object('boxed');
      case 9: case 10: case 11: return Array.from({ length: random.below(6) }, () => value(depth + 1));
      case 12: case 13: return Object.fromEntries(Array.from({ length: random.below(6) }, (_, i) => [`key${i}`, value(depth + 1)]));
      case 14: return new Map(Array.from({ length: random.below(4) }, () => [value(depth + 1), value(depth + 1)]));
      case 15: return new Set(Array.from({ length: random.below(4) }, () => value(depth + 1)));
      default: {
        const sparse = [];
        sparse[random.below(1000)] = value(depth + 1);
        return sparse;
      }
    }
  };
  return value;
}

test('random values come back; changed bytes never do more than throw a TypeError', () => {
  const random = randomness(20260101);
  const value = generator(random);
  let refused = 0;
  for (let i = 0; i < 3000; i++) {
    const original = value(0);
    const bytes = encode(original);
    alike(decode(bytes), original);
    for (let k = 0; k < 4 && bytes.length > 0; k++) {
      const changed = bytes.slice(0, k === 3 ? random.below(bytes.length) : bytes.length);
      if (changed.length > 0) changed[random.below(changed.length)] = random.below(256);
      try {
        decode(changed);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        refused++;
      }
    }
  }
  ok(refused > 1000, 'most changes are noticed');
});

test('random bytes', () => {
  const random = randomness(7);
  for (let i = 0; i < 50000; i++) {
    const bytes = new Uint8Array(Array.from({ length: random.below(40) }, () => (random.below(2) ? random.below(256) : [0xd9, 0xc1, 0x0a, 0x81, 0xa1, 0x02, 0x40][random.below(7)])));
    try {
      new Decoder(bytes, { capability: (index) => index }).value();
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }
});

test('the link: plain values, and what they refuse', () => {
  const value = { a: [1, 'x', null, true], b: new Uint8Array([1]), c: -5, d: 1.25, e: undefined, f: 9007199254740993n };
  const back = decodePlain(encodePlain(value));
  equal(Object.getPrototypeOf(back), null);
  equal(back.a[1], 'x');
  equal(back.b[0], 1);
  equal(back.c, -5);
  equal(back.d, 1.25);
  ok(!('e' in back));
  equal(back.f, 9007199254740992);
  throws(() => encodePlain(() => {}), /cannot cross the link/);
  throws(() => encodePlain(2n ** 64n), /64 bits/);
  throws(() => decodePlain(new Uint8Array([0xa2, 0x61, 0x61, 1, 0x61, 0x61, 2])), /occurs twice/);
});
