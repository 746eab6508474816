"""Clients that stall: that send slowly, or do not read. What each may cost, and what it costs the others."""
import os
import re
import socket
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from test_clients import Base, head, memory


def kernel_memory():
    """Bytes that the kernel holds for all TCP connections."""
    with open("/proc/net/sockstat") as f:
        return int(re.search(r"TCP:.* mem (\d+)", f.read())[1]) * os.sysconf("SC_PAGE_SIZE")


class Stalling(Base):
    def ends(self, s):
        """Seconds until the server ends the connection."""
        begin = time.monotonic()
        s.settimeout(150)
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return time.monotonic() - begin

    def test_slow_heads_and_bodies_idle_ones_and_those_that_do_not_read(self):
        p = self.serve()
        stop = threading.Event()
        self.addCleanup(stop.set)

        def drip(s, byte):
            while not stop.wait(1):
                try:
                    s.sendall(byte)
                except OSError:
                    return
        slow_head = self.connect(p, b"GET /hello HTTP/1.1\r\nHost: localhost\r\nX: ")
        empty_lines = self.connect(p, b"\r\n")
        threading.Thread(target=drip, args=(slow_head, b"x"), daemon=True).start()
        threading.Thread(target=drip, args=(empty_lines, b"\r\n"), daemon=True).start()
        silent = self.connect(p)
        kept = self.connect(p, head("/hello"))
        body = self.connect(p, head("/body", "POST", "Content-Length: 1000\r\n") + b"x")
        unread = socket.socket()
        self.addCleanup(unread.close)
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.connect(("127.0.0.1", p.port))
        unread.sendall(head("/flood?n=100000000&name=unread"))
        waiting = self.connect(p, head("/wait?n=85000"))  # nothing is wrong with a handler that takes its time
        peer = unread.getsockname()[1]

        def unread_ends():
            begin = time.monotonic()
            while time.monotonic() - begin < 150:
                with open("/proc/net/tcp") as f:
                    if not any(int(line.split()[2].split(":")[1], 16) == peer and line.split()[3] == "01" for line in f.readlines()[1:]):
                        return time.monotonic() - begin
                time.sleep(0.5)
            return 150
        with ThreadPoolExecutor(8) as pool:
            took = {name: pool.submit(self.ends, s) for name, s in {"slow head": slow_head, "empty lines": empty_lines, "silent": silent, "kept": kept,
                                                                    "body": body}.items()}
            took["unread"] = pool.submit(unread_ends)
            took = {name: f.result() for name, f in took.items()}
        for name, (least, most) in {"slow head": (28, 40), "empty lines": (28, 90), "silent": (70, 90), "kept": (70, 90), "body": (55, 75),
                                    "unread": (55, 75)}.items():
            with self.subTest(name):
                self.assertGreater(took[name], least)
                self.assertLess(took[name], most)
        waiting.settimeout(60)
        self.assertIn(b"waited", waiting.recv(1000))
        self.assertEqual(p.get("/hello").body, b"hello")

    def test_one_that_asks_and_does_not_read_stands_still(self):
        p = self.serve()
        daemon = self.daemon(p)
        before = memory(daemon)
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", p.port))
        s.settimeout(5)
        request = head("/large?n=400000")
        sent = 0
        try:
            while sent < 200:  # 80 MB of answers
                s.sendall(request)
                sent += 1
        except TimeoutError:
            pass
        time.sleep(3)
        self.assertLess(memory(daemon) - before, 16 << 20)
        self.assertEqual(p.get("/hello").body, b"hello")
        # Who reads in the end gets all of it.
        s.settimeout(20)
        got = b""
        while got.count(b"HTTP/1.1 200 OK") < 20 and (data := s.recv(1 << 20)):
            got += data
        self.assertGreaterEqual(got.count(b"HTTP/1.1 200 OK"), 20)

    def test_what_is_held_for_those_that_do_not_read_is_bounded(self):
        p = self.serve()
        daemon = self.daemon(p)
        before = memory(daemon)
        crowd, of_kernel = [], kernel_memory()
        cut = "clients that do not read are cut off"
        while cut not in p.output() and len(crowd) < 1100:
            s = socket.socket()
            self.addCleanup(s.close)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", p.port))
            s.sendall(head("/flood?n=50000000"))
            crowd.append(s)
            if len(crowd) % 50 == 0:
                self.assertEqual(p.get("/hello").body, b"hello")
        # On a slow machine the Worker takes its time to send so much.
        self.assertTrue(self.until(lambda: cut in p.output(), seconds=50), p.output())
        self.assertLess(memory(daemon) - before, 420 << 20)
        self.assertLess(kernel_memory() - of_kernel, 600 << 20)  # all of the machine share what there is
        self.assertEqual(p.get("/hello").body, b"hello")
        self.assertEqual(len(p.get("/flood?n=5000000").body), 5000000)

    def test_unfinished_messages_of_websockets_are_bounded(self):
        p = self.serve()
        daemon = self.daemon(p)
        before = memory(daemon)
        key = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

        def open_one():
            s = self.connect(p, head("/ws", lines=key))
            self.assertIn(b"101 ", s.recv(1000))
            return s
        for _ in range(20):  # 24 MiB of a message of 25 each
            s = open_one()
            try:
                s.sendall(b"\x82\xff" + (25 << 20).to_bytes(8, "big") + b"\0\0\0\0" + bytes(24 << 20))
            except OSError:
                pass  # cut off
        time.sleep(1)
        self.assertLess(memory(daemon) - before, 420 << 20)
        s = open_one()
        s.sendall(b"\x82\xff" + (5 << 20).to_bytes(8, "big") + b"\0\0\0\0" + bytes(5 << 20))
        self.assertEqual(s.recv(100), b"\x81\x07" + str(5 << 20).encode())


if __name__ == "__main__":
    unittest.main()
