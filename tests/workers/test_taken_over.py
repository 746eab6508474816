"""Worker processes that were taken over: they speak the link as they like (taken_over.c stands in their place). What it costs them, what
their holders hear, and that nobody else notices."""
import os
import shutil
import tempfile
import threading
import time
import unittest

from projects import Project, children

LIBEXEC = os.environ["CLOISTER_LIBEXEC"]
SOURCE = """
let made = 0;
const code = `import { WorkerEntrypoint } from 'cloudflare:workers';
  let n = 0;
  export default class extends WorkerEntrypoint { count() { return ++n; } size(x) { return x.length; } never() { return new Promise(() => {}); } }`;
// The name is what makes a process evil, so no address may hold it.
const load = (env, name, limits) => env.LOADER.get(name.replace(/^wicked-(.*)/, 'evil:$1.'), () => {
  made++;
  return { compatibilityDate: '2026-11-01', mainModule: 'm.js', modules: { 'm.js': code }, globalOutbound: null, limits };
}).getEntrypoint();
const say = async (f) => { try { return await f(); } catch (e) { return e.message; } };
export default { async fetch(request, env) {
  const [, what, name] = new URL(request.url).pathname.split('/');
  switch (what) {
    case 'call': return Response.json(await say(() => load(env, name).count()));
    case 'again': {
      const stub = load(env, name), out = [await say(() => stub.count())];
      await new Promise((r) => setTimeout(r, 500));
      out.push(await say(() => stub.count()));
      return Response.json(out);
    }
    case 'deaf': {
      const stub = load(env, name), big = 'x'.repeat(8 << 20);
      const calls = Array.from({ length: 24 }, () => say(() => stub.size(big)));
      return Response.json(await Promise.race([Promise.all(calls), new Promise((r) => setTimeout(() => r('deaf'), 3000))]));
    }
    case 'forget': { load(env, name)[Symbol.dispose](); return Response.json(made); }
    case 'evil': return new Response('well behaved');
  }
  return new Response('hello');
} };
"""
BROKE = "Worker process ended unexpectedly (it broke the protocol: %s)."

# what it does, and what is said of it
FATAL = {
    "forge": BROKE % "CALL on capability 7, which was never given",
    "foreign-stream": BROKE % "DATA for stream 99998, which was never opened",
    "answer-unasked": BROKE % "RETURN for call 999999, which was never made",
    "answer-twice": BROKE % "RETURN for call %d, which was answered already",
    "huge": BROKE % "RETURN frame with a body of 1048577 bytes, expected 1 to 1048576",
    "unknown": BROKE % "frame of unknown kind 99",
    "broken": BROKE % "CALL frame whose body is not [target, method, arguments]",
    "deep": BROKE % "CALL frame whose body is not [target, method, arguments]",
}


def memory(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(("Private_Dirty", "Private_Clean", "Swap:"))) * 1024


class TakenOver(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.libexec = tempfile.mkdtemp(prefix="cloister-libexec-")
        for name in os.listdir(LIBEXEC):
            if name != "cloister-worker":
                os.symlink(os.path.join(LIBEXEC, name), os.path.join(cls.libexec, name))
        shutil.copy(os.environ["TAKEN_OVER"], os.path.join(cls.libexec, "cloister-worker"))
        os.symlink(os.path.join(LIBEXEC, "cloister-worker"), os.path.join(cls.libexec, "cloister-worker.real"))
        os.chmod(cls.libexec, 0o755)
        os.environ["CLOISTER_LIBEXEC"] = cls.libexec

    @classmethod
    def tearDownClass(cls):
        os.environ["CLOISTER_LIBEXEC"] = LIBEXEC
        shutil.rmtree(cls.libexec)

    def setUp(self):
        self.p = Project({"index.js": SOURCE}, config={"worker_loaders": [{"binding": "LOADER"}]})
        self.addCleanup(self.p.close)
        self.assertEqual(self.p.get("/").body, b"hello")
        self.good = 0
        self.pid = self.p.process.pid
        self.before = memory(self.pid)

    def undisturbed(self):
        """A worker that was there before is still the same, and quick."""
        begin = time.monotonic()
        self.good += 1
        self.assertEqual(self.p.get("/call/good").json, self.good)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIsNone(self.p.process.poll())

    def bounded(self, mib=100):
        self.assertLess((memory(self.pid) - self.before) >> 20, mib)

    def matches(self, said, expected, name):
        if "%d" in expected:
            self.assertRegex(said, "^" + expected.replace("(", r"\(").replace(")", r"\)").replace("%d", r"\d+").replace(".", r"\.") + "$", name)
        else:
            self.assertEqual(said, expected, name)

    def test_dynamic_workers(self):
        self.undisturbed()
        for mode, expected in FATAL.items():
            with self.subTest(mode):
                first, second = self.p.get(f"/again/wicked-{mode}").json
                self.matches(second, expected, mode)
                self.assertIn(first, (1, second))  # it may have been quick enough
                self.undisturbed()
        self.bounded()

    def test_host_workers(self):
        for mode, expected in FATAL.items():
            with self.subTest(mode):
                answer = self.p.get(f"/evil/{mode}.")
                if mode == "answer-twice":  # the first was taken for what it is: no answer to a request
                    self.assertEqual((answer.status, answer.body), (502, b"the Worker answered with a status that is none\n"))
                else:
                    self.assertEqual(answer.status, 500)
                    self.matches(answer.body.decode().strip(), expected, mode)
                self.assertEqual(self.p.get("/").body, b"hello")  # started anew
        self.bounded()

    def test_half_a_frame_and_then_nothing(self):
        self.undisturbed()
        said = self.p.get("/again/wicked-truncated").json[1]
        self.assertRegex(said, r"^Worker process ended unexpectedly \(.*\)\.$")
        self.undisturbed()

    def test_streams_that_nobody_asked_for(self):
        self.undisturbed()
        self.p.get("/again/wicked-leak-streams")
        self.undisturbed()
        self.bounded()
        self.p.get("/evil/leak-streams.")
        self.bounded()

    def test_calls_without_end(self):
        answer = self.p.get("/evil/leak-calls.")  # thousands of loads whose code never ends
        self.assertIn(answer.status, (200, 500))
        self.bounded(400)
        deadline = time.monotonic() + 20
        while self.p.get("/").status != 200 and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(self.p.get("/").body, b"hello")

    def test_a_flood_of_log_lines(self):
        self.undisturbed()
        flood = threading.Thread(target=lambda: self.p.get("/again/wicked-log"))
        flood.start()
        for _ in range(5):
            self.undisturbed()
        flood.join()
        self.bounded()
        self.assertIn("lines of this worker were dropped: more than 1000 in a second", self.p.output())
        self.assertLess(self.p.output().count("x" * 1000), 20000)

    def test_what_it_says_to_its_parent(self):
        self.undisturbed()
        for mode in ("channel-huge", "channel-bomb"):
            with self.subTest(mode):
                said = self.p.get(f"/again/wicked-{mode}").json[1]
                self.assertIsInstance(said, str)
                self.undisturbed()
        for mode in ("channel-credit", "window"):
            with self.subTest(mode):
                said = self.p.get(f"/again/wicked-{mode}").json[1]
                self.assertRegex(said, r"^Worker process ended unexpectedly \(it broke the protocol: (DATA|WINDOW) .*credit.*\)\.$")
                self.undisturbed()
        self.bounded()

    def test_one_that_does_not_listen(self):
        self.undisturbed()
        said = self.p.get("/deaf/wicked-deaf").json  # 192 MiB are
        self.bounded()
        self.assertEqual(len(said), 24)
        for one in said:
            self.assertRegex(one, r"^the other end does not read: \d+ bytes are waiting for it$")
        self.undisturbed()

    def test_one_that_never_says_a_word(self):
        self.undisturbed()
        begin = time.monotonic()
        said = []
        waits = threading.Thread(target=lambda: said.append(self.p.get("/call/wicked-mute", timeout=120).json))
        waits.start()
        while waits.is_alive():
            self.undisturbed()
            time.sleep(2)
        self.assertEqual(said, ["The Worker did not start within 60 s."])
        self.assertLess(time.monotonic() - begin, 80)
        self.undisturbed()

    def test_what_was_taken_over_is_gone(self):
        self.undisturbed()
        before = len(children(self.pid))
        for k in range(5):
            self.p.get("/again/wicked-forge")
        deadline = time.monotonic() + 20
        while len(children(self.pid)) > before + 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertLessEqual(len(children(self.pid)), before + 2)


if __name__ == "__main__":
    unittest.main()
