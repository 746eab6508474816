"""RPC, services and loaders as a Worker's author meets them: what ends with what, what is shared, what is refused."""
import unittest

from projects import Project

SOURCE = """
import { DurableObject, RpcStub, RpcTarget, WorkerEntrypoint, env as imported, withEnv } from 'cloudflare:workers';
class Handed extends RpcTarget {
  #ctx;
  constructor(ctx) { super(); this.#ctx = ctx; }
  ping() { return 'pong'; }
  hang() { return new Promise(() => {}); }
  abort() { this.#ctx.abort('aborted on purpose'); }
  async block() { await this.#ctx.blockConcurrencyWhile(() => { throw new Error('broken on purpose'); }); }
}
class Noting extends RpcTarget {
  #log;
  constructor(log) { super(); this.#log = log; }
  note(text) { this.#log.push(text); return [...this.#log]; }
  get last() { return this.#log.at(-1); }
}
export class Thing extends DurableObject {
  log = [];
  notes() { return { target: new Noting(this.log), note: (text) => { this.log.push(text); return [...this.log]; } }; }
  hold() { return this.ctx.blockConcurrencyWhile(async () => { this.log.push('in'); await scheduler.wait(300); this.log.push('out'); return [...this.log]; }); }
  within() { return this.ctx.blockConcurrencyWhile(() => new RpcStub(new Noting(this.log)).note('within')); }
  make() { return new Handed(this.ctx); }
  ping() { return 'pong'; }
  thrower() { throw new Error('thrown'); }
}
export class Bare {
  fetch() { return new Response('fetched'); }
  ping() { return 'pong'; }
}
let aborted = {};
export class Service extends WorkerEntrypoint {
  constructed() { return 'constructed'; }
  async fetch(request) {
    const { pathname } = new URL(request.url);
    aborted[pathname] = false;
    request.signal.addEventListener('abort', () => { aborted[pathname] = true; });
    if (pathname === '/throws') throw new Error('boom');
    if (pathname === '/hangs') return new Promise(() => {});
    if (pathname === '/streams') return new Response(new ReadableStream({ start(c) { c.enqueue(new Uint8Array(3)); } }));
    return new Response('hello');
  }
  aborted(pathname) { return aborted[pathname]; }
  back(stream) { return stream; }
  thrower() { throw new Error('thrown'); }
  promised(f) { const g = () => {}; g.value = f(); return g; }
}
const told = (promise) => Promise.race([promise.then((v) => `${v}`, (e) => `${e}`), scheduler.wait(5000).then(() => 'silence')]);
const COUNTER = { compatibilityDate: '2026-11-01', mainModule: 'm.js', globalOutbound: null,
  modules: { 'm.js': "import { WorkerEntrypoint } from 'cloudflare:workers'; let n = 0; export default class extends WorkerEntrypoint { next() { return ++n; } }" } };
const RELAY = { compatibilityDate: '2026-11-01', mainModule: 'm.js', globalOutbound: null,
  modules: { 'm.js': "import { WorkerEntrypoint } from 'cloudflare:workers'; export default class extends WorkerEntrypoint { async note(target) { return await target.note('far'); } }" } };
// Two requests of a Worker wait, and a third lets them go on in the turn in which it spins.
const SPINNER = { compatibilityDate: '2026-11-01', mainModule: 'm.js', globalOutbound: null, limits: { cpuMs: 100 },
  modules: { 'm.js': `import { WorkerEntrypoint } from 'cloudflare:workers';
    let open, gate = new Promise((y) => { open = y; });
    const loop = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0, 10, 9, 1, 7, 0, 3, 64, 12, 0, 11, 11]))).exports.f;
    const spin = () => { for (;;); };
    const recurse = (n) => (n > 0 ? recurse(n - 1) + 1 : spin());
    export default class extends WorkerEntrypoint {
      async wait(n) { await gate; await null; queueMicrotask(() => { n += 10; }); await scheduler.wait(1); return n; }
      atOnce() { open(); spin(); }
      async later() { open(); await null; spin(); }
      async before() { const p = gate.then(spin); open(); await p; }
      wasm() { open(); loop(); }
      deep() { open(); recurse(1000); }
      async some() { for (let i = 0; i < 5; i++) gate.then(spin); open(); await gate; spin(); }
      async chain() { const go = () => { gate.then(go); }; open(); go(); await new Promise(() => {}); }
      alive() { return 'alive'; }
    }` } };
const LARGE = { compatibilityDate: '2026-11-01', mainModule: 'm.js', globalOutbound: null,
  modules: { 'm.js': `import { WorkerEntrypoint } from 'cloudflare:workers'; export default class extends WorkerEntrypoint {
    bytes(n) { return new Uint8Array(n).fill(7); } text(n) { return 'x'.repeat(n); } wide(n) { return '\\u00e4'.repeat(n / 2); }
    size(v) { return v.length; } echo(v) { return v; } }` } };
class Base { constructor(a, b) { this.sum = a + b; } }
class Derived extends Base { own = this.sum + 1; }
const acts = {
  async hidden(env, _how, ctx) {
    const old = Array.prototype[Symbol.iterator];
    let made;
    Array.prototype[Symbol.iterator] = function () { throw new Error('spoiled'); };
    try { made = [await ctx.exports.Service.constructed(), await env.THING.getByName('iterator').ping(), new Derived(1, 2).own, new (class extends Handed {})().ping()]; }
    finally { Array.prototype[Symbol.iterator] = old; }
    const text = (f) => Function.prototype.toString.call(f);
    const stub = env.THING.getByName('a'), library = [WorkerEntrypoint, DurableObject, RpcTarget, RpcStub, withEnv, stub.constructor, ctx.constructor, ctx.waitUntil, env.OWN.constructor, env.OWN.load,
      stub.id.constructor, Response, fetch, setTimeout, console.log, Object.getOwnPropertyDescriptor(Request.prototype, 'url').get, Function.prototype.toString, Promise.prototype.then];
    console.error(new Error('logged'));
    ctx.waitUntil(Promise.reject(new Error('rejected')));
    const native = /^function [\\w ]*\\(\\) \\{\\n    \\[native code\\]\\n\\}$/;
    return [made, library.filter((f) => !native.test(text(f))).map(text), [text(Base).slice(0, 6), text(() => 1)]];
  },
  async large(env, what) {
    const n = 31 << 20, worker = env.OWN.load(LARGE).getEntrypoint(), seen = [];
    for (let i = 0; i < 3; i++) {
      const value = await worker[what](n);
      seen.push(value.length, await worker.size(value), (await worker.echo(value)).length);
    }
    return [...new Set(seen)];
  },
  async stopped(env, how) {
    const worker = env.OWN.load(SPINNER).getEntrypoint(), waiting = [told(worker.wait(1)), told(worker.wait(2))];
    await told(worker.alive());
    const late = how === 'before' ? [] : [told(worker.wait(3))];
    return Promise.all([told(worker[how]()), ...waiting, ...late]).then(async (all) => [...all, await told(worker.alive())]);
  },
  async broken(env, how) {
    const actor = env.THING.get(env.THING.newUniqueId()), stub = await actor.make(), seen = [];
    const hanging = stub.hang();
    seen.push(await told(stub.ping()), await told(stub[how]()), await told(hanging), await told(stub.ping()), await told(actor.ping()));
    return [...seen, await env.THING.get(env.THING.newUniqueId()).ping()];
  },
  async gated(env) {
    const actor = env.THING.get(env.THING.newUniqueId()), notes = await actor.notes(), far = env.OWN.load(RELAY).getEntrypoint();
    const within = await actor.within();
    const held = actor.hold();
    await scheduler.wait(100);
    const all = await Promise.all([held, notes.target.note('target'), notes.target.last, notes.note('function'), far.note(notes.target), actor.ping()]);
    return [within, ...all];
  },
  async bare(env) {
    const stub = env.BARE.getByName('a');
    return [await (await stub.fetch('http://a/')).text(), await told(stub.ping()), await told(env.THING.getByName('a').ping())];
  },
  async blamed(env) {
    const id = env.THING.idFromName('a');
    const of = async (promise) => { try { await promise; } catch (e) { return [e.message, e.durableObjectId]; } };
    return [await of(env.THING.get(id).thrower()), await of(env.SERVICE.thrower())].map(([m, i]) => [m, i === undefined ? null : i === `${id}`]);
  },
  async signal(env, how) {
    const url = `http://a/${how}`;
    if (how === 'hangs') await env.SERVICE.fetch(url, { signal: AbortSignal.timeout(100) }).catch(() => {});
    else if (how === 'throws') await env.SERVICE.fetch(url).catch(() => {});
    else {
      const response = await env.SERVICE.fetch(url), reader = response.body.getReader();
      await reader.read();
      if (how === 'streams') await reader.cancel('enough');
      else await reader.read();
    }
    await scheduler.wait(50);
    return env.SERVICE.aborted(`/${how}`);
  },
  async roundTrip(env) {
    let { readable, writable } = new IdentityTransformStream();
    readable = await env.SERVICE.back(readable);
    writable = await env.SERVICE.back(writable);
    await scheduler.wait(50); // their way leads through requests that have ended
    const text = new Response(readable).text(), writer = writable.getWriter();
    for (const word of ['a', 'b', 'c']) await writer.write(new TextEncoder().encode(word));
    await writer.close();
    return text;
  },
  async nested(env) {
    const f = () => ({ x: 1 });
    return [await told(env.SERVICE.promised(f).value.then((v) => v.x)), await told(env.SERVICE.promised(f).value.x)];
  },
  async loaders(env) {
    const next = (name) => env[name].get('one', () => COUNTER).getEntrypoint().next();
    const seen = [];
    for (const name of ['SHARED', 'SHARES', 'OTHER', 'OWN', 'SHARES', 'OWN', 'NAMED']) seen.push(`${name} ${await next(name)}`);
    return seen;
  },
  async limits(env) {
    const spin = { ...COUNTER, modules: { 'm.js': "import { WorkerEntrypoint } from 'cloudflare:workers'; export default class extends WorkerEntrypoint { run(ms) { const end = Date.now() + ms; while (Date.now() < end); return 'ran'; } }" } };
    const worker = env.OWN.get('spin', () => spin);
    const limited = () => worker.getEntrypoint(undefined, { limits: { cpuMs: 100 } });
    return [await told(limited().run(5)), await told(limited().run(Infinity)), await told(worker.getEntrypoint().run(300))];
  },
  async sockets(env) {
    const code = `
      import { WorkerEntrypoint } from 'cloudflare:workers';
      export default class extends WorkerEntrypoint {
        async run() {
          const refused = [];
          for (const code of [999, 1000, 1001, 1004, 1005, 1006, 1015, 2999, 3000, 4999, 5000]) {
            const { 0: a, 1: b } = new WebSocketPair();
            a.accept();
            b.accept();
            try { a.close(code); } catch (e) { refused.push(e.name === 'InvalidAccessError' ? code : e.name); }
          }
          const { 0: a, 1: b } = new WebSocketPair(), kinds = [b.binaryType];
          a.accept();
          b.accept();
          for (const type of [b.binaryType, 'arraybuffer', 'blob', 'nonsense']) {
            b.binaryType = type;
            const message = new Promise((done) => b.addEventListener('message', done, { once: true }));
            a.send(new Uint8Array(1));
            kinds.push((await message).data.constructor.name);
          }
          const states = [];
          for (const options of [undefined, { allowHalfOpen: true }, { allowHalfOpen: false }]) {
            const { 0: a, 1: b } = new WebSocketPair();
            a.accept();
            b.accept(options);
            b.addEventListener('close', () => b.close(4000)); // too late where the runtime has answered
            const answered = new Promise((done) => a.addEventListener('close', (event) => done(event.code)));
            a.close(3000);
            states.push(await answered);
          }
          const told = Cloudflare.compatibilityFlags;
          return [kinds.join(), refused.join(), states.join(), Object.keys(told).sort().map((k) => k + ' ' + told[k]).join(), Object.isFrozen(told) && !('toString' in told)];
        }
      }`;
    const run = (compatibilityDate, ...compatibilityFlags) => env.OWN.load({ compatibilityDate, compatibilityFlags, mainModule: 'm.js', modules: { 'm.js': code }, globalOutbound: null }).getEntrypoint().run();
    return [await run('2026-03-16'), await run('2026-04-07', 'pedantic_wpt')];
  },
  async replaced() {
    const before = imported.WORD;
    const inside = await withEnv({ WORD: 'other' }, async () => { await scheduler.wait(1); return [imported.WORD, imported.SERVICE === undefined]; });
    return [before, ...inside, withEnv(null, () => imported.WORD === undefined), withEnv('text', () => imported.WORD), imported.WORD];
  },
};
export default {
  async fetch(request, env, ctx) {
    const [, act, how] = new URL(request.url).pathname.split('/');
    try {
      return Response.json(await acts[act](env, how, ctx));
    } catch (e) {
      return Response.json(`${e}`, { status: 500 });
    }
  },
};
"""

CONFIG = {
    "vars": {"WORD": "common"},
    "services": [{"binding": "SERVICE", "service": "test", "entrypoint": "Service"}],
    "worker_loaders": [{"binding": "OWN"}, {"binding": "SHARED", "id": "one"}, {"binding": "SHARES", "id": "one"}, {"binding": "OTHER", "id": "other"},
                       {"binding": "NAMED", "id": "OWN"}],
    "durable_objects": {"bindings": [{"name": "THING", "class_name": "Thing"}, {"name": "BARE", "class_name": "Bare"}]},
    "migrations": [{"tag": "v1", "new_sqlite_classes": ["Thing", "Bare"]}],
}


class Rpc(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.p = Project({"index.js": SOURCE}, config=CONFIG)

    @classmethod
    def tearDownClass(cls):
        cls.p.close()

    def ask(self, path, timeout=60):
        r = self.p.get(path, timeout=timeout)
        self.assertEqual(r.status, 200, r)
        return r.json

    def test_what_a_broken_object_handed_out_is_broken(self):
        for how, why in (("abort", "aborted on purpose"), ("block", "broken on purpose")):
            with self.subTest(how):
                self.assertEqual(self.ask("/broken/" + how), ["pong"] + [f"Error: {why}"] * 4 + ["pong"])

    def test_what_an_object_handed_out_waits_for_its_gate(self):
        held = ["within", "in", "out"]
        self.assertEqual(self.ask("/gated"), [["within"], held, [*held, "target"], "function", [*held, "target", "function"], [*held, "target", "function", "far"], "pong"])

    def test_rpc_is_for_classes_that_extend_DurableObject(self):
        self.assertEqual(self.ask("/bare"), ["fetched", 'TypeError: The receiving Durable Object does not support RPC, because its class was not declared with `extends '
                                             'DurableObject`. In order to enable RPC, make sure your class extends the special class `DurableObject`, which can be '
                                             'imported from the module "cloudflare:workers".', "pong"])

    def test_an_error_names_its_object(self):
        self.assertEqual(self.ask("/blamed"), [["thrown", True], ["thrown", None]])

    def test_a_request_is_aborted_when_its_caller_leaves(self):
        self.assertEqual({how: self.ask("/signal/" + how) for how in ("answers", "throws", "hangs", "streams")},
                         {"answers": False, "throws": False, "hangs": True, "streams": True})

    def test_streams_that_were_passed_through(self):
        self.assertEqual(self.ask("/roundTrip"), "abc")

    def test_a_promise_within_an_object_is_no_object(self):
        self.assertEqual(self.ask("/nested"), ["1", 'TypeError: The RPC receiver does not implement the method "value".'])

    def test_loaders_share_by_id_alone(self):
        self.assertEqual(self.ask("/loaders"), ["SHARED 1", "SHARES 2", "OTHER 1", "OWN 1", "SHARES 3", "OWN 2", "NAMED 1"])

    def test_limits_of_an_entrypoint(self):
        self.assertEqual(self.ask("/limits"), ["ran", "Error: Worker exceeded its CPU time limit of 100 ms.", "ran"])

    def test_what_others_had_to_do_when_a_request_is_stopped(self):
        limit = "Error: Worker exceeded its CPU time limit of 100 ms."
        for how in ("atOnce", "later", "before", "deep", "some"):
            with self.subTest(how):
                got = self.ask("/stopped/" + how)
                self.assertEqual([got[0], *sorted(got[1:-1]), got[-1]], [limit, "11", "12", *([] if how == "before" else ["13"]), "alive"])
        # A chain of microtasks is stopped, or the Worker ends with it; nobody is left waiting.
        self.assertIn(self.ask("/stopped/chain"), ([limit, "11", "12", "13", "alive"], [limit] * 5))
        self.assertEqual(self.ask("/stopped/wasm"), [limit] * 5)  # cannot be stopped: the Worker ends, and nobody is left waiting

    def test_the_library_is_not_seen(self):
        self.assertEqual(self.ask("/hidden"), [["constructed", "pong", 4, "pong"], [], ["class ", "() => 1"]])
        for word in ("logged", "rejected"):
            said = self.p.wait_for("Error: " + word) if hasattr(self.p, "wait_for") else self.p.output()
            self.assertIn("Error: " + word, said)
        self.assertNotIn("cloister:runtime", self.p.output())

    def test_large_values(self):
        for what, length in (("bytes", 31 << 20), ("text", 31 << 20), ("wide", 31 << 19)):
            with self.subTest(what):
                self.assertEqual(self.ask("/large/" + what, timeout=200), [length])

    def test_sockets_by_date_and_flag(self):
        self.assertEqual(self.ask("/sockets"), [["arraybuffer,ArrayBuffer,ArrayBuffer,Blob,Blob", "999,1004,1005,1006,1015,5000", "4000,4000,4000",
                                                 "delete_all_deletes_alarm true,rpc_params_dup_stubs true,web_socket_auto_reply_to_close false,websocket_standard_binary_type false", True],
                                                ["blob,Blob,ArrayBuffer,Blob,Blob", "999,1001,1004,1005,1006,1015,2999,5000", "3000,4000,3000",
                                                 "delete_all_deletes_alarm true,pedantic_wpt true,rpc_params_dup_stubs true,web_socket_auto_reply_to_close true,"
                                                 "websocket_standard_binary_type true", True]])

    def test_env_in_place_of_the_workers(self):
        self.assertEqual(self.ask("/replaced"), ["common", "other", True, True, "common", "common"])


if __name__ == "__main__":
    unittest.main()
