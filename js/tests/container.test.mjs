import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { World } from './support/objects.mjs';

const fail = (message, code) => { throw Object.assign(new Error(message), { code }); };
const deferred = () => { let resolve; const promise = new Promise((done) => { resolve = done; }); return { promise, resolve }; };
/** What one container of the daemon would answer. */
const script = { running: false, started: deferred(), ended: deferred(), wait: deferred() };
const container = {
  state: () => ({ running: script.running }),
  start: () => script.started.promise,
  monitor: () => script.ended.promise,
  destroy: () => { script.ended.resolve({ code: 137 }); },
  exec(args, world) {
    if (args.cmd[0] === 'missing') fail('missing: not found', 'NOT_FOUND');
    const send = (id, text) => setTimeout(() => {
      world.natives.dispatch.streamData(id, new Uint8Array(Buffer.from(text)).buffer);
      world.natives.dispatch.streamEnd(id);
    }, 5);
    if (args.stdout !== undefined) send(args.stdout, `out of ${Array.prototype.join.call(args.cmd, ' ')}`);
    if (args.stderr !== undefined) send(args.stderr, 'err');
    return { pid: 42, process: 20000 };
  },
  wait: () => script.wait.promise,
  inspect: () => ({ labels: { a: 'b' }, image: 'debian' }),
  snapshot: (args) => ({ id: 'a1', size: 5, name: args.name }),
  snapshotDirectory: (args) => ({ id: 'a2', size: 6, dir: args.dir }),
};
const world = new World({ container });
after(() => world.close());
world.define(`({ Box: class Box extends DurableObject {
  run(source, ...list) { return Object.getPrototypeOf(async function () {}).constructor('c', 'ctx', 'list', source)(this.ctx.container, this.ctx, list); }
  alarm() {}
} })`, { agent: 'debian-agent' });
let box = world.get('Box');
const run = (source, ...list) => box.run(source, ...list);
const refused = (source) => run(`try { await (${source}); return 'accepted'; } catch (e) { return e.name + ': ' + e.message; }`);
const plain = (value) => JSON.parse(JSON.stringify(value));
const callsOf = (method) => world.calls.filter(([name]) => name === method).map(([, args]) => plain(args));

test('before it runs', async () => {
  assert.deepEqual(plain(await run('return [c.running, c.images.agent, Object.isFrozen(c.images), await c.inspect()]')), [false, 'debian-agent', true, null]);
  assert.equal(await refused("c.exec(['true'])"), 'Error: exec() cannot be called on a container that is not running.');
  assert.equal(await refused('c.snapshotContainer()'), 'Error: snapshotContainer() cannot be called on a container that is not running.');
  assert.equal(await refused('c.monitor()'), 'Error: monitor() cannot be called on a container that is not running.');
  assert.equal(await refused('c.setInactivityTimeout(1)'), 'Error: setInactivityTimeout() cannot be called on a container that is not running.');
  assert.equal(await run('return await c.destroy() === undefined'), true);
});

test('start() refuses what it cannot do', async () => {
  const start = (options) => refused(`c.start(${options})`);
  assert.equal(await start('{ enableInternet: true }'), 'Error: container.start(): enableInternet: true is not implemented yet: containers have no network so far. Leave it out, or set it to false.');
  assert.equal(await start("{ image: 'a', containerSnapshot: { id: 'x' } }"), 'TypeError: `image` and `containerSnapshot` are mutually exclusive.');
  assert.equal(await start("{ image: 'a b' }"), 'TypeError: Container image reference must contain only non-space printable ASCII characters.');
  assert.equal(await start("{ env: { 'A=B': '1' } }"), "Error: Environment variable names cannot contain '=': A=B");
  assert.equal(await start("{ env: { A: '\\0' } }"), "Error: Environment variable values cannot contain '\\0': A");
  assert.equal(await start('{ hardTimeout: 0 }'), 'RangeError: Hard timeout must be greater than 0.');
  assert.equal(await start('{ instance: { vcpu: 0, memoryMib: 1, diskMb: 1 } }'), 'RangeError: Container resource vcpu must be a finite number greater than 0.');
  assert.equal(await start('{ instance: { vcpu: 1, memoryMib: 1.5, diskMb: 1 } }'), 'RangeError: Container resource memoryMib must be an integer.');
  assert.equal(await start("{ labels: { ['x'.repeat(17)]: '1' } }"), 'Error: Label names cannot exceed 16 bytes (index 0)');
  assert.equal(await start("{ directorySnapshots: [{ snapshot: { id: 'a', dir: 'rel' } }] }"), 'TypeError: Directory snapshot restore path must be absolute. Got: rel');
  assert.equal(await run('return c.running'), false);
});

test('start() returns at once, exec() waits for it', async () => {
  const done = run(`
    c.start({ image: c.images.agent, entrypoint: ['sleep', 'infinity'], enableInternet: false, env: { A: '1' }, labels: { l: 'v' } });
    const now = c.running;
    const p = await c.exec(['uname', '-a'], { cwd: '/tmp', user: 'me', env: { B: '2' } });
    const o = await p.output();
    return [now, p.pid, p.stdin, new TextDecoder().decode(o.stdout), new TextDecoder().decode(o.stderr), o.exitCode, await p.exitCode];`);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(callsOf('exec'), []);
  script.started.resolve({});
  script.wait.resolve({ code: 3, reason: 'exit' });
  assert.deepEqual(plain(await done), [true, 42, null, 'out of uname -a', 'err', 3, 3]);
  assert.deepEqual(callsOf('start'), [{ enableInternet: false, image: 'debian-agent', entrypoint: ['sleep', 'infinity'], env: { A: '1' }, labels: { l: 'v' } }]);
  const [{ cmd, cwd, user, env, combined }] = callsOf('exec');
  assert.deepEqual({ cmd, cwd, user, env, combined }, { cmd: ['uname', '-a'], cwd: '/tmp', user: 'me', env: { B: '2' }, combined: false });
  assert.equal(await refused("c.start()"), 'Error: start() cannot be called on a container that is already running.');
});

test('exec() refuses what makes no sense', async () => {
  assert.equal(await refused('c.exec([])'), 'TypeError: exec() requires a non-empty command array.');
  assert.equal(await refused("c.exec(['a'], { stdout: 'both' })"), 'TypeError: Invalid stdout option: both');
  assert.equal(await refused("c.exec(['a'], { stdout: 'combined' })"), 'TypeError: Invalid stdout option: combined');
  assert.equal(await refused("c.exec(['a'], { stdin: 'file' })"), 'TypeError: Invalid stdin option: expected a ReadableStream or "pipe".');
  assert.equal(await refused("c.exec(['a'], { stderr: 'combined', stdout: 'ignore' })"), 'TypeError: stderr: "combined" requires stdout: "pipe".');
  assert.equal(await refused("c.exec(['a'], { pty: true, stderr: 'pipe' })"), 'TypeError: stderr must be "combined" when PTY is enabled.');
  assert.equal(await refused("c.exec(['a'], { pty: { cols: 0 } })"), 'RangeError: PTY cols must be between 1 and 65535.');
  assert.equal(await refused("c.exec(['a'], { cwd: '\\0' })"), "TypeError: cwd cannot contain '\\0'.");
  assert.equal(await refused("c.exec(['missing'])"), 'Error: missing: not found');
  assert.equal(await refused("c.exec(['a']).then((p) => p.kill(0))"), 'RangeError: Invalid signal number: expected 1 to 64.');
  assert.equal(await refused("c.exec(['a']).then((p) => p.kill(65))"), 'RangeError: Invalid signal number: expected 1 to 64.');
  assert.equal(await refused("c.exec(['a']).then((p) => p.resize(1, 1))"), 'TypeError: resize() can only be called on a process that was started with a PTY.');
  assert.equal(await refused("c.exec(['a']).then(async (p) => { await p.output(); await p.output(); })"), 'TypeError: output() can only be called once.');
  assert.equal(await refused("c.exec(['a']).then(async (p) => { await p.stdout.getReader().read(); await p.output(); })"), 'TypeError: Cannot call output() after stdout has started being consumed.');
});

test('streams of a process', async () => {
  const first = world.streams.size;
  assert.deepEqual(plain(await run(`
    const p = await c.exec(['cat'], { stdin: 'pipe', stderr: 'ignore' });
    const w = p.stdin.getWriter();
    await w.write(new TextEncoder().encode('hello'));
    await w.close();
    let text = '';
    for await (const chunk of p.stdout) text += new TextDecoder().decode(chunk);
    p.kill();
    const q = await c.exec(['sh'], { stdin: new Response('from a stream').body, stdout: 'ignore', stderr: 'ignore' });
    const o = await q.output();
    const t = await c.exec(['sh'], { pty: { cols: 100 } });
    t.resize(5, 6);
    const b = await c.exec(['sh'], { stderr: 'combined' });
    return [text, p.stderr, q.stdout, o.stdout.byteLength, t.isPty, t.stdin !== null, b.stderr];`)), ['out of cat', null, null, 0, true, true, null]);
  const sent = [...world.streams.values()].slice(first);
  assert.equal(Buffer.concat(sent[0].sent).toString(), 'hello');
  assert.ok(sent[0].ended);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(Buffer.concat(sent[1].sent).toString(), 'from a stream');
  assert.deepEqual(callsOf('kill').at(-1), { signal: 15 });
  assert.deepEqual(callsOf('resize'), [{ cols: 5, rows: 6 }]);
  assert.deepEqual(callsOf('exec').at(-2).pty, { cols: 100, rows: 24 });
  assert.equal(callsOf('exec').at(-1).combined, true);
});

test('the rest', async () => {
  assert.deepEqual(plain(await run("c.signal(15); await c.setInactivityTimeout(1000n); await c.setLabels({ a: 'b' }); return [await c.inspect(), await c.snapshotContainer({ name: 'n' }), await c.snapshotDirectory({ dir: '/d' })]")), [
    { labels: { a: 'b' }, image: 'debian' }, { id: 'a1', size: 5, name: 'n' }, { id: 'a2', size: 6, dir: '/d' }]);
  assert.deepEqual(callsOf('setInactivityTimeout'), [{ ms: 1000 }]);
  assert.equal(await refused("c.snapshotDirectory({ dir: 'rel' })"), "TypeError: snapshotDirectory() requires an absolute directory path (starting with '/').");
  assert.equal(await refused('c.setInactivityTimeout(0)'), 'TypeError: setInactivityTimeout(): durationMs must be greater than 0.');
  assert.equal(await refused('c.signal(0)'), 'RangeError: Invalid signal number: expected 1 to 64.');
  for (const call of ["interceptOutboundHttp('a', null)", 'interceptAllOutboundHttp(null)', "interceptOutboundHttps('*', null)", "interceptOutboundTcp('a', null)"]) {
    const name = call.slice(0, call.indexOf('('));
    assert.equal(await refused(`c.${call}`), `Error: container.${name}() is not implemented yet: it arrives with the containers' network.`);
  }
});

test('ports, which nobody reaches yet', async () => {
  const unheard = "Error: container.getTcpPort(80): the container is not listening: ports are reached by the containers' network, which is not implemented yet.";
  assert.equal(await refused("await c.getTcpPort(80).fetch('http://a/')"), unheard);
  assert.equal(await refused("c.getTcpPort(80).connect('a:80')"), unheard);
  for (const port of ['', '0', '65536', '1.5', "'80'", 'NaN']) assert.equal(await refused(`c.getTcpPort(${port})`), 'TypeError: getTcpPort() takes a port: 1 to 65535.');
});

test('its end', async () => {
  assert.deepEqual(plain(await run("const m = c.monitor().catch((e) => e.message); await c.destroy(new Error('enough')); return [await m, c.running]")), ['enough', false]);
  script.started = deferred();
  script.ended = deferred();
  const failing = run("c.start(); const before = c.running; const m = c.monitor().catch((e) => e.message); const x = c.exec(['a']).catch((e) => e.message); return [before, await x, await m, c.running]");
  await new Promise((resolve) => setTimeout(resolve, 5));
  script.started.resolve(Promise.reject(Object.assign(new Error('no image'), { code: 'NOT_FOUND' })));
  assert.deepEqual(plain(await failing), [true, 'no image', 'no image', false]);
  script.started = { promise: {} };
  script.ended = deferred();
  const exits = run("c.start(); return c.monitor().catch((e) => [e.message, e.exitCode])");
  script.ended.resolve({ code: 7 });
  assert.deepEqual(plain(await exits), ['Container exited with unexpected exit code: 7', 7]);
});

test('a new instance finds it running', async () => {
  script.running = true;
  script.ended = deferred();
  world.objects.sweep(Infinity);
  assert.equal(await run('return c.running'), true);
  script.ended.resolve({ code: 0 });
  await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal(await run('return c.running'), false);
});
