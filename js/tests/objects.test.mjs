import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { World } from './support/objects.mjs';

const world = new World();
after(() => world.close());
/** Values of the realm as values of this one. */
const plain = (value) => JSON.parse(JSON.stringify(value));
const rejects = (promise, name, message) => assert.rejects(Promise.resolve(promise), (error) => {
  assert.equal(error.message, message);
  assert.equal(error.name, name);
  return true;
});

world.define(`({
  Run: class Run extends DurableObject {
    constructor(ctx, env) { super(ctx, env); this.made = Math.random(); }
    run(source, ...list) { return Object.getPrototypeOf(async function () {}).constructor('ctx', 's', 'self', 'list', source)(this.ctx, this.ctx.storage, this, list); }
    plain(source) { return Function('ctx', 's', 'self', source)(this.ctx, this.ctx.storage, this); }
    which() { return this.made; }
    async alarm(info) { this.ctx.storage.kv.put('info', info); await this.ctx.storage.put('inside', await this.ctx.storage.getAlarm()); if (info.retryCount === 5) this.ctx.abort('stop', { retryAlarm: false }); if (info.retryCount > 0) throw new Error('again'); }
  },
  Other: class Other extends DurableObject {},
  KvOnly: class KvOnly extends DurableObject { run() { const out = []; for (const f of [() => this.ctx.storage.sql, () => this.ctx.storage.kv, () => this.ctx.storage.transactionSync(() => 1)]) { try { f(); out.push('?'); } catch (e) { out.push(e.message); } } return out; } put() { return this.ctx.storage.put('a', 1); } },
  Slow: class Slow extends DurableObject {
    constructor(ctx, env) { super(ctx, env); this.log = []; ctx.blockConcurrencyWhile(async () => { await new Promise((r) => setTimeout(r, 20)); this.log.push('ready'); }); }
    note(x) { this.log.push(x); return this.log.slice(); }
    async block() { await this.ctx.blockConcurrencyWhile(async () => { this.log.push('in'); await new Promise((r) => setTimeout(r, 20)); this.log.push('out'); }); return this.log.slice(); }
    fails() { return this.ctx.blockConcurrencyWhile(async () => { throw new Error('no init'); }); }
  },
  Fails: class Fails extends DurableObject { constructor(ctx, env) { super(ctx, env); throw new Error('cannot be made'); } hello() { return 1; } },
})`);
const on = (name, source, ...list) => world.get('Run', name).run(source, ...list);

test('get, put, delete, list', async () => {
  assert.deepEqual(plain(await on('kv', `
    const out = {};
    out.none = await s.get('a') === undefined;
    await s.put('a', { n: 1, d: new Date(5), big: 5n, set: new Set([1]) });
    const a = await s.get('a');
    out.types = [a.n, a.d instanceof Date, typeof a.big, a.set.has(1)];
    await s.put({ b: 2, c: 3, d: undefined });
    out.many = [...(await s.get(['a', 'b', 'x', 'c'])).keys()];
    out.del = [await s.delete('a'), await s.delete('a'), await s.delete(['b', 'c', 'x'])];
    for (const k of ['foo', 'bar', 'baz']) s.put(k, k);
    const keys = async (o) => [...(await s.list(o)).keys()].join(' ');
    out.lists = [await keys(), await keys({ reverse: true }), await keys({ prefix: 'ba' }), await keys({ start: 'bar', end: 'foo' }), await keys({ startAfter: 'bar' }), await keys({ limit: 1 }), await keys({ limit: 1.9, reverse: true })];
    return out;`)), {
    none: true, types: [1, true, 'bigint', true], many: ['a', 'b', 'c'], del: [true, false, 2],
    lists: ['bar baz foo', 'foo baz bar', 'bar baz', 'bar baz', 'baz foo', 'bar', 'foo'],
  });
});

test('what the operations refuse', async () => {
  const message = (source) => on('refused', `try { ${source}; return 'accepted'; } catch (e) { return e.name + ': ' + e.message; }`);
  assert.equal(await message('await s.get()'), 'TypeError: get() called with undefined key.');
  assert.equal(await message("await s.put('a')"), 'TypeError: put() called with undefined value.');
  assert.equal(await message('await s.put(undefined, 1)'), 'TypeError: put() called with undefined key.');
  assert.equal(await message('await s.delete()'), 'TypeError: delete() called with undefined key.');
  assert.match(await message("await s.put('a', () => 1)"), /^DataCloneError: /);
  assert.equal(await message('await s.get(Array(129).fill("k"))'), 'RangeError: Maximum number of keys is 128.');
  assert.equal(await message('await s.put(Object.fromEntries(Array.from({ length: 129 }, (_, i) => [i, i])))'), 'RangeError: Maximum number of pairs is 128.');
  assert.equal(await message("await s.get('k'.repeat(2049))"), 'RangeError: Keys cannot be larger than 2048 bytes. A key of size 2049 was provided.');
  assert.equal(await message("await s.get('\\u00e9'.repeat(1025))"), 'RangeError: Keys cannot be larger than 2048 bytes. A key of size 2050 was provided.');
  assert.match(await message("await s.put('a', new Uint8Array(2 << 20))"), /^RangeError: Values cannot be larger than 2097152 bytes, with their key\. A value of size \d+ was provided\.$/);
  assert.equal(await message('await s.list({ limit: 0 })'), 'TypeError: List limit must be positive.');
  assert.equal(await message("await s.list({ start: 'a', startAfter: 'b' })"), 'TypeError: list() cannot be called with both start and startAfter values.');
  assert.equal(await message('await s.setAlarm(0)'), 'TypeError: setAlarm() cannot be called with an alarm time <= 0.');
  assert.equal(await message("await s.setAlarm('soon')"), 'TypeError: setAlarm() cannot be called with a time that is not a number or Date.');
  assert.equal(await message('await s.getCurrentBookmark()'), "Error: storage.getCurrentBookmark() is not implemented: Cloister keeps no history of an object's storage.");
});

test('values and batches of any size', async () => {
  assert.deepEqual(plain(await on('large', `
    const big = new Uint8Array(2 << 20 >> 1).fill(7);
    await s.put(Object.fromEntries(Array.from({ length: 12 }, (_, i) => ['k' + (10 + i), big])));
    const all = await s.list();
    let bytes = 0;
    for (const v of all.values()) bytes += v.length;
    const some = await s.get([...all.keys()]);
    await s.put('most', new Uint8Array((2 << 20) - 100));
    s.sql.exec('CREATE TABLE t (b)');
    s.sql.exec('INSERT INTO t VALUES (?)', new Uint8Array((2 << 20) - 10));
    return [all.size, bytes, some.size, (await s.get('most')).length, s.sql.exec('SELECT b FROM t').one().b.byteLength];`)), [12, 12 << 20, 12, (2 << 20) - 100, (2 << 20) - 10]);
});

test('kv', async () => {
  assert.deepEqual(plain(await on('synckv', `
    const kv = s.kv, out = [];
    out.push(kv.get('a') === undefined);
    kv.put('foo', 123); kv.put('bar', 'abc'); kv.put('baz', false);
    out.push([...kv.list()], [...kv.list({ reverse: true, limit: 1 })], [...kv.list({ startAfter: 'bar', end: 'c' })]);
    const first = kv.list(); kv.list();
    try { [...first]; } catch (e) { out.push(e.message); }
    out.push(kv.delete('qux'), kv.delete('bar'), kv.get('foo'));
    return out;`)), [true, [['bar', 'abc'], ['baz', false], ['foo', 123]], [['foo', 123]], [['baz', false]],
    'kv.list() iterator was invalidated because a new call to kv.list() was started. Only one kv.list() iterator can exist at a time.', false, true, 123]);
});

test('sql cursors', async () => {
  assert.deepEqual(plain(await on('sql', `
    const sql = s.sql, out = [];
    out.push(sql.exec('SELECT 123').toArray(), [...sql.exec('SELECT 1 AS a, 2 AS b').raw()], sql.exec('SELECT ? + ? AS n', 1, 2).one());
    const c = sql.exec("SELECT 1 AS col UNION ALL SELECT 'foo' UNION ALL SELECT 3");
    out.push(c.next(), c.raw().next(), c.toArray(), c.next(), c.columnNames);
    out.push(new Uint8Array(sql.exec("SELECT x'ff01' AS b").one().b)[1], sql.exec('SELECT ?1 AS v', null).one(), sql.exec('SELECT hex(?) AS h', new Uint8Array([1, 255])).one().h);
    for (const q of ['SELECT 1 UNION ALL SELECT 2', 'SELECT 1 WHERE false', 'SELECT ?', '', 'SELECT * bunk']) { try { sql.exec(q).one(); } catch (e) { out.push(e.message); } }
    sql.exec('CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 2)');
    out.push(sql.exec('INSERT INTO t VALUES (3, 4), (5, 6)').rowsWritten);
    const all = sql.exec('SELECT * FROM t'); all.toArray(); out.push(all.rowsRead);
    out.push(sql.exec('SELECT 1 AS __proto__').toArray().map((r) => Object.keys(r)), sql.databaseSize % 4096);
    out.push(sql.exec('WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 30000) SELECT x, hex(zeroblob(20)) AS h FROM n').toArray().length);
    return out;`)), [
    [{ 123: 123 }], [[1, 2]], { n: 3 }, { done: false, value: { col: 1 } }, { done: false, value: ['foo'] }, [{ col: 3 }], { done: true }, ['col'], 1, { v: null }, '01FF',
    'Expected exactly one result from SQL query, but got multiple results.', 'Expected exactly one result from SQL query, but got no results.',
    'Wrong number of parameter bindings for SQL query: 1 expected, 0 given', 'SQL code did not contain a statement.', 'near "bunk": syntax error at offset 9: SQLITE_ERROR',
    2, 3, [['__proto__']], 0, 30000]);
});

test('C033: synchronous transactions nest', async () => {
  assert.deepEqual(plain(await world.get('Run', 'C033').plain(`
    const put = v => s.sql.exec('INSERT INTO t VALUES (?)', v), out = {};
    const rows = () => s.sql.exec('SELECT v FROM t ORDER BY v').toArray().map(r => r.v);
    s.sql.exec('CREATE TABLE t (v INTEGER)');
    s.transactionSync(() => { put(1); s.transactionSync(() => put(2)); }); out.both = rows();
    s.transactionSync(() => { put(3); try { s.transactionSync(() => { put(4); throw new Error('in'); }); } catch {} }); out.inner = rows();
    try { s.transactionSync(() => { put(5); s.transactionSync(() => put(6)); throw new Error('out'); }); } catch (e) { out.err = e.message; }
    out.outer = rows(); out.ret = s.transactionSync(() => 'r');
    try { s.sql.exec('BEGIN TRANSACTION'); out.begin = 'accepted'; } catch { out.begin = 'refused'; }
    return out;`)), { both: [1, 2], inner: [1, 2, 3], err: 'out', outer: [1, 2, 3], ret: 'r', begin: 'refused' });
});

test('transactions', async () => {
  assert.deepEqual(plain(await on('txn', `
    const out = [], get = async () => out.push(await s.get('t'));
    s.put('t', 0);
    out.push(await s.transaction(async () => { s.put('t', 1); return 'foo'; })); await get();
    let late;
    await s.transaction(async (txn) => { late = txn; await txn.put('t', 4); txn.rollback(); out.push(await s.get('t')); try { await txn.get('t'); } catch (e) { out.push(e.message); } }); await get();
    try { await s.transaction(async () => { s.put('t', 5); await new Promise((r) => setTimeout(r, 5)); throw new Error('failure'); }); } catch (e) { out.push(e.message); } await get();
    await s.transaction(async (txn) => { s.put('t', 6); await s.transaction(async () => { s.put('t', 7); await new Promise((r) => setTimeout(r, 1)); }); await get(); txn.rollback(); }); await get();
    await s.transaction(async (txn) => { s.put('t', 8); try { await txn.deleteAll(); } catch (e) { out.push(e.message); } }); await get();
    try { await late.put('t', 9); } catch (e) { out.push(e.message); }
    await s.sync();
    return out;`)), ['foo', 1, 1, 'Cannot get() on rolled back transaction', 1, 'failure', 1, 7, 1, 'Cannot call deleteAll() within a transaction', 8,
    'Cannot put() on rolled back transaction']);
});

test('a class without SQLite', async () => {
  const stub = world.get('KvOnly');
  await stub.put();
  assert.deepEqual(plain(await stub.run()).map((text) => text.slice(0, 30)), ['SQL is not enabled for this Du', 'storage.kv is there for SQLite', 'Durable Object is not backed b']);
});

test('ids', () => {
  const ns = world.objects.namespace('Run'), other = world.objects.namespace('Other');
  const id = ns.idFromName('foo');
  assert.equal(id.name, 'foo');
  assert.match(id.toString(), /^[0-9a-f]{64}$/);
  assert.ok(id.equals(ns.idFromName('foo')) && !id.equals(ns.idFromName('bar')) && !id.equals(other.idFromName('foo')));
  const again = ns.idFromString(id.toString().toUpperCase());
  assert.equal(again.name, undefined);
  assert.ok(again.equals(id));
  assert.ok(!ns.newUniqueId().equals(ns.newUniqueId()));
  for (let i = 0; i < 50; i++) assert.ok(Number.parseInt(ns.newUniqueId().toString()[0], 16) < 8 && Number.parseInt(ns.idFromName(`${i}`).toString()[0], 16) >= 8);
  for (const [text, message] of [['abc', 'Invalid Durable Object ID: must be 64 hex digits'], [`${'0'.repeat(64)}`, 'Durable Object ID is not valid for this namespace'], [other.idFromName('foo').toString(), 'Durable Object ID is not valid for this namespace']]) {
    assert.throws(() => ns.idFromString(text), (error) => error.name === 'TypeError' && error.message === message);
  }
  assert.throws(() => ns.get('foo'), { name: 'TypeError' });
  assert.throws(() => ns.get(other.idFromName('foo')), { message: 'get() called with an id of another Durable Object namespace.' });
  assert.throws(() => ns.jurisdiction('eu'), { message: 'jurisdiction("eu"): jurisdictions are not implemented: all objects are on this machine.' });
  assert.throws(() => ns.newUniqueId({ jurisdiction: 'eu' }), { message: 'newUniqueId(): jurisdictions are not implemented: all objects are on this machine.' });
  assert.equal(ns.jurisdiction(undefined), ns);
  const stub = ns.get(id);
  assert.equal(stub.id, id);
  assert.equal(stub.name, 'foo');
  assert.throws(() => world.objects.namespace('Missing'), { message: '"Missing" is no Durable Object class of this Worker\'s configuration.' });
});

test('one instance for each id; calls in order', async () => {
  const [a, b, c] = await Promise.all([world.get('Run', 'x').which(), world.get('Run', 'x').which(), world.get('Run', 'y').which()]);
  assert.equal(a, b);
  assert.notEqual(a, c);
  assert.equal(await on('x', 'return ctx.id.name + " " + self.env.NAME'), 'x env');
  await rejects(world.get('Run', 'x').alarm(), 'TypeError', "'alarm' is a reserved method and cannot be called over RPC.");
  await rejects(world.get('Run', 'x').ctx, 'TypeError', 'The RPC receiver does not implement the method "ctx".');
});

test('blockConcurrencyWhile holds events back', async () => {
  const slow = world.get('Slow');
  assert.deepEqual(plain(await slow.note('first')), ['ready', 'first']);
  const [blocked, second] = await Promise.all([slow.block(), slow.note('second')]);
  assert.deepEqual(plain(blocked), ['ready', 'first', 'in', 'out']);
  assert.deepEqual(plain(second), ['ready', 'first', 'in', 'out', 'second']);
  await rejects(slow.fails(), 'Error', 'no init');
  await rejects(slow.note('third'), 'Error', 'no init');
  assert.deepEqual(plain(await world.get('Slow').note('anew')), ['ready', 'anew']);
});

test('a constructor that throws breaks the stub', async () => {
  await rejects(world.get('Fails').hello(), 'Error', 'cannot be made');
});

test('abort: stubs break with the reason, what was not on disk is undone, the next get() makes a new instance', async () => {
  const stub = world.get('Run', 'abort');
  const before = await stub.which();
  await stub.run("await s.put('kept', 1)");
  await rejects(stub.run("s.put('lost', 1); ctx.abort(new Error('enough'))"), 'Error', 'enough');
  await assert.rejects(Promise.resolve(stub.which()), (error) => error.message === 'enough' && error.durableObjectReset === true);
  const next = world.get('Run', 'abort');
  assert.notEqual(await next.which(), before);
  assert.deepEqual(plain(await next.run("return [await s.get('kept'), await s.get('lost') === undefined]")), [1, true]);
  await rejects(next.plain('ctx.abort()'), 'Error', 'Application called abort() to reset Durable Object.');
});

test('what was answered is on disk; what was not is undone whole', async () => {
  await on('durable', "await s.put('n', 1); s.sql.exec('CREATE TABLE t (v)');");
  world.peer.kill();
  world.peer.open();
  world.sessions.clear();
  const again = new World({ peer: world.peer });
  again.define('({ Run: class Run extends DurableObject { async run() { return [await this.ctx.storage.get("n"), this.ctx.storage.sql.exec("SELECT count(*) AS c FROM t").one().c]; } } })');
  assert.deepEqual(plain(await again.get('Run', 'durable').run()), [1, 0]);
});

test('a write that cannot be brought to disk breaks the object, and nobody hears of a success', async () => {
  const other = new World();
  other.define(`({ Run: class Run extends DurableObject {
    make() { this.ctx.storage.sql.exec('CREATE TABLE b (id INTEGER PRIMARY KEY); CREATE TABLE a (b REFERENCES b (id) DEFERRABLE INITIALLY DEFERRED)'); }
    bad() { this.ctx.storage.sql.exec('INSERT INTO a VALUES (7)'); return 'written'; }
    count() { return this.ctx.storage.sql.exec('SELECT count(*) AS c FROM a').one().c; }
  } })`);
  const stub = other.get('Run');
  await stub.make();
  await rejects(stub.bad(), 'Error', 'FOREIGN KEY constraint failed: SQLITE_CONSTRAINT');
  await rejects(stub.count(), 'Error', 'FOREIGN KEY constraint failed: SQLITE_CONSTRAINT');
  assert.equal(await other.get('Run').count(), 0);
  other.close();
});

test('alarms', async () => {
  const other = new World();
  other.define(`({ Run: ${world.classes.Run.toString()}, None: class None extends DurableObject { set() { return this.ctx.storage.setAlarm(5); } } })`);
  await rejects(other.get('None').set(), 'TypeError', 'Your Durable Object class must have an alarm() handler in order to call setAlarm()');
  const run = other.get('Run');
  assert.deepEqual(plain(await run.run('await s.setAlarm(new Date(5000)); const at = await s.getAlarm(); await s.deleteAlarm(); return [at, await s.getAlarm()];')), [5000, null]);
  const id = run.id.toString();
  await other.objects.alarm({ class: 'Run', id, retryCount: 0, scheduledTime: 5000 });
  assert.deepEqual(plain(await run.run("return [s.kv.get('info'), s.kv.get('inside')]")), [{ retryCount: 0, isRetry: false, scheduledTime: 5000 }, null]);
  await rejects(other.objects.alarm({ class: 'Run', id, retryCount: 1, scheduledTime: 5000 }), 'Error', 'again');
  await other.objects.alarm({ class: 'Run', id, retryCount: 5, scheduledTime: 5000 });
  await rejects(other.objects.alarm({ class: 'Nope', id, retryCount: 0, scheduledTime: 1 }), 'TypeError', '"Nope" is no Durable Object class of this Worker\'s configuration.');
  other.close();
});

test('idle instances are removed from memory and come back', async () => {
  const other = new World();
  other.define('({ Run: class Run extends DurableObject { constructor(c, e) { super(c, e); this.n = 0; } async count() { await this.ctx.storage.put("n", ++this.n); return this.n; } stored() { return this.ctx.storage.get("n"); } } })');
  const stub = other.get('Run');
  await stub.count();
  await stub.count();
  await new Promise((resolve) => setTimeout(resolve, 10));
  other.objects.sweep(Infinity);
  assert.equal(await stub.stored(), 2);
  assert.equal(await stub.count(), 1);
  other.close();
});

test('WebSockets that are accepted for hibernation', async () => {
  const other = new World();
  other.define(`({ Run: class Run extends DurableObject {
    constructor(c, e) { super(c, e); this.log = []; }
    open(tags) { const [client, server] = Object.values(new WebSocketPair()); this.ctx.acceptWebSocket(server, tags); client.accept(); globalThis.client = client; globalThis.heard = []; client.addEventListener('message', (e) => heard.push(e.data)); client.addEventListener('close', (e) => heard.push(e.code)); server.serializeAttachment({ who: 'me' }); }
    webSocketMessage(ws, message) { this.log.push(typeof message === 'string' ? message : message.byteLength); ws.send('echo ' + ws.deserializeAttachment().who); }
    webSocketClose(ws, code, reason, clean) { this.log.push([code, reason, clean]); }
    look() { return [this.log, this.ctx.getWebSockets().length, this.ctx.getWebSockets('b').length, this.ctx.getWebSockets('c').length, this.ctx.getWebSockets().map((ws) => this.ctx.getTags(ws))]; }
    auto() { this.ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair('ping', 'pong')); }
    stamp() { const [ws] = this.ctx.getWebSockets(); return this.ctx.getWebSocketAutoResponseTimestamp(ws) instanceof Date; }
    bad(tags) { const [, server] = Object.values(new WebSocketPair()); this.ctx.acceptWebSocket(server, tags); }
  } })`);
  const stub = other.get('Run');
  const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
  await stub.open(['a', 'b', 'a']);
  other.global.client.send('hi');
  other.global.client.send(new Uint8Array(3));
  await pause();
  assert.deepEqual(plain(await stub.look()), [['hi', 3], 1, 1, 0, [['a', 'b']]]);
  assert.deepEqual(plain(other.global.heard), ['echo me', 'echo me']);
  await stub.auto();
  other.global.client.send('ping');
  await pause();
  assert.equal(other.global.heard[2], 'pong');
  assert.equal(await stub.stamp(), true);
  // the instance goes, the socket stays
  other.objects.sweep(Infinity);
  other.global.client.send('after');
  await pause();
  assert.deepEqual(plain(await stub.look()), [['after'], 1, 1, 0, [['a', 'b']]]);
  other.global.client.close(3001, 'bye');
  await pause();
  assert.deepEqual(plain(await stub.look()), [['after', [3001, 'bye', true]], 0, 0, 0, []]);
  await rejects(stub.bad(Array.from({ length: 11 }, (_, i) => `${i}`)), 'Error', 'a Hibernatable WebSocket cannot have more than 10 tags');
  await rejects(stub.bad(['x'.repeat(257)]), 'Error', `"${'x'.repeat(257)}" is longer than the max tag length (256 characters).`);
  other.close();
});
