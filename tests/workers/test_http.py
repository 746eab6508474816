"""What a client may send to an application, byte by byte: shapes that two readers could read in two ways are refused, each with its
status, and the request that such a shape would smuggle in reaches nobody."""
import socket
import unittest

from projects import Project

HOST = b"Host: localhost\r\n"
CHUNKED = b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


def get(lines=b"", first=b"GET /a HTTP/1.1", host=HOST):
    return first + b"\r\n" + host + lines + b"\r\n"


def post(lines, body=b"abcd"):
    return b"POST /a HTTP/1.1\r\n" + HOST + lines + b"\r\n" + body


REFUSED = [
    # two lengths
    ("length and coding", post(b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400),
    ("coding and length", post(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", b"0\r\n\r\n"), 400),
    ("the same length twice", post(b"Content-Length: 4\r\nContent-Length: 4\r\n"), 400),
    ("two lengths", post(b"Content-Length: 4\r\nContent-Length: 5\r\n"), 400),
    ("a list of lengths", post(b"Content-Length: 4, 4\r\n"), 400),
    ("a length with a sign", post(b"Content-Length: +4\r\n"), 400),
    ("a negative length", post(b"Content-Length: -4\r\n"), 400),
    ("a hexadecimal length", post(b"Content-Length: 0x4\r\n"), 400),
    ("a length with a gap", post(b"Content-Length: 1 2\r\n"), 400),
    ("a length beyond 64 bits", post(b"Content-Length: 99999999999999999999999\r\n"), 400),
    ("an empty length", post(b"Content-Length: \r\n"), 400),
    # codings
    ("two codings", post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400),
    ("two different codings", post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n"), 400),
    ("a coding twice", post(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"), 501),
    ("compressed and chunked", post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), 501),
    ("identity", post(b"Transfer-Encoding: identity\r\n", b"0\r\n\r\n"), 501),
    ("an unknown coding", post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"), 501),
    ("a vertical tab before the coding", post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"), 501),
    ("chunked in HTTP/1.0", b"POST /a HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
    # lines
    ("a folded header", get(b"X-A: b\r\n c\r\n"), 400),
    ("a header folded by a tab", get(b"X-A: b\r\n\tc\r\n"), 400),
    ("a folded coding", post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"), 400),
    ("space before the first header", b"GET /a HTTP/1.1\r\n X: y\r\n" + HOST + b"\r\n", 400),
    ("bare line feeds", b"GET /a HTTP/1.1\nHost: localhost\n\n", 400),
    ("one bare line feed", b"GET /a HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400),
    ("a bare line feed at the end", b"GET /a HTTP/1.1\r\nHost: localhost\r\n\n", 400),
    ("a bare carriage return", get(b"X-A: a\rb\r\n"), 400),
    ("space before the colon", get(b"X-A : b\r\n"), 400),
    ("space between coding and colon", post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), 400),
    ("a tab before the colon", get(b"X-A\t: b\r\n"), 400),
    ("no name", get(b": x\r\n"), 400),
    ("no colon", get(b"foo\r\n"), 400),
    ("NUL in a value", get(b"X-A: a\0b\r\n"), 400),
    ("NUL in a name", get(b"X-\0A: b\r\n"), 400),
    ("a control character in a value", get(b"X-A: a\x01b\r\n"), 400),
    # chunks
    ("a size that is none", CHUNKED + b"zz\r\nabcd\r\n0\r\n\r\n", 400),
    ("a size with a prefix", CHUNKED + b"0x4\r\nabcd\r\n0\r\n\r\n", 400),
    ("a negative size", CHUNKED + b"-4\r\nabcd\r\n0\r\n\r\n", 400),
    ("an empty size", CHUNKED + b"\r\nabcd\r\n0\r\n\r\n", 400),
    ("a size beyond 64 bits", CHUNKED + b"fffffffffffffffff\r\nabcd\r\n0\r\n\r\n", 400),
    ("space after the size", CHUNKED + b"4 \r\nabcd\r\n0\r\n\r\n", 400),
    ("a bare line feed after the size", CHUNKED + b"4\nabcd\r\n0\r\n\r\n", 400),
    ("a bare line feed after the data", CHUNKED + b"4\r\nabcd\n0\r\n\r\n", 400),
    ("data longer than its size", CHUNKED + b"4\r\nabcdXX0\r\n\r\n", 400),
    ("a carriage return in an extension", CHUNKED + b"4;a\rb\r\nabcd\r\n0\r\n\r\n", 400),
    ("a line feed in an extension", CHUNKED + b"4;a\nabcd\r\n0\r\n\r\n", 400),
    ("a large extension", CHUNKED + b"4;" + b"a" * 5000 + b"\r\nabcd\r\n0\r\n\r\n", 431),
    ("many extensions", CHUNKED + (b"1;" + b"a" * 100 + b"\r\nx\r\n") * 100 + b"0\r\n\r\n", 431),
    ("large trailers", CHUNKED + b"4\r\nabcd\r\n0\r\nX-T: " + b"a" * 10000 + b"\r\n\r\n", 431),
    ("a folded trailer", CHUNKED + b"4\r\nabcd\r\n0\r\nX-T: a\r\n b\r\n\r\n", 400),
    # the rest of the head
    ("no host", get(host=b""), 400),
    ("two hosts", get(host=HOST * 2), 400),
    ("space in the target", get(first=b"GET /a b HTTP/1.1"), 400),
    ("a tab in the target", get(first=b"GET /a\tb HTTP/1.1"), 400),
    ("NUL in the target", get(first=b"GET /a\0b HTTP/1.1"), 400),
    ("bytes above ASCII in the target", get(first=b"GET /\xff HTTP/1.1"), 400),
    ("no version", b"GET /a\r\n\r\n", 400),
    ("HTTP/2.0", get(first=b"GET /a HTTP/2.0"), 505),
    ("a method that is none", get(first=b"FOOO /a HTTP/1.1"), 501),
    ("a method in lower case", get(first=b"get /a HTTP/1.1"), 501),
    ("CONNECT", get(first=b"CONNECT a:1 HTTP/1.1"), 400),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00", 501),
    ("a large header", get(b"X: " + b"a" * 70000 + b"\r\n"), 431),
    ("many headers", get(b"X: a\r\n" * 20000), 431),
    ("a large target", get(first=b"GET /" + b"a" * 40000 + b" HTTP/1.1"), 414),
]

TAKEN = [
    ("a length", post(b"Content-Length: 4\r\n"), "POST /a abcd"),
    ("chunks", CHUNKED + b"4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n", "POST /a abcdef"),
    ("a size with zeros in front, in capitals", CHUNKED + b"000A\r\n0123456789\r\n0\r\n\r\n", "POST /a 0123456789"),
    ("a coding in capitals, space behind it", post(b"Transfer-Encoding: CHUNKED \r\n", b"4\r\nabcd\r\n0\r\n\r\n"), "POST /a abcd"),
    ("an extension", CHUNKED + b'4;a="b"\r\nabcd\r\n0\r\n\r\n', "POST /a abcd"),
    ("trailers", CHUNKED + b"4\r\nabcd\r\n0\r\nX-T: 1\r\nContent-Length: 9\r\n\r\n", "POST /a abcd"),
    ("empty lines in front", b"\r\n\r\n" + get(), "GET /a "),
    ("a whole address", get(first=b"GET http://localhost/a HTTP/1.1"), "GET /a "),
]
SMUGGLED = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.project = Project({"index.js": """
            export default { async fetch(request) {
              const { pathname } = new URL(request.url);
              console.log(`saw ${pathname}`);
              return new Response(`${request.method} ${pathname} ${await request.text()}`);
            } };"""}, config={})
        assert cls.project.get("/first").status == 200

    @classmethod
    def tearDownClass(cls):
        cls.project.close()

    def exchange(self, pieces):
        """Sends the pieces, one segment each; everything that comes until the server closes."""
        data = b""
        with socket.create_connection(("127.0.0.1", self.project.port), timeout=20) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for piece in pieces:
                    s.sendall(piece)
                while more := s.recv(65536):
                    data += more
            except (BrokenPipeError, ConnectionResetError):
                pass
        return data

    def test_refused(self):
        for name, text, status in REFUSED:
            with self.subTest(name):
                data = self.exchange([text + SMUGGLED])
                self.assertEqual(data.count(b"HTTP/1.1 "), 1, data)
                self.assertTrue(data.startswith(b"HTTP/1.1 %d " % status), data)
                self.assertIn(b"\r\nconnection: close\r\n", data)
        self.assertNotIn("saw /smuggled", self.project.output())

    def test_hosts_of_which_no_url_can_be_made(self):
        for target, host in [("/h", "localhost:99999999"), ("http://localhost:99999999/h", "localhost"), ("/h", "a@localhost"), ("/h", "local%host")]:
            with self.subTest(target=target, host=host):
                data = self.exchange([f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()])
                self.assertTrue(data.startswith(b"HTTP/1.1 400 "), data)
                self.assertTrue(data.endswith(b"The request names no valid host.\n"), data)
        self.assertNotIn("saw /h", self.project.output())

    def test_refused_in_pieces(self):
        for name, text, status in REFUSED:
            if len(text) > 200:
                continue
            with self.subTest(name):
                data = self.exchange([text[i:i + 1] for i in range(len(text))] + [SMUGGLED])
                self.assertTrue(data == b"" or data.startswith(b"HTTP/1.1 %d " % status), data)
        self.assertNotIn("saw /smuggled", self.project.output())

    def test_taken(self):
        last = get(b"Connection: close\r\n", first=b"GET /last HTTP/1.1")
        for name, text, body in TAKEN:
            for pieces in ([text + last], [text[i:i + 1] for i in range(len(text))] + [last]):
                with self.subTest(name, pieces=len(pieces)):
                    data = self.exchange(pieces)
                    self.assertEqual(data.count(b"HTTP/1.1 200 "), 2, data)
                    self.assertIn(b"\r\n\r\n" + body.encode() + b"HTTP/1.1", data)
                    self.assertTrue(data.endswith(b"GET /last "), data)


if __name__ == "__main__":
    unittest.main()
