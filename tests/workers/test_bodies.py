"""Large bodies: whole, announced, and with memory that does not follow their length."""
import http.client
import json
import os
import unittest

from projects import Project

MIB = 1 << 20
SOURCE = """
export default {
  async fetch(request) {
    const url = new URL(request.url), size = Number(url.searchParams.get("size"));
    switch (url.pathname) {
      case "/echo": return Response.json(await request.json());
      case "/text": return new Response("x\\u00e9".repeat(size));
      case "/down": {
        let left = size;
        return new Response(new ReadableStream({ pull(c) { if (left-- > 0) c.enqueue(new Uint8Array(65536).fill(120)); else c.close(); } }));
      }
      default: {
        let n = 0;
        for await (const chunk of request.body) n += chunk.length;
        return new Response(String(n));
      }
    }
  },
};
"""


def processes(pid):
    """The process and all its descendants."""
    children, found = {}, []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/stat") as f:
                children.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(p))
        except OSError:
            pass
    todo = [pid]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def resident(pid):
    """MiB that the process and its descendants have for themselves."""
    total = 0
    for p in processes(pid):
        try:
            with open(f"/proc/{p}/smaps_rollup") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("Private_"))
        except OSError:
            pass
    return total / 1024


class Bodies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.project = Project({"index.js": SOURCE}, config={})
        cls.addClassCleanup(cls.project.close)

    def ask(self, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.project.port, timeout=120)
        self.addCleanup(c.close)
        c.request("POST" if body else "GET", path, body=body)
        return c.getresponse()

    def test_echo_of_a_large_value(self):
        for last in "z", "\0", "\u00e9", "\u0416", "\U0001f600":
            value = {"data": ["0123456789abcdef" * 4] * 20000, "last": last}
            r = self.ask("/echo", json.dumps(value, ensure_ascii=False).encode())
            data = r.read()
            self.assertEqual(r.status, 200, data[:300])
            self.assertEqual(json.loads(data), value)

    def test_large_text_says_how_long_it_is(self):
        for size in 100, 300000, 3000000:
            r = self.ask(f"/text?size={size}")
            self.assertEqual(r.headers["content-length"], str(size * 3))
            self.assertEqual(r.read(), "x\u00e9".encode() * size)

    def test_memory_does_not_follow_a_stream(self):
        self.ask("/down?size=100").read()
        self.assertGreaterEqual(len(processes(self.project.process.pid)), 3, "daemon, zygote, worker")
        before = peak = resident(self.project.process.pid)
        r, n = self.ask("/down?size=2000"), 0
        while chunk := r.read(16 * MIB):
            n += len(chunk)
            peak = max(peak, resident(self.project.process.pid))
        self.assertEqual(n, 2000 * 65536)
        r = self.ask("/up", (b"x" * MIB for _ in range(125)))
        self.assertEqual(int(r.read()), 125 * MIB)
        peak = max(peak, resident(self.project.process.pid))
        self.assertLess(peak - before, 60, f"{before:.0f} MiB before, {peak:.0f} at most")


if __name__ == "__main__":
    unittest.main()
