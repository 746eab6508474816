"""Cases from public reports whose area is the JavaScript runtime, RPC, Durable Object storage or WebSockets."""
import base64
import os
import socket
import struct
import time
import unittest

from projects import Project

OBJECTS = {"durable_objects": {"bindings": []}, "migrations": [{"tag": "v1", "new_sqlite_classes": []}]}


def objects(*classes):
    return {"durable_objects": {"bindings": [{"name": c.upper(), "class_name": c} for c in classes]},
            "migrations": [{"tag": "v1", "new_sqlite_classes": list(classes)}]}


class Cases(unittest.TestCase):
    maxDiff = None

    def serve(self, source, **config):
        p = Project({"index.js": source}, config=config)
        self.addCleanup(p.close)
        return p

    def test_c023_search_params_escape_slash_and_backslash(self):
        p = self.serve(r"""
            export default { fetch() {
              const u = new URL('https://a.test/p/q?x=1/2\\3');
              const s = new URLSearchParams();
              s.set('path', '/a/b\\c d+e~*');
              const before = u.href;
              const read = u.searchParams.get('x');
              u.searchParams.append('y', '/');
              return Response.json({ text: s.toString(), before, read, after: u.search });
            } };""")
        self.assertEqual(p.get().json, {"text": "path=%2Fa%2Fb%5Cc+d%2Be%7E*", "before": "https://a.test/p/q?x=1/2\\3", "read": "1/2\\3",
                                        "after": "?x=1%2F2%5C3&y=%2F"})

    def test_c025_one_line_for_each_set_cookie(self):
        source = """
            import { WorkerEntrypoint } from 'cloudflare:workers';
            function make(status, init) {
              const h = new Headers();
              h.append('Set-Cookie', 'seat=12; Path=/; Expires=Wed, 09 Jun 2032 10:18:14 GMT');
              h.append('set-cookie', 'lang=eo; HttpOnly');
              h.append('X-A', '1'); h.append('x-a', '2');
              const again = new Response(null, new Response('', { headers: h }));
              return new Response(status === 101 ? null : JSON.stringify({
                list: h.getSetCookie(), iterated: [...h].filter(([k]) => k === 'set-cookie').length,
                copied: again.headers.getSetCookie().length, xa: h.get('x-a') }), { headers: h, status, ...init });
            }
            export class Inner extends WorkerEntrypoint { fetch() { return make(200); } }
            export default {
              fetch(request, env) {
                if (request.headers.get('upgrade') === 'websocket') {
                  const pair = new WebSocketPair();
                  pair[1].accept();
                  return make(101, { webSocket: pair[0] });
                }
                return new URL(request.url).pathname === '/bound' ? env.INNER.fetch(request) : make(200);
              }
            };"""
        p = self.serve(source, services=[{"binding": "INNER", "service": "test", "entrypoint": "Inner"}])
        want = {"list": ["seat=12; Path=/; Expires=Wed, 09 Jun 2032 10:18:14 GMT", "lang=eo; HttpOnly"], "iterated": 2, "copied": 2,
                "xa": "1, 2"}
        upgrade = (b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
                   base64.b64encode(os.urandom(16)) + b"\r\n")
        for path, extra in (("/", b""), ("/bound", b""), ("/", upgrade)):
            with self.subTest(path=path, upgrade=bool(extra)):
                data = p.raw(f"GET {path} HTTP/1.1\r\nHost: localhost:{p.port}\r\n".encode() + extra + b"\r\n")
                head = data.split(b"\r\n\r\n")[0].decode().split("\r\n")
                cookies = [line.split(":", 1)[1].strip() for line in head if line.lower().startswith("set-cookie:")]
                self.assertEqual(cookies, want["list"], head)
                if extra:
                    self.assertTrue(head[0].startswith("HTTP/1.1 101"), head)
                else:
                    self.assertEqual(p.get(path).json, want)

    def test_c027_loader_ids(self):
        source = """
            const code = v => ({ compatibilityDate: '2026-01-01', mainModule: 'm.js', globalOutbound: null,
              modules: { 'm.js': `let n = 0; export default { fetch() { return Response.json({ v: ${JSON.stringify(v)}, n: ++n }); } }` } });
            export default {
              async fetch(req, env) {
                let calls = 0;
                const ask = async w => (await w.getEntrypoint().fetch('https://x.test/')).json();
                const get = (id, v) => ask(env.LOADER.get(id, () => { calls++; return code(v); }));
                const r1 = await get('k1', 'one'), r2 = await get('k1', 'two'), r3 = await get('k2', 'three');
                const l1 = await ask(env.LOADER.load(code('four'))), l2 = await ask(env.LOADER.load(code('four')));
                return Response.json({ r1, r2, r3, l1, l2, calls });
              }
            };"""
        want = {"r1": {"v": "one", "n": 1}, "r2": {"v": "one", "n": 2}, "r3": {"v": "three", "n": 1}, "l1": {"v": "four", "n": 1},
                "l2": {"v": "four", "n": 1}, "calls": 2}
        loaders = [{"binding": "LOADER"}, {"binding": "OTHER"}]
        p = self.serve(source, worker_loaders=loaders)
        self.assertEqual(p.get().json, want)
        self.assertEqual(self.serve(source, worker_loaders=loaders).get().json, want)  # another application, the same id

    def test_c029_stub_through_a_middle_worker(self):
        p = self.serve("""
            import { WorkerEntrypoint, RpcTarget } from 'cloudflare:workers';
            class Tally extends RpcTarget { #n; constructor(n) { super(); this.#n = n; } add(k) { return this.#n += k; } }
            export class Back extends WorkerEntrypoint { tally(n) { return new Tally(n); } }
            export class Middle extends WorkerEntrypoint { tally(n) { return this.env.BACK.tally(n); } }
            export default {
              async fetch(req, env) {
                const piped = await env.MIDDLE.tally(1).add(1);
                const p = env.MIDDLE.tally(10); const late = await p.add(5); const later = await p.add(5);
                const t = await env.MIDDLE.tally(100); await new Promise(r => setTimeout(r, 50));
                return Response.json({ piped, late, later, awaited: await t.add(1) });
              }
            };""", services=[{"binding": "BACK", "service": "test", "entrypoint": "Back"},
                             {"binding": "MIDDLE", "service": "test", "entrypoint": "Middle"}])
        self.assertEqual(p.get().json, {"piped": 2, "late": 15, "later": 20, "awaited": 101})

    def test_c029_stub_of_one_dynamic_worker_through_another(self):
        p = self.serve("""
            import { WorkerEntrypoint } from 'cloudflare:workers';
            const load = (env, text, more) => env.LOADER.load({ compatibilityDate: '2026-01-01', mainModule: 'm.js', globalOutbound: null,
              modules: { 'm.js': "import { WorkerEntrypoint, RpcTarget } from 'cloudflare:workers';" + text }, env: more }).getEntrypoint();
            let back;
            export class Door extends WorkerEntrypoint { tally(n) { return back.tally(n); } }
            export default {
              async fetch(req, env, ctx) {
                back = load(env, `class Tally extends RpcTarget { #n; constructor(n) { super(); this.#n = n; } add(k) { return this.#n += k; } }
                  export default class extends WorkerEntrypoint { tally(n) { return new Tally(n); } }`);
                const middle = load(env, 'export default class extends WorkerEntrypoint { tally(n) { return this.env.BACK.tally(n); } }',
                  { BACK: ctx.exports.Door() });
                const piped = await middle.tally(1).add(1);
                const t = await middle.tally(100); await new Promise(r => setTimeout(r, 50));
                return Response.json({ piped, awaited: await t.add(1) });
              }
            };""", worker_loaders=[{"binding": "LOADER"}])
        self.assertEqual(p.get().json, {"piped": 2, "awaited": 101})

    def test_c031_alarm_set_to_now_inside_alarm(self):
        p = self.serve("""
            import { DurableObject } from 'cloudflare:workers';
            export class Chain extends DurableObject {
              async start() {
                await this.ctx.storage.put('n', 0);
                await this.ctx.storage.setAlarm(Date.now());
                await new Promise(r => setTimeout(r, 1500));
                return { n: await this.ctx.storage.get('n'), inside: await this.ctx.storage.get('inside'), after: await this.ctx.storage.getAlarm() };
              }
              async alarm() {
                const n = await this.ctx.storage.get('n') + 1;
                if (n === 1) await this.ctx.storage.put('inside', await this.ctx.storage.getAlarm());
                await this.ctx.storage.put('n', n);
                if (n < 4) await this.ctx.storage.setAlarm(n === 2 ? Date.now() - 60000 : Date.now());
              }
            }
            export default { async fetch(request, env) { return Response.json(await env.CHAIN.getByName('a').start()); } };""", **objects("Chain"))
        self.assertEqual(p.get().json, {"n": 4, "inside": None, "after": None})

    def test_c033_nested_synchronous_transactions(self):
        p = self.serve("""
            import { DurableObject } from 'cloudflare:workers';
            export class Tx extends DurableObject {
              run() {
                const s = this.ctx.storage, put = v => s.sql.exec('INSERT INTO t VALUES (?)', v), out = {};
                const rows = () => s.sql.exec('SELECT v FROM t ORDER BY v').toArray().map(r => r.v);
                s.sql.exec('CREATE TABLE t (v INTEGER)');
                s.transactionSync(() => { put(1); s.transactionSync(() => put(2)); }); out.both = rows();
                s.transactionSync(() => { put(3); try { s.transactionSync(() => { put(4); throw new Error('in'); }); } catch {} }); out.inner = rows();
                try { s.transactionSync(() => { put(5); s.transactionSync(() => put(6)); throw new Error('out'); }); } catch (e) { out.err = e.message; }
                out.outer = rows(); out.ret = s.transactionSync(() => 'r');
                try { s.sql.exec('BEGIN TRANSACTION'); out.begin = 'accepted'; } catch { out.begin = 'refused'; }
                return out;
              }
            }
            export default { async fetch(request, env) { return Response.json(await env.TX.getByName('a').run()); } };""", **objects("Tx"))
        self.assertEqual(p.get().json, {"both": [1, 2], "inner": [1, 2, 3], "err": "out", "outer": [1, 2, 3], "ret": "r", "begin": "refused"})

    def test_c035_codes_of_close(self):
        p = self.serve("""
            export default { fetch() {
              const out = {};
              const fresh = () => { const p = new WebSocketPair(); p[0].accept(); p[1].accept(); return p[0]; };
              for (const c of [999, 1000, 1001, 1004, 1005, 1006, 1015, 3000, 4999, 5000])
                try { fresh().close(c, 'x'); out[c] = 'ok'; } catch (e) { out[c] = e.name; }
              try { fresh().close(1000, 'é'.repeat(62)); out.long = 'ok'; } catch (e) { out.long = e.name; }
              try { fresh().close(1000, 'é'.repeat(61)); out.fits = 'ok'; } catch (e) { out.fits = e.name; }
              return Response.json(out);
            } };""")
        bad = "InvalidAccessError"
        self.assertEqual(p.get().json, {"999": bad, "1000": "ok", "1001": "ok", "1004": bad, "1005": bad, "1006": bad, "1015": bad, "3000": "ok",
                                        "4999": "ok", "5000": bad, "long": "SyntaxError", "fits": "ok"})

    def test_c035_far_side_drops_its_connection(self):
        p = self.serve("""
            let seen = [];
            export default { fetch(request) {
              if (request.headers.get('upgrade') !== 'websocket') return Response.json(seen);
              const [client, server] = Object.values(new WebSocketPair());
              server.accept();
              server.addEventListener('close', e => { seen.push([e.code, e.wasClean]); });
              server.addEventListener('message', e => server.send('echo ' + e.data));
              return new Response(null, { status: 101, webSocket: client });
            } };""")
        key = base64.b64encode(os.urandom(16)).decode()
        s = socket.create_connection(("127.0.0.1", p.port), timeout=10)
        s.sendall((f"GET / HTTP/1.1\r\nHost: localhost:{p.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                   f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += s.recv(4096)
        self.assertTrue(data.startswith(b"HTTP/1.1 101"), data)
        mask = os.urandom(4)
        s.sendall(b"\x81\x82" + mask + bytes(a ^ b for a, b in zip(b"hi", mask)))
        frame = s.recv(100)
        self.assertEqual(frame, b"\x81\x07echo hi")
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        deadline = time.monotonic() + 2
        while not p.get().json and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(p.get().json, [[1006, False]])


if __name__ == "__main__":
    unittest.main()
