"""connect() of cloudflare:sockets, with servers of our own on the loopback: what works, what hostile servers and Workers get."""
import socket
import ssl
import struct
import threading
import time
import unittest

from servers import Authority, echo, until_closed
from socket_projects import SocketCase

ONE = """
    const s = connect(args.to, args.options);
    const w = s.writable.getWriter();
    await w.write(tools.bytes(args.say));
    if (args.end) await w.close();
    return await tools.all(s.readable);
"""
OPEN = "const s = connect(args.to, args.options); await s.opened; return 'open'"


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Sockets(SocketCase):
    def at(self, server, host="127.0.0.1"):
        return f"{host}:{server.port}"

    # ---- what works

    def test_echo(self):
        server = self.server(echo)
        for to in (self.at(server), self.at(server, "localhost"), {"hostname": "127.0.0.1", "port": server.port}):
            with self.subTest(to):
                self.assertEqual(self.result(ONE, to=to, say="hello", end=True), "hello")
        got = self.result("""
            const s = connect(args.to);
            const info = await s.opened;
            const before = [s.secureTransport, s.upgraded, Object.prototype.toString.call(s), s.constructor.name];
            await s.close();
            return [info.remoteAddress, before, await s.closed === undefined];""", to=self.at(server))
        self.assertEqual(got, [self.at(server), ["off", False, "[object Socket]", "Socket"], True])
        self.assertTrue(server.wait(lambda s: s.open == 0))

    def test_much_both_ways(self):
        server = self.server(echo)
        got = self.result("""
            const s = connect(args.to), size = 20 << 20, piece = 100000;
            const sent = new Uint8Array(size);
            for (let i = 0; i < size; i += 65536) crypto.getRandomValues(sent.subarray(i, Math.min(size, i + 65536)));
            const write = (async () => { const w = s.writable.getWriter(); for (let i = 0; i < size; i += piece) await w.write(sent.subarray(i, i + piece)); await w.close(); })();
            const hash = new crypto.DigestStream('SHA-256');
            await s.readable.pipeTo(hash);
            await write;
            const hex = (b) => [...new Uint8Array(b)].join();
            return hex(await hash.digest) === hex(await crypto.subtle.digest('SHA-256', sent));""", to=self.at(server))
        self.assertTrue(got)

    def test_the_server_ends_first(self):
        ended = threading.Event()

        def greet(connection):
            connection.sendall(b"hi")
            connection.shutdown(socket.SHUT_WR)
            if until_closed(connection) == b"more":
                ended.set()

        server = self.server(greet)
        half = "const s = connect(args.to, args.options); const got = await tools.all(s.readable); try { const w = s.writable.getWriter(); await w.write(tools.bytes('more')); await w.close(); } catch (e) { return [got, String(e)]; } await s.closed; return [got, 'written']"
        self.assertEqual(self.result(half, to=self.at(server), options={"allowHalfOpen": True}), ["hi", "written"])
        self.assertTrue(ended.wait(10))
        self.assertRegex(self.result(half, to=self.at(server))[1], "^TypeError")
        self.assertTrue(server.wait(lambda s: s.open == 0))

    def test_close(self):
        server = self.server(lambda c: (c.sendall(b"x"), until_closed(c)))
        got = self.result("""
            const s = connect(args.to), r = s.readable.getReader(), w = s.writable.getWriter();
            const first = tools.text((await r.read()).value);
            const pending = r.read();
            w.write(tools.bytes('last'));
            await s.close();
            await s.close();
            let late; try { await w.write(tools.bytes('late')); } catch (e) { late = e.name; }
            return [first, (await pending).done, (await r.read()).done, late, await s.closed === undefined];""", to=self.at(server))
        self.assertEqual(got, ["x", True, True, "TypeError", True])
        self.assertTrue(server.wait(lambda s: s.open == 0))

    def test_what_was_written_before_close_arrives(self):
        got = []
        server = self.server(lambda c: got.append(until_closed(c)))
        self.result("const s = connect(args.to); const w = s.writable.getWriter(); for (let i = 0; i < 100; i++) w.write(new Uint8Array(10000)); await s.close(); return 1", to=self.at(server))
        self.assertTrue(server.wait(lambda s: s.open == 0))
        self.assertEqual([len(each) for each in got], [1000000])

    # ---- TLS

    def test_tls(self):
        server = self.server(echo, tls=self.authority.server())
        got = self.result("const s = connect(args.to, { secureTransport: 'on' }); const w = s.writable.getWriter(), r = s.readable.getReader(); await w.write(tools.bytes('hello')); const got = tools.text((await r.read()).value); await s.close(); return [got, s.secureTransport]",
                          to=self.at(server, "localhost"))
        self.assertEqual(got, ["hello", "on"])
        self.assertEqual(self.result("return (await fetch('https://' + args.to)).status", to=self.at(self.server(
            lambda c: (c.recv(1000), c.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")), tls=self.authority.server()), "localhost")), 204)  # the same authority is fetch()'s

    def test_tls_certificates(self):
        on = {"secureTransport": "on"}
        server = self.server(echo, tls=self.authority.server())
        self.assertEqual(self.error(OPEN, to=self.at(server), options=on), "Error: TLS: the server's certificate is refused: IP address mismatch")
        other = Authority()
        self.addCleanup(other.close)
        self.assertRegex(self.error(OPEN, to=self.at(self.server(echo, tls=other.server()), "localhost"), options=on),
                         r"^Error: TLS: the server's certificate is refused: (unable to get local issuer certificate|self-signed certificate)")
        self.assertRegex(self.error(OPEN, to=self.at(self.server(echo), "localhost"), options=on), "^Error: TLS: the handshake failed: ")
        self.assertEqual(self.error(OPEN, to=self.at(self.server(lambda c: c.recv(10000)), "localhost"), options=on), "Error: TLS: the server closed the connection during the handshake")
        self.assertEqual(self.result(OPEN, to=self.at(server, "localhost"), options=on), "open")  # twin

    def test_tls_that_is_cut_off_is_no_end(self):
        def cut(connection):
            connection.sendall(b"half")
            socket.socket(fileno=socket.dup(connection.fileno())).shutdown(socket.SHUT_RDWR)

        server = self.server(cut, tls=self.authority.server())
        self.assertEqual(self.error("const s = connect(args.to, { secureTransport: 'on' }); return await tools.all(s.readable)", to=self.at(server, "localhost")),
                         "TypeError: TLS: the server cut the connection off without an end")

    def start_tls(self, extra=b""):
        def serve(connection):
            connection.sendall(b"ready")
            if connection.recv(100) != b"STARTTLS":
                return
            connection.sendall(b"go" + extra)
            with self.authority.server().wrap_socket(connection, server_side=True) as secure:
                secure.sendall(secure.recv(100).upper())
                until_closed(secure)
        return self.server(serve)

    START = """
        const s = connect(args.to, { secureTransport: 'starttls' }), w = s.writable.getWriter(), r = s.readable.getReader();
        const got = [tools.text((await r.read()).value)];
        await w.write(tools.bytes('STARTTLS'));
        got.push(tools.text((await r.read()).value).slice(0, 2));
        if (args.wait) await scheduler.wait(args.wait);
        r.releaseLock(); w.releaseLock();
        const t = s.startTls(), tw = t.writable.getWriter(), tr = t.readable.getReader();
        await tw.write(tools.bytes('secret'));
        got.push(tools.text((await tr.read()).value));
        await s.closed;
        got.push(s.upgraded, t.secureTransport);
        for (const old of [() => s.startTls(), () => t.startTls()]) try { old(); } catch (e) { got.push(String(e)); }
        await t.close();
        return got;
    """

    def test_start_tls(self):
        server = self.start_tls()
        self.assertEqual(self.result(self.START, to=self.at(server, "localhost")),
                         ["ready", "go", "SECRET", True, "on", "TypeError: startTls has already been called on this socket.", "TypeError: Cannot startTls on a TLS socket."])
        self.assertEqual(self.error("connect(args.to).startTls()", to=self.at(server, "localhost")),
                         "TypeError: The `secureTransport` socket option must be set to 'starttls' for startTls to be used.")
        self.assertTrue(server.wait(lambda s: s.open == 0))

    def test_start_tls_takes_nothing_from_before(self):
        # Whoever stands between may put bytes behind the server's "go": they must never be read as if TLS had brought them.
        self.assertRegex(self.error(self.START, to=self.at(self.start_tls(b"INJECTED" * 200000), "localhost"), wait=300), "^Error: startTls: the server went on without waiting for TLS$")
        answer = self.ask(self.START, to=self.at(self.start_tls(b"INJECTED"), "localhost"), wait=300)
        self.assertNotIn("INJECTED", str(answer))

    # ---- refusals

    def test_addresses_that_are_none(self):
        for to, error in {
            "": "Specified address is missing hostname.", ":80": "Specified address is missing hostname.", "localhost": "Specified address is missing port.", "localhost:": "Specified address is missing port.",
            "a:b": "Specified address could not be parsed.", "a:1:2": "Specified address could not be parsed.", "a:65536": "Specified address could not be parsed.",
            "a b:80": "Specified address is empty string, contains unsupported characters or is too long.", "user@host:80": "Specified address is empty string, contains unsupported characters or is too long.",
            "host/x:80": "Specified address is empty string, contains unsupported characters or is too long.", "x" * 300 + ":80": "Specified address is empty string, contains unsupported characters or is too long.",
            "h\u00f6st:80": "Specified address is empty string, contains unsupported characters or is too long.",
        }.items():
            with self.subTest(to):
                self.assertEqual(self.error("connect(args.to)", to=to), "TypeError: " + error)
        for port in (-1, 65536, 1.5, "x"):
            self.assertEqual(self.error("connect({ hostname: 'localhost', port: args.port })", port=port), "TypeError: Specified address has a port that is no number from 1 to 65535.")
        self.assertEqual(self.error(OPEN, to={"hostname": "localhost", "port": 0}), "Error: connect: a port from 1 to 65535 is expected")
        self.assertEqual(self.error("connect('localhost:1', { secureTransport: 'maybe' })"), "TypeError: Unsupported value in secureTransport socket option: maybe")
        self.assertEqual(self.error("connect()"), "TypeError: connect: 1 argument required, but only 0 present")
        self.assertEqual(self.error("const s = connect('127.0.0.1:1'); new s.constructor('x')"), "TypeError: Illegal constructor: Socket")

    def test_nobody_there(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        to = f"127.0.0.1:{port}"
        self.assertEqual(self.error(OPEN, to=to), f"Error: connect: Couldn't connect to server ({to})")
        got = self.result("const s = connect(args.to), e = []; for (const p of [s.closed, s.opened, s.readable.getReader().read(), s.writable.getWriter().write(tools.bytes('x'))]) await p.catch((x) => e.push(String(x))); await s.close(); return e", to=to)
        self.assertEqual(got, [f"Error: connect: Couldn't connect to server ({to})"] * 4)
        self.assertRegex(self.error(OPEN, to="nosuch.invalid:80"), r"^Error: connect: Couldn't resolve host name \(nosuch.invalid:80\)")

    def test_port_25(self):
        self.assertEqual(self.error(OPEN, to="127.0.0.1:25"), "Error: connections to port 25, where mail is delivered, are prohibited (127.0.0.1:25)")
        self.assertEqual(self.error("return await fetch('http://127.0.0.1:25/')"), "Error: connections to port 25, where mail is delivered, are prohibited (http://127.0.0.1:25/)")
        self.assertEqual(self.error("await connect('127.0.0.1:25').opened", dynamic={"outbound": "inherit"}), "Error: connections to port 25, where mail is delivered, are prohibited (127.0.0.1:25)")

    def test_a_dynamic_worker_reaches_nothing_private(self):
        server = self.server(echo)
        for host, address in {
            "127.0.0.1": "127.0.0.1", "localhost": "(127.0.0.1|::1)", "169.254.169.254": "169.254.169.254", "10.0.0.1": "10.0.0.1", "192.168.1.1": "192.168.1.1", "100.100.100.200": "100.100.100.200",
            "0.0.0.0": "0.0.0.0", "2130706433": "127.0.0.1", "0x7f.1": "127.0.0.1", "127.1": "127.0.0.1", "[::1]": "::1", "[::]": "::", "[::ffff:127.0.0.1]": "::ffff:127.0.0.1",
            "[64:ff9b::7f00:1]": "64:ff9b::7f00:1", "[fd00:ec2::254]": "fd00:ec2::254", "[fe80::1]": "fe80::1", "224.0.0.1": "224.0.0.1",
        }.items():
            with self.subTest(host):
                to = f"{host}:{server.port}"
                self.assertRegex(self.error("await connect(args.to).opened", to=to, dynamic={"outbound": "inherit"}),
                                 rf"^Error: a Dynamic Worker may not connect to {address} \(.*\): it is no address of the public Internet$")
        self.assertEqual(self.result(ONE, to=self.at(server), say="hello", end=True), "hello")  # twin: the host Worker may
        self.assertEqual(server.seen, 1)

    def test_without_an_outbound_there_is_no_connection(self):
        error = "Error: This worker is not permitted to access the internet via global functions like fetch(). It must use capabilities (such as bindings in 'env') to talk to the outside world."
        self.assertEqual(self.result("try { connect('example.com:80'); } catch (e) { return 'thrown ' + e; }", dynamic={"outbound": None}), "thrown " + error)

    def test_not_in_global_scope(self):
        self.assertEqual(self.result("return args.early"), "Error: Disallowed operation called within global scope. connect() belongs to a request: call it within a handler.")

    def test_subrequests_are_counted(self):
        got = self.result("for (let i = 0; i < 5; i++) try { connect('127.0.0.1:1'); } catch (e) { return [i, String(e)]; }", dynamic={"outbound": "inherit", "limits": {"subRequests": 3}})
        self.assertEqual(got, [3, "Error: Too many subrequests."])

    # ---- limits, and who stands still

    def test_too_many_sockets(self):
        server = self.server(until_closed)
        many = "const all = []; for (let i = 0; i < args.n; i++) all.push(connect(args.to)); for (const s of all) await s.opened; if (args.close) await Promise.all(all.map((s) => s.close())); return all.length"
        self.assertEqual(self.error(many, to=self.at(server), n=65), "Error: connect: 64 connections of this Worker are open; no more can be opened")
        # They are given up when the request has ended, perhaps before the server has seen them.
        deadline = time.monotonic() + 20
        while "no more can be opened" in (got := self.ask(many, to=self.at(server), n=64, close=True)).get("error", "") and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(got, {"result": 64})
        self.assertTrue(server.wait(lambda s: s.open == 0))
        self.assertEqual(self.result(many, to=self.at(server), n=64, close=True), 64)  # twin; it only works when the one before left nothing behind
        self.assertTrue(server.wait(lambda s: s.open == 0))

    def test_a_worker_that_never_reads_stops_the_server(self):
        sent = []

        def flood(connection):
            connection.settimeout(2)
            try:
                for _ in range(1000):
                    sent.append(connection.send(b"x" * 65536))
            except TimeoutError:
                pass
            connection.settimeout(30)
            until_closed(connection)

        server = self.server(flood)
        got = self.result("const s = connect(args.to); await s.opened; await scheduler.wait(4000); let n = 0; for await (const c of s.readable) { n += c.length; if (n > (8 << 20)) break; } return n", to=self.at(server))
        stuck = sum(sent)
        self.assertLess(stuck, 24 << 20)  # what the kernel's buffers and a window hold
        self.assertGreater(stuck, 100000)
        self.assertGreater(got, 0)

    def test_a_server_that_never_reads_stops_the_worker(self):
        quiet = threading.Event()
        server = self.server(lambda c: quiet.wait(30))
        got = self.result("const s = connect(args.to), w = s.writable.getWriter(); let n = 0; (async () => { for (;;) { await w.write(new Uint8Array(65536)); n += 65536; } })().catch(() => {}); await scheduler.wait(3000); return n", to=self.at(server))
        quiet.set()
        self.assertLess(got, 24 << 20)
        self.assertGreater(got, 100000)

    def test_the_end_of_the_request_is_the_end_of_its_sockets(self):
        server = self.server(until_closed)
        self.assertEqual(self.result("const s = connect(args.to); await s.opened; globalThis.left = s; return 'left open'", to=self.at(server)), "left open")
        self.assertTrue(server.wait(lambda s: s.seen == 1 and s.open == 0))
        self.assertEqual(self.error("return await globalThis.left.readable.getReader().read()"), "Error: The socket was closed: the request that it belongs to is over.")
        kept = self.server(until_closed)
        self.assertEqual(self.result("const s = connect(args.to); await s.opened; ctx.waitUntil(scheduler.wait(1500)); return 'kept'", to=self.at(kept)), "kept")  # twin
        self.assertTrue(kept.wait(lambda s: s.seen == 1))
        self.assertFalse(kept.wait(lambda s: s.open == 0, 0.7))
        self.assertTrue(kept.wait(lambda s: s.open == 0))

    def test_a_response_may_be_what_a_socket_brings(self):
        server = self.server(lambda c: [(c.sendall(b"piece"), time.sleep(0.2)) for _ in range(5)])
        self.p.request("POST", "/", "{}")
        got = self.result("const s = connect(args.to); return await new Response(s.readable).text()", to=self.at(server))
        self.assertEqual(got, "piece" * 5)

    def test_a_reset_is_an_error(self):
        def crash(connection):
            connection.sendall(b"x")
            connection.recv(1)
            reset(connection)

        server = self.server(crash)
        got = self.result("const s = connect(args.to), r = s.readable.getReader(), w = s.writable.getWriter(); await r.read(); await w.write(tools.bytes('x')); const e = []; await s.closed.catch((x) => e.push(String(x))); await r.read().catch((x) => e.push(String(x))); await w.write(tools.bytes('y')).catch((x) => e.push(String(x))); return e", to=self.at(server))
        self.assertEqual(got, ["TypeError: the connection broke: Connection reset by peer"] * 3)

    def test_wrong_chunks(self):
        server = self.server(echo)
        self.assertRegex(self.error("const w = connect(args.to).writable.getWriter(); await w.write('text')", to=self.at(server)), "^TypeError: .*bytes")

    def test_an_abort_breaks_the_connection(self):
        server = self.server(until_closed)
        self.assertEqual(self.result("const s = connect(args.to); await s.opened; await s.writable.abort(new Error('enough')); return await s.closed.catch(String)", to=self.at(server)), "Error: enough")
        self.assertTrue(server.wait(lambda s: s.open == 0))

    def test_a_server_that_never_speaks_tls(self):
        server = self.server(until_closed)
        began = time.monotonic()
        self.assertEqual(self.error(OPEN, to=self.at(server, "localhost"), options={"secureTransport": "on"}, timeout=90), "Error: TLS: the handshake took too long")
        self.assertLess(time.monotonic() - began, 45)

    # ---- through another Worker

    ECHO = """
        const s = connect(args.to ?? 'db.test:5432'), w = s.writable.getWriter(), r = s.readable.getReader();
        const info = await s.opened;
        let got = '';
        for (const say of ['one', 'two', 'x'.repeat(100000)]) {
            await w.write(new TextEncoder().encode(say));
            for (let n = 0; n < say.length;) { const { value } = await r.read(); n += value.length; got += new TextDecoder().decode(value); }
        }
        await w.close();
        const end = await r.read();
        await s.closed;
        return [got.length, got.slice(0, 6), end.done, info.remoteAddress];
    """

    def test_a_gateway_gets_the_connections(self):
        server = self.server(echo)
        self.assertEqual(self.result(self.ECHO, dynamic={"outbound": "Gateway", "props": {"port": server.port}}), [100006, "onetwo", True, "db.test:5432"])
        self.assertTrue(server.wait(lambda s: s.seen == 1 and s.open == 0))
        greet = "let got = ''; for await (const c of connect('db.test:5432').readable) got += new TextDecoder().decode(c); return got"
        self.assertEqual(self.result(greet, dynamic={"outbound": "Gateway", "props": {"greet": "to "}}), "to db.test:5432")
        self.assertEqual(self.result("const s = ctx.exports.Gateway({ props: { greet: 'by ' } }).connect('a.test:1'); return await tools.all(s.readable)"), "by a.test:1")

    def test_a_gateway_is_the_only_way(self):
        server = self.server(echo)
        fail = "const s = connect(args.to); const e = []; for (const p of [s.opened, s.closed, s.readable.getReader().read()]) await p.then(() => e.push('fine'), (x) => e.push(String(x))); return e"
        bare = ["TypeError: Handler does not export a connect() function."] * 3
        self.assertEqual(self.result(fail, to=self.at(server), dynamic={"outbound": "Bare", "props": {}}), bare)
        got = self.result(fail, to=self.at(server), dynamic={"outbound": "Gateway", "props": {}})
        self.assertEqual(got[1:], ["TypeError: nowhere to go"] * 2)
        self.assertEqual(self.error("connect('a.test:443', { secureTransport: 'on' })", dynamic={"outbound": "Gateway", "props": {"port": server.port}}),
                         'TypeError: connect() through another Worker is without TLS: secureTransport must be "off".')
        count = "const e = []; for (let i = 0; i < 3; i++) try { connect('a.test:1'); e.push('fine'); } catch (x) { e.push(String(x)); } return e"
        self.assertEqual(self.result(count, dynamic={"outbound": "Gateway", "props": {"greet": "x"}, "limits": {"subRequests": 2}}), ["fine", "fine", "Error: Too many subrequests."])
        self.assertEqual(server.seen, 0)

    def test_the_end_of_a_dynamic_worker_ends_what_it_opened(self):
        server = self.server(until_closed)
        self.assertEqual(self.result("const s = connect('a.test:1'); await s.opened; await s.writable.getWriter().write(new Uint8Array(1)); return 'left'", dynamic={"outbound": "Gateway", "props": {"port": server.port}}), "left")
        self.assertTrue(server.wait(lambda s: s.seen == 1 and s.open == 0))

    def test_spoilt_prototypes(self):
        server = self.server(echo)
        spoil = """
            const use = async () => { %s };
            for (const [p, names] of [[WritableStream.prototype, ['getWriter', 'close', 'abort']], [ReadableStream.prototype, ['getReader', 'cancel', 'pipeTo']], [Promise.prototype, ['catch', 'finally']],
                [Map.prototype, ['get', 'set', 'delete']], [Set.prototype, ['add', 'delete', 'forEach']], [Uint8Array.prototype.__proto__, ['set', 'slice', 'subarray']], [Array.prototype, ['push', 'shift', 'splice']],
                [RegExp.prototype, ['exec', 'test']], [String.prototype, ['split', 'slice']]])
              for (const name of names) { const old = p[name]; p[name] = function (...a) { if (new Error().stack.split) return Reflect.apply(old, this, a); throw 'spoilt'; }; }
            Object.defineProperty(Object.prototype, 'secureTransport', { get() { return 'spoilt'; }, configurable: true });
            delete Object.prototype.secureTransport;
            return await use();""" % self.ECHO
        self.assertEqual(self.result(spoil, dynamic={"outbound": "Gateway", "props": {"port": server.port}})[0], 100006)


if __name__ == "__main__":
    unittest.main()
