"""Short of memory: Dynamic Workers that do nothing end, those first that did nothing for longest; those at work stay, and nobody is lost."""
import os
import re
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from projects import CLOISTER, Served

SOURCE = """
const code = { compatibilityDate: '2026-11-01', mainModule: 'm.js', globalOutbound: null, modules: { 'm.js': `
  import { WorkerEntrypoint } from 'cloudflare:workers';
  const mine = crypto.randomUUID();
  export default class extends WorkerEntrypoint {
    id() { return mine; }
    async work(ms) { await new Promise((done) => setTimeout(done, ms)); return mine; }
  }` } };
export default { async fetch(request, env) {
  const url = new URL(request.url), name = url.searchParams.get('name');
  try {
    switch (url.pathname) {
      case '/id': return new Response(await env.LOADER.get(name, () => code).getEntrypoint().id());
      case '/work': return new Response(await env.LOADER.get(name, () => code).getEntrypoint().work(Number(url.searchParams.get('ms'))));
      case '/later': { // uses it, waits, uses it again
        const stub = env.LOADER.get(name, () => code).getEntrypoint(), first = await stub.id();
        await new Promise((done) => setTimeout(done, Number(url.searchParams.get('ms'))));
        return new Response(first + ' ' + await stub.id());
      }
    }
  } catch (e) { return new Response(String(e), { status: 500 }); }
} };
"""
CONFIG = {"worker_loaders": [{"binding": "LOADER"}]}
REASON = b"Error: The Dynamic Worker was ended because it was idle and memory is short."


class Shortage(unittest.TestCase):
    def serve(self, *options):
        p = Served({"index.js": SOURCE}, config=CONFIG, options=options)
        self.addCleanup(p.close)
        return p

    def test_who_is_idle_ends_and_who_works_stays(self):
        p = self.serve("--keep-free", "1000T")  # more than there is
        names = [f"w{k}" for k in range(6)]
        with ThreadPoolExecutor(8) as pool:
            at_work = pool.submit(p.get, "/work?name=busy&ms=8000")  # through all of that time
            first = {name: p.get(f"/id?name={name}").body for name in names}
            self.assertEqual(len(set(first.values())), 6)
            # A stub whose Worker ended fails with the reason; it never reaches the one that comes after it.
            later = [pool.submit(p.get, f"/later?name=l{k}&ms=6000") for k in range(3)]
            self.assertEqual([each.result().body for each in later], [REASON] * 3)
            self.assertRegex(at_work.result().body, rb"^[0-9a-f-]{36}$")
        for name in names:
            fresh = p.get(f"/id?name={name}")
            self.assertEqual(fresh.status, 200)
            self.assertNotEqual(fresh.body, first[name])
        self.assertRegex(p.output(), r"memory is short \(\d+ MiB are left, \d+ MiB should be\): idle Dynamic Workers are ended")
        self.assertEqual(p.output().count("memory is short ("), 1)  # not each second

    def test_they_stay_while_there_is_memory(self):
        p = self.serve("--keep-free", "1M")
        first = [p.get(f"/id?name={k}").body for k in range(6)]
        self.assertEqual(p.get("/later?name=0&ms=3000").body, first[0] + b" " + first[0])
        self.assertEqual([p.get(f"/id?name={k}").body for k in range(6)], first)
        self.assertNotIn("memory is short", p.output())

    def test_of_its_own_control_group(self):
        v1 = "/sys/fs/cgroup/memory"
        base = v1 if os.path.exists(v1 + "/memory.limit_in_bytes") else "/sys/fs/cgroup"
        group = f"{base}/cloister-test-{os.getpid()}"
        os.mkdir(group)
        self.addCleanup(self.remove, group)
        with open(group + ("/memory.limit_in_bytes" if base == v1 else "/memory.max"), "w") as f:
            f.write(str(3 << 30))

        class Grouped(Served):
            def command(self):
                return ["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec \"$@\"", "sh", *super().command()]
        p = Grouped({"index.js": SOURCE}, config=CONFIG, options=("--keep-free", "3500M"))  # of 3 GiB; the machine has more, or the test means nothing
        self.addCleanup(p.close)
        with open("/proc/meminfo") as f:
            self.assertGreater(int(re.search(r"MemAvailable:\s+(\d+)", f.read())[1]), 4 << 20)
        self.assertEqual(p.get("/later?name=a&ms=6000").body, REASON)

    def remove(self, group):
        deadline = time.monotonic() + 20
        while True:
            try:
                for below, _, _ in os.walk(group, topdown=False):
                    os.rmdir(below)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def test_a_size_that_is_none(self):
        p = self.serve()
        p.stop()
        p.options = ("--keep-free", "much")
        done = subprocess.run(p.command(), capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"keep-free: .*much")


if __name__ == "__main__":
    unittest.main()
