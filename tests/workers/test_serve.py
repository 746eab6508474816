"""`cloister serve --app`: an application for good. What was confirmed survives a kill of the daemon, what was due comes after it, and no
second daemon touches the same state."""
import os
import signal
import subprocess
import threading
import time
import unittest

from projects import CLOISTER, Served, children

SOURCE = """
import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  async add(n) {
    await this.ctx.storage.put('n', (await this.ctx.storage.get('n') ?? 0) + n);
    return this.ctx.storage.get('n');
  }
  async note(k) { await this.ctx.storage.put('k' + k, k); return k; }
  async notes() { return [...(await this.ctx.storage.list({ prefix: 'k' })).values()].sort((a, b) => a - b); }
  ring(ms) { return this.ctx.storage.setAlarm(Date.now() + ms); }
  async alarm(info) { await this.ctx.storage.put('rang', [info.retryCount, Date.now()]); }
  async rang() { return [await this.ctx.storage.get('rang') ?? null, await this.ctx.storage.getAlarm()]; }
}
export default { async fetch(request, env) {
  const [, name, method, arg] = new URL(request.url).pathname.split('/');
  return Response.json(await env.COUNTER.getByName(name)[method](...(arg === undefined ? [] : [Number(arg)])));
} };
"""
CONFIG = {"durable_objects": {"bindings": [{"name": "COUNTER", "class_name": "Counter"}]},
          "migrations": [{"tag": "v1", "new_sqlite_classes": ["Counter"]}]}


class Serve(unittest.TestCase):
    maxDiff = None

    def serve(self):
        p = Served({"index.js": SOURCE}, config=CONFIG)
        self.addCleanup(p.close)
        return p

    def kill(self, p):
        """As a crash would. Nothing of it may live on."""
        left = children(p.process.pid)
        self.assertGreaterEqual(len(left), 2)
        p.stop(signal.SIGKILL)
        deadline = time.monotonic() + 20
        while any(os.path.exists(f"/proc/{pid}") for pid in left) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual([pid for pid in left if os.path.exists(f"/proc/{pid}")], [])

    def test_the_count_goes_on_after_a_kill(self):
        p = self.serve()
        self.assertEqual([p.get("/a/add/1").json for _ in range(3)], [1, 2, 3])
        self.assertEqual(p.get("/b/add/10").json, 10)
        for n in (4, 5):
            self.kill(p)
            p.start()
            self.assertEqual(p.get("/a/add/1").json, n)
        self.assertEqual(p.get("/b/add/1").json, 11)

    def test_what_was_confirmed_before_a_kill_is_there(self):
        p = self.serve()
        p.get("/a/note/0")
        confirmed, over = [0], threading.Event()

        def write(first):
            for k in range(first, 1_000_000, 4):
                if over.is_set():
                    return
                try:
                    if p.get(f"/a/note/{k}", timeout=10).json == k:
                        confirmed.append(k)
                except (OSError, AssertionError):  # killed in between: it was not confirmed
                    return

        writers = [threading.Thread(target=write, args=(first,)) for first in range(1, 5)]
        for w in writers:
            w.start()
        deadline = time.monotonic() + 30
        while len(confirmed) < 100 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill(p)  # in the middle of writes
        over.set()
        for w in writers:
            w.join()
        self.assertGreaterEqual(len(confirmed), 100)
        p.start()
        there = set(p.get("/a/notes").json)
        self.assertEqual(sorted(set(confirmed) - there), [])
        self.assertLessEqual(len(there - set(confirmed)), len(writers))  # written, and killed before the answer arrived

    def test_a_pending_alarm_fires_after_a_kill(self):
        p = self.serve()
        p.get("/a/ring/1500")   # due while nothing runs
        p.get("/b/ring/6000")   # due after the start
        p.get("/c/ring/60000")  # not due
        due = time.time() * 1000 + 6000
        self.kill(p)
        time.sleep(2)
        p.start()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (p.get("/a/rang").json[0] and p.get("/b/rang").json[0]):
            time.sleep(0.2)
        for name in "ab":
            rang, at = p.get(f"/{name}/rang").json
            self.assertEqual((rang[0], at), (0, None))
        self.assertGreaterEqual(p.get("/b/rang").json[0][1], due - 1500)
        rang, at = p.get("/c/rang").json
        self.assertIsNone(rang)
        self.assertGreater(at, time.time() * 1000)

    def test_a_second_daemon_on_the_same_state_is_refused(self):
        p = self.serve()
        self.assertEqual(p.get("/a/add/1").json, 1)
        for run in ("run", "run2"):
            second = subprocess.run(p.as_user([CLOISTER, "serve", "--app", p.directory, "--app-listen", "127.0.0.1:0", "--data-dir",
                                               p.directory + "/state", "--run-dir", f"{p.directory}/{run}"]),
                                    capture_output=True, text=True, timeout=60)
            self.assertEqual(second.returncode, 125)
            self.assertEqual(second.stdout, "")
            self.assertIn("cloister serve: ", second.stderr)
            self.assertIn(f"{p.directory}/state", second.stderr)
            self.assertRegex(second.stderr, "in use|already")
        self.assertEqual(p.get("/a/add/1").json, 2)

    def test_an_orderly_end_leaves_nothing_running(self):
        p = self.serve()
        self.assertEqual(p.get("/a/add/1").json, 1)
        left = children(p.process.pid)
        p.stop(signal.SIGTERM)
        deadline = time.monotonic() + 20
        while any(os.path.exists(f"/proc/{pid}") for pid in left) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual([pid for pid in left if os.path.exists(f"/proc/{pid}")], [])
        self.assertFalse(os.path.exists(f"{p.directory}/run/cloister.sock"))
        p.start()
        self.assertEqual(p.get("/a/add/1").json, 2)

    def test_secrets_must_be_there(self):
        with self.assertRaises(AssertionError) as caught:
            Served({"index.js": SOURCE}, config={**CONFIG, "secrets": {"required": ["API_KEY"]}})
        self.assertIn("API_KEY", str(caught.exception))

    def test_the_api_and_the_application_side_by_side(self):
        p = self.serve()
        command = ["env", f"CLOISTER_SOCKET={p.directory}/run/cloister.sock", CLOISTER, "ps", "-a"]
        listed = subprocess.run(p.as_user(command), capture_output=True, text=True, timeout=60)
        self.assertEqual((listed.returncode, len(listed.stdout.splitlines())), (0, 1), listed)  # no container, only the heading
        self.assertEqual(p.get("/a/add/1").json, 1)


if __name__ == "__main__":
    unittest.main()
