"""Servers on the loopback for the tests of sockets and WebSockets: each runs a handler in a thread for every connection."""
import base64
import hashlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading


class Authority:
    """A certificate authority of our own, and a certificate for localhost by it."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="cloister-ca-")
        os.chmod(self.directory, 0o755)
        self.ca, self.key, self.cert = (os.path.join(self.directory, n) for n in ("ca.pem", "key.pem", "cert.pem"))
        run = lambda *a: subprocess.run(["openssl", *a], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.directory)
        run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", self.ca, "-days", "2", "-subj", "/CN=Cloister test")
        run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", self.key, "-out", "req.pem", "-subj", "/CN=localhost")
        with open(os.path.join(self.directory, "ext"), "w") as f:
            f.write("subjectAltName=DNS:localhost\n")
        run("x509", "-req", "-in", "req.pem", "-CA", self.ca, "-CAkey", "ca.key", "-CAcreateserial", "-out", self.cert, "-days", "2", "-extfile", "ext")

    def server(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


class Server:
    """`handler(connection)` for every connection, which is closed when it returns. `tls`: a context, spoken from the beginning."""

    def __init__(self, handler, tls=None):
        self.handler, self.tls = handler, tls
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.seen = 0
        self.open = 0
        self.changed = threading.Condition()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.changed:
                self.seen += 1
                self.open += 1
                self.changed.notify_all()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            connection.settimeout(60)
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            self.handler(connection)
        except OSError:
            pass
        finally:
            connection.close()
            with self.changed:
                self.open -= 1
                self.changed.notify_all()

    def wait(self, condition, seconds=15):
        """Until condition(server) holds. False: it does not."""
        with self.changed:
            return self.changed.wait_for(lambda: condition(self), seconds)

    def close(self):
        self.listener.close()


def receive(connection, n):
    data = b""
    while len(data) < n:
        more = connection.recv(n - len(data))
        if not more:
            raise OSError("the client has left")
        data += more
    return data


def until_closed(connection):
    """Reads on until the client closes."""
    data = b""
    while more := connection.recv(65536):
        data += more
    return data


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    if not isinstance(connection, ssl.SSLSocket):
        connection.shutdown(socket.SHUT_WR)


# ---- WebSocket (RFC 6455), the server's side

def accept_key(key):
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def read_head(connection):
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        more = connection.recv(1)
        if not more:
            raise OSError("the client has left")
        data += more
    lines = data.decode().split("\r\n")
    return lines[0], {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:] if line)}


def shake_hands(connection, *more):
    """Reads the request and accepts. `more`: further lines of the answer. Returns the request's line and headers."""
    line, headers = read_head(connection)
    answer = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: " + accept_key(headers["sec-websocket-key"]), *more]
    connection.sendall("\r\n".join([*answer, "", ""]).encode())
    return line, headers


def frame(opcode, payload=b"", fin=True, rsv=0, mask=None, length=None):
    n = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    head += bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack(">H", n) if n < 65536 else bytes([bit | 127]) + struct.pack(">Q", n)
    if mask:
        payload = mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    return head + payload


def read_frame(connection):
    """(opcode, fin, payload); the client must have masked it."""
    a, b = receive(connection, 2)
    n = b & 127
    if n == 126:
        n, = struct.unpack(">H", receive(connection, 2))
    elif n == 127:
        n, = struct.unpack(">Q", receive(connection, 8))
    assert b & 128, "a client's frame is not masked"
    mask = receive(connection, 4)
    data = receive(connection, n)
    repeated = (mask * (n // 4 + 1))[:n]
    return a & 15, bool(a & 128), (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(n, "big")


def websocket_echo(connection):
    line, headers = shake_hands(connection)
    if "?hello" in line:
        connection.sendall(frame(1, b"hello"))
    while True:
        opcode, fin, payload = read_frame(connection)
        connection.sendall(frame(opcode, payload, fin))
        if opcode == 8:
            return
