"""exec through the API: results, errors, streams, and the reported cases C001, C003, C005, C045, C047."""
import base64
import threading
import time
import unittest

from harness import Case, until


class Results(Case):
    def test_streams_and_code(self):
        r = self.daemon.exec("box", "sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual((r["exitCode"], r["stdout"], r["stderr"], r["reason"]), (7, "out\n", "err\n", "exit"))

    def test_combined_and_ignored(self):
        r = self.daemon.exec("box", "sh", "-c", "echo a; echo b >&2; echo c", stderr="combined")
        self.assertEqual((r["stdout"], r["stderr"]), ("a\nb\nc\n", ""))
        r = self.daemon.exec("box", "sh", "-c", "echo a; echo b >&2", stdout="ignore", stderr="ignore")
        self.assertEqual((r["exitCode"], r["stdout"], r["stderr"], r["stdoutBytes"]), (0, "", "", 0))

    def test_killed_by_a_signal(self):
        r = self.daemon.exec("box", "sh", "-c", "kill -9 $$")
        self.assertEqual((r["exitCode"], r["signal"], r["reason"]), (137, 9, "exit"))

    def test_no_shell(self):
        r = self.daemon.exec("box", "echo", "$HOME `id`; *", "")
        self.assertEqual(r["stdout"], "$HOME `id`; * \n")

    def test_environment(self):
        self.daemon.create("env", env={"A": "1", "B": "two words", "N": "a\nb"})
        r = self.daemon.exec("env", "sh", "-c", 'echo "$A|$B|$C|$N"', env={"B": "3", "C": "=x=", "A": ""})
        self.assertEqual(r["stdout"], "|3|=x=|a\nb\n")
        self.daemon.delete("/v1/containers/env")

    def test_stdin(self):
        self.assertEqual(self.daemon.exec("box", "cat")["stdout"], "")
        self.assertEqual(self.daemon.exec("box", "cat", stdinText="caf\u00e9\u0000!")["stdout"], "caf\u00e9\u0000!")
        self.assertEqual(self.daemon.exec("box", "cat", stdinText="")["stdout"], "")
        data = bytes(range(256)) * 3000
        r = self.daemon.exec("box", "sha256sum", stdinBase64=base64.b64encode(data[:600000]).decode())
        import hashlib

        self.assertEqual(r["stdout"].split()[0], hashlib.sha256(data[:600000]).hexdigest())
        # a program that does not read it ends all the same
        self.assertEqual(self.daemon.exec("box", "true", stdinText="x" * 900000)["exitCode"], 0)

    def test_stdin_streamed(self):
        i = self.daemon.spawn("box", "sha256sum", stdin="pipe")
        path = f"/v1/containers/box/exec/{i}/stdin"
        self.assertEqual(self.daemon.put(path, b"abc", query={"eof": "false"}).status, 204)
        self.assertEqual(self.daemon.put(path, iter([b"x" * 70000] * 100)).status, 204)
        out, _, last, _ = self.daemon.output("box", i)
        import hashlib

        self.assertEqual(out.split()[0].decode(), hashlib.sha256(b"abc" + b"x" * 7000000).hexdigest())
        self.assertEqual(last, {"event": "exit", "exitCode": 0, "reason": "exit"})
        self.assertError(self.daemon.put(path, b"more"), 409, "WRONG_STATE")

    def test_stdin_of_the_main_process(self):
        self.daemon.create("main", entrypoint=["sh", "-c", "read a; echo got $a; exit 4"], stdin="pipe")
        self.assertEqual(self.daemon.put("/v1/containers/main/exec/main/stdin", b"this\n").status, 204)
        self.assertEqual(self.daemon.get("/v1/containers/main/monitor").value, {"exitCode": 4, "reason": "exit"})
        out, _, last, _ = self.daemon.output("main", "main")
        self.assertEqual((out, last["exitCode"]), (b"got this\n", 4))
        self.daemon.delete("/v1/containers/main")

    def test_stdin_when_nobody_reads(self):
        i = self.daemon.spawn("box", "sleep", "1000", stdin="pipe")
        path = f"/v1/containers/box/exec/{i}/stdin"
        done = []

        def feed():
            c = self.daemon.connect()
            try:
                c.request("PUT", path, body=b"z" * 8000000)
                done.append(c.getresponse().status)
            except OSError as e:
                done.append(e)
            c.close()

        t = threading.Thread(target=feed)
        t.start()
        time.sleep(0.3)
        self.assertEqual(done, [])
        self.assertError(self.daemon.put(path, b"second"), 409, "WRONG_STATE", says="another")
        self.assertEqual(self.daemon.post(f"/v1/containers/box/exec/{i}/kill", {"signal": 9}).status, 204)
        t.join(20)
        self.assertEqual(done, [410])

    def test_pty(self):
        r = self.daemon.exec("box", "sh", "-c", "tty; stty size; echo err >&2", pty={"cols": 90, "rows": 33})
        self.assertEqual(r["stdout"], "/dev/pts/0\r\n33 90\r\nerr\r\n")
        i = self.daemon.spawn("box", "sh", "-c", "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done",
                              pty={"cols": 80, "rows": 24})
        until(lambda: self.daemon.get(f"/v1/containers/box/exec/{i}")["stdout"]["bytes"] > 0)
        self.assertEqual(self.daemon.post(f"/v1/containers/box/exec/{i}/resize", {"cols": 101, "rows": 55}).status, 204)
        self.assertEqual(self.daemon.output("box", i)[0], b"ready\r\n55 101\r\n")

    def test_kill(self):
        i = self.daemon.spawn("box", "sleep", "1000")
        path = f"/v1/containers/box/exec/{i}"
        self.assertEqual(self.daemon.get(path)["state"], "running")
        self.assertEqual(self.daemon.post(path + "/kill").status, 204)
        last = self.daemon.output("box", i)[2]
        self.assertEqual((last["exitCode"], last["signal"]), (143, 15))
        self.assertEqual(self.daemon.get(path)["exit"], {"exitCode": 143, "signal": 15, "reason": "exit"})
        self.assertError(self.daemon.post(path + "/kill"), 409, "WRONG_STATE")

    def test_delete(self):
        i = self.daemon.spawn("box", "sleep", "4321")
        self.assertEqual(self.daemon.delete(f"/v1/containers/box/exec/{i}").status, 204)
        self.assertError(self.daemon.get(f"/v1/containers/box/exec/{i}"), 404, "NOT_FOUND")
        until(lambda: "4321" not in self.daemon.exec("box", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; true")["stdout"])
        self.assertError(self.daemon.delete("/v1/containers/box/exec/main"), 409, "WRONG_STATE")

    def test_many_at_once(self):
        results = []

        def one(n):
            c = self.daemon.connect()
            import json

            c.request("POST", "/v1/containers/box/exec", json.dumps({"cmd": ["sh", "-c", f"sleep 0.2; echo {n}"], "wait": True}),
                      {"Content-Type": "application/json"})
            results.append((n, json.loads(c.getresponse().read())["stdout"]))
            c.close()

        threads = [threading.Thread(target=one, args=(n,)) for n in range(200)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(results), [(n, f"{n}\n") for n in range(200)])

    def test_finished_ones_are_kept_bounded(self):
        first = self.daemon.exec("box", "true")["id"]
        self.assertEqual(self.daemon.get(f"/v1/containers/box/exec/{first}").status, 200)
        for _ in range(70):
            self.daemon.exec("box", "true")
        self.assertError(self.daemon.get(f"/v1/containers/box/exec/{first}"), 404, "NOT_FOUND")
        execs = self.daemon.get("/v1/containers/box/exec")["execs"]
        self.assertEqual(execs[0]["id"], "main")
        self.assertLessEqual(len([x for x in execs if x["state"] == "exited"]), 64)

    def test_not_running(self):
        self.daemon.create("off", entrypoint=["true"])
        self.daemon.get("/v1/containers/off/monitor")
        self.assertError(self.daemon.exec("off", "true"), 409, "WRONG_STATE")
        self.daemon.delete("/v1/containers/off")

    def test_unprivileged_user(self):
        r = self.daemon.exec("box", "sh", "-c", "id -u; id -g; pwd", user="1234:5678")
        self.assertEqual(r["stdout"], "1234\n5678\n/\n")
        self.assertEqual(self.daemon.exec("box", "id", "-un", user="nobody")["stdout"], "nobody\n")


class Cases(Case):
    def sh(self, text, **spec):
        return self.daemon.exec("box", "sh", "-c", text, **spec)

    def test_C001_here_documents(self):
        start = time.monotonic()
        r = self.sh("mkdir -p /workspace && cat > /workspace/menu.txt <<'LIST_END'\nsoup $HOME \"5\"\n  rice `date`\nLIST_END\n")
        self.assertLess(time.monotonic() - start, 3)
        self.assertEqual((r["exitCode"], r["stdout"]), (0, ""))
        r = self.sh("cat /workspace/menu.txt; wc -l < /workspace/menu.txt")
        self.assertEqual((r["exitCode"], r["stdout"]), (0, 'soup $HOME "5"\n  rice `date`\n2\n'))
        r = self.sh("cat <<A; cat <<-B\none\nA\n\ttwo\nB\n")
        self.assertEqual((r["exitCode"], r["stdout"]), (0, "one\ntwo\n"))

    def test_C003_not_found(self):
        r = self.sh("frobnicate-9 --version")
        self.assertEqual((r["exitCode"], r["stdout"]), (127, ""))
        self.assertIn("frobnicate-9", r["stderr"])
        self.assertIn("not found", r["stderr"])
        r = self.sh("/etc/hostname")
        self.assertEqual(r["exitCode"], 126)
        self.assertIn("/etc/hostname", r["stderr"])
        self.assertError(self.daemon.exec("box", "frobnicate-9", "--version"), 400, "ENOENT", "cmd", "frobnicate-9")
        self.assertError(self.daemon.exec("box", "/etc/hostname"), 400, "EACCES", "cmd", "/etc/hostname")

    def test_C005_background_child_holds_the_pipe(self):
        start = time.monotonic()
        r = self.sh("sleep 25 & echo launched", timeoutMs=2000)
        self.assertLess(time.monotonic() - start, 4)
        self.assertEqual(r["stdout"], "launched\n")
        self.assertIn(r["reason"], ("exit", "timeout"))
        start = time.monotonic()
        r = self.daemon.exec("box", "echo", "next")
        self.assertEqual((r["exitCode"], r["stdout"]), (0, "next\n"))
        self.assertLess(time.monotonic() - start, 2)

    def test_C005_streamed(self):
        start = time.monotonic()
        i = self.daemon.spawn("box", "sh", "-c", "sleep 25 & echo launched")
        out, _, last, _ = self.daemon.output("box", i)
        self.assertLess(time.monotonic() - start, 4)
        self.assertEqual((out, last["event"]), (b"launched\n", "exit"))

    def test_C045_output_limit(self):
        limit = 4096
        r = self.sh("head -c 6000 /dev/zero | tr '\\0' k; echo", outputLimit=limit)
        self.assertEqual((r["stdout"], r["stdoutTruncated"], r["stdoutBytes"]), ("k" * limit, True, 6001))
        self.assertTrue(r["stdoutTail"].endswith("k\n"))
        r = self.sh("head -c 4095 /dev/zero | tr '\\0' k; echo", outputLimit=limit)
        self.assertEqual((r["stdout"], r["stdoutTruncated"]), ("k" * 4095 + "\n", False))
        r = self.sh("head -c 5000 /dev/zero | tr '\\0' e >&2; echo out", outputLimit=limit)
        self.assertEqual((r["stdout"], r["stderr"], r["stderrTruncated"]), ("out\n", "e" * limit, True))
        r = self.daemon.exec("box", "python3", "-c", "print('\u0109' * 3000)", outputLimit=limit)
        self.assertEqual((r["stdout"], r["stdoutTruncated"]), ("\u0109" * 2048, True))

    def test_C045_flood_until_the_timeout(self):
        def memory():
            with open(f"/proc/{self.daemon.process.pid}/status") as f:
                return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

        before = memory()
        start = time.monotonic()
        r = self.daemon.exec("box", "yes", timeoutMs=1500, outputLimit=4096)
        self.assertLess(time.monotonic() - start, 4)
        self.assertEqual((r["reason"], r["exitCode"]), ("timeout", 137))
        self.assertEqual(r["stdout"], "y\n" * 2048)
        self.assertGreater(r["stdoutBytes"], 200 << 20)
        self.assertLess(memory() - before, 48 << 10)  # KiB; sanitizers keep freed memory for a while

    def test_C045_output_before_the_timeout(self):
        r = self.sh("echo first; sleep 60; echo never", timeoutMs=1000)
        self.assertEqual((r["reason"], r["stdout"]), ("timeout", "first\n"))

    def test_C047_text(self):
        r = self.daemon.exec("box", "printf", "\\320\\226\\n")
        self.assertEqual(r["stdout"], "\u0416\n")
        r = self.daemon.exec("box", "printf", "\\377\\376ok")
        self.assertEqual((r["stdout"], r["exitCode"], r["encoding"]), ("\ufffd\ufffdok", 0, "utf-8"))
        r = self.daemon.exec("box", "printf", "\\377\\376ok", query={"encoding": "base64"})
        self.assertEqual((base64.b64decode(r["stdout"]), r["encoding"]), (b"\xff\xfeok", "base64"))
        self.assertEqual(self.daemon.exec("box", "printf", "a\\000b")["stdout"], "a\0b")
        self.sh("mkdir -p '/tmp/\u0109 \U0001f642'")
        r = self.sh('printf %s "$V"; pwd', env={"V": "\u0109 \U0001f642"}, cwd="/tmp/\u0109 \U0001f642")
        self.assertEqual(r["stdout"], "\u0109 \U0001f642/tmp/\u0109 \U0001f642\n")

    def test_C047_streamed(self):
        i = self.daemon.spawn("box", "sh", "-c",
                              'printf "caf\\303"; sleep 0.4; printf "\\251 \\360\\237"; sleep 0.4; printf "\\231\\202!"')
        _, _, _, lines = self.daemon.output("box", i)
        text = "".join(line["text"] for line in lines if "text" in line)
        self.assertEqual(text, "caf\u00e9 \U0001f642!")
        self.assertFalse([line for line in lines if "base64" in line])

    def test_C047_streamed_bytes_that_are_no_text(self):
        i = self.daemon.spawn("box", "printf", "ok\\377\\376ok\\303")
        out, _, _, lines = self.daemon.output("box", i)
        self.assertEqual(out, b"ok\xff\xfeok\xc3")
        self.assertIn("base64", lines[1])


if __name__ == "__main__":
    unittest.main()
