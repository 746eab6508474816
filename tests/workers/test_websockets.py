"""WebSockets that a Worker opens to other servers: new WebSocket() and fetch() with an Upgrade. What works, and what hostile servers get."""
import base64
import os
import socket
import struct
import threading
import time
import unittest

from servers import accept_key, frame, read_frame, read_head, receive, shake_hands, until_closed, websocket_echo
from socket_projects import SocketCase

# Connects, and tells what happened until it was closed.
TALK = "const ws = new WebSocket(args.url, args.protocols ?? []); return await tools.log(ws, (ws, data) => { if (data === null) { for (const m of args.say ?? []) ws.send(typeof m === 'string' ? m : new Uint8Array(m)); } else if (args.closeAfter && !--args.closeAfter) ws.close(args.status, args.reason); })"
FETCH = "const r = await fetch(args.url, { headers: { upgrade: 'websocket', ...args.headers }, ...args.init }); if (r.webSocket) { r.webSocket.accept(); r.webSocket.close(1000, 'ok'); } return [r.status, r.webSocket !== null, r.webSocket ? null : await r.text(), Object.fromEntries(r.headers)]"

NOT_READ = "error: WebSocket: more than 16777216 bytes wait for the other side, which does not read them"


class WebSockets(SocketCase):
    def url(self, server, path="/", scheme="ws", host="127.0.0.1"):
        return f"{scheme}://{host}:{server.port}{path}"

    def talk(self, handler, **more):
        server = self.server(handler)
        got = self.result(TALK, url=self.url(server), **more)
        self.assertTrue(server.wait(lambda s: s.open == 0))
        return got

    # ---- what works

    def test_messages(self):
        got = self.talk(websocket_echo, say=["text", [0, 255, 7], "", [], "\u00e4\U0001f600"], closeAfter=5, status=1000, reason="bye")
        self.assertEqual(got, ["open", "text", [0, 255, 7], "", [], "\u00e4\U0001f600", "close 1000 bye true"])
        self.assertEqual(self.talk(websocket_echo, say=["x"], closeAfter=1), ["open", "x", "close 1005  true"])
        self.assertEqual(self.talk(websocket_echo, say=["x"], closeAfter=1, status=4321, reason="\u00e4" * 61), ["open", "x", "close 4321 " + "\u00e4" * 61 + " true"])

    def test_large_messages(self):
        server = self.server(websocket_echo)
        for size in (125, 126, 65535, 65536, 3 << 20):
            with self.subTest(size):
                got = self.result("const ws = new WebSocket(args.url); ws.binaryType = 'arraybuffer'; const m = new Uint8Array(args.size); for (let i = 0; i < m.length; i += 65536) crypto.getRandomValues(m.subarray(i, i + 65536)); return await new Promise((y, n) => { ws.onopen = () => ws.send(m); ws.onmessage = (e) => { const b = new Uint8Array(e.data); ws.close(); y(b.length === m.length && b.every((x, i) => x === m[i])); }; ws.onerror = (e) => n(e.error); })",
                                  url=self.url(server), size=size)
                self.assertTrue(got)

    def test_blobs_and_closes_by_the_compatibility_date(self):
        server = self.server(websocket_echo)
        got = self.result("""
            const ws = new WebSocket(args.url);
            ws.onopen = () => ws.send(new Uint8Array([1, 2]));
            const seen = [ws.binaryType];
            return await new Promise((y) => {
              ws.onmessage = async (e) => { seen.push(e.data instanceof Blob, [...new Uint8Array(await e.data.arrayBuffer())]); ws.close(1000); };
              ws.onclose = () => { seen.push(ws.readyState); y(seen); };
            });""", url=self.url(server))
        self.assertEqual(got, ["blob", True, [1, 2], 3])
        pair = """
            const [a, b] = Object.values(new WebSocketPair());
            a.accept(args.options); b.accept();
            const seen = [];
            const closed = (ws) => new Promise((y) => ws.addEventListener('close', (e) => { seen.push([ws.readyState, e.code]); y(); }));
            const both = [closed(a), closed(b)];
            b.close(3000, 'x');
            await (args.options ? both[0] : Promise.all(both));
            if (args.options) { a.close(3001); await both[1]; }
            return [seen, a.readyState, b.readyState];"""
        self.assertEqual(self.result(pair), [[[3, 3000], [3, 3000]], 3, 3])
        self.assertEqual(self.result(pair, options={"allowHalfOpen": True}), [[[2, 3000], [3, 3001]], 3, 3])

    def test_the_request(self):
        seen = []

        def look(connection):
            seen.append(read_head(connection))

        server = self.server(look)
        self.assertIn("error: WebSocket: WebSocket handshake: the server closed the connection", self.result(TALK, url=self.url(server, "/a/b?c=d&e"), protocols=["one", "two"]))
        line, headers = seen[0]
        self.assertEqual(line, "GET /a/b?c=d&e HTTP/1.1")
        key = headers.pop("sec-websocket-key")
        self.assertEqual(len(base64.b64decode(key)), 16)
        self.assertEqual(headers, {"host": f"127.0.0.1:{server.port}", "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-protocol": "one, two"})
        self.error(FETCH, url=self.url(server, scheme="http"), headers={"authorization": "mine", "sec-websocket-key": "forged", "sec-websocket-version": "8", "sec-websocket-extensions": "permessage-deflate", "host": "else", "connection": "close", "transfer-encoding": "chunked"})
        _, again = seen[1]
        self.assertNotIn(again.pop("sec-websocket-key"), (key, "forged"))
        self.assertEqual(again, {"host": f"127.0.0.1:{server.port}", "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "authorization": "mine"})

    def test_protocols_and_properties(self):
        def choose(connection):
            shake_hands(connection, "Sec-WebSocket-Protocol: two", "X-Mine: yes")
            connection.sendall(frame(8, struct.pack(">H", 1000)))
            until_closed(connection)

        server = self.server(choose)
        got = self.result("const ws = new WebSocket(args.url, ['one', 'two']); const at = ws.readyState; await new Promise((y) => { ws.onopen = y; }); const open = [ws.readyState, ws.protocol, ws.extensions, ws.url]; await new Promise((y) => { ws.onclose = y; }); return [at, open, ws.readyState]", url=self.url(server))
        self.assertEqual(got, [0, [1, "two", "", self.url(server)], 3])
        status, is_socket, _, headers = self.result(FETCH, url=self.url(server, scheme="http"), headers={"sec-websocket-protocol": "two"})
        self.assertEqual((status, is_socket, headers["x-mine"], headers["sec-websocket-protocol"]), (101, True, "yes", "two"))

    def test_fragments_and_control_frames(self):
        pongs = []

        def pieces(connection):
            shake_hands(connection)
            connection.sendall(frame(1, b"\xc3", fin=False) + frame(9, b"are you there") + frame(0, b"\xa4-", fin=False) + frame(10, b"unasked") + frame(0, b"end"))
            for byte in frame(2, b"bytewise"):
                connection.sendall(bytes([byte]))
                time.sleep(0.01)
            pongs.append(read_frame(connection))
            connection.sendall(frame(8, struct.pack(">H", 3001) + b"done"))
            pongs.append(read_frame(connection)[0])

        self.assertEqual(self.talk(pieces), ["open", "\u00e4-end", list(b"bytewise"), "close 3001 done true"])
        self.assertEqual(pongs, [(10, True, b"are you there"), 8])

    def test_tls(self):
        server = self.server(websocket_echo, tls=self.authority.server())
        self.assertEqual(self.result(TALK, url=self.url(server, "/?hello", "wss", "localhost"), closeAfter=1), ["open", "hello", "close 1005  true"])
        self.assertEqual(self.result(TALK, url=self.url(server, "/", "wss"))[0], "error: WebSocket: TLS: the server's certificate is refused: IP address mismatch")

    def test_a_worker_in_between(self):
        server = self.server(websocket_echo)
        with socket.create_connection(("127.0.0.1", self.p.port), timeout=20) as c:
            key = base64.b64encode(os.urandom(16)).decode()
            c.sendall(f"GET /proxy/{server.port}/?hello HTTP/1.1\r\nHost: 127.0.0.1:{self.p.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
            line, headers = read_head(c)
            self.assertEqual((line, headers["sec-websocket-accept"]), ("HTTP/1.1 101 Switching Protocols", accept_key(key)))
            self.assertEqual(receive(c, 7), frame(1, b"hello"))
            c.sendall(frame(1, b"x" * 70000, mask=b"abcd"))
            self.assertEqual(receive(c, 10 + 70000), frame(1, b"x" * 70000))
            c.sendall(frame(8, struct.pack(">H", 4000), mask=b"abcd"))
            self.assertEqual(receive(c, 4), frame(8, struct.pack(">H", 4000)))
        self.assertTrue(server.wait(lambda s: s.open == 0))

    def test_through_a_gateway(self):
        server = self.server(websocket_echo)
        got = self.result("const ws = new WebSocket('ws://anywhere.test/?hello'); const seen = []; return await new Promise((y) => { ws.onmessage = (e) => { seen.push(e.data); if (seen.length === 1) ws.send('more'); else ws.close(1000, 'end'); }; ws.onclose = (e) => y([...seen, e.code, e.reason]); })",
                          dynamic={"outbound": "Gateway", "props": {"port": server.port}})
        self.assertEqual(got, ["hello", "more", 1000, "end"])
        self.assertTrue(server.wait(lambda s: s.open == 0))

    def test_a_durable_object_keeps_its_connections(self):
        server = self.server(websocket_echo)
        use = "const o = env.HOLDER.getByName(args.name); return await o[args.method](args.value)"
        self.assertEqual(self.result(use, name="a", method="open", value=server.port), "opened")
        for _ in range(100):
            if self.result(use, name="a", method="heard") == ["hello"]:
                break
            time.sleep(0.05)
        self.assertEqual(self.result(use, name="a", method="say", value="again"), 1)
        for _ in range(100):
            if self.result(use, name="a", method="heard") == ["hello", "again"]:
                break
            time.sleep(0.05)
        self.assertEqual(self.result(use, name="a", method="heard"), ["hello", "again"])
        self.assertEqual(server.open, 2)
        self.assertIn("dropped", self.error(use, name="a", method="drop"))
        self.assertTrue(server.wait(lambda s: s.open == 0))

    def test_the_end_of_the_request_is_the_end_of_its_websockets(self):
        server = self.server(websocket_echo)
        self.assertEqual(self.result("const ws = new WebSocket(args.url); await new Promise((y) => { ws.onopen = y; }); globalThis.kept = ws; return 'open'", url=self.url(server)), "open")
        self.assertTrue(server.wait(lambda s: s.seen == 1 and s.open == 0))

    def test_closed_before_it_is_open(self):
        server = self.server(websocket_echo)
        got = self.result("const ws = new WebSocket(args.url), seen = tools.log(ws); ws.close(); return [ws.readyState, await seen]", url=self.url(server))
        self.assertEqual(got[0], 2)
        self.assertEqual(got[1][-1], "close 1006  false")
        self.assertTrue(server.wait(lambda s: s.open == 0))

    # ---- an ordinary answer instead

    def test_answers_that_are_no_switch(self):
        def answer(text):
            return self.server(lambda c: (read_head(c), c.sendall(text), until_closed(c)))

        for text, want in {
            b"HTTP/1.1 426 Upgrade Required\r\nX-Why: so\r\nContent-Length: 4\r\n\r\nnope": (426, "nope"),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n": (200, "abcde"),
            b"HTTP/1.1 204 No Content\r\n\r\n": (204, ""),
            b"HTTP/1.1 302 Found\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n": (302, ""),
            b"HTTP/1.1 500 X\r\nContent-Length: 300000\r\n\r\n" + b"y" * 300000: (500, "y" * 300000),
        }.items():
            with self.subTest(text[:30]):
                server = answer(text)
                got = self.result(FETCH, url=self.url(server, scheme="http"))
                self.assertEqual((got[0], got[1], got[2]), (want[0], False, want[1]))
                self.assertTrue(server.wait(lambda s: s.open == 0))
                self.assertEqual(self.result(TALK, url=self.url(server)), [f"error: WebSocket: The server answered {want[0]} instead of switching to WebSocket", "close 1006  false"])
        ended = self.server(lambda c: (read_head(c), c.sendall(b"HTTP/1.1 403 No\r\n\r\nuntil the end")))
        self.assertEqual(self.result(FETCH, url=self.url(ended, scheme="http"))[::2], [403, "until the end"])

    def test_only_get(self):
        server = self.server(websocket_echo)
        self.assertEqual(self.error(FETCH, url=self.url(server, scheme="http"), init={"method": "POST"}), "Error: method: a WebSocket is asked for with GET")
        self.assertEqual(server.seen, 0)

    # ---- hostile servers

    def test_handshakes_that_are_refused(self):
        def accept(*lines, first="HTTP/1.1 101 Switching Protocols", **fields):
            def serve(connection):
                _, headers = read_head(connection)
                given = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept_key(headers["sec-websocket-key"]), **{k.replace("_", "-"): v for k, v in fields.items()}}
                connection.sendall("\r\n".join([first, *(f"{k}: {v}" for k, v in given.items() if v is not None), *lines, "", ""]).encode())
                connection.sendall(frame(1, b"must not be seen") + frame(8))
                until_closed(connection)
            return serve

        no_http, key = "the server's answer is no HTTP", "the server's Sec-WebSocket-Accept does not answer our key"
        for name, (handler, error) in {
            "wrong key": (accept(Sec_WebSocket_Accept=accept_key("x")), key),
            "no key": (accept(Sec_WebSocket_Accept=None), key),
            "two keys": (accept("Sec-WebSocket-Accept: x"), key),
            "our key": (lambda c: (lambda h: (c.sendall(f"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {h['sec-websocket-key']}\r\n\r\n".encode()), until_closed(c)))(read_head(c)[1]), key),
            "no upgrade": (accept(Upgrade=None), "the server's Upgrade is not \"websocket\""),
            "other upgrade": (accept(Upgrade="h2c"), "the server's Upgrade is not \"websocket\""),
            "no connection": (accept(Connection=None), "the server's Connection is not \"Upgrade\""),
            "extensions": (accept("Sec-WebSocket-Extensions: permessage-deflate"), "the server uses extensions that were not offered"),
            "protocol": (accept("Sec-WebSocket-Protocol: one"), "the server chose a protocol that was not offered"),
            "continue": (accept(first="HTTP/1.1 100 Continue"), "the server answered with status 100"),
            "garbage": (lambda c: (read_head(c), c.sendall(os.urandom(20) + b"\n\n" * 10), until_closed(c)), no_http),
            "bare LF": (lambda c: (read_head(c), c.sendall(b"HTTP/1.1 101 X\nUpgrade: websocket\n\n"), until_closed(c)), no_http),
            "folded": (accept("X: a\r\n b"), no_http),
            "huge head": (lambda c: (read_head(c), c.sendall(b"HTTP/1.1 101 X\r\n" + b"X: " + b"y" * 200000), until_closed(c)), "the server's answer has too large a head"),
            "closed": (lambda c: read_head(c), "the server closed the connection"),
            "half": (lambda c: (read_head(c), c.sendall(b"HTTP/1.1 101 Swi")), "the server closed the connection"),
        }.items():
            with self.subTest(name):
                self.assertEqual(self.talk(handler), [f"error: WebSocket: WebSocket handshake: {error}", "close 1006  false"])
        self.assertEqual(self.talk(accept("Sec-WebSocket-Protocol: one"), protocols=["one"]), ["open", "must not be seen", "close 1005  true"])  # twin

    def test_frames_that_are_refused(self):
        told = []

        def send(data):
            def serve(connection):
                shake_hands(connection)
                try:
                    connection.sendall(data)
                    told.append(read_frame(connection)[::2])
                except OSError:
                    told.append("gone")
                until_closed(connection)
            return serve

        broke = ["open", "error: the server broke the WebSocket protocol", "close 1006  false"]
        for name, (data, code) in {
            "masked": (frame(1, b"x", mask=b"abcd"), 1002), "rsv1": (frame(1, b"x", rsv=4), 1002), "rsv3": (frame(1, b"x", rsv=1), 1002), "opcode": (frame(3, b"x"), 1002), "control opcode": (frame(11, b"x"), 1002),
            "long ping": (frame(9, b"x" * 126), None), "ping in pieces": (frame(9, b"x", fin=False), None), "no beginning": (frame(0, b"x"), 1002), "beginning twice": (frame(1, b"x", fin=False) + frame(1, b"y"), 1002),
            "invalid text": (frame(1, b"\xff\xfe"), 1007), "cut text": (frame(1, b"\xc3"), 1007), "surrogate": (frame(1, b"\xed\xa0\x80"), 1007), "invalid in pieces": (frame(1, b"\xc3", fin=False) + frame(0, b"("), 1007),
            "close of one byte": (frame(8, b"\x03"), None), "close 1005": (frame(8, struct.pack(">H", 1005)), 1002), "close 999": (frame(8, struct.pack(">H", 999)), 1002), "close with invalid text": (frame(8, struct.pack(">H", 1000) + b"\xff"), 1007),
            "too long": (frame(2, b"x", length=(32 << 20) + 1), 1009), "absurd": (frame(2, b"x", length=1 << 62), 1009), "negative": (frame(2, b"x", length=1 << 63), None),
            "length written long": (bytes([0x81, 126, 0, 1]) + b"x", None),
        }.items():
            with self.subTest(name):
                del told[:]
                self.assertEqual(self.talk(send(data)), broke)
                self.assertEqual(told, [(8, struct.pack(">H", code)) if code else "gone"])
        self.assertEqual(self.talk(send(frame(1, b"x", fin=False) + frame(0, b"y") + frame(8))), ["open", "xy", "close 1005  true"])  # twin

    def test_a_message_too_long_in_pieces(self):
        def flood(connection):
            shake_hands(connection)
            connection.sendall(frame(2, b"x" * (1 << 20), fin=False))
            piece = frame(0, b"x" * (1 << 20), fin=False)
            for _ in range(40):
                connection.sendall(piece)

        self.assertEqual(self.talk(flood), ["open", "error: the server broke the WebSocket protocol", "close 1006  false"])

    def test_messages_that_nobody_ends_take_memory_together(self):
        held = threading.Event()

        def half(connection):
            shake_hands(connection)
            connection.sendall(frame(2, b"x" * (20 << 20), fin=False))
            held.wait(30)

        server = self.server(half)
        got = self.result("const seen = []; await new Promise((y) => { for (let i = 0; i < 8; i++) { const ws = new WebSocket(args.url); ws.onerror = (e) => { seen.push(e.message); y(); }; } setTimeout(y, 50000); }); return seen", url=self.url(server), timeout=90)
        held.set()
        self.assertGreaterEqual(len(got), 1)
        self.assertEqual(set(got), {"the messages of this Worker's WebSockets that are on their way take too much memory"})
        self.assertEqual(self.talk(websocket_echo, say=["x" * 1000000], closeAfter=1)[2], "close 1005  true")  # twin: it was given back

    # ---- other sides that do not read

    def upgrade(self, path, receive_buffer=65536):
        c = socket.socket()
        self.addCleanup(c.close)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        c.settimeout(60)
        c.connect(("127.0.0.1", self.p.port))
        c.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.p.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode())
        self.assertEqual(read_head(c)[0], "HTTP/1.1 101 Switching Protocols")
        return c

    def told(self, path, count):
        for _ in range(400):
            told = self.p.request("GET", path).json
            if len(told) >= count:
                return told
            time.sleep(0.05)
        return told

    def test_a_client_that_does_not_read(self):
        for via in ("", "object", "dynamic"):
            with self.subTest(via):
                c = self.upgrade(f"/flood?count=100&wait=2&via={via}")
                self.assertEqual(self.told(f"/told?via={via}", 3)[:2], [NOT_READ, "close 1006  false"])
                got = 0
                try:
                    while piece := c.recv(1 << 20):
                        got += len(piece)
                except ConnectionResetError:
                    pass
                self.assertLess(got, 20 << 20)
                self.assertEqual(self.told(f"/told?via={via}", 3)[2], "sent 3")  # the Worker lives on

    def test_a_client_that_reads_slowly(self):
        for via in ("", "object", "dynamic"):
            with self.subTest(via):
                c = self.upgrade(f"/flood?count=40&polite&via={via}")
                got = b""
                for _ in range(40):
                    self.assertEqual(receive(c, 10), frame(2, bytes(1 << 20))[:10])
                    got = receive(c, 1 << 20)
                    self.assertEqual(got.count(0), 1 << 20)
                    time.sleep(0.02)
                self.assertEqual(receive(c, 7), frame(8, struct.pack(">H", 1000) + b"all"))
                c.sendall(frame(8, struct.pack(">H", 1000), mask=b"abcd"))
                self.assertEqual(self.told(f"/told?via={via}", 2), ["sent 1", "close 1000  true"])

    def test_a_server_that_does_not_read(self):
        done = threading.Event()

        def deaf(connection):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            shake_hands(connection)
            done.wait(60)

        code = "const ws = new WebSocket(args.url), seen = tools.log(ws); await new Promise((y) => { ws.onopen = y; }); const m = new Uint8Array(1 << 20); for (let i = 0; i < args.count; i++) { ws.send(m); await new Promise((y) => setTimeout(y, 1)); } if (args.close) { const waits = ws.bufferedAmount; ws.close(1000); return [waits > 0 && waits < args.count << 20, await seen]; } return await seen"
        server = self.server(deaf)
        self.assertEqual(self.result(code, url=self.url(server), count=60), ["open", NOT_READ, "close 1006  false"])
        done.set()

        def slow(connection):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            shake_hands(connection)
            time.sleep(1)
            for _ in range(14):
                self.assertEqual(len(read_frame(connection)[2]), 1 << 20)
            connection.sendall(frame(8, read_frame(connection)[2]))

        server = self.server(slow)
        self.assertEqual(self.result(code, url=self.url(server), count=14, close=True), [True, ["open", "close 1000  true"]])

    def test_what_is_not_accepted(self):
        message = frame(2, bytes(1 << 20), mask=b"abcd")
        for via in ("", "object", "dynamic"):
            with self.subTest(via):
                c = self.upgrade(f"/flood?later=4000&via={via}")
                with self.assertRaises(OSError):
                    for _ in range(60):
                        c.sendall(message)
                    until_closed(c)
                    raise OSError("closed")
                self.assertEqual(self.told(f"/told?via={via}", 2), ["error: WebSocket: more than 16777216 bytes came before it was accepted", "close 1006  false"])
                c = self.upgrade(f"/flood?later=1000&via={via}")
                for _ in range(12):
                    c.sendall(message)
                c.sendall(frame(8, struct.pack(">H", 1000), mask=b"abcd"))
                self.assertEqual(self.told(f"/told?via={via}", 1), ["close 1000  true"])

    def test_a_server_that_leaves(self):
        def leave(connection):
            shake_hands(connection)
            connection.sendall(frame(1, b"x"))
            connection.sendall(b"\x81\x05he")

        self.assertEqual(self.talk(leave), ["open", "x", "error: the server has left", "close 1006  false"])

    def test_a_server_that_never_answers_a_close(self):
        def ignore(connection):
            shake_hands(connection)
            connection.sendall(frame(1, b"x"))
            until_closed(connection)

        self.assertEqual(self.talk(ignore, closeAfter=1), ["open", "x", "error: the server has left", "close 1006  false"])

    def test_a_server_that_never_answers(self):
        began = time.monotonic()
        self.assertEqual(self.talk(until_closed, timeout=90), ["error: WebSocket: WebSocket handshake: the server did not answer in time", "close 1006  false"])
        self.assertLess(time.monotonic() - began, 45)

    def test_an_abort_ends_the_handshake(self):
        server = self.server(until_closed)
        self.assertEqual(self.error("return await fetch(args.url, { headers: { upgrade: 'websocket' }, signal: AbortSignal.timeout(300) })", url=self.url(server, scheme="http")), "TimeoutError: The operation was aborted due to timeout")
        self.assertTrue(server.wait(lambda s: s.open == 0))

    # ---- refusals

    def test_a_dynamic_worker_reaches_nothing_private(self):
        server = self.server(websocket_echo)
        socket_error = "const ws = new WebSocket(args.url); return await new Promise((y) => { ws.onerror = (e) => y(e.message); ws.onopen = () => y('open'); })"
        for host in ("127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.1.2.3", "[::ffff:127.0.0.1]", "0x7f000001"):
            with self.subTest(host):
                self.assertRegex(self.result(socket_error, url=self.url(server, host=host), dynamic={"outbound": "inherit"}), r"^WebSocket: a Dynamic Worker may not connect to .*: it is no address of the public Internet$")
                self.assertRegex(self.error("return (await fetch(args.url, { headers: { upgrade: 'websocket' } })).status", url=self.url(server, scheme="http", host=host), dynamic={"outbound": "inherit"}),
                                 r"^Error: a Dynamic Worker may not connect to .*: it is no address of the public Internet$")
        self.assertRegex(self.result(socket_error, url="ws://example.com/", dynamic={"outbound": None}), "^WebSocket: This worker is not permitted to access the internet")
        self.assertEqual(server.seen, 0)

    def test_too_many(self):
        server = self.server(websocket_echo)
        many = "const all = []; for (let i = 0; i < args.n; i++) { const ws = new WebSocket(args.url); all.push(new Promise((y) => { ws.onopen = () => y('open'); ws.onerror = (e) => y(e.message); })); } const got = await Promise.all(all); return [got.filter((x) => x === 'open').length, got.filter((x) => x !== 'open')]"
        self.assertEqual(self.result(many, url=self.url(server), n=66), [64, ["WebSocket: connect: 64 connections of this Worker are open; no more can be opened"] * 2])
        self.assertTrue(server.wait(lambda s: s.seen == 64 and s.open == 0))
        self.assertEqual(self.result(many, url=self.url(server), n=64), [64, []])  # twin

    def test_subrequests_are_counted(self):
        got = self.result("const seen = []; for (let i = 0; i < 3; i++) seen.push(await new Promise((y) => { new WebSocket('ws://127.0.0.1:1/').onerror = (e) => y(e.message); })); return seen", dynamic={"outbound": "inherit", "limits": {"subRequests": 2}})
        self.assertRegex(got[1], "may not connect")
        self.assertEqual(got[2], "WebSocket: Too many subrequests.")


if __name__ == "__main__":
    unittest.main()
