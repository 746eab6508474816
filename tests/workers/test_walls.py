"""The control group of each worker process: who is in it, what it walls in, that it is used again and leaves nothing. Where control groups
cannot be had (an ordinary user without delegation) the watcher alone looks after memory, and workers have none."""
import glob
import os
import re
import signal
import threading
import time
import unittest

from projects import Project, Served, children

SOURCE = """
const code = (body) => `export default { async fetch(request) { ${body} } }`;
export default { async fetch(request, env) {
  const { pathname } = new URL(request.url), [, what, name] = pathname.split('/');
  const load = (body, limits) => env.LOADER.get(`${what}-${name}`, () => (
    { compatibilityDate: '2026-11-01', mainModule: 'm.js', modules: { 'm.js': code(body) }, limits })).getEntrypoint();
  try {
    if (what === 'hello') return await load("return new Response('hello')").fetch('http://x/');
    if (what === 'once') return await env.LOADER.load({ compatibilityDate: '2026-11-01', mainModule: 'm.js', modules: { 'm.js': code("return new Response('once')") } })
      .getEntrypoint().fetch('http://x/');
    if (what === 'small') return await load("return new Response('small')", { memoryMib: 64 }).fetch('http://x/');
    if (what === 'burst') return await load("await new Promise((r) => setTimeout(r, 1500)); return new Response(String(new Uint8Array(600 << 20).fill(1).length))").fetch('http://x/');
    return new Response('host');
  } catch (e) { return new Response(e.message, { status: 500 }); }
} };
"""
CONFIG = {"worker_loaders": [{"binding": "LOADER"}]}
MIB = 1 << 20


def group(pid):
    """(version, path) of the control group that limits a process's memory; None: it has left, or has none."""
    try:
        with open(f"/proc/{pid}/cgroup") as f:
            lines = [line.strip().split(":", 2) for line in f]
    except OSError:
        return None
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return 1, path
    return next(((2, path) for number, _, path in lines if number == "0"), None)


def directory(version, path, controller):
    """Where the group is in the file system, seen from here."""
    name = os.path.basename(path)
    top = f"/sys/fs/cgroup/{controller}" if version == 1 else "/sys/fs/cgroup"
    found = glob.glob(f"{top}/**/{name}", recursive=True)
    assert len(found) == 1, found
    return found[0]


def read(version, path, controller, v1, v2):
    with open(os.path.join(directory(version, path, controller), v1 if version == 1 else v2)) as f:
        return f.read().strip()


def walls():
    """Control groups can be had: those who start the program may make some."""
    if Project.user:
        return False
    return os.path.isdir("/sys/fs/cgroup/memory") or os.path.exists("/sys/fs/cgroup/cgroup.controllers")


class Walls(unittest.TestCase):
    def serve(self, kind=Project):
        p = kind({"index.js": SOURCE}, config=CONFIG)
        self.addCleanup(p.close)
        self.assertEqual(p.get("/").body, b"host")
        return p

    def groups(self, p):
        """{path: [pids]} of the groups of its workers."""
        out = {}
        for pid in children(p.process.pid):
            g = group(pid)
            if g and re.search(r"/cloister/[0-9a-f]+\.w\d+$", g[1]):
                out.setdefault(g, []).append(pid)
        return out

    def limits(self, p):
        return sorted((int(read(*g, "memory", "memory.limit_in_bytes", "memory.max")) // MIB, read(*g, "pids", "pids.max", "pids.max"))
                      for g in self.groups(p))

    def test_each_worker_has_one_of_its_own(self):
        p = self.serve()
        self.assertEqual(p.get("/hello/a").body, b"hello")
        self.assertEqual(p.get("/small/a").body, b"small")
        if not walls():
            self.assertEqual(self.groups(p), {})
            return
        time.sleep(1)  # the reserve is full
        for g, pids in self.groups(p).items():
            self.assertEqual(len(pids), 1, g)
        limits = self.limits(p)
        # the host, the compiler, one that asked for less, and those with the usual limit: one that is used and the reserve
        for mib in (1024 + 48, 832 + 48, 64 + 48, 128 + 48):
            self.assertIn((mib, "65"), limits)
        if all(version == 2 for version, _ in self.groups(p)):
            self.assertEqual({read(*g, "cpu", "", "cpu.weight") for g in self.groups(p)}, {"100"})

    def test_the_wall_stands_when_nobody_watches(self):
        p = self.serve()
        if not walls():
            self.assertEqual(self.groups(p), {})
            return
        answer = []
        t = threading.Thread(target=lambda: answer.append(p.get("/burst/a")))
        t.start()
        time.sleep(1)
        before = set(children(p.process.pid))
        os.kill(p.process.pid, signal.SIGSTOP)  # the watcher sleeps; 600 MiB are written in one native call
        try:
            deadline = time.monotonic() + 30
            while before <= set(pid for pid in children(p.process.pid)) and time.monotonic() < deadline:
                time.sleep(0.1)
            self.assertNotEqual(before - set(children(p.process.pid)), set())
        finally:
            os.kill(p.process.pid, signal.SIGCONT)
        t.join()
        self.assertEqual((answer[0].status, answer[0].body), (500, b"Worker exceeded its memory limit of 128 MiB."))
        self.assertEqual(p.get("/hello/a").body, b"hello")

    def directories(self, engine):
        return [d for d in glob.glob("/sys/fs/cgroup/**/cloister/*", recursive=True) if re.search(rf"/{engine}\.w\d+$", d)]

    def engine(self, p):
        return re.search(r"/([0-9a-f]+)\.w\d+$", next(iter(self.groups(p)))[1])[1]

    def test_they_are_used_again_and_leave_nothing(self):
        p = self.serve()
        if not walls():
            self.assertEqual(self.groups(p), {})
            return
        engine = self.engine(p)
        for _ in range(200):
            self.assertEqual(p.get("/once").body, b"once")
        hierarchies = len({d.rsplit("/cloister/", 1)[0] for d in self.directories(engine)})
        self.assertLessEqual(len(self.directories(engine)), hierarchies * 100)
        time.sleep(1)
        self.assertLessEqual(len(self.groups(p)), 10)  # and nobody is left in them
        self.assertNotIn("in reserve has ended", p.output())  # nor was anybody walled in too closely
        p.stop()
        self.assertEqual(self.directories(engine), [])

    def test_a_killed_daemon_leaves_what_the_next_removes(self):
        p = self.serve(Served)
        if not walls():
            self.assertEqual(self.groups(p), {})
            return
        engine = self.engine(p)
        p.stop(signal.SIGKILL)
        self.assertNotEqual(self.directories(engine), [])
        p.start()
        deadline = time.monotonic() + 20
        while self.directories(engine) and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(self.directories(engine), [])
        self.assertEqual(p.get("/hello/a").body, b"hello")


if __name__ == "__main__":
    unittest.main()
