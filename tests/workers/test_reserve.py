"""Worker processes kept in reserve: a burst makes the reserve larger, and what waited there is as new as any."""
import os
import time
import unittest

from projects import Project

LEAST, MOST = 4, 32  # ZYGOTE_RESERVE, ZYGOTE_RESERVE_MAX
SOURCE = """
const code = (i) => ({ compatibilityDate: '2026-11-01', mainModule: 'm.js', globalOutbound: null, modules: { 'm.js': `// ${i}
  import { WorkerEntrypoint } from 'cloudflare:workers';
  const began = [performance.now(), Date.now(), Math.random(), Object.keys(globalThis).join()];
  export default class extends WorkerEntrypoint { look() { return began; } }` } });
export default { async fetch(request, env) {
  const n = Number(new URL(request.url).searchParams.get('n'));
  const out = [];
  for (let i = 0; i < n; i++) out.push(await env.LOADER.load(code(i)).getEntrypoint().look());
  return Response.json(out);
} };
"""


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(c) for c in f.read().split()]


def worker_processes(pid):
    """Of the processes under this one, those that the zygote forked: the innermost level."""
    level = [pid]
    while True:
        below = []
        for p in level:
            try:
                below += children(p)
            except OSError:
                pass
        if not below:
            return len(level)
        level = below


class Reserve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.p = Project({"index.js": SOURCE}, config={"worker_loaders": [{"binding": "LOADER"}]})

    @classmethod
    def tearDownClass(cls):
        cls.p.close()

    def until(self, what, seconds=30):
        end = time.monotonic() + seconds
        while True:
            n = worker_processes(self.p.process.pid)
            if what(n):
                return n
            self.assertLess(time.monotonic(), end, f"{n} worker processes")
            time.sleep(0.1)

    def test_1_what_waited_is_new(self):
        self.until(lambda n: n >= LEAST)
        time.sleep(2)  # in which a reserve that is full grows older
        [[now, date, random, keys]] = self.p.get("/?n=1").json
        self.assertLess(now, 1000)
        self.assertLess(abs(date / 1000 - time.time()), 2)
        [[_, _, other, others]] = self.p.get("/?n=1").json
        self.assertNotEqual(random, other)
        self.assertEqual(keys, others)

    def test_2_a_burst_enlarges_it(self):
        quiet = worker_processes(self.p.process.pid)
        looks = self.p.get(f"/?n={MOST}").json
        self.assertEqual(len({look[2] for look in looks}), MOST)
        self.until(lambda n: n > quiet + LEAST)
        time.sleep(2)
        self.assertLessEqual(worker_processes(self.p.process.pid), quiet + MOST)


if __name__ == "__main__":
    unittest.main()
