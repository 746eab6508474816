"""Clients that leave or come in crowds, and Workers that crash under them: what each costs the others. Those that stall: test_stalling.py."""
import os
import socket
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from projects import Project, children

SOURCE = """
let seen = [], aborted = [];
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
function watch(request, name) { seen.push(name); request.signal.addEventListener('abort', () => aborted.push(name)); }
export default { async fetch(request, env) {
  const url = new URL(request.url), name = url.searchParams.get('name') ?? '', n = Number(url.searchParams.get('n') ?? 0);
  switch (url.pathname) {
    case '/hello': return new Response('hello');
    case '/id': return new Response(env.ID ?? crypto.randomUUID());
    case '/seen': return Response.json([seen, aborted]);
    case '/wait': watch(request, name); await sleep(n || 60000); return new Response('waited');
    case '/body': watch(request, name); try { return new Response(String((await request.text()).length)); } catch (e) { aborted.push(name + ': ' + e.message); throw e; }
    case '/stream': {
      watch(request, name);
      const { readable, writable } = new TransformStream();
      (async () => {
        const w = writable.getWriter();
        try { for (;;) { await w.write(new Uint8Array(1000)); await sleep(5); } } catch (e) { aborted.push(name + ' writer'); }
      })();
      return new Response(readable);
    }
    case '/large': return new Response(new Uint8Array(n));
    case '/flood': {
      let left = n;
      return new Response(new ReadableStream({ pull(c) { const k = Math.min(left, 65536); left -= k; c.enqueue(new Uint8Array(k)); if (left === 0) c.close(); } }),
                          { headers: { 'content-length': String(n) } });
    }
    case '/echo': return new Response(request.body);
    case '/sleepy': await sleep(n); return new Response(name);
    case '/crash': { const all = []; for (;;) all.push(new Uint8Array(16 << 20).fill(1)); }
    case '/ws': { const { 0: a, 1: b } = new WebSocketPair(); b.accept(); b.binaryType = 'arraybuffer'; b.addEventListener('message', (e) => b.send(e.data.byteLength)); return new Response(null, { status: 101, webSocket: a }); }
  }
  return new Response('not found', { status: 404 });
} };
"""


def memory(pid):
    """Bytes of memory of a process's own."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(("Private_Dirty", "Private_Clean", "Swap:"))) * 1024


class Base(unittest.TestCase):
    maxDiff = None

    def serve(self, **config):
        p = Project({"index.js": SOURCE}, config=config)
        self.addCleanup(p.close)
        self.assertEqual(p.get("/hello").body, b"hello")
        return p

    def connect(self, p, text=b"", timeout=30):
        s = socket.create_connection(("127.0.0.1", p.port), timeout=timeout)
        self.addCleanup(s.close)
        s.sendall(text)
        return s

    def daemon(self, p):
        """The process that listens, whoever started it."""
        for pid in [p.process.pid, *children(p.process.pid)]:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().startswith("cloister-daemon"):
                    return pid
        raise AssertionError("no daemon")

    def until(self, ok, seconds=20):
        deadline = time.monotonic() + seconds
        while not (value := ok()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return value


def head(path, method="GET", lines=""):
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()


class Leaving(Base):
    def aborted(self, p):
        return p.get("/seen").json[1]

    def test_before_the_answer(self):
        p = self.serve()
        s = self.connect(p, head("/wait?name=a"))
        self.assertTrue(self.until(lambda: "a" in p.get("/seen").json[0]))
        self.assertEqual(self.aborted(p), [])
        s.close()
        self.assertTrue(self.until(lambda: self.aborted(p) == ["a"]), self.aborted(p))

    def test_in_the_middle_of_its_body(self):
        p = self.serve()
        for lines, part in (("Content-Length: 1000000\r\n", b"x" * 1000), ("Transfer-Encoding: chunked\r\n", b"3e8\r\n" + b"x" * 1000 + b"\r\n")):
            name = "length" if "Length" in lines else "chunked"
            s = self.connect(p, head(f"/body?name={name}", "POST", lines) + part)
            self.assertTrue(self.until(lambda: name in p.get("/seen").json[0]))
            s.close()
            self.assertTrue(self.until(lambda: name in self.aborted(p)), self.aborted(p))
            self.assertTrue(self.until(lambda: any(a.startswith(name + ": ") for a in self.aborted(p))), self.aborted(p))

    def test_in_the_middle_of_the_answer(self):
        p = self.serve()
        s = self.connect(p, head("/stream?name=a"))
        self.assertIn(b"200 OK", s.recv(4096))
        s.close()
        self.assertTrue(self.until(lambda: {"a", "a writer"} <= set(self.aborted(p))), self.aborted(p))

    def test_nobody_is_aborted_who_stays(self):
        p = self.serve()
        self.assertEqual(p.get("/wait?name=stays&n=300").body, b"waited")
        self.assertEqual(p.request("POST", "/body?name=body", b"x" * 200000).body, b"200000")
        self.assertEqual(self.aborted(p), [])


class Crowds(Base):
    def test_a_hundred_at_once(self):
        p = self.serve()
        begin = time.monotonic()
        with ThreadPoolExecutor(100) as pool:
            answers = list(pool.map(lambda k: p.get(f"/sleepy?n=1000&name={k}").body, range(100)))
        self.assertEqual(answers, [str(k).encode() for k in range(100)])
        self.assertLess(time.monotonic() - begin, 30)  # together, not one after the other
        bodies = [os.urandom(1000 * k) for k in range(100)]
        with ThreadPoolExecutor(100) as pool:
            self.assertEqual([a.body for a in pool.map(lambda b: p.request("POST", "/echo", b), bodies)], bodies)

    def test_many_that_are_idle(self):
        p = self.serve()
        daemon = self.daemon(p)
        before, open_before = memory(daemon), len(os.listdir(f"/proc/{daemon}/fd"))
        idle = [self.connect(p, head("/large?n=200000") if k % 2 else b"") for k in range(1000)]
        for s in idle[1::2]:  # each has had an answer, and keeps its connection
            self.assertEqual(len(self.answer(s)), 200000)
        self.assertEqual(p.get("/hello").body, b"hello")
        time.sleep(2.5)
        self.assertLess(memory(daemon) - before, 64 << 20)
        for s in idle:
            s.close()
        self.assertTrue(self.until(lambda: len(os.listdir(f"/proc/{daemon}/fd")) <= open_before + 2))
        self.assertEqual(p.get("/hello").body, b"hello")

    def answer(self, s):
        f = s.makefile("rb")
        length = 0
        while (line := f.readline()) != b"\r\n":
            self.assertTrue(line)
            if line.lower().startswith(b"content-length:"):
                length = int(line.split()[1])
        return f.read(length)

    def test_more_than_there_may_be_wait(self):
        p = self.serve()
        # Those above the limit are in the kernel's queue, and come in when others leave.
        idle = []
        for _ in range(4096):
            idle.append(self.connect(p))
        late = self.connect(p, head("/hello"), timeout=2)
        with self.assertRaises(TimeoutError):
            late.recv(100)
        for s in idle[:100]:
            s.close()
        late.settimeout(20)
        self.assertIn(b"200 OK", late.recv(1000))
        for s in idle:
            s.close()
        self.assertEqual(p.get("/hello").body, b"hello")


class Crashing(Base):
    def test_a_host_worker_out_of_memory_is_started_anew(self):
        p = self.serve()
        before = p.get("/id").body
        with ThreadPoolExecutor(4) as pool:
            others = [pool.submit(p.get, f"/wait?n=60000&name=w{k}") for k in range(3)]
            self.assertTrue(self.until(lambda: len(p.get("/seen").json[0]) == 3))
            crash = p.get("/crash")
            answers = [crash] + [o.result() for o in others]
        for answer in answers:
            self.assertEqual((answer.status, answer.body), (500, b"Worker exceeded its memory limit of 1024 MiB.\n"))
        self.assertEqual(p.get("/hello").body, b"hello")
        self.assertNotEqual(p.get("/id").body, before)
        self.assertIn("Worker exceeded its memory limit of 1024 MiB.", p.output())


if __name__ == "__main__":
    unittest.main()
