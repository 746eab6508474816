"""Runs a daemon of the build tree in a directory of its own and talks to it. Every JSON answer is checked against
docs/openapi.yaml on the way.

CLOISTER_DAEMON is the program, CLOISTER_LIBEXEC the folder of its helpers, CLOISTER_SOURCE the root of the sources."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from urllib.parse import quote, urlencode

from schema import Description

PROGRAM = os.environ["CLOISTER_DAEMON"]
SOURCE = os.environ.get("CLOISTER_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
DESCRIPTION = Description(os.path.join(SOURCE, "docs", "openapi.yaml"))


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.type = headers.get("Content-Type")
        self.value = body
        if self.type == "application/json" and body:
            self.value = json.loads(body)
        elif self.type == "application/x-ndjson":
            self.value = [json.loads(line) for line in body.splitlines()]

    @property
    def error(self):
        return self.value["error"]

    def __getitem__(self, key):
        return self.value[key]

    def __repr__(self):
        return f"{self.status} {self.body[:600]!r}"


class Daemon:
    def __init__(self, *options, directory=None):
        self.own = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="cloister-api-")
        self.data = os.path.join(self.directory, "data")
        self.run = os.path.join(self.directory, "run")
        self.socket = os.path.join(self.run, "cloister.sock")
        self.log_path = os.path.join(self.directory, "log")
        self.options = options
        self.process = None
        self.connection = None
        self.start()

    def command(self, *more):
        return [PROGRAM, "--data-dir", self.data, "--run-dir", self.run, "--pool", "2", *self.options, *more]

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        for _ in range(600):
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(self.socket)
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.02)
        raise AssertionError("the daemon did not come up: " + self.log())

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def kill(self):
        """As a crash would."""
        self.drop_connection()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.drop_connection()
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(timeout=60)
        if code != 0:
            raise AssertionError(f"the daemon ended with {code}: {self.log()[-4000:]}")

    def close(self):
        try:
            self.stop()
        finally:
            if self.own:
                shutil.rmtree(self.directory, ignore_errors=True)

    def drop_connection(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def connect(self, timeout=60):
        return UnixConnection(self.socket, timeout)

    def raw(self, data, timeout=20):
        """Sends bytes as they are, returns everything that comes until the server closes or falls silent."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(self.socket)
        try:
            s.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        got = b""
        try:
            while chunk := s.recv(65536):
                got += chunk
        except (TimeoutError, ConnectionResetError):
            pass
        s.close()
        return got

    def request(self, method, path, body=None, headers=None, query=None, check=True):
        """One request on the kept connection. dict bodies become JSON; iterables are sent chunked."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        target = path + ("?" + urlencode(query, doseq=True, quote_via=quote) if query else "")
        if self.connection is None:
            self.connection = self.connect()
        try:
            chunked = body is not None and not isinstance(body, (bytes, str))
            self.connection.request(method, target, body=body, headers=headers, encode_chunked=chunked)
            reply = self.connection.getresponse()
            answer = Answer(reply.status, reply.headers, reply.read())
        except Exception:
            self.drop_connection()
            raise
        if reply.will_close:
            self.drop_connection()
        if check:
            DESCRIPTION.check_answer(method, path, answer.status, answer.type, answer.value)
        return answer

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.request("POST", path, body, **kw)

    def put(self, path, body=None, **kw):
        return self.request("PUT", path, body, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)

    def create(self, name=None, **spec):
        spec.setdefault("entrypoint", ["sleep", "1000"])
        if name:
            spec["name"] = name
        answer = self.post("/v1/containers", spec)
        assert answer.status == 201, answer
        return answer

    def exec(self, name, *cmd, query=None, **spec):
        """Runs to the end."""
        return self.post(f"/v1/containers/{name}/exec", {"cmd": list(cmd), "wait": True, **spec}, query=query)

    def spawn(self, name, *cmd, **spec):
        """Starts; its id."""
        answer = self.post(f"/v1/containers/{name}/exec", {"cmd": list(cmd), **spec})
        assert answer.status == 201, answer
        return answer["id"]

    def output(self, name, exec_id, **query):
        """(stdout, stderr, last event, all lines); bytes."""
        answer = self.get(f"/v1/containers/{name}/exec/{exec_id}/output", query=query)
        assert answer.status == 200, answer
        return collect(answer.value)


def piece(line):
    import base64

    return line["text"].encode() if "text" in line else base64.b64decode(line["base64"])


def collect(lines):
    streams = {"stdout": b"", "stderr": b""}
    for line in lines:
        if "event" not in line:
            streams[line["stream"]] += piece(line)
    return streams["stdout"], streams["stderr"], lines[-1], lines


def until(condition, seconds=10, step=0.02):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(step)
    raise AssertionError("it did not happen in time")


class Case(unittest.TestCase):
    """Tests that share one daemon, and one container named `box` where `box` is True."""

    options = ()
    box = True

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.options)
        cls.addClassCleanup(cls.daemon.close)
        if cls.box:
            cls.daemon.create("box")

    def assertError(self, answer, status, code, field=None, says=None):
        self.assertEqual(answer.status, status, answer)
        self.assertEqual(answer.error["code"], code, answer)
        if field is not None:
            self.assertEqual(answer.error.get("field"), field, answer)
        if says is not None:
            self.assertIn(says, answer.error["message"], answer)

    def open_descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))
