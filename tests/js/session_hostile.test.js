/** The other side of a session writes what it likes: every message here is made by hand. */
import { equal, ok, randomness, rejects, test, until, wait } from './harness.js';
import { Session, MAX_ANSWERS } from '../../js/src/rpc/session.js';
import { RpcTarget, StubHandle } from '../../js/src/rpc/stub.js';
import { LocalTarget } from '../../js/src/rpc/local.js';
import { STUB } from '../../js/src/rpc/target.js';
import { encode } from '../../js/src/rpc/codec.js';
import { ARRAY, BYTES, Reader, UINT, Writer } from '../../js/src/rpc/cbor.js';

class Service extends RpcTarget {
  calls = 0;
  hello() { this.calls++; return 'hello'; }
  take(stub) { return stub.x(); }
  never() { return new Promise(() => {}); }
  give() { return () => 1; }
}

/** @param {(w: any) => void} write @returns {Uint8Array} */
function message(write) {
  const w = new Writer();
  write(w);
  return w.take();
}
/** @param {any} w @param {any[]} items */
function items(w, ...all) {
  for (const item of all) {
    if (typeof item === 'number') w.head(UINT, item);
    else if (typeof item === 'string') w.text(item);
    else if (item === null) w.null();
    else if (typeof item === 'boolean') w.boolean(item);
    else if (item instanceof Uint8Array) w.raw(BYTES, item);
    else {
      w.head(ARRAY, item.length);
      items(w, ...item);
    }
  }
}
const made = (...all) => message((w) => items(w, ...all));
const call = (id, where, target, op, path, capabilities, bytes) => made(0, id, where, target, op, path, capabilities, bytes);
const NONE = encode([]);

/** A reader at the first entry of a message that is more than bookkeeping. @param {Uint8Array} bytes */
function entry(bytes) {
  const r = new Reader(bytes);
  for (;;) {
    const at = r.at;
    const kind = r.readUint();
    if (kind === 3 || kind === 6) r.readUint();
    else if (kind === 4) { r.readUint(); r.readUint(); } else {
      r.at = at;
      return r;
    }
    if (r.atEnd()) return null;
  }
}
/** What it answered. */
const answers = (v) => v.said.map(entry).filter((r) => r !== null);

/** A session of ours, and what it says. */
function victim() {
  const service = new Service();
  const said = [];
  let closed = null;
  const session = new Session({ send: (bytes) => said.push(new Uint8Array(bytes)), close: (reason) => { closed = reason; } }, new LocalTarget(service, false));
  return { service, session, said, closed: () => closed };
}

/** @param {string} name @param {Uint8Array|((v: any) => any)} bytes @param {string} reason */
function aborts(name, bytes, reason) {
  test(`the session is aborted: ${name}`, async () => {
    const v = victim();
    if (typeof bytes === 'function') await bytes(v);
    else v.session.receive(bytes);
    ok(v.session.over !== null, 'it goes on');
    equal(v.session.over.message, reason);
    equal(v.closed(), reason);
    const last = entry(v.said[v.said.length - 1]);
    equal(last.readUint(), 5);
    equal(last.readText(), reason);
    const before = v.said.length;
    v.session.receive(call(99, 0, 0, 1, ['hello'], [], NONE));
    await wait(2);
    equal(v.said.length, before, 'it answers after the end');
  });
}

test('the legal twin', async () => {
  const v = victim();
  v.session.receive(call(1, 0, 0, 1, ['hello'], [], NONE));
  await until(() => v.said.length === 1, 'an answer');
  const r = new Reader(v.said[0]);
  equal(r.readUint(), 1);
  equal(r.readUint(), 1);
  equal(v.service.calls, 1);
  v.session.receive(made(3, 1));
  equal(v.session.over, null);
});

const malformed = (what) => `Malformed message: ${what}.`;
aborts('an export that was never given', call(1, 0, 77, 1, ['hello'], [], NONE), malformed('it calls what it does not hold'));
aborts('the result of a call that was not made', call(1, 1, 5, 1, ['hello'], [], NONE), malformed('it calls what it does not hold'));
aborts('a capability of ours that was never given', call(1, 0, 0, 1, ['take'], [[0, 1, 9]], NONE), malformed('it passes what it does not hold'));
aborts('our main object as a capability', call(1, 0, 0, 1, ['take'], [[0, 1, 0]], NONE), malformed('it passes what it does not hold'));
aborts('its main object as a capability', call(1, 0, 0, 1, ['take'], [[0, 0, 0]], NONE), malformed('its main object is no capability'));
aborts('an answer to nothing', made(1, 12, false, [], NONE), malformed('it answers a call that was not made, or answers twice'));
aborts('an error to nothing', made(2, 12, NONE), malformed('it answers a call that was not made, or answers twice'));
aborts('two answers', (v) => {
  const main = new StubHandle(v.session.main(), STUB).proxy;
  main.anything().then(() => {}, () => {});
  v.session.receive(made(1, 1, false, [], encode(5)));
  v.session.receive(made(1, 1, false, [], encode(6)));
}, malformed('it answers a call that was not made, or answers twice'));
aborts('a dropped answer that is waited for', (v) => {
  const main = new StubHandle(v.session.main(), STUB).proxy;
  main.anything().then(() => {}, () => {});
  v.session.receive(made(6, 1));
}, malformed('it drops a call that is waited for'));
aborts('two calls of one number', (v) => {
  v.session.receive(call(1, 0, 0, 1, ['never'], [], NONE));
  v.session.receive(call(1, 0, 0, 1, ['never'], [], NONE));
}, malformed('it numbers two calls alike'));
aborts('finishing what was not called', made(3, 1), malformed('it finishes a call that was not made'));
aborts('finishing twice', (v) => {
  v.session.receive(call(1, 0, 0, 1, ['never'], [], NONE));
  v.session.receive(made(3, 1));
  v.session.receive(made(3, 1));
}, malformed('it finishes a call that was not made'));
aborts('releasing what it does not hold', made(4, 3, 1), malformed('it releases what it does not hold'));
aborts('releasing our main object', made(4, 0, 1), malformed('it releases what it does not hold'));
aborts('releasing more than it got', async (v) => {
  v.session.receive(call(1, 0, 0, 1, ['give'], [], NONE));
  await until(() => v.said.length === 1, 'an answer');
  v.session.receive(made(4, 1, 2));
}, malformed('it releases what it does not hold'));
aborts('an unknown entry', made(9, 1), malformed('an unknown entry'));
aborts('an unknown operation', call(1, 0, 0, 99, ['hello'], [], NONE), malformed('an unknown kind of call'));
aborts('an unknown kind of capability', call(1, 0, 0, 1, ['take'], [[44, 0, 1]], NONE), malformed('an unknown kind of capability'));
aborts('a path as long as it likes', call(1, 0, 0, 1, Array.from({ length: 200 }, () => 'x'), [], NONE), malformed('a list was expected'));
aborts('a name as long as it likes', call(1, 0, 0, 1, ['x'.repeat(5000)], [], NONE), malformed('a name that is too long'));
aborts('a count of capabilities beyond the message', message((w) => { items(w, 0, 1, 0, 0, 1, ['hello']); w.head(ARRAY, 4000); }), malformed('a list was expected'));
aborts('bytes beyond the message', message((w) => { items(w, 0, 1, 0, 0, 1, ['hello'], []); w.head(BYTES, 1e6); }), malformed('a string longer than the message'));
aborts('a message that ends early', call(1, 0, 0, 1, ['hello'], [], NONE).slice(0, 5), malformed('it ends early'));
aborts('a flood of calls that are never finished', (v) => {
  for (let i = 1; i <= MAX_ANSWERS + 1 && v.session.over === null; i++) v.session.receive(call(i, 0, 0, 1, ['never'], [], NONE));
}, malformed(`more than ${MAX_ANSWERS} unfinished calls`));

test('values inside a call are the call\'s own fault', async () => {
  const wrong = [
    encode(5), encode({ length: 1, 0: 'x' }), new Uint8Array([0xff]), new Uint8Array(0), new Uint8Array([0x81, 0xd9, 0xc1, 0x01, 0x00]), new Uint8Array(600).fill(0x81),
  ];
  const v = victim();
  for (let i = 0; i < wrong.length; i++) {
    v.session.receive(call(i + 1, 0, 0, 1, ['take'], [], wrong[i]));
    await until(() => answers(v).length === i + 1, 'an answer');
    equal(answers(v)[i].readUint(), 2, `message ${i}`);
  }
  equal(v.session.over, null);
});

test('a capability in two places, of another kind, or left over', async () => {
  const v = victim();
  const twice = new Writer();
  twice.head(ARRAY, 2);
  for (let i = 0; i < 2; i++) twice.append(new Uint8Array([0xd9, 0xc1, 0x01, 0x00]));
  v.session.receive(call(1, 0, 0, 1, ['hello'], [[0, 0, 5]], twice.take()));
  await until(() => answers(v).length === 1, 'an answer');
  equal(answers(v)[0].readUint(), 2);
  // A readable stream where a stub is expected.
  v.session.receive(call(2, 0, 0, 1, ['hello'], [[2, 0, 6]], new Uint8Array([0x81, 0xd9, 0xc1, 0x01, 0x00])));
  await until(() => answers(v).length === 2, 'an answer');
  equal(answers(v)[1].readUint(), 2);
  v.session.receive(call(3, 0, 0, 1, ['hello'], [[0, 0, 7]], NONE));
  await until(() => v.session.imports.size === 0, 'all is released');
  equal(v.session.over, null);
});

test('a peer that never answers holds up its callers only', async () => {
  const v = victim();
  const main = new StubHandle(v.session.main(), STUB).proxy;
  let answered = false;
  main.slow().then(() => { answered = true; }, () => { answered = true; });
  v.session.receive(call(1, 0, 0, 1, ['hello'], [], NONE));
  await until(() => v.said.length >= 2, 'it goes on answering');
  ok(!answered);
  v.session.closed('gone');
  await rejects(main.more(), { message: 'gone' });
});

test('random entries never crash, and never reach more than the main object', async () => {
  const random = randomness(99);
  for (let i = 0; i < 4000; i++) {
    const v = victim();
    const w = new Writer();
    for (let k = random.below(4); k >= 0; k--) {
      items(w, random.below(8), random.below(4), random.below(3), random.below(3), random.below(5), Array.from({ length: random.below(3) }, () => ['hello', 'constructor', '__proto__', 'take'][random.below(4)]),
        Array.from({ length: random.below(3) }, () => [random.below(6), random.below(3), random.below(4)]), random.below(2) ? NONE : null);
    }
    const bytes = w.take();
    if (random.below(2)) bytes[random.below(bytes.length)] = random.below(256);
    v.session.receive(bytes);
  }
  await wait(5);
});
