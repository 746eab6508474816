"""A `cloister serve` of the test's own, and its API over the Unix socket."""
import base64
import http.client
import json
import os
import re
import socket
import time
from urllib.parse import quote, urlencode

from harness import Failed, check, descendants, engines_in, equal


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__('localhost', timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, body, seconds):
        self.status, self.headers, self.body, self.seconds = status, headers, body, seconds

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            raise Failed(f'no JSON: {self!r}')

    @property
    def lines(self):
        return [json.loads(l) for l in self.body.splitlines()]

    @property
    def code(self):
        return self.json['error']['code']

    @property
    def field(self):
        return self.json['error'].get('field')

    def __repr__(self):
        return f'status {self.status} after {self.seconds:.1f} s: {self.body[:700]!r}'


class Daemon:
    def __init__(self, world, data=None, run=None):
        self.w = world
        self.data, self.run = data or world.data, run or world.rundir
        self.socket = os.path.join(self.run, 'cloister.sock')
        self.log_path = os.path.join(world.scratch, f'daemon-{os.path.basename(self.run)}.log')
        self.process = None
        self.start_daemon()

    def start_daemon(self):
        before = engines_in(self.run)
        log = open(self.log_path, 'ab')
        self.process = self.w.popen([self.w.cloister, 'serve', '--data-dir', self.data, '--run-dir', self.run, '--pool', '1'],
                                    env={'CLOISTER_SOCKET': self.socket}, stdin=-3, stdout=log, stderr=log)
        log.close()
        self.w.allowed.add(self.process.pid)
        end = time.monotonic() + 20
        while True:
            with socket.socket(socket.AF_UNIX) as s:
                try:
                    s.connect(self.socket)
                    break
                except OSError:
                    pass
            check(self.process.poll() is None and time.monotonic() < end, 'the daemon did not come up:', self.log()[-1500:])
            time.sleep(0.02)
        self.engines = engines_in(self.run) - before
        self.w.allowed_engines |= self.engines

    def log(self):
        return open(self.log_path, encoding='utf-8', errors='replace').read()

    def gone(self):
        """The daemon has ended: what it left counts from now on."""
        self.w.allowed_engines -= self.engines

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.gone()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(30)
        self.gone()
        equal(code, 0, 'the daemon\'s end: ' + self.log()[-800:])

    def alive(self):
        check(self.process.poll() is None, f'the daemon ended with {self.process.poll()}:', self.log()[-2500:])

    def rss_kib(self):
        return int(re.search(r'VmRSS:\s+(\d+)', open(f'/proc/{self.process.pid}/status').read())[1])

    # -- HTTP --

    def request(self, method, target, body=None, headers=None, timeout=60, **query):
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault('Content-Type', 'application/json')
        if query:
            target += '?' + urlencode(query, doseq=True)
        c = UnixConnection(self.socket, timeout)
        began = time.monotonic()
        try:
            c.request(method, target, body, headers)
            r = c.getresponse()
            data = r.read()
        finally:
            c.close()
        return Answer(r.status, dict(r.headers), data, time.monotonic() - began)

    def stream(self, path, accept='application/x-ndjson', timeout=60):
        """An answer that goes on: an object with .read1 and .readline."""
        c = UnixConnection(self.socket, timeout)
        c.request('GET', path, headers={'Accept': accept})
        r = c.getresponse()
        r.connection_kept = c
        return r

    def raw(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30)
        s.connect(self.socket)
        return s

    # -- containers --

    def start(self, **body):
        body.setdefault('entrypoint', ['/bin/sleep', '1000'])
        r = self.request('POST', '/v1/containers', body)
        equal(r.status, 201, f'start {body}: {r}')
        return r.json['name']

    def box(self, image, **body):
        """A container of a test image."""
        return self.start(image=image, entrypoint=['/box', 'sleep', '1000'], **body)

    def rm(self, *names):
        for name in names:
            r = self.request('DELETE', '/v1/containers/' + quote(name, safe=''))
            equal(r.status, 204, f'removing {name}: {r}')

    def exec(self, name, cmd, wait=True, **more):
        query = {k: more.pop(k) for k in ('encoding', 'timeout') if k in more}
        return self.request('POST', f'/v1/containers/{name}/exec', {'cmd': cmd, 'wait': wait, **more}, **query)

    def sh(self, name, script, **more):
        r = self.exec(name, ['/bin/sh', '-c', script], **more)
        equal(r.status, 200 if more.get('wait', True) else 201, f'{script}: {r}')
        return r.json

    def py(self, name, payload, facts=None, **more):
        r = self.exec(name, self.w.script(payload, facts), **more)
        equal(r.status, 200, f'payload: {r}')
        equal(r.json['exitCode'], 0, f'payload: {r}')
        return json.loads(r.json['stdout'].strip().splitlines()[-1])

    def files(self, name):
        return f'/v1/containers/{name}/files'


def shared(world):
    """The daemon of this program, started once; every test removes what it started."""
    if getattr(world, 'daemon', None) and world.daemon.process.poll() is None:
        return world.daemon
    world.daemon = Daemon(world)

    def nothing_left():
        d = world.daemon
        d.alive()
        names = [c['name'] for c in d.request('GET', '/v1/containers').json['containers']]
        for n in names:
            d.request('DELETE', '/v1/containers/' + n)
        check(not names, 'containers left by the test', names)
    if not getattr(world, 'daemon_checked', False):
        world.daemon_checked = True
        world.after.append(nothing_left)
        world.cleanups.append(lambda: world.daemon.process.poll() is None and world.daemon.process.kill())
    return world.daemon
