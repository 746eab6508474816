"""The journal through the API: cursors, reattaching, floods, what is dropped is told."""
import json
import socket
import struct
import time
import unittest

from harness import Case, collect, piece, until

FLOOD = "i=0; while [ $i -lt 80000 ]; do echo $i-0123456789; i=$((i+1)); done"  # some 1.3 MB


def flood_text():
    return "".join(f"{i}-0123456789\n" for i in range(80000)).encode()


class Output(Case):
    def stream(self, i, **query):
        """An open connection and its response."""
        c = self.daemon.connect()
        c.request("GET", f"/v1/containers/box/exec/{i}/output?" + "&".join(f"{k}={v}" for k, v in query.items()))
        return c, c.getresponse()

    def test_reattach_misses_nothing(self):
        i = self.daemon.spawn("box", "sh", "-c", "for n in 1 2 3 4 5 6 7 8; do echo line $n; sleep 0.1; done")
        got = b""
        for _ in range(4):
            c, reply = self.stream(i, stdout=len(got))
            line = json.loads(reply.readline())
            self.assertEqual(line["cursor"], len(got))
            got += piece(line)
            c.close()
            time.sleep(0.12)
        out, _, last, _ = self.daemon.output("box", i, stdout=len(got))
        self.assertEqual(got + out, b"".join(b"line %d\n" % n for n in range(1, 9)))
        self.assertEqual(last["event"], "exit")
        self.assertEqual(self.daemon.output("box", i)[0], got + out)

    def test_present_end(self):
        i = self.daemon.spawn("box", "sh", "-c", "echo now; sleep 30")
        until(lambda: self.daemon.get(f"/v1/containers/box/exec/{i}")["stdout"]["bytes"])
        out, _, last, _ = self.daemon.output("box", i, follow="false")
        self.assertEqual((out, last), (b"now\n", {"event": "running"}))
        self.assertError(self.daemon.get(f"/v1/containers/box/exec/{i}/output", query={"stdout": 5}), 400, "INVALID_ARGUMENT",
                         "stdout")
        self.daemon.delete(f"/v1/containers/box/exec/{i}")

    def test_a_reader_gets_all_of_a_flood(self):
        for overflow in ("auto", "block"):
            with self.subTest(overflow):
                # it waits for its reader to be there
                i = self.daemon.spawn("box", "sh", "-c", f"read go; {FLOOD}", stdin="pipe", outputLimit=8192, overflow=overflow)
                c, reply = self.stream(i)
                self.daemon.put(f"/v1/containers/box/exec/{i}/stdin", b"go\n")
                time.sleep(0.5)
                self.assertLess(self.daemon.get(f"/v1/containers/box/exec/{i}")["stdout"]["bytes"], len(flood_text()) - 100000)
                out, _, last, lines = collect([json.loads(line) for line in reply])
                c.close()
                self.assertEqual(out, flood_text())
                self.assertEqual(last["exitCode"], 0)
                self.assertFalse([line for line in lines if line.get("event") == "dropped"])

    def test_auto_waits_for_the_first_reader(self):
        i = self.daemon.spawn("box", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")
        time.sleep(1)
        self.assertEqual(self.daemon.get(f"/v1/containers/box/exec/{i}")["state"], "running")
        out, _, last, lines = self.daemon.output("box", i)
        self.assertEqual(out, b"x" * 3000000)
        self.assertEqual((last["event"], last["exitCode"]), ("exit", 0))
        self.assertFalse([line for line in lines if line.get("event") == "dropped"])

    def test_auto_does_not_wait_for_ever(self):
        begin = time.monotonic()
        i = self.daemon.spawn("box", "head", "-c", "5000000", "/dev/zero")
        path = f"/v1/containers/box/exec/{i}"
        until(lambda: self.daemon.get(path)["state"] == "exited", 25)
        self.assertGreater(time.monotonic() - begin, 9)
        record = self.daemon.get(path)["stdout"]
        self.assertEqual((record["bytes"], record["ended"]), (5000000, True))
        self.assertEqual(record["dropped"], 5000000 - (1 << 20))

    def test_block_waits_for_a_reader(self):
        i = self.daemon.spawn("box", "yes", outputLimit=8192, overflow="block")
        path = f"/v1/containers/box/exec/{i}"

        def settled():
            n = self.daemon.get(path)["stdout"]["bytes"]
            time.sleep(0.2)
            return n and n == self.daemon.get(path)["stdout"]["bytes"]

        until(settled)
        record = self.daemon.get(path)
        self.assertLess(record["stdout"]["bytes"], 1 << 20)
        self.assertEqual(record["stdout"]["dropped"], 0)
        self.assertEqual(record["state"], "running")
        c, reply = self.stream(i)
        total = 0
        while total < 4 << 20:
            line = json.loads(reply.readline())
            self.assertEqual(line["cursor"], total)
            total += len(line["text"])
        c.close()
        self.daemon.delete(path)

    def test_drop_keeps_head_and_tail(self):
        i = self.daemon.spawn("box", "sh", "-c", FLOOD, outputLimit=8192, overflow="drop")
        until(lambda: self.daemon.get(f"/v1/containers/box/exec/{i}")["state"] == "exited", 30)
        whole = flood_text()
        out, _, last, lines = self.daemon.output("box", i)
        self.assertEqual(out, whole[:4096] + whole[-4096:])
        gap = [line for line in lines if line.get("event") == "dropped"]
        self.assertEqual(gap, [{"event": "dropped", "stream": "stdout", "bytes": len(whole) - 8192, "cursor": len(whole) - 4096}])
        record = self.daemon.get(f"/v1/containers/box/exec/{i}")
        self.assertEqual(record["stdout"], {"bytes": len(whole), "dropped": len(whole) - 8192, "ended": True})
        self.assertEqual(last["event"], "exit")

    def test_a_reader_that_leaves_lets_go(self):
        i = self.daemon.spawn("box", "yes", outputLimit=8192)
        c, reply = self.stream(i)
        reply.readline()
        time.sleep(0.3)
        c.close()
        path = f"/v1/containers/box/exec/{i}"
        start = self.daemon.get(path)["stdout"]["bytes"]
        until(lambda: self.daemon.get(path)["stdout"]["bytes"] > start + (16 << 20))
        self.daemon.delete(path)

    def test_frames(self):
        i = self.daemon.spawn("box", "sh", "-c", "printf '\\377\\000x'; printf err >&2; exit 3")
        until(lambda: self.daemon.get(f"/v1/containers/box/exec/{i}")["state"] == "exited")
        answer = self.daemon.get(f"/v1/containers/box/exec/{i}/output", headers={"Accept": "application/vnd.cloister.frames"})
        frames, at = [], 0
        while at < len(answer.body):
            kind, z1, z2, z3, length, cursor = struct.unpack_from("<BBBBIQ", answer.body, at)
            self.assertEqual((z1, z2, z3), (0, 0, 0))
            frames.append((kind, cursor, answer.body[at + 16 : at + 16 + length]))
            at += 16 + length
        self.assertEqual(frames[:2], [(1, 0, b"\xff\0x"), (2, 0, b"err")])
        self.assertEqual(json.loads(frames[2][2]), {"event": "exit", "exitCode": 3, "reason": "exit"})
        self.assertEqual(len(frames), 3)

    def test_large_and_exact(self):
        i = self.daemon.spawn("box", "sh", "-c", "head -c 20000000 /dev/urandom | tee /tmp/big", overflow="block")
        answer = self.daemon.get(f"/v1/containers/box/exec/{i}/output", headers={"Accept": "application/vnd.cloister.frames"})
        data, at = [], 0
        while at < len(answer.body):
            kind, length = answer.body[at], int.from_bytes(answer.body[at + 4 : at + 8], "little")
            if kind == 1:
                data.append(answer.body[at + 16 : at + 16 + length])
            at += 16 + length
        import hashlib

        self.assertEqual(sum(map(len, data)), 20000000)
        inside = self.daemon.exec("box", "sha256sum", "/tmp/big")["stdout"].split()[0]
        self.assertEqual(hashlib.sha256(b"".join(data)).hexdigest(), inside)

    def test_floods_over_one_connection_and_old_http(self):
        """A connection stays usable after a flood went past the HTTP library; HTTP/1.0 gets it unchunked; who reads slowly gets all."""
        c = self.daemon.connect(timeout=30)
        for slow in (0, 0, 0.002):
            i = self.daemon.spawn("box", "head", "-c", "8000000", "/dev/zero", overflow="block")
            c.request("GET", f"/v1/containers/box/exec/{i}/output", headers={"Accept": "application/vnd.cloister.frames"})
            reply = c.getresponse()
            at, last = 0, None
            while head := reply.read(16):
                kind, _, length, cursor = struct.unpack("<B3sIQ", head)
                body = reply.read(length)
                time.sleep(slow)
                if kind == 1:
                    self.assertEqual((cursor, body), (at, bytes(length)))
                    at += length
                else:
                    last = json.loads(body)
            self.assertEqual((at, last["exitCode"]), (8000000, 0))
            self.assertIsNotNone(c.sock)
        c.close()
        i = self.daemon.spawn("box", "head", "-c", "3000000", "/dev/zero", overflow="block")
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(30)
            s.connect(self.daemon.socket)
            s.sendall(f"GET /v1/containers/box/exec/{i}/output HTTP/1.0\r\nAccept: application/vnd.cloister.frames\r\n\r\n".encode())
            whole = b""
            while piece := s.recv(1 << 16):
                whole += piece
        head, _, body = whole.partition(b"\r\n\r\n")
        self.assertNotIn(b"chunked", head.lower())
        at = total = 0
        while at < len(body):
            kind, _, length, _ = struct.unpack("<B3sIQ", body[at : at + 16])
            total += length if kind == 1 else 0
            at += 16 + length
        self.assertEqual((total, at), (3000000, len(body)))

    def test_two_floods_share_the_stream(self):
        i = self.daemon.spawn("box", "sh", "-c", "yes out & yes err >&2", overflow="block")
        c = self.daemon.connect()
        c.request("GET", f"/v1/containers/box/exec/{i}/output", headers={"Accept": "application/vnd.cloister.frames"})
        reply = c.getresponse()
        got = {1: 0, 2: 0}
        while sum(got.values()) < 20 << 20:
            kind, _, length, _ = struct.unpack("<B3sIQ", reply.read(16))
            got[kind] += len(reply.read(length))
        c.close()
        self.daemon.delete(f"/v1/containers/box/exec/{i}")
        self.assertGreater(min(got.values()), 1 << 20, got)

    def test_binary_as_lines(self):
        i = self.daemon.spawn("box", "sh", "-c", "head -c 300000 /dev/urandom | tee /tmp/bin", overflow="block")
        out, _, _, _ = self.daemon.output("box", i)
        import hashlib

        inside = self.daemon.exec("box", "sha256sum", "/tmp/bin")["stdout"].split()[0]
        self.assertEqual(hashlib.sha256(out).hexdigest(), inside)

    def test_no_such_exec(self):
        for i in ("0" * 32, "x", "..", "Main"):
            self.assertError(self.daemon.get(f"/v1/containers/box/exec/{i}/output"), 404, "NOT_FOUND")


if __name__ == "__main__":
    unittest.main()
