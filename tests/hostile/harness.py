"""What the hostile tests share: canaries on the host, ways to run a payload inside a container, and the checks from outside
that every test ends with. Output is TAP, one line a test.

Environment: CLOISTER (the binary), CLOISTER_LIBEXEC (directories of its helpers), HOSTILE_PAYLOADS (the built C payloads),
HOSTILE_AS=root|user. As `user`, started by root, an ordinary user is made for the run and every `cloister` belongs to it.

A test passes only when, besides its own checks, every canary is untouched and nothing is left behind: no process, no mount,
no cgroup, no run directory, no temporary file of the image store."""
import atexit
import contextlib
import ctypes
import errno
import hashlib
import http.client
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
PRELUDE = open(os.path.join(HERE, 'payloads', 'prelude.py')).read()
PYTHON = '/usr/bin/python3'
libc = ctypes.CDLL(None, use_errno=True)

# Capabilities that root of a container has: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP,
# NET_BIND_SERVICE, SYS_CHROOT, SETFCAP.
KEPT = sum(1 << c for c in (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31))


class Failed(Exception):
    """A check did not hold."""


def check(condition, *says):
    if not condition:
        raise Failed(' '.join(s if isinstance(s, str) else repr(s) for s in says) or 'check failed')


def equal(got, want, what=''):
    check(got == want, f'{what}: expected {want!r}, got {got!r}')


def one_of(got, wanted, what=''):
    check(got in wanted, f'{what}: expected one of {wanted!r}, got {got!r}')


def all_equal(results, want, what=''):
    """Every value of the dict is `want` (or one of it, when it is a tuple); and there is at least one."""
    wanted = want if isinstance(want, tuple) else (want,)
    bad = {k: v for k, v in results.items() if v not in wanted}
    check(results and not bad, f'{what}: expected {want!r} everywhere, got {bad!r}')


# ---- processes ----

def processes():
    """{pid: (parent, state, name)} of the whole machine."""
    table = {}
    for entry in os.listdir('/proc'):
        if entry.isdigit():
            try:
                text = open(f'/proc/{entry}/stat').read()
            except OSError:
                continue
            name, rest = text[text.index('(') + 1:text.rindex(')')], text[text.rindex(')') + 2:].split()
            table[int(entry)] = (int(rest[1]), rest[0], name)
    return table


def descendants(top, without=()):
    table = processes()
    below = {}
    for pid, (parent, _, _) in table.items():
        below.setdefault(parent, []).append(pid)
    found, queue = [], [top]
    while queue:
        for pid in below.get(queue.pop(), ()):
            if pid not in without:
                found.append(pid)
                queue.append(pid)
    return [(pid, *table[pid]) for pid in found if pid in table]


def engines_in(rundir):
    """The ids of the engines that say there that they live."""
    names = os.listdir(rundir) if os.path.isdir(rundir) else ()
    return {n for n in names if re.fullmatch('[0-9a-f]{12}(\\.new)?', n)}


def describe(procs):
    lines = []
    for pid, parent, state, name in procs:
        try:
            args = open(f'/proc/{pid}/cmdline').read().replace('\0', ' ')[:100]
        except OSError:
            args = ''
        lines.append(f'{pid} (parent {parent}, {state}) {name}: {args}')
    return '; '.join(lines)


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds
        self.text = out.decode('utf-8', 'replace')
        self.errtext = err.decode('utf-8', 'replace')

    def __repr__(self):
        return f'exit {self.code} after {self.seconds:.1f} s, stdout {self.out[:600]!r}, stderr {self.err[:900]!r}'


# ---- the listeners that nobody may reach ----

class Listener:
    """Counts connections and keeps what they sent."""

    def __init__(self, family, kind, address):
        self.hits = []
        self.sock = socket.socket(family, kind)
        self.sock.bind(address)
        self.dgram = kind == socket.SOCK_DGRAM
        if not self.dgram:
            self.sock.listen(64)
        self.address = self.sock.getsockname()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                if self.dgram:
                    self.hits.append(self.sock.recvfrom(4096)[0])
                    continue
                peer, _ = self.sock.accept()
                self.hits.append(b'connected')
                peer.sendall(b'LISTENER-REACHED\n')
                peer.close()
            except OSError:
                return


# ---- System V IPC, which the standard library lacks ----

IPC_CREAT, IPC_EXCL, IPC_RMID = 0o1000, 0o2000, 0


class Ipc:
    """A shared memory segment and a message queue, open to everybody, holding a secret."""

    def __init__(self, secret):
        self.key = secrets.randbelow(0x7ffffff0) + 1
        self.secret = secret.encode()
        libc.shmat.restype = ctypes.c_void_p
        self.shm = libc.shmget(self.key, 4096, IPC_CREAT | IPC_EXCL | 0o666)
        self.queue = libc.msgget(self.key, IPC_CREAT | IPC_EXCL | 0o666)
        if self.shm < 0 or self.queue < 0:
            raise OSError(ctypes.get_errno(), 'cannot make System V canaries')
        self.address = libc.shmat(self.shm, None, 0)
        ctypes.memmove(self.address, self.secret + b'\0', len(self.secret) + 1)
        message = (1).to_bytes(8, 'little') + self.secret
        if libc.msgsnd(self.queue, message, len(self.secret), 0) < 0:
            raise OSError(ctypes.get_errno(), 'cannot send the canary message')

    def check(self):
        check(ctypes.string_at(self.address, len(self.secret)) == self.secret, 'the shared memory canary changed')
        state = ctypes.create_string_buffer(256)
        check(libc.msgctl(self.queue, 2, state) == 0, 'the message queue canary is gone')
        # struct msqid_ds on x86-64: perm 48, three times 8, cbytes 8, qnum
        check(int.from_bytes(state.raw[80:88], 'little') == 1, 'the message queue canary was read or written')

    def remove(self):
        libc.shmctl(self.shm, IPC_RMID, None)
        libc.msgctl(self.queue, IPC_RMID, None)


# ---- an own cgroup, so that what is left behind can be told from what others do ----

class OwnCgroup:
    HIERARCHIES = ('memory', 'pids', 'cpu', 'unified')

    def __init__(self):
        self.dirs, self.back = [], []
        if os.geteuid() != 0 or not os.path.isdir('/sys/fs/cgroup/memory'):
            return  # version 2 alone, or no rights: the engine makes its cgroups elsewhere
        own = {}
        for line in open('/proc/self/cgroup'):
            _, names, path = line.rstrip('\n').split(':', 2)
            for name in names.split(',') if names else ['unified']:
                own[name] = path
        for h in self.HIERARCHIES:
            top = f'/sys/fs/cgroup/{h}'
            if h not in own or not os.path.isdir(top):
                continue
            before = top + own[h].rstrip('/')
            mine = f'{before}/hostile-{os.getpid()}'
            try:
                os.mkdir(mine)
                open(mine + '/cgroup.procs', 'w').write(str(os.getpid()))
            except OSError:
                continue
            self.dirs.append(mine)
            self.back.append(before)

    def children(self):
        found = []
        for d in self.dirs:
            base = d + '/cloister'
            if os.path.isdir(base):
                found += [f'{base}/{x}' for x in os.listdir(base) if os.path.isdir(f'{base}/{x}')]
        return found

    def remove(self):
        for mine, before in zip(self.dirs, self.back):
            with contextlib.suppress(OSError):
                open(before + '/cgroup.procs', 'w').write(str(os.getpid()))
            for _ in range(20):
                for d, _, _ in os.walk(mine, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(d)
                if not os.path.exists(mine):
                    break
                time.sleep(0.05)


class World:
    """Everything that surrounds the tests of one program."""

    def __init__(self):
        self.mode = os.environ.get('HOSTILE_AS', 'root')
        self.token = secrets.token_hex(12)
        self.secret = 'CANARY-' + secrets.token_hex(16)
        self.env_secret = 'ENVSECRET-' + secrets.token_hex(16)
        self.base = tempfile.mkdtemp(prefix='cloister-hostile-')
        os.chmod(self.base, 0o755)
        self.user = None
        self.uid, self.gid = os.geteuid(), os.getegid()
        self.allowed = set()  # processes that may be there between tests
        self.allowed_engines = set()
        self.cleanups = []
        self.after = []  # further checks after each test
        atexit.register(self.close)
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(s, self.interrupted)
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: whatever escapes its parent becomes our child
        self.cgroup = OwnCgroup()
        self.cleanups.append(self.cgroup.remove)
        if self.mode == 'user' and self.uid == 0:
            self.make_user()
        self.make_dirs()
        self.copy_binaries()
        self.make_canaries()
        self.victim_process = None

    def interrupted(self, *_):
        """Told to end: nothing that catches exceptions may keep us."""
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(s, signal.SIG_IGN)
        self.close()
        os._exit(1)

    # -- setting up --

    def make_user(self):
        name = f'clh{os.getpid()}'
        home = os.path.join(self.base, 'home')
        subprocess.run(['useradd', '-M', '-d', home, '-s', '/bin/sh', name], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        self.cleanups.append(lambda: subprocess.run(['userdel', '-f', name], stdout=subprocess.DEVNULL,
                                                    stderr=subprocess.DEVNULL))
        # Others who change /etc/subuid at the same moment can undo what useradd wrote.
        for path, option in (('/etc/subuid', '--add-subuids'), ('/etc/subgid', '--add-subgids')):
            if os.path.exists(path) and f'{name}:' not in open(path).read():
                subprocess.run(['usermod', option, '1000000-1065535', name], check=True)
        if os.stat('/etc/passwd').st_mode & 0o444 != 0o444:
            sys.exit('/etc/passwd cannot be read by everybody: a user cannot look up his own name; chmod 0644 it')
        entry = pwd.getpwnam(name)
        self.user, self.uid, self.gid = name, entry.pw_uid, entry.pw_gid

    def make_dirs(self):
        for name in ('home', 'data', 'run', 'scratch', 'outside'):
            path = os.path.join(self.base, name)
            os.makedirs(path, exist_ok=True)
            os.chown(path, self.uid, self.gid)
            os.chmod(path, 0o700)
        self.home, self.data, self.rundir, self.scratch, self.outside = (
            os.path.join(self.base, n) for n in ('home', 'data', 'run', 'scratch', 'outside'))

    def copy_binaries(self):
        self.bin = os.path.join(self.base, 'bin')
        os.mkdir(self.bin)
        binary = os.environ.get('CLOISTER') or sys.exit('set CLOISTER to the binary under test')
        programs = [binary]
        for d in os.environ.get('CLOISTER_LIBEXEC', '').split(':'):
            if d and os.path.isdir(d):
                programs += [os.path.join(d, n) for n in sorted(os.listdir(d))
                             if n.startswith('cloister-') and os.path.isfile(os.path.join(d, n))]
        for p in programs:
            to = os.path.join(self.bin, os.path.basename(p))
            if not os.path.exists(to):
                shutil.copyfile(p, to)
                # Writable by the runner: overwriting the runtime must be refused by the sandbox, not by file modes.
                os.chown(to, self.uid, self.gid)
                os.chmod(to, 0o755)
        self.cloister = os.path.join(self.bin, 'cloister')
        os.rename(os.path.join(self.bin, os.path.basename(binary)), self.cloister)
        self.hashes = self.hash_binaries()

    def hash_binaries(self):
        return {n: hashlib.sha256(open(os.path.join(self.bin, n), 'rb').read()).hexdigest()
                for n in sorted(os.listdir(self.bin))}

    def own(self, path, mode):
        os.chown(path, self.uid, self.gid)
        os.chmod(path, mode)

    def make_canaries(self):
        self.secret_files = [os.path.join(self.base, 'secret.txt'), f'/var/tmp/cloister-hostile-{self.token}.txt',
                             os.path.join(self.home, 'secret.txt'), f'/dev/shm/cloister-hostile-{self.token}']
        for path in self.secret_files:
            open(path, 'w').write(self.secret)
            self.own(path, 0o666)  # so that only the sandbox can be what refuses
        for path in (self.secret_files[1], self.secret_files[3]):
            self.cleanups.append(lambda p=path: os.unlink(p))
        self.secret_stats = {p: self.stamp(p) for p in self.secret_files}
        self.listeners = {
            'tcp4': Listener(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', 0)),
            'udp4': Listener(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', 0)),
            'abstract': Listener(socket.AF_UNIX, socket.SOCK_STREAM, '\0cloister-hostile-' + self.token),
            'path': Listener(socket.AF_UNIX, socket.SOCK_STREAM, os.path.join(self.base, 'canary.sock')),
        }
        if socket.has_ipv6 and os.path.exists('/proc/net/if_inet6') and open('/proc/net/if_inet6').read():
            self.listeners['tcp6'] = Listener(socket.AF_INET6, socket.SOCK_STREAM, ('::1', 0))
        self.own(self.listeners['path'].address, 0o777)
        self.ipc = Ipc(self.secret)
        self.cleanups.append(self.ipc.remove)
        self.sleeper = self.popen(['/bin/sleep', '100000'], stdin=subprocess.DEVNULL)
        self.allowed.add(self.sleeper.pid)
        self.cleanups.append(self.sleeper.kill)
        self.core_pattern = open('/proc/sys/kernel/core_pattern').read()
        self.hostname = socket.gethostname()

    @staticmethod
    def stamp(path):
        st = os.stat(path)
        return st.st_ino, st.st_mode, st.st_uid, st.st_size, st.st_mtime_ns, st.st_nlink

    def facts(self, **more):
        """What a payload is told about the canaries, as its argv[1]."""
        f = {'secret_files': self.secret_files, 'base': self.base, 'outside': self.outside, 'sleeper': self.sleeper.pid,
             'tcp4': self.listeners['tcp4'].address[1], 'udp4': self.listeners['udp4'].address[1],
             'abstract': 'cloister-hostile-' + self.token, 'path': self.listeners['path'].address,
             'ipc_key': self.ipc.key, 'ipc_shm': self.ipc.shm, 'ipc_queue': self.ipc.queue}
        if 'tcp6' in self.listeners:
            f['tcp6'] = self.listeners['tcp6'].address[1]
        f.update(more)
        return f

    # -- running --

    def environment(self, **more):
        env = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': self.home,
               'USER': self.user or 'root', 'LANG': 'C.UTF-8', 'HOSTILE_ENV_SECRET': self.env_secret,
               'CLOISTER_DATA_DIR': self.data, 'CLOISTER_RUN_DIR': self.rundir, 'CLOISTER_LIBEXEC': self.bin,
               'CLOISTER_SOCKET': os.path.join(self.base, 'run', 'cloister.sock')}
        for k in ('ASAN_OPTIONS', 'UBSAN_OPTIONS', 'LSAN_OPTIONS'):
            if k in os.environ:
                env[k] = os.environ[k]
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def popen(self, argv, env=None, **kw):
        """A host process of the runner's user."""
        if self.uid != os.geteuid():
            kw.update(user=self.uid, group=self.gid, extra_groups=[])
        kw.setdefault('cwd', self.base)
        return subprocess.Popen(argv, env=self.environment(**(env or {})), start_new_session=True, **kw)

    def command(self, argv, stdin=b'', timeout=60, env=None, **kw):
        """Runs to its end and returns a Result. A command that outlives the timeout is killed and fails the test."""
        began = time.monotonic()
        kw.setdefault('stdout', subprocess.PIPE)
        kw.setdefault('stderr', subprocess.PIPE)
        p = self.popen(argv, env=env, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL, **kw)
        try:
            out, err = p.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            raise Failed(f'no end within {timeout} s: {" ".join(map(str, argv))[:300]}; '
                         f'so far {out[-300:]!r} {err[-300:]!r}')
        return Result(p.returncode, out or b'', err or b'', time.monotonic() - began)

    def tool(self, *args, **kw):
        return self.command([self.cloister, *args], **kw)

    def run(self, argv, opts=(), **kw):
        return self.tool('run', *opts, '--', *argv, **kw)

    def sh(self, script, opts=(), **kw):
        return self.run(['/bin/sh', '-c', script], opts, **kw)

    def script(self, payload, facts=None):
        """argv of a Python payload."""
        return [PYTHON, '-I', '-S', '-c', PRELUDE + '\n' + payload + '\nprint(json.dumps(R), flush=True)\n',
                json.dumps(facts if facts is not None else self.facts())]

    def py(self, payload, opts=(), facts=None, code=0, **kw):
        """Runs a Python payload in a container; its R."""
        r = self.run(self.script(payload, facts), opts, **kw)
        check(r.code == code, 'the payload did not end as it should:', r)
        return self.parse(r)

    @staticmethod
    def parse(r):
        lines = r.text.strip().splitlines()
        check(lines, 'the payload printed nothing:', r)
        return json.loads(lines[-1])

    def py_outside(self, payload, facts=None, **kw):
        """The control: the same payload on the host, as the same user. Only for harmless ones."""
        r = self.command(self.script(payload, facts), **kw)
        check(r.code == 0, 'the control did not run:', r)
        return self.parse(r)

    def grade(self):
        """The isolation in force, as every result tells it."""
        return json.loads(self.run(['/bin/true'], ['--json']).text)['grade']

    def sanitized(self):
        """Address sanitizer keeps freed memory for a while: bounds on resident memory are wider then."""
        return b'__asan_init' in open(self.cloister, 'rb').read()

    def memory_is_limited(self):
        """False: only a watcher bounds it (an ordinary user without a delegated cgroup)."""
        return 'memory: cgroup' in self.grade()

    # -- a second container --

    def victim(self):
        """A container with known contents that others must not reach. Started once."""
        if self.victim_process and self.victim_process.poll() is None:
            return self.victim_pids
        self.victim_secret = 'VICTIM-' + secrets.token_hex(16)
        payload = r'''
for path in ("/tmp/victim", "/dev/shm/victim", "/run/victim", "/workspace/victim"):
    open(path, "w").write(C["secret"])
s = socket.socket(socket.AF_UNIX); s.bind("\0victim-" + C["token"]); s.listen(5)
t = socket.socket(); t.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); t.bind(("127.0.0.1", 7)); t.listen(5)
shm = syscall("shmget", 4242, 4096, 0o1666)
print("ready", flush=True)
while True:
    line = sys.stdin.readline()
    if not line: break
    s.settimeout(0.01); t.settimeout(0.01)
    hit = [attempt(s.accept), attempt(t.accept)]
    print(json.dumps([[slurp(p) for p in ("/tmp/victim", "/dev/shm/victim", "/run/victim", "/workspace/victim")], hit]),
          flush=True)
os._exit(0)
'''
        before = engines_in(self.rundir)
        p = self.popen([self.cloister, 'run', '--',
                        *self.script(payload, {'secret': self.victim_secret, 'token': self.token})],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = p.stdout.readline()
        check(line == b'ready\n', 'the second container did not start:', line)
        self.victim_process = p
        self.allowed.add(p.pid)
        self.allowed_engines |= engines_in(self.rundir) - before
        self.victim_pids = [pid for pid, *_ in descendants(p.pid)]
        self.cleanups.append(self.end_victim)
        return self.victim_pids

    def end_victim(self):
        p, self.victim_process = self.victim_process, None
        if p and p.poll() is None:
            p.stdin.close()
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()

    def check_victim(self):
        p = self.victim_process
        if not p:
            return
        check(p.poll() is None, 'the second container ended')
        p.stdin.write(b'?\n')
        p.stdin.flush()
        texts, hits = json.loads(p.stdout.readline())
        check(all(t == self.victim_secret for t in texts), 'the second container\'s files changed', texts)
        check(hits == ['timeout', 'timeout'] or hits == ['TimeoutError', 'TimeoutError'],
              'the second container was connected to', hits)

    # -- the checks from outside --

    def check_canaries(self):
        for p in self.secret_files:
            check(os.path.exists(p) and open(p).read() == self.secret, f'the canary file {p} was changed')
            check(self.stamp(p) == self.secret_stats[p], f'the canary file {p} was touched')
        for name, l in self.listeners.items():
            check(not l.hits, f'the host\'s {name} listener was reached', l.hits[:3])
        check(not os.listdir(self.outside), 'files appeared outside', os.listdir(self.outside))
        check(self.sleeper.poll() is None, 'the host\'s sleeping process was ended')
        state = open(f'/proc/{self.sleeper.pid}/stat').read().split(')')[-1].split()[0]
        check(state == 'S', f'the host\'s sleeping process is in state {state}')
        self.ipc.check()
        check(open('/proc/sys/kernel/core_pattern').read() == self.core_pattern, 'core_pattern was changed')
        check(socket.gethostname() == self.hostname, 'the host name was changed')
        check(self.hash_binaries() == self.hashes, 'a program of ours was changed')
        self.check_victim()

    def reap(self):
        """Collects orphans that became ours; true when one was found."""
        found = False
        for pid, (parent, state, _) in processes().items():
            if parent == os.getpid() and state == 'Z' and pid not in self.allowed:
                with contextlib.suppress(OSError):
                    found = os.waitpid(pid, os.WNOHANG)[0] == pid or found
        return found

    def leftovers(self):
        found = []
        procs = descendants(os.getpid(), self.allowed)
        if procs:
            found.append('processes: ' + describe(procs))
        engines = engines_in(self.rundir) - self.allowed_engines
        if engines:
            found.append(f'engines: {engines}')
        mounts_dir = os.path.join(self.rundir, 'mounts')
        if os.path.isdir(mounts_dir) and os.listdir(mounts_dir):
            found.append(f'directories of containers: {os.listdir(mounts_dir)}')
        tmp = os.path.join(self.data, 'tmp')
        if os.path.isdir(tmp) and os.listdir(tmp):
            found.append(f'temporary files of the image store: {os.listdir(tmp)}')
        groups = [g for g in self.cgroup.children()
                  if not any(os.path.basename(g).startswith(e) for e in self.allowed_engines)]
        if groups:
            found.append(f'cgroups: {groups}')
        mounts = [l.split()[4] for l in open('/proc/self/mountinfo') if self.base in l]
        if mounts:
            found.append(f'mounts: {mounts}')
        return found

    def check_leftovers(self, seconds=5):
        end = time.monotonic() + seconds
        while True:
            self.reap()
            found = self.leftovers()
            if not found:
                return
            if time.monotonic() > end:
                for pid, *_ in descendants(os.getpid(), self.allowed):
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.2)
                self.reap()
                raise Failed('left behind: ' + '; '.join(found))
            time.sleep(0.02)

    def close(self):
        cleanups, self.cleanups = self.cleanups, []
        if cleanups:  # first what still runs, so that its cgroups and directories can go
            for pid, *_ in descendants(os.getpid(), self.allowed):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        for f in reversed(cleanups):
            with contextlib.suppress(Exception):
                f()
        for pid, *_ in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.base, ignore_errors=True)


# ---- the list of tests ----

tests = []


def test(name, leftovers=True):
    def add(f):
        tests.append((name, f, leftovers))
        return f
    return add


def main(setup=None, teardown=None):
    """Runs every registered test. Arguments on the command line choose those whose name contains one of them."""
    if os.environ.get('HOSTILE_AS', 'root') == 'root' and os.geteuid() != 0:
        print('1..0 # SKIP must be started by root')
        return
    wanted = sys.argv[1:]
    chosen = [t for t in tests if not wanted or any(w in t[0] for w in wanted)]
    world = World()
    print(f'TAP version 13\n1..{len(chosen)}', flush=True)
    broken = None
    try:
        if setup:
            setup(world)
    except Exception as e:
        broken = f'setup failed: {e}'
    for n, (name, f, leftovers) in enumerate(chosen, 1):
        began = time.monotonic()
        trouble = broken
        if not trouble:
            trouble = attempt_test(world, f, leftovers)
        name = name.replace('#', 'No.').replace('\n', ' ')
        print(f'{"not ok" if trouble else "ok"} {n} - {name} ({world.mode})', flush=True)
        if trouble:
            for line in str(trouble).splitlines()[:40]:
                print('# ' + line[:1500])
        if os.environ.get('HOSTILE_TIMES'):
            print(f'# {time.monotonic() - began:.2f} s', flush=True)
    if teardown:
        try:
            teardown(world)
        except Exception as e:
            first, *rest = str(e).splitlines() or ['']
            print('\n'.join('# ' + l for l in rest) + f'\nBail out! at the end: {first}', flush=True)
    world.close()


def attempt_test(world, f, leftovers):
    trouble = []
    for step in (lambda: f(world), world.check_canaries, *world.after, *([world.check_leftovers] if leftovers else [])):
        try:
            step()
        except Failed as e:
            trouble.append(str(e))
        except Exception:
            trouble.append(traceback.format_exc())
    return '\n'.join(trouble)
