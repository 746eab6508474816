#!/usr/bin/python3
"""Group C, C1 to C5: the kernel's surface."""
import os

from harness import HERE, check, equal, one_of, all_equal, main, test, Failed
from oci import Entry, box_image, image, skeleton


@test('C1 io_uring_setup, _enter, _register: EPERM; Linux AIO, whose contexts are the whole machine\'s: ENOSYS; twin: epoll')
def c1(w):
    r = w.py(r'''
for n in (1, 8, 4096, 0):
    R["setup %d" % n] = attempt(lambda: syscall("io_uring_setup", n, ctypes.create_string_buffer(120)))
R["setup null"] = attempt(lambda: syscall("io_uring_setup", 8, 0))
R["enter"] = attempt(lambda: syscall("io_uring_enter", 0, 1, 1, 0, 0))
for op in range(36):
    R["register %d" % op] = attempt(lambda: syscall("io_uring_register", 0xffffffff if op == 33 else 0, op, 0, 0))
import select
e = select.epoll(); rd, wr = os.pipe(); e.register(rd, select.EPOLLIN); os.write(wr, b"x")
R["twin epoll"] = len(e.poll(1))
for n, count in ((206, 1), (206, 65536), (207, 0), (208, 0), (209, 0), (210, 0), (333, 0)):
    R["aio %d %d" % (n, count)] = attempt(lambda: syscall(n, count, ctypes.byref(ctypes.c_ulong()), 0, 0, 0, 0))
''')
    all_equal({k: v for k, v in r.items() if not k.startswith(('twin', 'aio'))}, 'EPERM', 'io_uring')
    all_equal({k: v for k, v in r.items() if k.startswith('aio')}, 'ENOSYS', 'AIO')
    equal(r['twin epoll'], 1, 'twin')


def expected():
    table = {}
    for line in open(os.path.join(HERE, 'payloads', 'syscalls.expected')):
        if not line.startswith('#'):
            number, name, outcomes = line.split()
            table[int(number)] = (name, outcomes.split('|'))
    check(len(table) > 370, 'the table is too short')
    return table


def walk(w):
    """(way, number) -> outcome. Run once for the three tests."""
    if not hasattr(w, 'walked'):
        program = os.path.join(os.environ['HOSTILE_PAYLOADS'], 'syscalls')
        r = w.run(['/tmp/syscalls'], ['--copy-in', f'{program}:/tmp/syscalls', '--timeout', '5m'], timeout=300)
        check(r.code == 0 and r.text.endswith('end\n'), 'the walk did not end:', r)
        w.walked = {(way, int(number)): outcome for way, number, outcome in
                    (l.split(' ', 2) for l in r.text.splitlines()[:-1])}
    return w.walked


@test('C2 every system call number 0..470 and 512..547 by the native entry: as the table says, all others ENOSYS; '
      'twin: over 280 calls are allowed')
def c2(w):
    table, bad, allowed = expected(), [], 0
    got = {n: o for (way, n), o in walk(w).items() if way == 'native'}
    equal(len(got), 471 + 36, 'numbers walked')
    if not w.memory_is_limited():  # a file in memory that nobody maps would count nowhere
        table[319] = ('memfd_create', ['ENOSYS'])
    for n, outcome in sorted(got.items()):
        name, wanted = table.get(n, (f'number {n}', ['ENOSYS']))
        outcome = outcome.replace(' ', '-')
        is_allowed = outcome not in ('EPERM', 'ENOSYS')
        allowed += is_allowed
        if not (outcome in wanted or ('allowed' in wanted and is_allowed)):
            bad.append(f'{n} {name}: {outcome}, expected {"|".join(wanted)}')
    equal(bad, [], 'calls that differ')
    check(allowed > 280, 'twin: allowed', allowed)


@test('C2 every system call number by the x32 entry (bit 30): none is served; twin: the walk covered all numbers')
def c2_x32(w):
    got = {n: o for (way, n), o in walk(w).items() if way == 'x32'}
    equal(len(got), 471 + 36, 'twin: numbers walked')
    all_equal({str(n): o for n, o in got.items()}, ('ENOSYS', 'EPERM', 'signal 31'), 'x32')


@test('C2 every system call number by the 32-bit entry (int 0x80): none is served; twin: the walk covered all numbers')
def c2_int80(w):
    got = {n: o for (way, n), o in walk(w).items() if way == 'int80'}
    equal(len(got), 471, 'twin: numbers walked')
    # A kernel without IA32 emulation answers with a fault.
    all_equal({str(n): o for n, o in got.items()}, ('ENOSYS', 'EPERM', 'signal 31', 'signal 11'), 'int 0x80')


@test('C2 bpf, perf, userfaultfd, kexec, modules, fsopen, swapon, quotactl, ptrace of PID 1, with arguments that would work: EPERM; '
      'twin: ptrace of an own child')
def c2_real(w):
    r = w.py(r'''
attr = ctypes.create_string_buffer(128)
struct.pack_into("IIIIQ", attr, 0, 0, 112, 0, 0, 0)
for cmd in range(0, 37): R["bpf %d" % cmd] = attempt(lambda: syscall("bpf", cmd, attr, 120))
for kind in range(0, 6): 
    struct.pack_into("IIQ", attr, 0, kind, 128, 0)
    R["perf %d" % kind] = attempt(lambda: syscall("perf_event_open", attr, 0, -1, -1, 0))
for f in (0, 1, 0o2000000, 0o4000): R["userfaultfd %d" % f] = attempt(lambda: syscall("userfaultfd", f))
R["kexec"] = attempt(lambda: syscall("kexec_load", 0, 0, 0, 0))
R["kexec file"] = attempt(lambda: syscall("kexec_file_load", 0, 0, 0, 0, 4))
module = os.open("/usr/bin/env", os.O_RDONLY)
R["finit_module"] = attempt(lambda: syscall("finit_module", module, "", 0))
R["init_module"] = attempt(lambda: syscall("init_module", ctypes.create_string_buffer(64), 64, ""))
R["delete_module"] = attempt(lambda: syscall("delete_module", "nf_tables", 0))
open("/tmp/swap", "wb").write(bytes(65536))
R["swapon"] = attempt(lambda: syscall("swapon", "/tmp/swap", 0))
R["swapoff"] = attempt(lambda: syscall("swapoff", "/tmp/swap"))
R["quotactl"] = attempt(lambda: syscall("quotactl", 0x800002 << 8, "/dev/vda", 0, 0))
R["acct"] = attempt(lambda: syscall("acct", "/tmp/swap"))
R["reboot"] = attempt(lambda: syscall("reboot", 0xfee1dead, 672274793, 0, 0))
R["ptrace 1"] = attempt(lambda: syscall("ptrace", 16, 1, 0, 0))
R["iopl"] = attempt(lambda: syscall("iopl", 3))
R["ioperm"] = attempt(lambda: syscall("ioperm", 0x70, 2, 1))
R["syslog"] = attempt(lambda: syscall("syslog", 3, ctypes.create_string_buffer(100), 100))
R["fanotify"] = attempt(lambda: syscall("fanotify_init", 0, 0))
R["settime"] = attempt(time.clock_settime, time.CLOCK_REALTIME, 1.0)
R["kcmp"] = attempt(lambda: syscall("kcmp", 1, os.getpid(), 0, 0, 0))
R["personality"] = attempt(lambda: syscall("personality", 0x0040000))
R["personality high"] = attempt(lambda: syscall("personality", 0x0040000 | 1 << 40))
child = os.fork()
if child == 0: time.sleep(30)
R["twin"] = attempt(lambda: syscall("ptrace", 16, child, 0, 0))
R["twin personality"] = attempt(lambda: syscall("personality", 0xffffffff))
os.kill(child, 9)
''')
    all_equal({k: v for k, v in r.items() if not k.startswith('twin')}, 'EPERM', 'calls')
    equal((r['twin'], r['twin personality']), ('ok', 'ok'), 'twin')


@test('C2 the limit of core dumps is 1, in PID 1 as well, and stays so whatever is set, so that no crash starts the host\'s program for them '
      '(core(5)); twin: the limit of files can be lowered')
def c2_core(w):
    r = w.py(r'''
def limit(pid): return [l.split()[4:6] for l in slurp("/proc/%s/limits" % pid).splitlines() if l.startswith("Max core file size")]
R["self"], R["shown"] = limit("self"), value(limit, 1)
high = 0xdead << 32
child = os.fork()
if child == 0: time.sleep(30)
for n in (0, 1, 2, 1 << 30, (1 << 64) - 1):
    new = struct.pack("QQ", min(n, 1), n)
    R["set %d" % n] = attempt(lambda: syscall("setrlimit", 4, new))
    R["set high %d" % n] = attempt(lambda: syscall("setrlimit", 4 | high, new))
    for pid in (0, os.getpid(), child, 1):
        R["prlimit %d %d" % (pid, n)] = attempt(lambda: syscall("prlimit64", pid, 4, new, 0))
        R["prlimit high %d %d" % (pid, n)] = attempt(lambda: syscall("prlimit64", pid, 4 | high, new, ctypes.create_string_buffer(16)))
for p in (1, 0x1000, 1 << 32, 1 << 63): R["pointer %x" % p] = attempt(lambda: syscall("prlimit64", 0, 4, p, 0))
R["after"] = limit("self")
os.kill(child, 11)
R["crash"] = os.waitpid(child, 0)[1]
got = ctypes.create_string_buffer(16)
R["twin ask"] = attempt(lambda: syscall("prlimit64", 0, 4, 0, got))
R["asked"] = struct.unpack("QQ", got.raw)
R["twin set"] = attempt(lambda: syscall("setrlimit", 7, struct.pack("QQ", 60, 70)))
R["twin prlimit"] = attempt(lambda: syscall("prlimit64", 0, 7, struct.pack("QQ", 50, 60), 0))
R["files"] = [l.split()[3:5] for l in slurp("/proc/self/limits").splitlines() if l.startswith("Max open files")]
''')
    one = [['1', '1']]
    equal((r['self'], r['after'], r['asked']), (one, one, [1, 1]), 'limits')
    one_of(r['shown'], (one, 'EACCES', 'EPERM', []), 'the limit of PID 1')
    equal(r['crash'], 11, 'the crash, which left no dump')
    changes = {k: v for k, v in r.items() if k.startswith(('set', 'prlimit', 'pointer'))}
    agent = {k: v for k, v in changes.items() if k.startswith(('prlimit 1 ', 'prlimit high 1 '))}
    all_equal(agent, 'EPERM', 'changes of PID 1')
    all_equal({k: v for k, v in changes.items() if k not in agent}, 'ok', 'changes, accepted without effect')
    equal((r['twin ask'], r['twin set'], r['twin prlimit'], r['files']), ('ok', 'ok', 'ok', [['50', '60']]), 'twin')


@test('C2 fcntl: leases, delegations and notes on files of the host or of its own: EPERM, also with high argument bits; '
      'twin: F_GETFL, locks, F_GETLEASE')
def c2_lease(w):
    r = w.py(r'''
own = os.open("/tmp/own", os.O_RDWR | os.O_CREAT, 0o600)
read_only = os.open("/tmp/own", os.O_RDONLY)
usr, env = os.open("/usr", os.O_RDONLY | os.O_DIRECTORY), os.open("/usr/bin/env", os.O_RDONLY)
for name, fd in dict(own=own, own_read=read_only, usr=usr, env=env).items():
    for cmd in (1024, 1026, 1040):
        for arg in (0, 1, 2, 0x3f, 0x8000003f):
            R["%s %d %x" % (name, cmd, arg)] = attempt(lambda: syscall("fcntl", fd, cmd, arg))
        R["%s %d high" % (name, cmd)] = attempt(lambda: syscall("fcntl", fd, cmd | 0xdead << 32, 0))
R["twin flags"] = attempt(lambda: syscall("fcntl", usr, 3, 0))
R["twin ask"] = attempt(lambda: syscall("fcntl", own, 1025, 0))
R["twin lock"] = attempt(fcntl.lockf, own, fcntl.LOCK_EX | fcntl.LOCK_NB)
''')
    all_equal({k: v for k, v in r.items() if not k.startswith('twin')}, 'EPERM', 'fcntl')
    all_equal({k: v for k, v in r.items() if k.startswith('twin')}, 'ok', 'twin')


@test('C4 socket families and kinds: all but UNIX, INET and INET6 streams and datagrams refused, also with high argument bits; '
      'twin: TCP, UDP and UNIX work on loopback')
def c4(w):
    r = w.py(r'''
R["open"] = []
for family in range(0, 64):
    for kind in (1, 2, 3, 4, 5, 10):
        for protocol in (0, 1, 6, 17, 33, 132, 136, 255, 262):
            for bits in (0, 0o4000 | 0o2000000):
                got = attempt(lambda: os.close(syscall(41, family, kind | bits, protocol)))
                if got == "ok": R["open"].append([family, kind, protocol])
                elif got not in ("EPERM", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EINVAL"): R["odd %d %d %d" % (family, kind, protocol)] = got
R["open"] = sorted(set(map(tuple, R["open"])))
high = 0xdead << 32
R["high"] = {n: attempt(lambda: syscall(41, f | high, k | high, p | high)) for n, (f, k, p) in
             dict(packet=(17, 3, 0), raw=(2, 3, 255), netlink=(16, 3, 0), vsock=(40, 1, 0), alg=(38, 5, 0), sctp=(2, 1, 132)).items()}
R["pair"] = {str(f): attempt(lambda: syscall(53, f, 1, 0, ctypes.create_string_buffer(8))) for f in (2, 10, 16, 30, 38, 40)}
def serve(family, kind, address):
    s = socket.socket(family, kind); s.bind(address)
    c = socket.socket(family, kind)
    if kind == socket.SOCK_DGRAM:
        c.sendto(b"hi", s.getsockname()); return s.recv(10).decode()
    s.listen(1); c.connect(s.getsockname()); p, _ = s.accept(); p.send(b"hi"); return c.recv(10).decode()
for n, a in dict(tcp=(2, 1, ("127.0.0.1", 0)), udp=(2, 2, ("127.0.0.1", 0)), tcp6=(10, 1, ("::1", 0)), udp6=(10, 2, ("::1", 0)),
                 unix=(1, 1, "/tmp/u"), abstract=(1, 1, "\0u")).items():
    R["twin " + n] = value(serve, *a)
R["interfaces"] = sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else []
R["routes"] = len(open("/proc/net/route").readlines())
R["out"] = attempt(lambda: socket.create_connection(("192.0.2.1", 80), 2))
R["metadata"] = attempt(lambda: socket.create_connection(("169.254.169.254", 80), 2))
''')
    families = {(f, k) for f, k, _ in r['open']}
    equal(families - {(1, 1), (1, 2), (1, 3), (1, 5), (2, 1), (2, 2), (10, 1), (10, 2)}, set(), 'families and kinds')
    protocols = {(f, k, p) for f, k, p in r['open'] if f in (2, 10)}
    equal({p for f, k, p in protocols if k == 1} - {0, 6} | {p for f, k, p in protocols if k == 2} - {0, 17}, set(), 'protocols')
    all_equal(r['high'], ('EPERM', 'EAFNOSUPPORT'), 'high bits')
    all_equal(r['pair'], ('EPERM', 'EAFNOSUPPORT', 'EOPNOTSUPP'), 'socketpair')
    equal({k: v for k, v in r.items() if k.startswith('odd')}, {}, 'odd answers')
    all_equal({k: v for k, v in r.items() if k.startswith('twin')}, 'hi', 'twin')
    one_of(r['interfaces'], ([], ['lo']), 'interfaces')
    one_of(r['routes'], (0, 1), 'routes')
    all_equal({k: r[k] for k in ('out', 'metadata')}, ('ENETUNREACH', 'EHOSTUNREACH'), 'the way out')


DIRTY = r'''
def overwrite(path, offset, data):
    """CVE-2022-0847: a page of the file in a pipe whose buffer says that it may be merged into."""
    r, w = os.pipe()
    size = fcntl.fcntl(w, 1032)
    os.write(w, bytes(size)); n = 0
    while n < size: n += len(os.read(r, size - n))
    fd = os.open(path, os.O_RDONLY)
    syscall("splice", fd, ctypes.byref(ctypes.c_longlong(offset - 1)), w, 0, 1, 0)
    os.write(w, data)
    os.close(fd)
def private(path):
    """Copy on write (CVE-2016-5195 in kind): a private mapping written through /proc/self/mem while it is dropped."""
    import mmap
    fd = os.open(path, os.O_RDONLY)
    m = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
    base = [int(l.split("-")[0], 16) for l in open("/proc/self/maps") if path in l][0]
    stop = time.time() + 0.7
    def drop():
        while time.time() < stop: m.madvise(mmap.MADV_DONTNEED)
    t = threading.Thread(target=drop); t.start()
    mem = os.open("/proc/self/mem", os.O_RDWR)
    while time.time() < stop:
        os.pwrite(mem, b"BROKEN", base + 1)
    t.join(); os.close(mem)
'''


@test('C5 page cache of shared read-only files (dirty pipe, dirty COW): unchanged in the layer and in another container; '
      'twin: the files can be read')
def c5(w):
    text = 'PAGE CACHE CANARY ' * 300
    name = image(w, [skeleton() + [Entry.file('canary', text)]])
    r = w.run(['/box', 'cat', '/canary'], ['--image', name])
    equal(r.text, text, 'twin')
    # Should this kernel be vulnerable after all, then a licence text is what suffers until the page is dropped.
    shared = '/usr/share/common-licenses/GPL-3'
    before = open(shared).read()
    r = w.py(DIRTY + r'''
before = slurp(C["shared"])
open("/tmp/own", "w").write("x" * 8000)
R["own pipe"] = attempt(overwrite, "/tmp/own", 1, b"BROKEN")
R["own"] = "BROKEN" in slurp("/tmp/own")
R["pipe"] = attempt(overwrite, C["shared"], 1, b"BROKEN")
R["cow"] = attempt(private, C["shared"])
R["same"] = slurp(C["shared"]) == before and len(before) > 4096
''', facts={'shared': shared})
    equal((r['own'], r['same']), (False, True), f'files after the attempts: {r}')
    equal((r['own pipe'], r['pipe'], r['cow']), ('ok', 'ok', 'ok'), 'the attempts ran')
    check(open(shared).read() == before, 'the host\'s file changed')
    equal(w.sh(f'cat {shared}').text, before, 'another container')
    equal(w.run(['/box', 'cat', '/canary'], ['--image', name]).text, text, 'the layer')


if __name__ == '__main__':
    main()
