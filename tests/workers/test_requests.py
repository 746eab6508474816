"""Promises that requests share: whoever waits for another request's promise goes on as itself, and is answered."""
import os
import signal
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from projects import Project, children

SOURCE = """
import { WorkerEntrypoint } from 'cloudflare:workers';
let shared = null, settle = null, queue = Promise.resolve(), gate = null;
export class Other extends WorkerEntrypoint {
  answer(n) { return n * 2; }
  async slow(ms) { await scheduler.wait(ms); return 'slow'; }
}
const DYNAMIC = `
import { WorkerEntrypoint } from 'cloudflare:workers';
let parked = [];
const spin = (ms) => { const end = Date.now() + ms; while (Date.now() < end); };
export default class extends WorkerEntrypoint {
  async park(how, ms) {
    await (how === 'await' ? new Promise((done) => parked.push(done)) : undefined);
    if (how === 'then') return new Promise((done) => parked.push(done)).then(() => { spin(ms); return 'parked'; });
    if (how === 'catch') try { await new Promise((_, fail) => parked.push(fail)); } catch { spin(ms); }
    if (how === 'iterate') for await (const x of (async function* () { await new Promise((done) => parked.push(done)); yield 1; })()) spin(ms);
    if (how === 'microtask') await new Promise((done) => parked.push(done)).then(() => new Promise((done) => queueMicrotask(() => { spin(ms); done(); })));
    if (how === 'await') spin(ms);
    return 'parked';
  }
  async release() { for (const each of parked.splice(0)) setTimeout(each); await scheduler.wait(1); return 'released'; }
}`;
export default {
  async fetch(request, env, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    const [, act, how] = pathname.split('/');
    try {
      switch (act) {
        case 'begin': // its promise outlives it
          shared = new Promise((done, failed) => { settle = { done, failed }; });
          if (how === 'ended') ctx.waitUntil(shared.catch(() => {}));
          return new Response('begun');
        case 'settle':
          settle[how]('settled');
          return new Response('settled');
        case 'await':
          await shared;
          return Response.json(await env.OTHER.answer(21));
        case 'catch':
          try { await shared; } catch { return Response.json(await env.OTHER.answer(21)); }
          return new Response('no error', { status: 500 });
        case 'then': return Response.json(await shared.then(() => env.OTHER.answer(21)));
        case 'queue': { // each in turn, as a lock does it
          const turn = queue.then(() => env.OTHER.answer(+how));
          queue = turn.catch(() => {});
          return Response.json(await turn);
        }
        case 'call': // an RPC promise that its request left behind
          shared = env.OTHER.slow(300);
          return new Response('called');
        case 'load':
          gate = env.LOADER.get(how, () => ({ compatibilityDate: '2026-11-01', compatibilityFlags: how === 'node' ? ['nodejs_compat'] : [], mainModule: 'm.js', modules: { 'm.js': DYNAMIC }, globalOutbound: null }));
          return new Response(await gate.getEntrypoint().release());
        case 'park': return new Response(await gate.getEntrypoint(undefined, { limits: { cpuMs: 100 } }).park(how, +searchParams.get('ms')));
        case 'release': return new Response(await gate.getEntrypoint(undefined, { limits: { cpuMs: 100 } }).release());
      }
    } catch (e) {
      return new Response(String(e), { status: 500 });
    }
  },
};
"""


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.p = Project({"index.js": SOURCE}, config={"services": [{"binding": "OTHER", "service": "test", "entrypoint": "Other"}],
                                                      "worker_loaders": [{"binding": "LOADER"}]})

    @classmethod
    def tearDownClass(cls):
        cls.p.close()

    def get(self, path):
        r = self.p.get(path)
        return r.status, r.body.decode()

    def beside(self, path):
        """Asks, and gives back what waits for the answer."""
        got = []
        thread = threading.Thread(target=lambda: got.append(self.get(path)))
        thread.start()

        def join():
            thread.join(90)
            return got[0]
        return join

    def test_who_awaits_another_requests_promise_goes_on_as_itself(self):
        for begin in ("begin/gone", "begin/ended"):
            for act, how in (("await", "done"), ("then", "done"), ("catch", "failed")):
                with self.subTest(f"{begin} {act}"):
                    self.assertEqual(self.get("/" + begin), (200, "begun"))
                    waiting = [self.beside("/" + act) for _ in range(2)]
                    time.sleep(0.2)
                    self.assertEqual(self.get("/settle/" + how), (200, "settled"))
                    self.assertEqual([each() for each in waiting], [(200, "42")] * 2)

    def test_what_was_settled_before(self):
        self.get("/begin/gone")
        self.get("/settle/done")
        self.assertEqual(self.get("/await"), (200, "42"))

    def test_a_lock_passed_from_request_to_request(self):
        waiting = [self.beside(f"/queue/{i}") for i in range(8)]
        self.assertEqual([each() for each in waiting], [(200, str(i * 2)) for i in range(8)])

    def test_a_call_of_a_request_that_ended(self):
        self.assertEqual(self.get("/call"), (200, "called"))
        self.assertEqual(self.get("/await"), (500, "Error: The request that made this RPC call has ended, and the call with it."))

    def test_each_pays_for_its_own_time(self):
        for flag in ("plain", "node"):
            self.get("/load/" + flag)
            for how in ("await", "then", "catch", "iterate", "microtask"):
                with self.subTest(f"{flag} {how}"):
                    greedy = self.beside(f"/park/{how}?ms=Infinity")
                    time.sleep(0.2)
                    modest = self.beside(f"/park/{how}?ms=1")
                    time.sleep(0.2)
                    # Both go on in timers of a third.
                    self.assertEqual(self.get("/release"), (200, "released"))
                    self.assertEqual(greedy(), (500, "Error: Worker exceeded its CPU time limit of 100 ms."))
                    self.assertEqual(modest(), (200, "parked"))


class ProcessorTime(unittest.TestCase):
    def test_who_waits_for_the_processor_is_not_charged(self):
        source = """
const spin = (ms) => { const end = performance.now() + ms; while (performance.now() < end); };
export default { fetch(request) { const ms = Number(new URL(request.url).pathname.slice(1)); spin(ms); return new Response('done'); } };
"""
        p = Project({"index.js": source}, config={"limits": {"cpu_ms": 300}})
        self.addCleanup(p.close)
        self.assertEqual(p.get("/1000").status, 500)  # twin: the limit is there
        # Much processor time in short pieces, each of another request, of which nothing may be left over for this one.
        with ThreadPoolExecutor(4) as pool:
            self.assertEqual({a.body for a in pool.map(lambda _: p.get("/1"), range(1500))}, {b"done"})
        workers = []
        for pid in children(p.process.pid):
            with open(f"/proc/{pid}/comm") as f:
                if f.read().startswith("cloister-worker"):
                    workers.append(pid)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(p.get, "/150")
            time.sleep(0.05)
            try:
                for pid in workers:
                    os.kill(pid, signal.SIGSTOP)
                time.sleep(1)
            finally:
                for pid in workers:
                    os.kill(pid, signal.SIGCONT)
            self.assertEqual((answer.result().status, answer.result().body), (200, b"done"))


if __name__ == "__main__":
    unittest.main()
