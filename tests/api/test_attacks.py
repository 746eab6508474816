"""The lines of the attack catalogue that aim at the API: I1, I2, I4, I8, I9, I16, I20, I21. (I16 and I18 are in test_lifetime.py, I2 also
in test_routes.py.) Each refusal has a legal twin."""
import json
import socket
import time
import unittest

from harness import Case, until


class Names(Case):
    def test_I1_absent_is_absent(self):
        answers = {self.daemon.get("/v1/containers/" + n).body.replace(n.encode(), b"NAME") for n in ("abc", "z" * 63, "0", "boxx")}
        self.assertEqual(len(answers), 1)

    def test_I4_strict_names(self):
        bad = ["..", ".", "%2e%2e", "..%2f..%2fetc", "%2Fetc%2Fpasswd", "%00", "a%00b", "BOX", "Box", "caf%C3%A9", "-box", "--help",
               "_x", "box%20", "box%0a", "b" * 64, "a%2Fb", "box;id", "%E2%80%AEx", "box%25", "b" * 20000]
        for name in bad:
            with self.subTest(name[:40]):
                answer = self.daemon.get("/v1/containers/" + name)
                self.assertEqual(answer.status, 400, answer)
                self.assertIn(answer.error["field"], ("name", "url"))
        for name in ("..", "BOX", "-x", "", "a/b", "x" * 64, "a\0b", "\u0131", "a\n"):
            with self.subTest(repr(name)):
                self.assertError(self.daemon.post("/v1/containers", {"name": name}), 400, "INVALID_ARGUMENT", "name")
        name = "a0.b_c-d." + "e" * 54
        self.daemon.create(name)
        self.assertEqual(self.daemon.get("/v1/containers/" + name)["name"], name)
        self.assertEqual(self.daemon.get("/v1/containers/%62ox")["name"], "box")
        self.daemon.delete("/v1/containers/" + name)

    def test_I4_other_ids(self):
        for i in ("..", "%2e%2e", "A" * 32, "0" * 31, "0" * 33, "%00", "-rf", "g" * 32):
            with self.subTest(i):
                for method in ("GET", "DELETE"):
                    self.assertEqual(self.daemon.request(method, "/v1/snapshots/" + i).status, 400)
        for i in ("..", "--help", "-x", "a%0ab", "a%20b", "%2e%2e%2fx", "x" * 300, "%F0%9F%99%82"):
            with self.subTest(i):
                for method in ("GET", "DELETE"):
                    self.assertIn(self.daemon.request(method, "/v1/images/" + i).status, (400, 404))
        self.assertEqual(self.daemon.get("/v1/images/host")["id"], "host")

    def test_huge_targets(self):
        for target in ("/v1/" + "a" * 1000000, "/v1/containers?x=" + "b" * 1000000, "/" * 200000):
            got = self.daemon.raw(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), timeout=5)
            self.assertRegex(got[:20], rb"^HTTP/1.1 4(00|04|14|31) ")
        got = self.daemon.raw(b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100000 + b"\r\n", timeout=5)
        self.assertRegex(got[:20], rb"^HTTP/1.1 4(13|31) ")
        self.assertEqual(self.daemon.get("/v1/version").status, 200)


class Values(Case):
    """I9."""

    def refuse(self, field, code="INVALID_ARGUMENT", **spec):
        spec.setdefault("cmd", ["true"])
        spec = {k: v for k, v in spec.items() if v is not None}
        answer = self.daemon.post("/v1/containers/box/exec", {"wait": True, **spec})
        self.assertError(answer, 400, code, field)

    def accept(self, **spec):
        spec.setdefault("cmd", ["true"])
        answer = self.daemon.post("/v1/containers/box/exec", {"wait": True, **spec})
        self.assertEqual((answer.status, answer.value.get("exitCode")), (200, 0), answer)
        return answer

    def test_argv(self):
        self.refuse("cmd", cmd=[])
        self.refuse("cmd", cmd=[""])
        self.refuse("cmd", cmd="ls")
        self.refuse("cmd[1]", cmd=["ls", 1])
        self.refuse("cmd[1]", cmd=["ls", None])
        self.refuse("cmd[1]", cmd=["ls", "a\0b"])
        self.refuse("cmd", cmd=["true"] * 4097)
        self.refuse("cmd", cmd=None)
        self.accept(cmd=["true"] * 4096)
        self.accept(cmd=["true", "x" * 120000])
        self.assertEqual(self.accept(cmd=["printf", "%s", "\u0109\n*$`"])["stdout"], "\u0109\n*$`")

    def test_huge_bodies(self):
        for cmd in (["true", "x" * 10000000], ["true"] * 1000000):
            answer = self.daemon.post("/v1/containers/box/exec", {"cmd": cmd})
            self.assertError(answer, 413, "LIMIT_EXCEEDED")
        chunks = iter([b'{"cmd": ["' + b"x" * 60000] + [b"x" * 60000] * 100)
        answer = self.daemon.post("/v1/containers/box/exec", chunks, headers={"Content-Type": "application/json"})
        self.assertError(answer, 413, "LIMIT_EXCEEDED")
        deep = b'{"cmd":' + b"[" * 400000 + b"]" * 400000 + b"}"
        self.assertError(self.daemon.post("/v1/containers/box/exec", deep), 400, "INVALID_ARGUMENT", "body")

    def test_environment(self):
        self.refuse("env", env=["A=b"])
        self.refuse("env.", env={"": "x"})
        self.refuse("env.A=B", env={"A=B": "x"})
        self.refuse("env.A", env={"A": "x\0y"})
        self.refuse("env.A", env={"A": 1})
        self.refuse("env", env={f"K{i}": "" for i in range(4097)})
        body = b'{"cmd":["true"],"env":{"A\\u0000B":"x"}}'
        self.assertEqual(self.daemon.post("/v1/containers/box/exec", body).status, 400)
        self.assertEqual(self.accept(cmd=["printenv", "A"], env={"A": "one\ntwo=3"})["stdout"], "one\ntwo=3\n")

    def test_directories_and_users(self):
        self.refuse("cwd", "ENOENT", cwd="/no/such/place")
        self.refuse("cwd", "ENOTDIR", cwd="/etc/passwd")
        self.refuse("cwd", cwd="relative")
        self.refuse("cwd", cwd="/x\0")
        self.refuse("cwd", cwd="/" + "x" * 5000)
        self.refuse("cwd", cwd=7)
        for user in ("4294967295", "0:4294967295", "99999999999999999999", "", ":", "a:", ":b", "a b", "x" * 200, "a\n"):
            self.refuse("user", user=user)
        self.assertEqual(self.daemon.exec("box", "true", user="no-such-user").status, 400)
        self.daemon.exec("box", "sh", "-c", "mkdir -p /tmp/real && ln -sfn real /tmp/link")
        self.assertEqual(self.accept(cmd=["pwd", "-P"], cwd="/tmp/link")["stdout"], "/tmp/real\n")
        self.assertEqual(self.accept(cmd=["id", "-u"], user="1000")["stdout"], "1000\n")

    def test_numbers(self):
        for bad in (-1, 0, 1e18, 1.5, "5", True, None, [], 9007199254740993, 1e400):
            self.refuse_raw("timeoutMs", bad)
            self.refuse_raw("outputLimit", bad)
        for text in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"0x10", b"9" * 400):
            body = b'{"cmd":["true"],"timeoutMs":' + text + b"}"
            self.assertEqual(self.daemon.post("/v1/containers/box/exec", body).status, 400, text)
        self.accept(timeoutMs=9007199254740992)
        self.accept(timeoutMs=60000, outputLimit=67108864)
        for signal in (0, -9, 65, 1.5, "9", 2**40):
            answer = self.daemon.post("/v1/containers/box/signal", {"signal": signal})
            self.assertError(answer, 400, "INVALID_ARGUMENT", "signal")
        for size in ({"cols": 0, "rows": 1}, {"cols": 1}, {"cols": 65536, "rows": 1}, {"cols": 1, "rows": 1, "x": 1}):
            self.assertEqual(self.daemon.post("/v1/containers/box/exec", {"cmd": ["true"], "pty": size}).status, 400)

    def refuse_raw(self, field, value):
        body = json.dumps({"cmd": ["true"], field: value}).replace("Infinity", "1e999").encode()
        self.assertEqual(self.daemon.post("/v1/containers/box/exec", body).status, 400, (field, value))

    def test_contradictions(self):
        self.refuse("stdin", stdin="pipe", stdinText="x")
        self.refuse("stdin", stdin="pipe")
        self.refuse("stdin", stdinText="x", stdinBase64="eA==")
        self.refuse("stdinBase64", stdinBase64="x")
        self.refuse("stdinBase64", stdinBase64="eA=!")
        self.refuse("stdin", stdin="stream")
        self.refuse("overflow", overflow="block")
        self.refuse("overflow", overflow="never")
        self.refuse("stderr", pty={"cols": 1, "rows": 1}, stderr="pipe")

    def test_starts(self):
        for field, spec in (
            ("instance", {"instance": "huge"}), ("instance.vcpu", {"instance": {"vcpu": 0}}),
            ("instance.vcpu", {"instance": {"vcpu": "1"}}), ("instance.memoryMib", {"instance": {"memoryMib": 1}}),
            ("instance.memoryMib", {"instance": {"memoryMib": 2**53}}), ("instance.diskMb", {"instance": {"diskMb": -5}}),
            ("instance.pids", {"instance": {"pids": 0}}), ("instance.openFiles", {"instance": {"openFiles": 3}}),
            ("instance.cores", {"instance": {"cores": 3}}), ("hardTimeout", {"hardTimeout": 0}),
            ("hardTimeout", {"hardTimeout": -1}), ("snapshot", {"snapshot": "../../etc/passwd"}),
            ("mounts[0].snapshot", {"mounts": [{"snapshot": "x", "target": "/y"}]}),
            ("mounts", {"mounts": [{"snapshot": "0" * 32, "target": "/"}]}),
            ("mounts[0].target", {"mounts": [{"snapshot": "0" * 32, "target": "y"}]}), ("entrypoint", {"entrypoint": []}),
            ("stdin", {"stdin": "yes"}), ("enableInternet", {"enableInternet": "no"}), ("privileged", {"privileged": True}),
            ("image", {"image": 5}), ("cwd", {"cwd": "x"}),
        ):
            with self.subTest(str(spec)):
                self.assertError(self.daemon.post("/v1/containers", {"name": "never", **spec}), 400, "INVALID_ARGUMENT", field)
        self.assertEqual(self.daemon.post("/v1/containers", {"name": "never", "image": "../../etc"}).status, 400)
        self.assertError(self.daemon.get("/v1/containers/never"), 404, "NOT_FOUND")


class Labels(Case):
    """I21."""

    def test_bounded_and_plain(self):
        def patch(labels):
            return self.daemon.request("PATCH", "/v1/containers/box", {"labels": labels})

        for labels in ({"a b": "x"}, {"": "x"}, {"k": "line\nfeed"}, {"k": "\x1b[31mred"}, {"k": "x" * 256}, {"k" * 64: "x"},
                       {"k": 1}, {"k": "a\0"}, {f"k{i}": "" for i in range(65)}, {"k\n": "x"}, [], "x"):
            answer = patch(labels)
            self.assertEqual((answer.status, answer.error["code"]), (400, "INVALID_ARGUMENT"), labels)
        full = {f"k{i}": "v" * 255 for i in range(64)}
        self.assertEqual(patch(full)["labels"], full)
        self.assertEqual(patch({})["labels"], {})

    def test_nothing_forges_a_log_line(self):
        evil = "x\n2026-01-01T00:00:00.000Z info forged\x1b[2J"
        self.daemon.create("logged")
        self.daemon.post("/v1/containers/logged/destroy", {"reason": evil})
        self.daemon.delete("/v1/containers/logged")
        log = self.daemon.log()
        self.assertIn("forged", log)
        self.assertFalse([line for line in log.splitlines() if line.startswith("2026-01-01")])
        self.assertNotIn("\x1b", log)


class Clients(Case):
    def test_I20_browsers(self):
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost"}, {"Origin": ""},
                        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Mode": "no-cors"}, {"Host": "evil.example"},
                        {"Host": "127.0.0.1:8080"}, {"Host": "localhost.evil.example"}, {"Host": "[::1]"}):
            with self.subTest(headers):
                answer = self.daemon.get("/v1/version", headers=headers)
                self.assertError(answer, 403, "DENIED")
                answer = self.daemon.post("/v1/containers", {"name": "csrf"}, headers=headers)
                self.assertError(answer, 403, "DENIED")
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = self.daemon.post("/v1/containers", b'{"name":"csrf"}', headers={"Content-Type": kind})
            self.assertError(answer, 400, "INVALID_ARGUMENT", "content-type")
        self.assertError(self.daemon.get("/v1/containers/csrf"), 404, "NOT_FOUND")
        told = [line for line in self.daemon.log().splitlines() if "refused a request" in line]
        self.assertTrue(1 <= len(told) <= 6, told)
        for host in ("localhost", "localhost:80", "cloister", "d"):
            answer = self.daemon.get("/v1/version", headers={"Host": host})
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
            self.assertNotIn("Access-Control-Allow-Origin", answer.headers)

    def test_broken_requests(self):
        for data in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /v1/version HTTP/1.1\r\n\r\n",
                     b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                     b"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                     b"GET http://evil.example/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"GET /v1/version#x HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            with self.subTest(data[:40]):
                got = self.daemon.raw(data, timeout=1)
                self.assertNotIn(b" 200 ", got[:20])
        self.assertEqual(self.daemon.get("/v1/version").status, 200)

    def test_I8_half_open_requests(self):
        """Many that never finish their request do not keep others from being served."""
        idle = []
        for n in range(300):
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.daemon.socket)
            s.sendall([b"", b"GET /v1/ver", b"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"][n % 3])
            idle.append(s)
        start = time.monotonic()
        self.assertEqual(self.daemon.exec("box", "echo", "hi")["stdout"], "hi\n")
        self.assertLess(time.monotonic() - start, 2)
        for s in idle:
            s.close()

    def test_I8_many_streams_and_those_who_leave(self):
        until(lambda: self.open_descriptors() < 150)  # those of the test before have left
        i = self.daemon.spawn("box", "sleep", "1000")
        before = self.open_descriptors()
        streams = []
        for n in range(300):
            c = self.daemon.connect()
            c.request("GET", [f"/v1/containers/box/exec/{i}/output", "/v1/containers/box/monitor"][n % 2])
            streams.append(c)
        self.assertEqual(self.daemon.exec("box", "echo", "hi")["stdout"], "hi\n")
        until(lambda: self.open_descriptors() >= before + 300)
        for c in streams:
            c.close()
        until(lambda: self.open_descriptors() <= before + 5)  # noticed although nothing was ever sent to them
        self.daemon.delete(f"/v1/containers/box/exec/{i}")

    def test_I8_a_client_that_leaves_an_exec(self):
        c = self.daemon.connect()
        c.request("POST", "/v1/containers/box/exec", json.dumps({"cmd": ["sh", "-c", "sleep 0.5; echo end"], "wait": True}),
                  {"Content-Type": "application/json"})
        time.sleep(0.1)
        c.close()
        # it ends in its one terminal event all the same

        def ended():
            return [x for x in self.daemon.get("/v1/containers/box/exec")["execs"] if x["cmd"][-1].endswith("echo end") and
                    x["state"] == "exited"]

        x = until(ended)[0]
        self.assertEqual(x["exit"], {"exitCode": 0, "reason": "exit"})
        self.assertEqual(self.daemon.output("box", x["id"])[0], b"end\n")

    def test_a_slow_reader_blocks_only_its_own(self):
        i = self.daemon.spawn("box", "yes")
        c = self.daemon.connect()
        c.request("GET", f"/v1/containers/box/exec/{i}/output")
        time.sleep(0.5)
        start = time.monotonic()
        for _ in range(20):
            self.assertEqual(self.daemon.exec("box", "true")["exitCode"], 0)
        self.assertLess(time.monotonic() - start, 3)
        c.close()
        self.daemon.delete(f"/v1/containers/box/exec/{i}")

    def test_pipelined(self):
        one = b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n"
        got = self.daemon.raw(one * 20 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        self.assertEqual(got.count(b"HTTP/1.1 200 OK"), 21)

    def test_half_closed(self):
        """A client that closes its sending side after the request still gets its answer."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(10)
        s.connect(self.daemon.socket)
        body = json.dumps({"cmd": ["sh", "-c", "sleep 0.3; echo late"], "wait": True}).encode()
        s.sendall(b"POST /v1/containers/box/exec HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        s.shutdown(socket.SHUT_WR)
        got = b""
        while chunk := s.recv(65536):
            got += chunk
        self.assertIn(b"late\\n", got)
        s.close()


class Slow(Case):
    options = ("--log-level", "debug")
    box = False

    def test_I8_silence_is_cut_off(self):
        sockets = []
        for data in (b"", b"GET /v1/ver", b"POST /v1/containers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"):
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(45)
            s.connect(self.daemon.socket)
            s.sendall(data)
            sockets.append(s)
        start = time.monotonic()
        for s in sockets:
            try:
                while s.recv(4096):
                    pass
            except ConnectionResetError:
                pass
            s.close()
        self.assertGreater(time.monotonic() - start, 20)
        self.assertLess(time.monotonic() - start, 40)


if __name__ == "__main__":
    unittest.main()
