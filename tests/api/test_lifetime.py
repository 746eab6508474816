"""Starting, stopping, why it stopped; idleness (C021); races (I16); what survives the daemon."""
import json
import os
import subprocess
import threading
import time
import unittest

from harness import Case, Daemon, until


class Life(Case):
    box = False

    def test_a_name_reaches_the_same_container(self):
        d = self.daemon
        first = d.create("one", labels={"k": "v", "app.example/x": ""}, env={"A": "b"}, instance="lite", hardTimeout=86400000)
        self.assertEqual(first["instance"]["memoryMib"], 256)
        self.assertEqual(first["instance"]["vcpu"], 0.063)
        self.assertEqual(first["instance"]["diskMb"], 2000)
        self.assertEqual(first["labels"], {"k": "v", "app.example/x": ""})
        self.assertEqual(first["env"], {"A": "b"})
        self.assertEqual(first["hardTimeout"], 86400000)
        self.assertIn("timings", first.value)
        self.assertError(d.post("/v1/containers", {"name": "one"}), 409, "ALREADY_EXISTS", says="one")
        self.assertError(d.post("/v1/containers/one/start"), 409, "WRONG_STATE")
        got = d.get("/v1/containers/one")
        self.assertEqual(got["id"], first["id"])
        self.assertIn("usage", got.value)
        stopped = d.post("/v1/containers/one/destroy", {"reason": "enough"})
        self.assertEqual(stopped["state"], "stopped")
        self.assertEqual(stopped["stop"]["reason"], "destroy")
        self.assertEqual(stopped["stop"]["detail"], "enough")
        self.assertError(d.post("/v1/containers/one/destroy"), 409, "WRONG_STATE")
        self.assertError(d.post("/v1/containers", {"name": "one"}), 409, "ALREADY_EXISTS")
        again = d.post("/v1/containers/one/start")
        self.assertEqual(again.status, 200)
        self.assertNotEqual(again["id"], first["id"])
        self.assertEqual((again["labels"], again["env"], again["entrypoint"]),
                         (first["labels"], first["env"], first["entrypoint"]))
        d.request("PATCH", "/v1/containers/one", {"labels": {"set": "later"}})
        d.post("/v1/containers/one/destroy")
        self.assertEqual(d.post("/v1/containers/one/start")["labels"], {"set": "later"})
        d.post("/v1/containers/one/destroy")
        third = d.post("/v1/containers/one/start", {"entrypoint": ["sleep", "5"], "instance": {"pids": 50, "vcpu": 1.5}})
        self.assertEqual((third["entrypoint"], third["labels"], third["instance"]["pids"], third["instance"]["vcpu"]),
                         (["sleep", "5"], {}, 50, 1.5))
        self.assertEqual(d.delete("/v1/containers/one").status, 204)
        self.assertError(d.get("/v1/containers/one"), 404, "NOT_FOUND")

    def test_random_names(self):
        a, b = self.daemon.create(), self.daemon.create()
        self.assertRegex(a["name"], "^[0-9a-f]{32}$")
        self.assertNotEqual(a["name"], b["name"])
        for c in (a, b):
            self.daemon.delete("/v1/containers/" + c["name"])

    def test_why_it_stopped(self):
        d = self.daemon
        d.create("exits", entrypoint=["sh", "-c", "exit 3"])
        self.assertEqual(d.get("/v1/containers/exits/monitor").value, {"exitCode": 3, "reason": "exit"})
        self.assertEqual(d.get("/v1/containers/exits")["stop"], {"reason": "exit", "exitCode": 3})
        d.create("killed", entrypoint=["sleep", "1000"])
        self.assertEqual(d.post("/v1/containers/killed/signal", {"signal": 9}).status, 204)
        # signal 9 does not reach the first process of a namespace from inside it, but ours is not the first
        self.assertEqual(d.get("/v1/containers/killed/monitor").value, {"exitCode": 137, "signal": 9, "reason": "exit"})
        d.create("late", hardTimeout=300)
        self.assertError(d.get("/v1/containers/late/monitor"), 410, "GONE", says="timeout")
        self.assertEqual(d.get("/v1/containers/late")["stop"]["reason"], "timeout")
        for name in ("exits", "killed", "late"):
            self.assertEqual(d.delete("/v1/containers/" + name).status, 204)

    def test_monitor_waits(self):
        d = self.daemon
        d.create("watched")
        c = d.connect()
        c.request("GET", "/v1/containers/watched/monitor")
        time.sleep(0.2)
        d.post("/v1/containers/watched/destroy", {"reason": "because"})
        reply = c.getresponse()
        self.assertEqual(reply.status, 410)
        self.assertIn("because", json.loads(reply.read())["error"]["message"])
        c.close()
        d.delete("/v1/containers/watched")

    def test_stop(self):
        d = self.daemon
        d.create("polite", entrypoint=["sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.05; done"])
        time.sleep(0.2)
        self.assertEqual(d.post("/v1/containers/polite/stop")["stop"], {"reason": "exit", "exitCode": 5})
        d.create("deaf", entrypoint=["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"])
        time.sleep(0.2)
        start = time.monotonic()
        self.assertEqual(d.post("/v1/containers/deaf/stop", {"timeoutMs": 500})["stop"]["reason"], "destroy")
        self.assertLess(time.monotonic() - start, 4)
        self.assertError(d.post("/v1/containers/deaf/stop"), 409, "WRONG_STATE")
        for name in ("polite", "deaf"):
            d.delete("/v1/containers/" + name)

    def test_a_failed_start_leaves_no_name(self):
        d = self.daemon
        self.assertEqual(d.post("/v1/containers", {"name": "no", "image": "no/such:image"}).status, 404)
        self.assertError(d.get("/v1/containers/no"), 404, "NOT_FOUND")
        answer = d.post("/v1/containers", {"name": "no", "entrypoint": ["no-such-program"]})
        self.assertError(answer, 400, "ENOENT", "entrypoint", "no-such-program")
        self.assertError(d.post("/v1/containers", {"name": "no", "cwd": "/not/there"}), 400, "ENOENT", "cwd")
        self.assertError(d.get("/v1/containers/no"), 404, "NOT_FOUND")
        answer = d.post("/v1/containers", {"name": "no", "enableInternet": True})
        self.assertError(answer, 501, "UNSUPPORTED", says="enableInternet")
        d.create("no")
        d.delete("/v1/containers/no")

    def test_listing(self):
        d = self.daemon
        d.create("l1", labels={"team": "a", "x": "1"})
        d.create("l2", labels={"team": "b"}, entrypoint=["true"])
        d.get("/v1/containers/l2/monitor")

        def names(**query):
            return [c["name"] for c in d.get("/v1/containers", query=query)["containers"] if c["name"] in ("l1", "l2")]

        self.assertEqual(names(), ["l1", "l2"])
        self.assertEqual(names(state="running"), ["l1"])
        self.assertEqual(names(state="stopped"), ["l2"])
        self.assertEqual(names(label="team=b"), ["l2"])
        self.assertEqual(names(label=["team=a", "x=1"]), ["l1"])
        self.assertEqual(names(label=["team=a", "x=2"]), [])
        self.assertError(d.get("/v1/containers", query={"state": "gone"}), 400, "INVALID_ARGUMENT", "state")
        self.assertError(d.get("/v1/containers", query={"label": "team"}), 400, "INVALID_ARGUMENT", "label")
        self.assertEqual(d.request("PATCH", "/v1/containers/l2", {"labels": {"new": "y"}})["labels"], {"new": "y"})
        self.assertEqual(names(label="team=b"), [])
        for name in ("l1", "l2"):
            d.delete("/v1/containers/" + name)


class Idle(Case):
    """C021."""

    box = False

    def idle_box(self, ms):
        self.daemon.create("idle")
        self.assertEqual(self.daemon.put("/v1/containers/idle/inactivity-timeout", {"ms": ms})["inactivityTimeout"], ms)
        return self.daemon.get("/v1/containers/idle")["id"]

    def state(self):
        return self.daemon.get("/v1/containers/idle")

    def tearDown(self):
        self.daemon.delete("/v1/containers/idle")

    def test_no_stop_while_something_is_open(self):
        run = self.idle_box(700)
        r = self.daemon.exec("idle", "sh", "-c", "sleep 2; echo done")  # a long request
        self.assertEqual((r["exitCode"], r["stdout"]), (0, "done\n"))
        i = self.daemon.spawn("idle", "sh", "-c", "for n in 1 2 3 4 5 6 7; do echo tick; sleep 0.3; done")
        self.assertEqual(self.daemon.output("idle", i)[0], b"tick\n" * 7)  # a stream
        self.assertEqual((self.state()["id"], self.state()["state"]), (run, "running"))
        i = self.daemon.spawn("idle", "sleep", "1.5")  # an exec nobody looks at
        time.sleep(1.2)
        self.assertEqual(self.state()["state"], "running")
        # the time counts from the end: looking does not prolong it
        start = time.monotonic()
        until(lambda: self.state()["state"] == "stopped", 5)
        self.assertGreater(time.monotonic() - start, 0.5)
        self.assertEqual(self.state()["stop"]["reason"], "inactivity")

    def test_stops_by_itself_and_starts_anew(self):
        run = self.idle_box(300)
        until(lambda: self.state()["state"] == "stopped", 5)
        self.assertError(self.daemon.get("/v1/containers/idle/monitor"), 410, "GONE", says="inactivity")
        again = self.daemon.post("/v1/containers/idle/start")
        self.assertEqual(again.status, 200)
        self.assertNotEqual(again["id"], run)

    def test_one_that_ignores_the_signal(self):
        self.daemon.create("idle", entrypoint=["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
        self.daemon.put("/v1/containers/idle/inactivity-timeout", {"ms": 100})
        start = time.monotonic()
        until(lambda: self.state()["state"] == "stopped", 12)
        self.assertGreater(time.monotonic() - start, 4)
        self.assertEqual(self.state()["stop"]["reason"], "inactivity")

    def test_zero_is_never(self):
        self.idle_box(200)
        self.daemon.put("/v1/containers/idle/inactivity-timeout", {"ms": 0})
        time.sleep(0.6)
        self.assertEqual(self.state()["state"], "running")


class Races(Case):
    """I16."""

    box = False

    def parallel(self, calls):
        answers = []

        def one(method, path, body):
            c = self.daemon.connect()
            c.request(method, path, json.dumps(body) if body is not None else None,
                      {"Content-Type": "application/json"} if body is not None else {})
            r = c.getresponse()
            answers.append(r.status)
            r.read()
            c.close()

        threads = [threading.Thread(target=one, args=call) for call in calls]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(len(answers), len(calls))
        return sorted(answers)

    def test_one_winner(self):
        spec = {"name": "race", "entrypoint": ["sleep", "100"]}
        self.assertEqual(self.parallel([("POST", "/v1/containers", spec)] * 8), [201] + [409] * 7)
        self.daemon.post("/v1/containers/race/destroy")
        self.assertEqual(self.parallel([("POST", "/v1/containers/race/start", None)] * 8), [200] + [409] * 7)
        ends = self.parallel([("DELETE", "/v1/containers/race", None)] * 8)
        self.assertTrue(set(ends) <= {204, 404}, ends)
        self.assertIn(204, ends)
        self.assertError(self.daemon.get("/v1/containers/race"), 404, "NOT_FOUND")

    def test_delete_while_it_starts(self):
        for _ in range(10):
            statuses = self.parallel([("POST", "/v1/containers", {"name": "brief", "entrypoint": ["sleep", "100"]}),
                                      ("DELETE", "/v1/containers/brief", None)])
            self.assertTrue(set(statuses) <= {201, 204, 404, 410}, statuses)
            self.daemon.delete("/v1/containers/brief")
        self.assertEqual(self.daemon.get("/v1/containers")["containers"], [])

    def test_storm_leaks_nothing(self):
        def cycle(n):
            name = f"storm-{n % 5}"
            self.daemon.create(name)
            self.daemon.exec(name, "true")
            self.assertEqual(self.daemon.delete("/v1/containers/" + name).status, 204)

        cycle(0)
        time.sleep(0.5)
        before = self.open_descriptors()
        for n in range(25):
            cycle(n)
        until(lambda: self.open_descriptors() <= before + 8)


class Restart(unittest.TestCase):
    def test_after_a_crash(self):
        d = Daemon()
        self.addCleanup(d.close)
        d.create("alive", labels={"a": "b"}, env={"E": "1"})
        d.create("done", entrypoint=["sh", "-c", "exit 9"])
        d.get("/v1/containers/done/monitor")
        d.put("/v1/containers/alive/inactivity-timeout", {"ms": 123456})
        pid = int(d.exec("alive", "sh", "-c", "echo $PPID")["pid"])
        self.assertGreater(pid, 0)
        d.kill()
        d.start()
        listing = {c["name"]: c for c in d.get("/v1/containers")["containers"]}
        self.assertEqual(set(listing), {"alive", "done"})
        self.assertEqual(listing["alive"]["state"], "stopped")
        self.assertEqual(listing["alive"]["stop"]["reason"], "daemon restart")
        self.assertEqual((listing["alive"]["labels"], listing["alive"]["env"]), ({"a": "b"}, {"E": "1"}))
        self.assertEqual(listing["alive"]["inactivityTimeout"], 123456)
        self.assertEqual(listing["alive"]["grade"], d.get("/v1/version")["grade"])
        self.assertEqual(listing["done"]["stop"], {"reason": "exit", "exitCode": 9})
        self.assertError410(d.get("/v1/containers/alive/monitor"))
        self.assertEqual(d.post("/v1/containers/alive/start").status, 200)
        self.assertEqual(d.exec("alive", "sh", "-c", "echo $E")["stdout"], "1\n")

    def assertError410(self, answer):
        self.assertEqual(answer.status, 410)
        self.assertIn("daemon restart", answer.error["message"])

    def test_after_an_orderly_end(self):
        d = Daemon()
        self.addCleanup(d.close)
        d.create("alive")
        d.stop()
        self.assertFalse(os.path.exists(d.socket))
        d.start()
        self.assertEqual(d.get("/v1/containers/alive")["stop"]["reason"], "daemon restart")

    def test_I18_second_daemon(self):
        d = Daemon()
        self.addCleanup(d.close)
        d.create("mine")
        for more in ([], ["--run-dir", d.run + "2"], ["--data-dir", d.data + "2"]):
            with self.subTest(more):
                second = subprocess.run(d.command(*more), capture_output=True, text=True, timeout=30)
                self.assertEqual(second.returncode, 125)
                self.assertIn(str(d.process.pid), second.stderr)
                self.assertIn(d.socket, second.stderr)
        other = subprocess.run(d.command("--run-dir", d.run + "3", "--data-dir", d.data + "3", "--socket", d.socket),
                               capture_output=True, text=True, timeout=30)
        self.assertEqual(other.returncode, 125)
        self.assertIn("serves", other.stderr)
        self.assertEqual(d.exec("mine", "echo", "still here")["stdout"], "still here\n")

    def test_private_files(self):
        d = Daemon()
        self.addCleanup(d.close)
        self.assertEqual(os.stat(d.socket).st_mode & 0o777, 0o600)
        for path in (d.data, d.run):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o700)

    def test_open_directory_is_refused(self):
        d = Daemon()
        self.addCleanup(d.close)
        d.stop()
        os.chmod(d.data, 0o755)
        refused = subprocess.run(d.command(), capture_output=True, text=True, timeout=30)
        self.assertEqual(refused.returncode, 125)
        self.assertIn("chmod 0700", refused.stderr)
        os.chmod(d.data, 0o700)
        d.start()

    def test_configuration(self):
        d = Daemon()
        self.addCleanup(d.close)
        d.stop()
        path = os.path.join(d.data, "config.json")
        for bad, says in (('{"pol": 1}', "pol"), ('{"pool": -1}', "pool"), ("{", "JSON"),
                          ('{"defaults": {"memoryMib": "x"}}', "defaults.memoryMib"), ('{"aliases": {"a": 1}}', "aliases")):
            with open(path, "w") as f:
                f.write(bad)
            refused = subprocess.run(d.command(), capture_output=True, text=True, timeout=30)
            self.assertEqual(refused.returncode, 125)
            self.assertIn(says, refused.stderr)
            self.assertIn("config.json", refused.stderr)
        with open(path, "w") as f:
            f.write('{"aliases": {"cloudflare/debian-trixie": "host"}, "defaults": {"memoryMib": 77}, "maxContainers": 2}')
        d.start()
        c = d.create("a", image="cloudflare/debian-trixie")
        self.assertEqual((c["image"], c["imageId"], c["instance"]["memoryMib"]), ("cloudflare/debian-trixie", "host", 77))
        d.create("b")
        answer = d.post("/v1/containers", {"name": "c"})
        self.assertEqual((answer.status, answer.error["code"]), (413, "LIMIT_EXCEEDED"))
        self.assertIn("maxContainers", answer.error["message"])


if __name__ == "__main__":
    unittest.main()
