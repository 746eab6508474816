"""Runs Workers projects with `cloister dev` and talks to them.

CLOISTER is the program, CLOISTER_LIBEXEC the folder of its helpers; WORKERS_AS=user, started by root, runs it as an ordinary
user made for the run."""
import atexit
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

CLOISTER = os.environ["CLOISTER"]
HERE = os.path.dirname(os.path.abspath(__file__))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ordinary_user():
    """Name of the user that the program runs as; None: ourselves."""
    if os.environ.get("WORKERS_AS") != "user" or os.getuid() != 0:
        return None
    name = "cw" + secrets.token_hex(4)
    subprocess.run(["useradd", "--create-home", name], check=True)
    atexit.register(lambda: subprocess.run(["userdel", "--remove", "--force", name], stderr=subprocess.DEVNULL))
    return name


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            raise AssertionError(f"no JSON: {self!r}") from None

    def __repr__(self):
        return f"{self.status} {self.body[:600]!r}"


class Project:
    """A Workers project in a directory of its own, served until close(). `files`: {path: text}; `source`: a directory to copy."""

    user = None
    user_made = False

    def __init__(self, files=None, source=None, config=None, options=(), links=None, port=None):
        if not Project.user_made:
            Project.user, Project.user_made = ordinary_user(), True
        self.directory = tempfile.mkdtemp(prefix="cloister-workers-")
        os.chmod(self.directory, 0o755)
        if source:
            shutil.copytree(source, self.directory, dirs_exist_ok=True)
        for path, text in (files or {}).items():
            target = os.path.join(self.directory, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
        for path, target in (links or {}).items():
            os.symlink(target, os.path.join(self.directory, path))
        if config is not None:
            base = {"name": "test", "main": "index.js", "compatibility_date": "2026-11-01"}
            with open(os.path.join(self.directory, "wrangler.jsonc"), "w") as f:
                json.dump({**base, **config}, f)
        if Project.user:
            subprocess.run(["chown", "-hR", Project.user, self.directory], check=True)
        self.options = options
        self.port = free_port() if port is None else port  # 0: any free one; then the one that the program says
        self.log = open(self.directory + ".log", "w+")
        self.process = None
        self.start()

    def command(self):
        return [CLOISTER, "dev", self.directory, "--port", str(self.port), *self.options]

    @staticmethod
    def as_user(command):
        """The same, run by the user that the program runs as."""
        if not Project.user:
            return command
        keep = ",".join(k for k in os.environ if k.startswith("CLOISTER"))
        return ["runuser", "-u", Project.user, f"--whitelist-environment={keep}", "--", *command]

    def start(self):
        self.process = subprocess.Popen(self.as_user(self.command()), stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                        start_new_session=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            if not self.port:
                said = re.search(r"http://127\.0\.0\.1:(\d+)", self.output())
                self.port = int(said[1]) if said else 0
                time.sleep(0.05)
                continue
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"cloister {self.command()[1]} does not listen: " + self.output())

    def output(self):
        self.log.flush()
        with open(self.log.name, errors="replace") as f:
            return f.read()

    def request(self, method="GET", path="/", body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"content-type": "application/json", **(headers or {})}
        try:
            connection.request(method, path, body=body, headers=headers or {})
            r = connection.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            connection.close()

    def get(self, path="/", **more):
        return self.request("GET", path, **more)

    def raw(self, text, timeout=20):
        """Everything the server sends in answer to these bytes, until it closes or is silent for a second after the head."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            s.sendall(text)
            data = b""
            while True:
                if b"\r\n\r\n" in data:
                    s.settimeout(1)
                try:
                    more = s.recv(65536)
                except TimeoutError:
                    return data
                if not more:
                    return data
                data += more

    def stop(self, how=signal.SIGINT):
        if self.process and self.process.poll() is None:
            pid = self.process.pid
            if Project.user:  # runuser stands between
                children = open(f"/proc/{pid}/task/{pid}/children").read().split()
                pid = int(children[0]) if children else pid
            os.kill(pid, how)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise AssertionError(f"cloister {self.command()[1]} did not end: " + self.output()) from None

    def close(self):
        if self.log.closed:
            return
        try:
            self.stop()
        finally:
            self.log.close()
            os.unlink(self.directory + ".log")
            shutil.rmtree(self.directory, ignore_errors=True)


class Served(Project):
    """The same, hosted for good by a daemon with its state in the directory."""

    def command(self):
        return [CLOISTER, "serve", "--app", self.directory, "--app-listen", f"127.0.0.1:{self.port}", "--data-dir",
                self.directory + "/state", "--run-dir", self.directory + "/run", "--pool", "0", *self.options]


def children(pid):
    """All descendants of a process."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as f:
                    table.setdefault(int(re.sub(r"^.*\) . ", "", f.read()).split()[0]), []).append(int(entry))
            except OSError:
                pass
    out, todo = [], [pid]
    while todo:
        found = table.get(todo.pop(), [])
        out += found
        todo += found
    return out
