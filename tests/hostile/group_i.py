#!/usr/bin/python3
"""Group I: the API, its names and limits, and what the engine's list asks of every exec of a running container. There is one
tenant: whoever can open the socket."""
import io
import json
import os
import re
import socket
import stat
import struct
import subprocess
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from daemon import Daemon, UnixConnection, shared
from harness import KEPT, check, descendants, describe, equal, one_of, all_equal, main, processes, test
from oci import Entry, box_image, image, skeleton, tar

TRICKS = ['..', '%2e%2e', '%2E%2E%2Fx', 'a%2fb', '%00', 'a%00b', '%0a', 'a%0ab', '%c3%a9', '%ff%fe', '%', '%zz', '%2', '.', '-x', '-',
          '_', 'x' * 65, 'x' * 4000, '%1b%5b2J', 'a b', 'a+b', "';drop--", '%25', '*', '~', '$(id)', 'UPPER CASE']


@test('I1 container names and ids: unguessable when we choose them, 404 with one body for whatever is not there; twin: the real one')
def i1(w):
    d = shared(w)
    names = [d.start() for _ in range(3)]
    ids = [d.request('GET', '/v1/containers/' + n).json['id'] for n in names]
    for text in ids:
        check(re.fullmatch('[0-9a-f]{32}', text), 'id of 128 bits', text)
    equal(len(set(names) | set(ids)) >= 3, True, 'distinct')
    bodies = set()
    for guess in ('nosuch', 'box', '0' * 32, 'a' * 32, ids[0][:-1] + ('0' if ids[0][-1] != '0' else '1')):
        r = d.request('GET', '/v1/containers/' + guess)
        equal((r.status, r.code), (404, 'NOT_FOUND'), f'{guess}: {r}')
        bodies.add(r.body.replace(guess.encode(), b'NAME'))
    equal(len(bodies), 1, f'bodies {bodies}')
    d.rm(*names)


@test('I2 every route with the name of no container: 404, nothing done; methods that no route has: 405; twin: the list of routes is served')
def i2(w):
    d = shared(w)
    routes = w.tool('serve', '--print-routes').text.splitlines()
    check(len(routes) > 30, 'routes', routes)
    seen = 0
    for line in routes:
        method, path = line.split()[:2]
        if '{name}' not in path or '/images/' in path:
            continue
        seen += 1
        path = path.replace('{name}', 'nosuch').replace('{id}', '1')
        body = {'/exec': {'cmd': ['true']}, '/signal': {'signal': 9}, '/mkdir': {'path': '/x'}, '/rename': {'from': '/a', 'to': '/b'},
                '/kill': {'signal': 9}, '/resize': {'cols': 1, 'rows': 1}, '/inactivity-timeout': {'ms': 1000},
                '/snapshots': {}, '/start': {}}.get(next((s for s in ('/exec', '/signal', '/mkdir', '/rename', '/kill', '/resize',
                                                                        '/inactivity-timeout', '/snapshots', '/start') if path.endswith(s)), ''), {})
        if '/files' in path and method in ('GET', 'PUT', 'DELETE') and 'mkdir' not in path:
            path += '?path=/x'
        if method == 'PATCH':
            body = {'labels': {}}
        r = d.request(method, path, body if method in ('POST', 'PATCH') or path.endswith('timeout') else None)
        equal((r.status, r.code), (404, 'NOT_FOUND'), f'{method} {path}: {r}')
    check(seen > 20, 'routes of containers', seen)
    for method, path in (('DELETE', '/v1/version'), ('PUT', '/v1/containers'), ('BREW', '/v1/version'), ('TRACE', '/v1/containers/x')):
        r = d.request(method, path)
        one_of(r.status, (404, 405, 501), f'{method}: {r}')
    equal(d.request('GET', '/v1/version').status, 200, 'twin')


@test('I4 names with "..", escapes, NUL, newlines, a leading "-", other letters, 4,000 bytes, in paths and bodies: 4xx; twin: a.b-c_1')
def i4(w):
    d = shared(w)
    for t in TRICKS:
        for method, tail in (('GET', ''), ('DELETE', ''), ('POST', '/destroy')):
            c = UnixConnection(d.socket, 20)
            c.putrequest(method, '/v1/containers/' + t.replace(' ', '%20') + tail, skip_accept_encoding=True)
            c.putheader('Content-Length', '0')
            c.endheaders()
            r = c.getresponse()
            body = r.read()
            c.close()
            check(400 <= r.status < 500, f'{method} {t[:40]}: {r.status} {body[:200]!r}')
    for name in ('..', '.', '-x', 'a/b', 'a\0b', 'a\nb', 'é', 'x' * 65, '', ' ', 'a b', '\x1b[2J', '%2e', '../../etc', 'x' * 100000, 5, None, ['x'], {}):
        r = d.request('POST', '/v1/containers', {'name': name, 'entrypoint': ['/bin/true']})
        if r.status == 201 and name is None:
            d.rm(r.json['name'])
            continue
        equal((r.status, r.code), (400, 'INVALID_ARGUMENT'), f'{name!r}: {r}')
        equal(r.field, 'name', f'{name!r}')
    c = d.raw()
    try:
        c.sendall(b'GET /v1/containers/' + b'x' * (1 << 20) + b' HTTP/1.1\r\nHost: x\r\n\r\n')
        answer = c.recv(300)
    except (BrokenPipeError, ConnectionResetError):
        answer = b''
    check(answer == b'' or answer.split()[1][:1] == b'4', 'a name of a megabyte', answer)
    c.close()
    d.alive()
    equal(d.start(name='a.b-c_1'), 'a.b-c_1', 'twin')
    equal(os.listdir(w.outside), [], 'outside')
    d.rm('a.b-c_1')


PLANT = r'''
import shutil
os.makedirs("/in/dir"); open("/in/file", "w").write("plain")
for n, t in dict(secret=C["secret_files"][0], up="../../../../../.." + C["secret_files"][0], base=C["base"], root="/proc/1/root", me="/proc/self/root",
                 loop="loop", zero="/dev/zero", fd="/proc/self/fd/0", environ="/proc/1/environ", outside=C["outside"], inside="file").items():
    os.symlink(t, "/in/" + n)
os.mkfifo("/in/fifo")
s = socket.socket(socket.AF_UNIX); s.bind("/in/socket")
with open("/in/sparse", "wb") as f: f.truncate(1 << 40)
'''


@test('I5 files API on symlinks to the host, magic links, FIFO, socket, device, directory, /proc, a sparse terabyte: typed errors in time; '
      'twin: read, write, symlink inside')
def i5(w):
    d = shared(w)
    n = d.start()
    d.py(n, PLANT, w.facts())
    f = d.files(n)
    for path in ('/in/secret', '/in/up', '/in/base/secret.txt', '/in/root' + w.secret_files[0], '/in/me' + w.secret_files[0], '/in/loop', '/in/zero',
                 '/in/fifo', '/in/socket', '/in/dir', '/in/fd', '/in/environ', '/proc/1/environ', '/proc/self/environ', '/proc/kcore', '/dev/zero',
                 '/dev/tty', '/sys/kernel/notes', '/proc/self/root/etc/passwd', '/in/file/x', '../../etc/passwd', 'relative', '', '/a\0b', '/' + 'x' * 5000,
                 '/in/' + 'y' * 300, '/proc/self/fd/0', '/proc/self/map_files', '/in/../../../../' + w.secret_files[0]):
        r = d.request('GET', f, path=path, timeout=15)
        check(400 <= r.status < 500, f'reading {path[:60]!r}: {r}')
        check(r.json['error']['code'] and w.secret.encode() not in r.body, path, r)
        check(r.seconds < 5, f'{path}: {r.seconds:.1f} s')
    for path in ('/in/fifo', '/in/dir', '/in/loop', '/in/zero', '/dev/zero', '/proc/self/oom_score_adj', '/proc/sys/kernel/hostname', '/usr/x', '/sys/x',
                 '/in/outside/x', '/in/root/x', '/in/file/x', 'x', '', '/in/fd'):
        r = d.request('PUT', f, b'written', path=path, timeout=15)
        if path in ('/in/fifo', '/in/loop', '/in/zero', '/in/fd') and r.status in (200, 201):
            continue  # replaced atomically by a regular file, inside
        check(400 <= r.status < 500, f'writing {path!r}: {r}')
        check(r.seconds < 5, f'{path}: {r.seconds:.1f} s')
    r = d.request('GET', f, path='/in/sparse', offset=(1 << 40) - 10, length=10)
    equal((r.status, r.body), (200, bytes(10)), 'range of the sparse file')
    c = d.stream(f + '?path=/in/sparse')
    c.read(1 << 20)
    c.connection_kept.close()  # nobody has to take a terabyte
    for path in ('/in/up', '/in/outside', '/in/base'):
        one_of(d.request('DELETE', f, path=path, recursive='true').status, (204,), f'removing the link {path}')
    equal((d.request('GET', f, path='/in/file').body, d.request('GET', f, path='/in/inside').body), (b'plain', b'plain'), 'twin')
    r = d.request('PUT', f, b'new', path='/in/inside')
    check(r.status in (200, 201), f'twin: writing through a link inside: {r}')
    d.rm(n)


@test('I5 files API racing a guest that swaps a directory for a symlink: nothing outside, secret never read; twin: some operations succeed')
def i5_race(w):
    d = shared(w)
    n = d.start()
    swap = r'''
os.makedirs("/r/a"); os.makedirs("/r/b"); open("/r/a/f", "w").write("mine")
os.symlink(C["base"], "/r/link")
end = time.time() + 4
while time.time() < end:
    for p, q in (("/r/a", "/r/x"), ("/r/link", "/r/a"), ("/r/a", "/r/link"), ("/r/x", "/r/a")):
        try: os.rename(p, q)
        except OSError: pass
'''
    r = d.exec(n, w.script(swap, w.facts()), wait=False)
    equal(r.status, 201, f'{r}')
    ok, end = 0, time.monotonic() + 3.5
    while time.monotonic() < end:
        for method, path, body in (('GET', '/r/a/f', None), ('PUT', '/r/a/secret.txt', b'owned'), ('PUT', '/r/a/outside/x', b'owned'),
                                   ('GET', '/r/a/secret.txt', None), ('DELETE', '/r/a/secret.txt', None)):
            a = d.request(method, d.files(n), body, path=path)
            check(a.status < 500, f'{method} {path}: {a}')
            check(w.secret.encode() not in a.body, 'the secret came out')
            ok += a.status < 300
    check(ok > 0, 'twin')
    d.rm(n)


@test('I6 downloaded archive of a hostile directory: only relative names without "..", no device; `cloister cp` leaves nothing that leads '
      'out; twin: plain files, modes and inner links')
def i6(w):
    d = shared(w)
    n = d.start()
    d.py(n, PLANT + r'''
os.chmod("/in/file", 0o4755)
os.symlink("../../../etc/passwd", "/in/dir/deep"); os.link("/in/file", "/in/hard")
open("/in/new\nline", "w").write("x"); open("/in/esc\x1b[2J", "w").write("x"); open(b"/in/caf\xe9", "w").write("x"); os.makedirs("/in/" + "d/" * 50)
''', w.facts())
    d.request('DELETE', d.files(n), path='/in/sparse')
    r = d.request('GET', d.files(n) + '/archive', path='/in')
    equal(r.status, 200, f'archive: {r}')
    members = tarfile.open(fileobj=io.BytesIO(r.body), errors='surrogateescape').getmembers()
    for m in members:
        parts = m.name.split('/')
        check(not m.name.startswith('/') and '..' not in parts, 'a name that leaves', m.name)
        check(not m.isdev() or m.isfifo(), 'a device', m.name)
        if m.islnk():
            check(not m.linkname.startswith('/') and '..' not in m.linkname.split('/'), 'a hard link that leaves', m.linkname)
    names = {m.name.removeprefix('./').removeprefix('in/') for m in members}
    check({'file', 'dir', 'inside'} <= names, 'twin', sorted(names)[:30])
    to = os.path.join(w.scratch, 'cp-out')
    r = w.tool('cp', f'{n}:/in', to, env={'CLOISTER_SOCKET': d.socket})
    one_of(r.code, (0, 125), f'cp: {r}')
    check('\x1b' not in r.errtext, 'raw escapes on the terminal', r.errtext[:300])
    check(os.path.isdir(to), 'twin: cp', r)
    equal(open(to + '/file').read(), 'plain', 'twin: cp')
    check(os.stat(to + '/file').st_mode & 0o6000 == 0, 'setuid came out')
    out = []
    for top, dirs, files in os.walk(to):
        for x in dirs + files:
            p = os.path.join(top, x)
            if not os.path.realpath(p).startswith(os.path.realpath(to) + '/') or stat.S_IFMT(os.lstat(p).st_mode) not in (
                    stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                out.append(p)
    equal(out, [], 'what leads out')
    d.rm(n)


@test('I6 uploaded archive with "..", absolute names, writes through its own symlinks and those of the guest: stays below its directory; '
      'twin: an honest tree')
def i6_up(w):
    d = shared(w)
    n = d.start()
    d.py(n, 'os.makedirs("/in"); os.makedirs("/elsewhere"); os.symlink("/elsewhere", "/in/door")')
    f = d.files(n) + '/archive'
    for entries in ([Entry.file('../up', 'x')], [Entry.file('/abs', 'x')], [Entry.link('way', '/elsewhere'), Entry.file('way/x', 'x')],
                    [Entry.file('door/x', 'x')], [Entry.hard('h', '/etc/passwd')], [Entry.hard('h', '../etc/passwd')],
                    [Entry.node('dev', 'b', 8, 0)], [Entry.file('a/../../y', 'x')], [Entry.link('w2', '..'), Entry.dir('w2/elsewhere/made')],
                    [Entry.file(b'nul', b'x', pax={b'path': b'a\0b'})], [Entry('big', b'0', b'', size=1 << 50)]):
        r = d.request('PUT', f, tar(entries), path='/in')
        check(r.status == 200 or 400 <= r.status < 500 or r.code == 'CORRUPT', f'{entries[0].name}: {r}')
        left = d.sh(n, 'ls /elsewhere /up /abs /y 2>/dev/null | grep -v : ; ls -l /etc/passwd | cut -c1-12')
        equal(left['stdout'].split()[:1], ['-rw-r--r--'], f'{entries[0].name} came out of /in: {left["stdout"]!r}')
    r = d.request('PUT', f, tar([Entry.dir('t'), Entry.file('t/f', 'honest'), Entry.link('t/l', 'f')]), path='/in')
    equal(r.status, 200, f'twin: {r}')
    equal(d.request('GET', d.files(n), path='/in/t/l').body, b'honest', 'twin')
    d.rm(n)


@test('I8 300 half-open requests, silent upgrades, bodies that never come, 100 streams that nobody reads: others are served in 2 s, '
      'memory flat; twin: the streams work')
def i8(w):
    d = shared(w)
    n = d.start()
    before = d.rss_kib()
    held = []
    for i in range(300):
        c = d.raw()
        c.sendall([b'GET /v1/ver', b'POST /v1/containers HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{',
                   b'GET /v1/version HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
                   f'GET /v1/containers/{n}/monitor HTTP/1.1\r\nHost: x\r\n\r\n'.encode()][i % 4])
        held.append(c)
    x = d.sh(n, 'yes flood', wait=False, overflow='drop', outputLimit=65536)
    for _ in range(100):
        c = d.raw()
        c.sendall(f'GET /v1/containers/{n}/exec/{x["id"]}/output HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
        held.append(c)
    for _ in range(10):
        r = d.request('GET', '/v1/version', timeout=10)
        check(r.status == 200 and r.seconds < 2, f'others: {r}')
        time.sleep(0.1)
    grown = d.rss_kib() - before
    check(grown < 128 << 10, f'the daemon grew by {grown} KiB')
    for c in held:
        c.close()
    equal(d.request('DELETE', f'/v1/containers/{n}/exec/{x["id"]}').status, 204, 'killing the flood')
    equal(d.sh(n, 'echo fine')['stdout'], 'fine\n', 'twin')
    d.rm(n)


@test('I9 exec bodies that are wrong: 4xx with the field, never 5xx, and the container goes on; twin: the odd but legal ones')
def i9(w):
    d = shared(w)
    n = d.start()
    path = f'/v1/containers/{n}/exec'
    cases = [
        ({}, 'cmd'), ({'cmd': []}, 'cmd'), ({'cmd': 'ls'}, 'cmd'), ({'cmd': [1]}, 'cmd'), ({'cmd': ['']}, 'cmd'), ({'cmd': ['a\0b']}, 'cmd'),
        ({'cmd': ['x' * (10 << 20)]}, None), ({'cmd': ['echo'] + ['x'] * 1000000}, None), ({'cmd': ['nosuch-program']}, None),
        ({'cmd': ['true'], 'cwd': '/nosuch'}, 'cwd'), ({'cmd': ['true'], 'cwd': 'relative'}, 'cwd'), ({'cmd': ['true'], 'cwd': '/etc/passwd'}, 'cwd'),
        ({'cmd': ['true'], 'cwd': '/proc/self/fd/3'}, 'cwd'), ({'cmd': ['true'], 'cwd': '/a\0b'}, 'cwd'), ({'cmd': ['true'], 'cwd': ''}, 'cwd'),
        ({'cmd': ['true'], 'env': {'A=B': 'x'}}, 'env'), ({'cmd': ['true'], 'env': {'': 'x'}}, 'env'), ({'cmd': ['true'], 'env': {'A': 'x\0y'}}, 'env'),
        ({'cmd': ['true'], 'env': {'A\0': 'x'}}, None), ({'cmd': ['true'], 'env': ['A=B']}, 'env'), ({'cmd': ['true'], 'env': {'A': 1}}, 'env'),
        ({'cmd': ['true'], 'user': '4294967295'}, 'user'), ({'cmd': ['true'], 'user': '4294967296'}, 'user'), ({'cmd': ['true'], 'user': '-1'}, 'user'),
        ({'cmd': ['true'], 'user': 'nosuch'}, 'user'), ({'cmd': ['true'], 'user': '0:nosuch'}, 'user'), ({'cmd': ['true'], 'user': 'a\nb'}, 'user'),
        ({'cmd': ['true'], 'timeoutMs': -1}, 'timeoutMs'), ({'cmd': ['true'], 'timeoutMs': 10 ** 18}, 'timeoutMs'), ({'cmd': ['true'], 'timeoutMs': 1.5}, 'timeoutMs'),
        ({'cmd': ['true'], 'timeoutMs': '5'}, 'timeoutMs'), ({'cmd': ['true'], 'outputLimit': -5}, 'outputLimit'), ({'cmd': ['true'], 'outputLimit': 1 << 40}, 'outputLimit'),
        ({'cmd': ['true'], 'stdin': 'yes'}, 'stdin'), ({'cmd': ['true'], 'stdout': 5}, 'stdout'), ({'cmd': ['true'], 'overflow': 'maybe'}, 'overflow'),
        ({'cmd': ['true'], 'pty': {'cols': 0, 'rows': 5}}, 'pty'), ({'cmd': ['true'], 'pty': {'cols': 70000, 'rows': 5}}, 'pty'), ({'cmd': ['true'], 'pty': True}, 'pty'),
        ({'cmd': ['true'], 'stdinBase64': '***'}, 'stdinBase64'), ({'cmd': ['true'], 'unknown': 1}, 'unknown'), ({'cmd': ['true'], '__proto__': {}}, '__proto__'),
        ({'cmd': ['true'], 'wait': 'true'}, 'wait'), ([], None), ('text', None), (5, None), (None, None),
    ]
    for body, field in cases:
        r = d.request('POST', path, json.dumps(body).encode(), {'Content-Type': 'application/json'})
        check(400 <= r.status < 500, f'{str(body)[:90]}: {r}')
        check(r.json['error']['message'], 'no message')
        if field:
            check((r.field or '').split('.')[0].split('[')[0] in (field, 'argv' if field == 'cmd' else field), f'{str(body)[:90]}: names {r.field!r}')
    for raw in (b'', b'{', b'{"cmd": ["true"], "timeoutMs": NaN}', b'{"cmd": ["true"]} x', b'[' * 200000, b'{"cmd":["true"],"cmd":["false"]}', b'\xff\xfe', b'"\\ud800"',
                b'{"a":' * 5000, b'{"cmd": ["\\u0000"]}', b'{"cmd": ["true"], "timeoutMs": 1e400}'):
        r = d.request('POST', path, raw, {'Content-Type': 'application/json'})
        check(400 <= r.status < 500, f'{raw[:60]!r}: {r}')
    for signal in (0, 65, -9, 1.5, '9', None):
        r = d.request('POST', f'/v1/containers/{n}/signal', {'signal': signal})
        equal((r.status, r.field), (400, 'signal'), f'signal {signal}: {r}')
    r = d.exec(n, ['/bin/sh', '-c', 'printf %s "$V"; pwd'], env={'V': 'a\nb=ĉ🙂'}, cwd='/tmp/../var/tmp')
    equal(r.json['stdout'], 'a\nb=ĉ🙂/var/tmp\n', 'twin')
    r = d.exec(n, ['/bin/echo', '', 'x' * 100000])
    equal((r.status, len(r.json['stdout'])), (200, 100002), 'twin')
    d.rm(n)


@test('I9 start bodies that are wrong: 4xx with the field, no container made; twin: a full legal body')
def i9_start(w):
    d = shared(w)
    cases = [
        ({'image': 'nosuch'}, None), ({'image': '../../etc'}, 'image'), ({'image': ''}, 'image'), ({'image': 5}, 'image'), ({'entrypoint': 'sh'}, 'entrypoint'),
        ({'entrypoint': []}, None), ({'entrypoint': ['a\0']}, 'entrypoint'), ({'env': {'A=': ''}}, 'env'), ({'instance': 'huge'}, 'instance'), ({'instance': {'memoryMib': -1}}, 'instance'),
        ({'instance': {'memoryMib': 1 << 60}}, 'instance'), ({'instance': {'vcpu': 0}}, 'instance'), ({'instance': {'vcpu': 'x'}}, 'instance'), ({'instance': {'pids': 0}}, None),
        ({'instance': {'diskMb': -3}}, 'instance'), ({'instance': {'unknown': 3}}, 'instance'), ({'hardTimeout': -1}, 'hardTimeout'), ({'hardTimeout': 1e300}, 'hardTimeout'),
        ({'labels': {'a\nb': 'x'}}, 'labels'), ({'labels': {f'k{i}': 'v' for i in range(1000)}}, 'labels'), ({'labels': {'k': 'v' * 100000}}, 'labels'), ({'labels': 5}, 'labels'),
        ({'snapshot': 'nosuch'}, None), ({'snapshot': '../x'}, 'snapshot'), ({'mounts': [{'snapshot': 'x' * 32, 'target': 'rel'}]}, 'mounts'), ({'mounts': [{'target': '/x'}]}, 'mounts'),
        ({'mounts': {'a': 1}}, 'mounts'), ({'cwd': 'rel'}, 'cwd'), ({'user': 'a b'}, 'user'), ({'unknown': 1}, 'unknown'), ({'stdin': 'maybe'}, 'stdin'), ({'enableInternet': 'yes'}, 'enableInternet'),
    ]
    for body, field in cases:
        r = d.request('POST', '/v1/containers', body)
        if r.status == 201 and 'instance' in body and body['instance'] == {'pids': 0}:
            d.rm(r.json['name'])
            continue
        check(400 <= r.status < 500 or r.status == 501, f'{str(body)[:90]}: {r}')
        if field:
            equal((r.field or '').split('.')[0].split('[')[0], field, f'{str(body)[:90]}: {r}')
    equal(d.request('GET', '/v1/containers').json['containers'], [], 'containers made')
    r = d.request('POST', '/v1/containers', {'name': 'full', 'image': 'host', 'entrypoint': ['/bin/sleep', '100'], 'env': {'A': 'b'}, 'labels': {'k': 'v'},
                                             'instance': {'memoryMib': 128, 'diskMb': 64, 'pids': 50}, 'hardTimeout': 60000, 'cwd': '/tmp', 'user': '0', 'stdin': 'none'})
    equal(r.status, 201, f'twin: {r}')
    d.rm('full')


@test('I10 exec deadline against ignored SIGTERM, forks that flee, self-stop, a grandchild that holds the pipe: "timeout" in time, tree gone; '
      'twin: the container and its other processes go on')
def i10(w):
    d = shared(w)
    n = d.start()
    other = d.sh(n, 'echo other; exec sleep 777', wait=False)
    for script in ('trap "" TERM INT HUP; while :; do sleep 1; done', '(setsid sh -c "trap \\"\\" TERM; exec sleep 888" & ) ; exec sleep 888', 'kill -STOP $$',
                   'sleep 888 & exec sleep 888', 'while :; do (exec sleep 888 &) ; sleep 0.2; done', 'exec >&- 2>&-; exec sleep 888'):
        r = d.exec(n, ['/bin/sh', '-c', 'echo out; ' + script], timeoutMs=700, timeout=20)
        equal(r.status, 200, f'{script}: {r}')
        equal(r.json['reason'], 'timeout', f'{script}: {r}')
        check(0.6 < r.seconds < 4, f'{script}: {r.seconds:.1f} s')
        equal(r.json['stdout'], 'out\n', f'{script}: output before the deadline')
        time.sleep(0.2)
        left = d.sh(n, 'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " " | grep -c "sleep 88[8]"')['stdout'].strip()
        equal(left, '0', f'{script}: processes left')
    equal(d.request('GET', f'/v1/containers/{n}/exec/{other["id"]}').json['state'], 'running', 'twin: the other exec')
    d.rm(n)


LIMITS = r'''
import resource
kept = {}
def use_up(name, make, most=200000):
    kept[name] = []
    try:
        while len(kept[name]) < most: kept[name].append(make())
        R[name] = [most, "no limit"]
    except OSError as e: R[name] = [len(kept[name]), outcome(e)]
use_up("inotify", lambda: syscall(294, 0))
if kept["inotify"]:
    fd = kept["inotify"][0]
    os.makedirs("/tmp/w")
    def watch():
        n = len(kept["watches"]); p = "/tmp/w/%d" % n
        os.close(os.open(p, os.O_CREAT | os.O_WRONLY)); w = libc.inotify_add_watch(fd, p.encode(), 2)
        if w < 0: raise OSError(ctypes.get_errno(), "watch")
    use_up("watches", watch, 60000)
use_up("pty", lambda: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
def timer():
    t = ctypes.c_int(); syscall(222, 1, 0, ctypes.byref(t))
use_up("timers", timer, 100000)
print(json.dumps(R), flush=True)
sys.stdin.read()
'''


@test('I12 inotify instances and watches, ptys, timers used up inside and held: bounded, and the host\'s user can still make each; '
      'twin: a few of each inside')
def i12(w):
    import ctypes
    p = w.popen([w.cloister, 'run', '--nofile', '3000', '--disk', '1G', '--', *w.script(LIMITS)], stdin=-1, stdout=-1)
    line = p.stdout.readline()
    r = json.loads(line) if line else {}
    try:
        check(r, 'no report', line)
        host = w.py_outside(r'''
fd = libc.inotify_init()
R["inotify"] = "ok" if fd >= 0 else errno.errorcode[ctypes.get_errno()]
os.makedirs(C["scratch"] + "/watch", exist_ok=True)
R["watch"] = "ok" if libc.inotify_add_watch(fd, (C["scratch"] + "/watch").encode(), 2) >= 0 else errno.errorcode.get(ctypes.get_errno())
R["pty"] = attempt(lambda: os.openpty())
def timer():
    t = ctypes.c_int(); syscall(222, 1, 0, ctypes.byref(t))
R["timer"] = attempt(timer)
''', facts={'scratch': w.scratch})
    finally:
        p.stdin.close()
        p.wait(20)
        p.stdout.close()
    for k, v in r.items():
        check(v[1] != 'no limit' or k == 'watches' or v[0] <= 100000, k, v)
        check(v[0] >= 10, f'twin: {k}', v)
    all_equal(host, 'ok', f'on the host while the container holds {r}')


@test('I14 disk in a container of the daemon: ENOSPC by name, usage told, other containers and the daemon write on; twin: space comes back')
def i14(w):
    d = shared(w)
    a, b = d.start(instance={'diskMb': 16}), d.start()
    r = d.sh(a, 'head -c 100000000 /dev/zero > /tmp/full; echo $?; sync')
    check('No space left' in r['stderr'] and r['stdout'].startswith('1'), 'ENOSPC', r)
    r = d.request('PUT', d.files(a), b'x' * 100000, path='/root/one')
    equal((r.status, r.code), (507, 'ENOSPC'), f'files API: {r}')
    equal(d.sh(b, 'head -c 1000000 /dev/zero > /tmp/ok; echo $?')['stdout'], '0\n', 'the other container')
    equal(d.sh(a, 'rm /tmp/full; head -c 8000000 /dev/zero > /tmp/again; echo $?')['stdout'], '0\n', 'twin')
    d.rm(a, b)


@test('I16 one name raced by 16 clients: one wins, the others get 409; start, exec and destroy at once: every call ends; twin: the name works after')
def i16(w):
    d = shared(w)
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda _: d.request('POST', '/v1/containers', {'name': 'raced', 'entrypoint': ['/bin/sleep', '100']}).status, range(16)))
    equal(sorted(got), [201] + [409] * 15, 'statuses')

    def storm(i):
        kind = i % 4
        if kind == 0:
            return d.request('POST', '/v1/containers/raced/destroy', {'reason': f'storm {i}'}).status
        if kind == 1:
            return d.request('POST', '/v1/containers/raced/start', {}).status
        if kind == 2:
            return d.exec('raced', ['/bin/true'], timeout=30).status
        return d.request('GET', '/v1/containers/raced').status
    with ThreadPoolExecutor(12) as pool:
        got = list(pool.map(storm, range(80)))
    bad = [s for s in got if s >= 500 or s == 404]
    equal(bad, [], 'statuses of the storm')
    d.request('POST', '/v1/containers/raced/destroy', {})
    equal(d.request('POST', '/v1/containers/raced/start', {}).status, 200, 'twin')
    equal(d.sh('raced', 'echo on')['stdout'], 'on\n', 'twin')
    d.rm('raced')


@test('I16 40 containers made and removed by 6 clients: no process, cgroup, directory or descriptor of the daemon stays; twin: each answers')
def i16_storm(w):
    d = shared(w)

    def counts():
        return len(os.listdir(f'/proc/{d.process.pid}/fd')), len(descendants(d.process.pid)), len(w.cgroup.children())

    def cycle(i):
        n = d.start()
        text = d.sh(n, f'echo {i}')['stdout']
        d.rm(n)
        return text
    cycle(0)
    time.sleep(0.5)
    before = counts()
    with ThreadPoolExecutor(6) as pool:
        equal(list(pool.map(cycle, range(40))), [f'{i}\n' for i in range(40)], 'twin')
    end = time.monotonic() + 6
    while time.monotonic() < end and any(a > b + 2 for a, b in zip(counts(), before)):
        time.sleep(0.1)
    check(all(a <= b + 2 for a, b in zip(counts(), before)), f'before {before}, after {counts()}')


@test('I17 kill -9 of the daemon: its containers end, a restart tells "daemon restart" of each and removes the rest; twin: they can be started')
def i17(w):
    d = shared(w)
    names = [d.start(name=f'crash{i}', entrypoint=['/bin/sh', '-c', 'trap "" TERM; (setsid sleep 999 &); while :; do sleep 1; done']) for i in range(3)]
    d.sh(names[0], '(setsid sleep 999 &)', wait=False)
    inside = descendants(d.process.pid)
    check(len(inside) >= 6, 'processes', describe(inside))
    d.kill()
    end = time.monotonic() + 5
    while time.monotonic() < end and [p for p in inside if p[0] in processes()]:
        w.reap()
        time.sleep(0.05)
    equal(describe([p for p in inside if p[0] in processes()]), '', 'processes that outlived the daemon')
    d.start_daemon()
    w.check_leftovers()
    for n in names:
        r = d.request('GET', '/v1/containers/' + n).json
        equal((r['state'], r['stop']['reason']), ('stopped', 'daemon restart'), n)
    equal(d.request('POST', f'/v1/containers/{names[0]}/start', {}).status, 200, 'twin')
    equal(d.sh(names[0], 'echo again')['stdout'], 'again\n', 'twin')
    d.rm(*names)


@test('I17 kill -9 while a snapshot is made: after the restart every listed snapshot can be started, none is half; twin: one that was finished')
def i17_snapshot(w):
    d = shared(w)
    n = d.start(name='torn')
    d.sh(n, 'mkdir /data; i=0; while [ $i -lt 200 ]; do head -c 50000 /dev/urandom > /data/$i; i=$((i+1)); done')
    whole = d.request('POST', f'/v1/containers/{n}/snapshots', {'name': 'whole'})
    equal(whole.status, 201, f'{whole}')
    for delay in (0.02, 0.15):
        t = threading.Thread(target=lambda: d.request('POST', f'/v1/containers/{n}/snapshots', {'name': 'torn'}))
        old, threading.excepthook = threading.excepthook, lambda *_: None
        t.start()
        time.sleep(delay)
        d.kill()
        t.join()
        threading.excepthook = old
        d.start_daemon()
        d.request('POST', f'/v1/containers/{n}/start', {})
        d.sh(n, 'mkdir -p /data; head -c 5000000 /dev/urandom > /data/more')
    listed = d.request('GET', '/v1/snapshots').json
    listed = listed.get('snapshots', listed)
    check(any(s['id'] == whole.json['id'] for s in listed), 'twin: the finished one is there', listed)
    for s in listed:
        m = d.start(snapshot=s['id'])
        if s['id'] == whole.json['id']:
            equal(d.sh(m, 'ls /data | wc -l')['stdout'].strip(), '200', 'twin')
        d.rm(m)
        equal(d.request('DELETE', '/v1/snapshots/' + s['id']).status, 204, 'removing it')
    d.rm(n)


@test('I18 a second daemon on the same directories, on the same run directory, on the same data: refused, the first goes on; '
      'twin: one with directories of its own runs beside it')
def i18(w):
    d = shared(w)
    n = d.start()
    own = os.path.join(w.base, 'own')
    for sub in ('', '/data', '/run'):
        os.makedirs(own + sub, exist_ok=True)
        w.own(own + sub, 0o700)
    for data, run in ((w.data, w.rundir), (w.data, own + '/run'), (own + '/data', w.rundir)):
        r = w.tool('serve', '--data-dir', data, '--run-dir', run, timeout=20)
        equal(r.code, 125, f'{data} {run}: {r}')
        check(r.err.strip(), 'no message')
    equal(d.sh(n, 'echo here')['stdout'], 'here\n', 'the first daemon\'s container')
    two = Daemon(w, own + '/data', own + '/run')
    m = two.start()
    equal(two.sh(m, 'echo two')['stdout'], 'two\n', 'twin')
    two.rm(m)
    two.stop()
    equal(d.sh(n, 'echo here')['stdout'], 'here\n', 'after the other ended')
    d.rm(n)


@test('I20 the API is on no TCP port; its socket is 0600 in a 0700 directory, another user is refused; twin: the owner is served')
def i20(w):
    d = shared(w)
    inodes = set()
    for f in os.listdir(f'/proc/{d.process.pid}/fd'):
        try:
            link = os.readlink(f'/proc/{d.process.pid}/fd/{f}')
        except OSError:
            continue
        if link.startswith('socket:'):
            inodes.add(link[8:-1])
    inet = set()
    for f in ('tcp', 'tcp6', 'udp', 'udp6'):
        path = f'/proc/{d.process.pid}/net/{f}'
        if os.path.exists(path):
            inet |= {l.split()[9] for l in open(path).readlines()[1:]}
    equal(inodes & inet, set(), 'Internet sockets of the daemon')
    check(inodes, 'its sockets')
    st = os.stat(d.socket)
    equal((stat.S_IMODE(st.st_mode), st.st_uid), (0o600, w.uid), 'the socket')
    equal(stat.S_IMODE(os.stat(d.run).st_mode), 0o700, 'its directory')
    if os.geteuid() == 0:
        code = 'import socket,sys\ntry: socket.socket(socket.AF_UNIX).connect(sys.argv[1])\nexcept OSError as e: print(type(e).__name__)'
        r = subprocess.run(['/usr/bin/python3', '-c', code, d.socket], user=65534, group=65534, extra_groups=[], stdout=subprocess.PIPE, cwd='/')
        equal(r.stdout, b'PermissionError\n', 'another user')
    equal(d.request('GET', '/v1/version').status, 200, 'twin')


@test('I21 newlines and terminal escapes in labels, reasons, commands, names of files: refused or escaped in ps, logs of the daemon, errors; '
      'twin: a plain label is found')
def i21(w):
    d = shared(w)
    evil = '\x1b]0;owned\x07\nFAKE 2026 error: gone'
    n = d.start(name='loud', labels={'plain': 'yes'}, entrypoint=['/bin/sh', '-c', 'exec sleep 100', evil])
    r = d.request('PATCH', '/v1/containers/loud', {'labels': {'plain': 'yes', 'v': evil}})
    one_of(r.status, (200, 400), f'label value: {r}')
    d.exec('loud', ['/nosuch' + evil])
    d.request('GET', d.files('loud'), path='/nosuch' + evil)
    d.request('POST', '/v1/containers/loud/destroy', {'reason': evil})
    env = {'CLOISTER_SOCKET': d.socket}
    for args in (['ps', '-a'], ['inspect', 'loud'], ['ps', '-a', '--json'], ['exec', 'loud', '--', 'x' + evil], ['logs', 'loud'], ['files', 'cat', 'loud', '/x' + evil],
                 ['exec', 'no' + evil, '--', 'ls'], ['image', 'inspect', 'x' + evil]):
        r = w.tool(*args, env=env)
        check('\x1b' not in r.text + r.errtext and '\x07' not in r.text + r.errtext, f'raw escapes from {args[:2]}: {r}')
        check('\nFAKE' not in r.text + r.errtext, f'a forged line from {args[:2]}: {r}')
    log = d.log()
    check('\x1b' not in log and '\nFAKE' not in log, 'the daemon\'s log', log[-600:])
    r = d.request('GET', '/v1/containers', label='plain=yes')
    equal([c['name'] for c in r.json['containers']] if r.json['containers'] else ['loud'], ['loud'], 'twin')
    d.rm('loud')


# ---- what the engine's list asks of every exec ----

@test('E4 descriptors of every exec, with pipes, pty, no stdin: 0, 1, 2 and no more, also while 20 run at once; twin: their output arrives')
def e4_exec(w):
    d = shared(w)
    n = d.start()
    payload = r'''
R["fds"] = sorted(int(f) for f in os.listdir("/proc/self/fd") if attempt(os.fstat, int(f)) == "ok")
R["socket"] = [stat.S_ISSOCK(os.fstat(f).st_mode) for f in range(3)]
'''
    for more in ({}, {'stdinText': 'x'}, {'stderr': 'combined'}, {'stdout': 'pipe', 'stderr': 'ignore'},
                 {'pty': {'cols': 80, 'rows': 25}}):
        equal(d.py(n, payload, **more), {'fds': [0, 1, 2], 'socket': [False] * 3}, str(more))
    with ThreadPoolExecutor(20) as pool:
        got = list(pool.map(lambda _: d.py(n, payload + 'time.sleep(0.3)'), range(20)))
    equal([g['fds'] for g in got], [[0, 1, 2]] * 20, 'at once')
    d.rm(n)


@test('A14 capabilities of an exec into a running container, as root and as another user: the same sets as the main process; twin: uid')
def a14_exec(w):
    d = shared(w)
    n = d.start()
    payload = r'''
R = {l.split(":")[0]: int(l.split()[1], 16) for l in open("/proc/self/status") if l.startswith(("Cap", "NoNewPrivs", "Seccomp:"))}
R["uid"] = os.getuid()
'''
    k = KEPT
    common = {'CapInh': 0, 'CapAmb': 0, 'CapBnd': k, 'NoNewPrivs': 1, 'Seccomp': 2}
    equal(d.py(n, payload), {**common, 'CapPrm': k, 'CapEff': k, 'uid': 0}, 'root')
    equal(d.py(n, payload, user='65534'), {**common, 'CapPrm': 0, 'CapEff': 0, 'uid': 65534}, 'nobody')
    d.rm(n)


@test('A25 two execs of one container share it, as documented: one trust domain; but not with the daemon: environment, stdin of the other kept; '
      'twin: docs/security.md says so')
def a25_exec(w):
    d = shared(w)
    n = d.start()
    x = d.sh(n, 'exec sleep 500', wait=False, env={'MARK': 'marked'})
    seen = d.py(n, r'''
R["other"] = [p for p in os.listdir("/proc") if p.isdigit() and "MARK=marked" in slurp("/proc/%s/environ" % p)]
R["daemon"] = [p for p in os.listdir("/proc") if p.isdigit() and "HOSTILE_ENV_SECRET" in slurp("/proc/%s/environ" % p)]
''')
    equal((len(seen['other']), seen['daemon']), (1, []), 'environments')
    text = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs', 'security.md')).read()
    check(re.search(r'one trust domain', text, re.I), 'docs/security.md does not say that a container is one trust domain')
    d.rm(n)


@test('A26 the agent attacked while it works: prlimit, stop signals, oom score, 300 execs and file operations at once: answers or typed ends; '
      'twin: a container beside it')
def a26_exec(w):
    d = shared(w)
    n, other = d.start(), d.start()
    d.exec(n, w.script(r'''
for s in range(1, 65):
    if s not in (32, 33):
        try: os.kill(1, s)
        except OSError: pass
for which in range(16):
    attempt(lambda: syscall("prlimit64", 1, which, ctypes.create_string_buffer(bytes(16)), 0))
put("/proc/1/oom_score_adj", "1000")
'''))
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda i: (d.exec(n, ['/bin/echo', str(i)]) if i % 3 else d.request('GET', d.files(n), path='/etc/passwd')).status, range(60)))
    bad = [s for s in got if s not in (200, 400, 403, 404, 409, 410, 413, 500, 507)]
    equal(bad, [], 'statuses')
    d.alive()
    state = d.request('GET', '/v1/containers/' + n).json
    check(state['state'] == 'running' or state['stop'].get('detail') or state['stop']['reason'], 'an end without a reason', state)
    equal(d.sh(other, 'echo well')['stdout'], 'well\n', 'twin')
    d.rm(n, other)


@test('B1 the agent\'s binary during 30 execs, raced by a guest that opens every /proc/PID/exe and its memory: never had; twin: execs work')
def b1_exec(w):
    d = shared(w)
    n = d.start()
    x = d.exec(n, w.script(r'''
end = time.time() + 3; bad = []
while time.time() < end:
    for p in os.listdir("/proc"):
        if not p.isdigit(): continue
        try:
            link = os.readlink("/proc/%s/exe" % p)
            if "memfd" in link or "cloister" in link:
                bad.append([link, opened("/proc/%s/exe" % p, os.O_RDWR), opened("/proc/%s/mem" % p, os.O_RDWR)])
        except OSError: pass
R["bad"] = bad[:5]
'''), wait=False).json
    for i in range(30):
        equal(d.sh(n, f'echo {i}')['stdout'], f'{i}\n', 'twin')
    r = d.stream(f'/v1/containers/{n}/exec/{x["id"]}/output')
    text = ''.join(json.loads(l).get('text', '') for l in r.read().splitlines())
    r.connection_kept.close()
    equal(json.loads(text.strip().splitlines()[-1])['bad'], [], 'the agent\'s program')
    d.rm(n)


@test('B5 a mount target that is, or passes through, a symlink of the image: refused and named, nothing outside; twin: a plain target')
def b5(w):
    d = shared(w)
    n = d.start()
    d.sh(n, 'mkdir -p /share; echo shared > /share/f')
    s = d.request('POST', f'/v1/containers/{n}/snapshots', {'dir': '/share', 'name': 'share'})
    equal(s.status, 201, f'{s}')
    sid = s.json['id']
    image_name = box_image(w, 'b5', [Entry.link('door', w.outside), Entry.link('in', 'tmp'), Entry.dir('ok'), Entry.file('file', 'x')])
    for target in ('/door', '/door/sub', '/in', '/in/sub', '/file', '/file/x', '/..', '/ok/../door', '/proc/x', '/sys/x', '/proc', '/', '//door', '/dev/x/..'):
        r = d.request('POST', '/v1/containers', {'image': image_name, 'entrypoint': ['/box', 'sleep', '100'], 'mounts': [{'snapshot': sid, 'target': target}]})
        if r.status == 201:
            d.rm(r.json['name'])
        check(400 <= r.status < 500, f'{target}: {r}')
        equal(os.listdir(w.outside), [], 'outside')
    m = d.box(image_name, mounts=[{'snapshot': sid, 'target': '/ok/deep/er'}])
    equal(d.exec(m, ['/box', 'cat', '/ok/deep/er/f']).json['stdout'], 'shared\n', 'twin')
    d.rm(n, m)
    equal(d.request('DELETE', '/v1/snapshots/' + sid).status, 204, 'removing it')


@test('B10 overlay marks set by the guest, then a snapshot, then a start from it: no redirect, nothing hidden, nothing of another image; '
      'twin: user.x survives')
def b10_snapshot(w):
    d = shared(w)
    n = d.start()
    r = d.py(n, r'''
os.makedirs("/root/r"); os.makedirs("/root/o"); open("/root/o/kept", "w").write("kept"); open("/root/m", "w").write("mine")
for p, k, v in (("/root/r", "redirect", b"/usr"), ("/root/r", "redirect", b"/../../../../../etc"), ("/root/o", "opaque", b"y"), ("/root/m", "metacopy", b""),
                ("/root/m", "redirect", b"/etc/passwd"), ("/etc", "opaque", b"y"), ("/root/r", "origin", b"\0" * 24), ("/root/m", "whiteout", b"y"), ("/root/o", "whiteouts", b"y")):
    R[k + p] = attempt(os.setxattr, p, "user.overlay." + k, v)
R["x"] = attempt(os.setxattr, "/root/m", "user.x", b"1")
try: os.mknod("/root/white", stat.S_IFCHR | 0o600, os.makedev(0, 0))
except OSError: pass
os.unlink("/etc/hosts")
''')
    s = d.request('POST', f'/v1/containers/{n}/snapshots', {})
    equal(s.status, 201, f'{s}')
    m = d.start(snapshot=s.json['id'])
    after = d.py(m, r'''
R["r"] = os.listdir("/root/r"); R["o"] = os.listdir("/root/o"); R["m"] = slurp("/root/m"); R["etc"] = "passwd" in os.listdir("/etc")
R["hosts"] = os.path.exists("/etc/hosts"); R["x"] = value(lambda: os.getxattr("/root/m", "user.x").decode())
''')
    equal((after['r'], after['o'], after['m'], after['etc'], after['hosts']), ([], ['kept'], 'mine', True, False), f'after the restore; set: {r}')
    if r['x'] == 'ok':
        equal(after['x'], '1', 'twin')
    d.rm(n, m)
    d.request('DELETE', '/v1/snapshots/' + s.json['id'])


@test('I17 the daemon told to end with containers running: all is gone, exit 0; twin: a new one answers with the same names')
def last(w):
    d = shared(w)
    d.start(name='stays', entrypoint=['/bin/sh', '-c', 'trap "" TERM; sleep 500 & wait; wait'])
    d.stop()
    w.check_leftovers()
    check(not os.path.exists(d.socket), 'its socket stays')
    d.start_daemon()
    equal(d.request('GET', '/v1/containers/stays').json['state'], 'stopped', 'twin')
    d.rm('stays')


if __name__ == '__main__':
    main(teardown=lambda w: getattr(w, 'daemon', None) and w.daemon.stop())
