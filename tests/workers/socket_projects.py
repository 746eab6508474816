"""The Worker that the tests of sockets and WebSockets ask: it runs the code that it is sent, itself or in a Dynamic Worker."""
import json
import os
import unittest

from projects import Project
from servers import Authority

SOURCE = """
import { connect } from 'cloudflare:sockets';
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
const AsyncFunction = (async () => {}).constructor;
const text = (bytes) => new TextDecoder().decode(bytes);
const bytes = (text) => new TextEncoder().encode(text);
const tools = {
  text, bytes,
  async all(readable) { let s = ''; for await (const chunk of readable) s += text(chunk); return s; },
  // What happens to a WebSocket until it is closed.
  log(ws, act = () => {}) {
    const seen = [];
    ws.binaryType = 'arraybuffer';
    return new Promise((done) => {
      ws.addEventListener('open', () => { seen.push('open'); act(ws, null); });
      ws.addEventListener('message', (e) => { seen.push(typeof e.data === 'string' ? e.data : [...new Uint8Array(e.data)]); act(ws, e.data); });
      ws.addEventListener('error', (e) => seen.push(`error: ${e.message}`));
      ws.addEventListener('close', (e) => { seen.push(`close ${e.code} ${e.reason} ${e.wasClean}`); done(seen); });
    });
  },
};
const names = ['connect', 'env', 'ctx', 'args', 'tools'];
const run = (code, ...values) => new AsyncFunction(...names, code)(...values);
const answer = async (promise) => {
  try { return { result: await promise }; } catch (e) { return { error: String(e) }; }
};
let early;
try { connect('127.0.0.1:9'); } catch (e) { early = String(e); }

export class Gateway extends WorkerEntrypoint {
  async fetch(request) {
    const to = new URL(request.url);
    return fetch(new Request('http://127.0.0.1:' + this.ctx.props.port + to.pathname + to.search, request));
  }
  async connect(socket) {
    const { localAddress } = await socket.opened;
    const { port, greet } = this.ctx.props;
    if (greet) {
      const w = socket.writable.getWriter();
      await w.write(bytes(greet + localAddress));
      await w.close();
      return;
    }
    if (!port) throw new TypeError('nowhere to go');
    const up = connect('127.0.0.1:' + port);
    await Promise.all([socket.readable.pipeTo(up.writable), up.readable.pipeTo(socket.writable)]);
  }
}
export class Bare extends WorkerEntrypoint { fetch() { return new Response('bare'); } }
export class Holder extends DurableObject {
  seen = [];
  open(port) {
    this.ws = new WebSocket('ws://127.0.0.1:' + port + '/?hello');
    this.ws.onmessage = (e) => this.seen.push(e.data);
    this.socket = connect('127.0.0.1:' + port, { allowHalfOpen: true });
    return 'opened';
  }
  fetch(request) { return flood(new URL(request.url)); }
  say(text) { this.ws.send(text); return this.ws.readyState; }
  heard() { return this.seen; }
  drop() { this.ctx.abort('dropped'); }
}

// A WebSocket that is sent `count` messages of 1 MiB, in turns of their own; what happens to it is told at /told.
const flooding = `
  let told = [];
  const flood = async (url) => {
    if (url.pathname === '/told') return Response.json(told);
    told = [];
    const [client, server] = Object.values(new WebSocketPair());
    server.addEventListener('error', (e) => told.push('error: ' + e.message));
    server.addEventListener('close', (e) => told.push('close ' + e.code + ' ' + e.reason + ' ' + e.wasClean));
    if (url.searchParams.has('later')) {
      setTimeout(() => server.accept(), Number(url.searchParams.get('later')));
      return new Response(null, { status: 101, webSocket: client });
    }
    server.accept();
    const message = new Uint8Array(1 << 20);
    (async () => {
      for (let i = 0; i < Number(url.searchParams.get('count')); i++) {
        server.send(message);
        await new Promise((y) => setTimeout(y, Number(url.searchParams.get('wait') ?? 0)));
        if (url.searchParams.has('polite')) while (server.bufferedAmount > 0) await new Promise((y) => setTimeout(y, 5));
      }
      told.push('sent ' + server.readyState);
      server.close(1000, 'all');
    })();
    return new Response(null, { status: 101, webSocket: client });
  };`;
const flood = new Function(flooding + 'return flood')();
const floodingWorker = flooding + 'export default { fetch: (request) => flood(new URL(request.url)) };';

const guest = 'import { connect } from "cloudflare:sockets"; const tools = {}; export default { async fetch(request, env, ctx) { const { code, args } = await request.json();'
  + ' try { return Response.json({ result: await new ((async () => {}).constructor)(' + names.map((n) => JSON.stringify(n)).join() + ', code)(connect, env, ctx, args, tools) }); }'
  + ' catch (e) { return Response.json({ error: String(e) }); } } };';

export default {
  async fetch(request, env, ctx) {
    const url = new URL(request.url);
    if (url.pathname.startsWith('/proxy/')) {
      const [, , port, ...rest] = url.pathname.split('/');
      return fetch(new Request('http://127.0.0.1:' + port + '/' + rest.join('/') + url.search, request));
    }
    if (url.pathname === '/told' || url.pathname === '/flood') {
      const via = url.searchParams.get('via');
      if (via === 'object') return env.HOLDER.getByName('flood').fetch(request);
      if (via !== 'dynamic') return flood(url);
      return env.LOADER.get('flood', () => ({ compatibilityDate: '2026-01-01', mainModule: 'main.js', modules: { 'main.js': floodingWorker } })).getEntrypoint().fetch(request);
    }
    const { code, args, dynamic } = await request.json();
    if (!dynamic) return Response.json(await answer(run(code, connect, env, ctx, { ...args, early }, tools)));
    const { outbound, props, limits } = dynamic;
    const worker = env.LOADER.load({
      compatibilityDate: '2026-01-01', mainModule: 'main.js', modules: { 'main.js': guest }, limits,
      ...(outbound === 'inherit' ? {} : { globalOutbound: outbound === null ? null : ctx.exports[outbound]({ props }) }),
    });
    return worker.getEntrypoint().fetch('http://x/', { method: 'POST', body: JSON.stringify({ code, args }) });
  },
};
"""


class SocketCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = Authority()
        os.environ["SSL_CERT_FILE"] = cls.authority.ca
        cls.p = Project({"index.js": SOURCE}, config={
            "worker_loaders": [{"binding": "LOADER"}],
            "durable_objects": {"bindings": [{"name": "HOLDER", "class_name": "Holder"}]},
            "migrations": [{"tag": "v1", "new_sqlite_classes": ["Holder"]}],
        })

    @classmethod
    def tearDownClass(cls):
        cls.p.close()
        cls.authority.close()
        del os.environ["SSL_CERT_FILE"]

    def server(self, handler, **more):
        from servers import Server
        made = Server(handler, **more)
        self.addCleanup(made.close)
        return made

    def ask(self, code, dynamic=None, timeout=60, **args):
        r = self.p.request("POST", "/", json.dumps({"code": code, "args": args, "dynamic": dynamic}), timeout=timeout)
        self.assertEqual(r.status, 200, r)
        return r.json

    def result(self, code, **more):
        answer = self.ask(code, **more)
        self.assertIn("result", answer, answer)
        return answer["result"]

    def error(self, code, **more):
        answer = self.ask(code, **more)
        self.assertIn("error", answer, answer)
        return answer["error"]
